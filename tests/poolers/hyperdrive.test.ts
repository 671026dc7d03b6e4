// The same tenants in a Worker with a Hyperdrive binding that leads to PgBouncer in transaction mode. The binding is
// miniflare's: a plain tunnel without the pool, cache and limits of Cloudflare's own (docs/poolers.md lists what
// differs there and was not run).
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorker, type Worker } from "../workerd/host.mjs";
import { pgbouncer, seed, TENANTS, withTenants } from "./pooled.ts";
import type { Task } from "./worker.ts";
import { stepsOf, sum, type Load, type Outcome } from "./workload.ts";

let worker: Worker;
beforeAll(async () => {
  const entry = fileURLToPath(new URL("worker.ts", import.meta.url));
  worker = await startWorker({ entry, options: { hyperdrives: { HYPERDRIVE: `${pgbouncer.url}?sslmode=disable` } } });
});
afterAll(() => worker?.stop());

test("the binding is a local link, on which a client's first query is sent early, and listen() needs consent", async () => {
  const found = { local: true, listen: ["LISTEN_BEHIND_POOLER", "listens"] };
  expect(await (await fetch(worker.url)).json()).toEqual(found);
});

test.each(["auto", "unnamed"] as const)(
  `${TENANTS} tenants with 50 statements each, each in a request of its own, prepare: "%s"`,
  async (prepare) => {
    const load: Load = { prefix: `hyperdrive_${prepare}`, seed, repeat: 3, jobs: 1 };
    console.log(`PGZ_SEED=${seed}`);
    const lane = async (number: number) => {
      const task: Task = { load, number, lane: 0, prepare };
      const response = await fetch(worker.url, { method: "POST", body: JSON.stringify(task) });
      return (await response.json()) as Outcome;
    };
    const outcome = await withTenants(load, 1, async () =>
      sum(await Promise.all(Array.from({ length: TENANTS }, (_, number) => lane(number)))),
    );
    expect(outcome, `PGZ_SEED=${seed}`).toEqual({ done: TENANTS * stepsOf(load), wrong: [], failed: [] });
  },
);
