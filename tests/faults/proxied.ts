// A client whose bytes go through a proxy that counts, and what its streams give.
import type { Context } from "../integration/context.ts";
import { FaultHost, type ProxyOptions } from "./control.ts";

/** A proxy in front of the server of the case, and options that lead through it. */
export async function through(t: Context, options: ProxyOptions = {}) {
  const { host, port } = t.server;
  const proxy = await new FaultHost(t.faults).proxy({ host, port }, options);
  // A database's shapes are known per port, so each case begins with none.
  return { proxy, options: { ...t.options, host: proxy.host, port: proxy.port } };
}

/**
 * Options with a database that no client of this process has met. A port comes again, and then it is a server whose
 * login and statements are known.
 */
export async function withNewDatabase<Options extends object>(
  t: Context,
  options: Options,
  work: (options: Options & { database: string }) => Promise<void>,
): Promise<void> {
  const database = `flights_${Math.random().toString(36).slice(2)}`;
  // Sessions of other tests in template1 would stand in the way.
  await t.side(`create database ${database} template template0`);
  try {
    await work({ ...options, database });
  } finally {
    await t.side(`drop database ${database} with (force)`);
  }
}

/** All that a stream gives, and how it ends. */
export async function lines(stream: ReadableStream<Uint8Array>): Promise<{ text: string; error: unknown }> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let text = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>(
    (_, reject) =>
      (timer = setTimeout(() => reject(new Error(`the stream did not end; it gave ${text.length} bytes`)), 10_000)),
  );
  try {
    for (;;) {
      const chunk = await Promise.race([reader.read(), late]);
      if (chunk.done) return { text, error: undefined };
      text += decoder.decode(chunk.value, { stream: true });
    }
  } catch (error) {
    return { text, error };
  } finally {
    clearTimeout(timer);
  }
}
