// One Worker for the tests of a file or of a `describe`, and how they ask it.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorker, type Worker, type WorkerOptions } from "./host.mjs";

/** `entry` is a path from this folder. The Worker starts before the tests and stops after them. */
export function useWorker(entry: string, options: WorkerOptions = {}) {
  let worker: Worker;
  beforeAll(async () => {
    worker = await startWorker({ entry: fileURLToPath(new URL(entry, import.meta.url)), ...options });
  });
  afterAll(() => worker?.stop());

  const at = (path: string) => new URL(path, worker.url);
  return {
    at,
    /** Returns the JSON of the answer. Without a body the request is a GET. */
    async ask<T>(path: string, body?: unknown): Promise<T> {
      const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const response = await fetch(at(path), init);
      const text = await response.text();
      if (!response.ok) throw new Error(`${path}: the Worker answered ${response.status}: ${text}`);
      return JSON.parse(text) as T;
    },
  };
}

/**
 * Runs cases of tests/adapters, each in a request of its own, by the Worker of that adapter in fixture/. The cases get
 * `given` besides their modules.
 */
export function adapterCases(adapter: string, names: Iterable<string>, given: () => object, options?: WorkerOptions) {
  const worker = useWorker(`fixture/${adapter}-worker.ts`, options);
  for (const name of names) test(name, async () => expect(await worker.ask("", { name, ...given() })).toBe(null));
  return worker;
}
