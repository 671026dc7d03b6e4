/**
 * What the tests of the demo share: a PostgreSQL with the sample data, the Worker in front of it, and a look at what
 * PostgreSQL is doing for it, by another client than ours.
 */
import pg from "pg";
import { afterAll } from "vitest";
import type { Workerd } from "../../scripts/node/index.mjs";
import { sampleDatabase } from "../../worker-example/sample-data.mjs";
import { serve } from "../../worker-example/serve.mjs";
import { startServers } from "../servers/index.mjs";

export const tightLimits = { maxRows: 1_000, maxBytes: 100_000, timeout: 700 };

export async function startDemo() {
  const undo: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  afterAll(stop);

  const { server, stop: stopServer } = await ownServer();
  undo.push(stopServer);
  const sample = sampleDatabase(server.superuserUrl, `pgz_edge_test_${process.pid}_${Math.trunc(performance.now())}`);
  undo.push(sample.drop);
  await sample.load();
  const admin = new pg.Client({ connectionString: sample.adminUrl });
  await admin.connect();
  undo.push(() => admin.end());

  /** What the Worker's role runs at this moment: one line per busy backend. */
  const busy = async () => {
    const text =
      "select query, state, coalesce(wait_event, '') as waiting " +
      "from pg_stat_activity where usename = $1 and state <> 'idle' order by query";
    return (await admin.query<{ query: string; state: string; waiting: string }>(text, [sample.role])).rows;
  };

  return {
    sample,
    admin,
    busy,
    /** Starts a Worker; `tight` puts the small limits above in place of the real ones. */
    async worker({ workerd = "newest" as Workerd, tight = false, databaseUrl = sample.readerUrl } = {}) {
      const worker = await serve({ databaseUrl, workerd, plugins: tight ? [useTightLimits] : [] });
      undo.push(worker.stop);
      return worker;
    },
    /** Milliseconds until PostgreSQL runs nothing for the Worker any more. */
    async untilQuiet() {
      const from = performance.now();
      while ((await busy()).length > 0) {
        if (performance.now() - from > 10_000)
          throw new Error(`still running after 10 s: ${JSON.stringify(await busy())}`);
        await pause(10);
      }
      return performance.now() - from;
    },
    /** Waits until PostgreSQL runs a query with these words for the Worker. */
    async untilBusyWith(words: string) {
      for (const deadline = performance.now() + 5_000; ; await pause(10)) {
        const found = (await busy()).find(({ query, state }) => state === "active" && query.includes(words));
        if (found) return found;
        if (performance.now() > deadline)
          throw new Error(`PostgreSQL never ran ${words}: ${JSON.stringify(await busy())}`);
      }
    },
  };
}

/** A server of our own: one that tests/run.mjs has started for all suites, or one just for this file. */
export async function ownServer() {
  const shared = JSON.parse(process.env.PGZ_TEST_SERVERS ?? '{"servers":[]}') as {
    servers: { own: boolean; superuserUrl: string; appUrl: string }[];
  };
  const found = shared.servers.find(({ own }) => own);
  if (found) return { server: found, stop: () => Promise.resolve() };
  const { servers, stop } = await startServers({ majors: [18], databaseUrl: "" });
  if (servers[0] === undefined) throw new Error("no server was started");
  return { server: servers[0], stop };
}

export const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const useTightLimits = {
  name: "tight-limits",
  setup(build: import("esbuild").PluginBuild) {
    const contents = [
      `export const limits = ${JSON.stringify(tightLimits)};`,
      `export const listening = ${JSON.stringify({ channels: [], clients: 1, behind: 1_000, keepAlive: 1_000 })};`,
      "export const maxQueryLength = 1000;",
    ].join("\n");
    build.onLoad({ filter: /worker-example\/src\/limits\.ts$/ }, () => ({ contents, loader: "ts" }));
  },
};
