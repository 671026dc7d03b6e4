/**
 * The parts that the tests of the demo share: a PostgreSQL with the sample data, the Worker in front of it, and a view
 * of what PostgreSQL runs for the Worker, by a client other than ours.
 */
import { request } from "node:http";
import pg from "pg";
import { afterAll } from "vitest";
import type { Workerd } from "../../scripts/node/index.mjs";
import { sampleDatabase } from "../../worker-example/sample-data.mjs";
import { serve } from "../../worker-example/serve.mjs";
import { startServers } from "../servers/index.mjs";
import { isRelease } from "../support/release.ts";
import { until } from "../support/until.mjs";

export const tightLimits = { maxRows: 1_000, maxBytes: 100_000, timeout: 700 };
const otherTightLimits = {
  listening: { clients: 2, behind: 1_000, keepAlive: 1_000 },
  maxQueryLength: 1_000,
  exporting: { maxRows: 2_000, maxBytes: 1_000_000, timeout: 700 },
  importing: { maxBytes: 100_000, maxRows: 500, timeout: 700, tellEvery: 20 },
  feeding: { clients: 2, keep: 20, keepAlive: 1_000, quiet: 400, wake: 1_500 },
  requests: { page: 5, maxPage: 10, bodyBytes: 1_000, timeout: 700 },
};

/**
 * A header for requests with a body, which gives each a connection of its own. workerd closes a connection whose body
 * no code has read, as after a 413, and fetch may already use it for the next request. (Not for responses that break
 * off: fetch reports that only on a connection that stays.)
 */
export const ONCE = { connection: "close" };

/** The versions of workerd under which the Worker runs. */
export const workerds: readonly Workerd[] = isRelease ? ["newest", "node-20"] : ["newest"];

/** A Worker, with a function for the requests of each tenant. */
export type DemoWorker = Awaited<ReturnType<Awaited<ReturnType<typeof startDemo>>["worker"]>>;

/** `own` is a server to use in place of the server of all tests. */
export async function startDemo(own: ReturnType<typeof ownServer> = ownServer()) {
  const undo: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  afterAll(stop);

  const { server, stop: stopServer } = await own;
  undo.push(stopServer);
  const sample = sampleDatabase(server.superuserUrl, `pgz_edge_test_${process.pid}_${Math.trunc(performance.now())}`);
  undo.push(sample.drop);
  await sample.load();
  const admin = new pg.Client({ connectionString: sample.adminUrl });
  await admin.connect();
  undo.push(() => admin.end());

  let workers = 0;

  /** Returns what the Worker's roles run at this moment: one line per busy backend. */
  const busy = async () => {
    const text =
      "select query, state, coalesce(wait_event, '') as waiting " +
      "from pg_stat_activity where usename = any($1) and state <> 'idle' order by query";
    const roles = [sample.role, sample.appRole, sample.objectRole];
    return (await admin.query<{ query: string; state: string; waiting: string }>(text, [roles])).rows;
  };

  return {
    sample,
    admin,
    busy,
    /** Starts a Worker; `tight` replaces the real limits by the small ones above. */
    async worker({
      workerd = "newest" as Workerd,
      tight = false,
      readerUrl = sample.readerUrl,
      appUrl = sample.appUrl,
      standbyUrl = undefined as string | undefined,
      objectUrl = sample.objectUrl,
      feedUrl = sample.feedUrl,
      tokens = sample.tokens as Readonly<Record<string, string | readonly string[]>>,
      tail = undefined as string | undefined,
    } = {}) {
      const logs: string[] = [];
      const plugins = tight ? [useTightLimits] : [];
      const onLog = (line: string) => logs.push(line);
      // A slot has one reader, so each Worker gets its own.
      const feedSlot = `${sample.feedSlot}_${++workers}`;
      const worker = await serve({
        readerUrl,
        appUrl,
        standbyUrl,
        objectUrl,
        feedUrl,
        feedSlot,
        tokens,
        workerd,
        plugins,
        tail,
        onLog,
      });
      undo.push(worker.stop);
      /** Returns a function for requests with that token. */
      const bearing =
        (token: string) =>
        (path: string, init: RequestInit = {}) => {
          const headers = { authorization: `Bearer ${token}`, ...(init.headers as object) };
          return fetch(new URL(path, worker.url), { ...init, headers });
        };
      return {
        ...worker,
        feedSlot,
        bearing,
        acme: bearing(sample.tokens.acme),
        globex: bearing(sample.tokens.globex),
        logs,
      };
    },
    /** Waits until PostgreSQL runs nothing for the Worker. The Worker's own deadlines are longer than this wait. */
    untilQuiet: () => until(async () => (await busy()).length === 0),
    /** Waits until PostgreSQL runs a query with these words for the Worker. */
    async untilBusyWith(words: string) {
      const look = async () => (await busy()).find(({ query, state }) => state === "active" && query.includes(words));
      let found: Awaited<ReturnType<typeof look>>;
      await until(async () => (found = await look()) !== undefined, `PostgreSQL runs ${words}`);
      return found!;
    },
  };
}

/**
 * Returns a server of our own: the one that tests/run.mjs has started for all suites, or a server just for this file.
 */
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

/** Returns the status of a POST that announces so many bytes and sends none. */
export const announce = (url: URL, token: string, type: string, bytes: number) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": type, "content-length": bytes };
    const posting = request(url, { method: "POST", headers }, ({ statusCode }) => {
      resolve(statusCode);
      posting.destroy();
    });
    posting.on("error", reject).flushHeaders();
  });

const useTightLimits = {
  name: "tight-limits",
  setup(build: import("esbuild").PluginBuild) {
    const contents = Object.entries({ limits: tightLimits, ...otherTightLimits })
      .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
      .join("\n");
    build.onLoad({ filter: /worker-example\/src\/limits\.ts$/ }, () => ({ contents, loader: "ts" }));
  },
};
