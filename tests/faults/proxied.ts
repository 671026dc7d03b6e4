// A client whose bytes pass through a counting proxy, and a reader of its streams.
import type { Context } from "../integration/context.ts";
import { FaultHost, type ProxyOptions, type ProxyReport } from "./control.ts";

/** Starts a proxy in front of the case's server. Returns it with options that lead through it. */
export async function through(t: Context, given: ProxyOptions = {}) {
  const { host, port } = t.server;
  const proxy = await new FaultHost(t.faults).proxy({ host, port }, given);
  let reports: Promise<ProxyReport[]> | undefined;
  const close = () => (reports ??= proxy.close());
  t.after(close);
  // Shapes are cached per port, so each case begins without known shapes.
  return { proxy: { ...proxy, close }, options: { host: proxy.host, port: proxy.port } };
}

/**
 * Creates a database that no client of this process has met. A port may be reused, and then its login and statements
 * would be known.
 */
export async function newDatabase(t: Context): Promise<{ database: string }> {
  const database = `flights_${Math.random().toString(36).slice(2)}`;
  // Sessions of other tests in template1 would block this statement.
  await t.side(`create database ${database} template template0`);
  t.after(() => t.side(`drop database ${database} with (force)`));
  return { database };
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
