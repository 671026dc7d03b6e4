// A client whose bytes pass through a counting proxy, and a reader of its streams.
import type { Context } from "../integration/context.ts";
import { FaultHost, type ProxyOptions } from "./control.ts";

/** Starts a proxy in front of the case's server. Returns it with options that lead through it. */
export async function through(t: Context, options: ProxyOptions = {}) {
  const { host, port } = t.server;
  const proxy = await new FaultHost(t.faults).proxy({ host, port }, options);
  // Shapes are cached per port, so each case begins without known shapes.
  return { proxy, options: { ...t.options, host: proxy.host, port: proxy.port } };
}

/**
 * Runs `work` with options for a database that no client of this process has met. A port may be reused, and then its
 * login and statements would be known.
 */
export async function withNewDatabase<Options extends object>(
  t: Context,
  options: Options,
  work: (options: Options & { database: string }) => Promise<void>,
): Promise<void> {
  const database = `flights_${Math.random().toString(36).slice(2)}`;
  // Sessions of other tests in template1 would block this statement.
  await t.side(`create database ${database} template template0`);
  try {
    await work({ ...options, database });
  } finally {
    await t.side(`drop database ${database} with (force)`);
  }
}

/** Returns the whole text of a stream, and its error if it fails. */
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
