/**
 * The parts that the tests of the demo share: a PostgreSQL with the sample data, the Worker in front of it, and a view
 * of what PostgreSQL runs for the Worker, by a client other than ours.
 */
import { request } from "node:http";
import pg from "pg";
import { afterAll } from "vitest";
import type { Workerd } from "../../scripts/node/index.mjs";
import { sampleDatabase } from "../../worker-example/sample-data.mjs";
import * as realLimits from "../../worker-example/src/limits.ts";
import { serve } from "../../worker-example/serve.mjs";
import { startServers } from "../servers/index.mjs";
import { isRelease } from "../support/release.ts";
import { until } from "../support/until.mjs";

/**
 * Small sizes, which a test exceeds with a few rows. `quiet` is over before the feed has connected: the feed must
 * stay until it has read what waits.
 */
export const tightLimits = {
  limits: { maxRows: 1_000, maxBytes: 100_000 },
  listening: { clients: 2, behind: 1_000, keepAlive: 1_000 },
  maxQueryLength: 1_000,
  exporting: { maxRows: 2_000, maxBytes: 1_000_000 },
  importing: { maxBytes: 100_000, maxRows: 500, tellEvery: 20 },
  feeding: { clients: 2, keep: 20, keepAlive: 1_000, quiet: 1, wake: 1_500 },
  requests: { page: 5, maxPage: 10, bodyBytes: 1_000 },
};

/** Milliseconds of each deadline of a hasty Worker: for tests of deadlines alone. */
const SHORT = 700;
/**
 * Milliseconds of each deadline of all other Workers: longer than `until` waits. So a slow machine meets no deadline,
 * and no deadline ends a query that the Worker itself must end.
 */
const LONG = 3_600_000;

/** The limits of a Worker, as the exports of worker-example/src/limits.ts. */
function limitsOf({ tight, hasty }: { tight: boolean; hasty: boolean }): Record<string, unknown> {
  const small: Record<string, unknown> = tight ? tightLimits : {};
  const of = (name: string, value: unknown) => {
    if (typeof value !== "object") return small[name] ?? value;
    const changed = { ...value, ...(small[name] as object | undefined) };
    return "timeout" in changed ? { ...changed, timeout: hasty ? SHORT : LONG } : changed;
  };
  return Object.fromEntries(Object.entries(realLimits).map(([name, value]) => [name, of(name, value)]));
}

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
  // As the Worker's deadlines below: no test waits for the role's own timeout.
  for (const role of [sample.role, sample.appRole, sample.objectRole])
    await admin.query(`alter role ${role} set statement_timeout = 0`);

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
    /** Starts a Worker. `tight`: with the small sizes above. `hasty`: with short deadlines in place of long ones. */
    async worker({
      workerd = "newest" as Workerd,
      tight = false,
      hasty = false,
      readerUrl = sample.readerUrl,
      appUrl = sample.appUrl,
      standbyUrl = undefined as string | undefined,
      objectUrl = sample.objectUrl,
      feedUrl = sample.feedUrl,
      tokens = sample.tokens as Readonly<Record<string, string | readonly string[]>>,
      tail = undefined as string | undefined,
    } = {}) {
      const logs: string[] = [];
      const plugins = [withLimits(limitsOf({ tight, hasty }))];
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
    /** Waits until PostgreSQL runs nothing for the Worker, whose deadlines are longer than this wait. */
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

const withLimits = (limits: Record<string, unknown>) => ({
  name: "limits-of-a-test",
  setup(build: import("esbuild").PluginBuild) {
    const contents = Object.entries(limits)
      .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
      .join("\n");
    build.onLoad({ filter: /worker-example\/src\/limits\.ts$/ }, () => ({ contents, loader: "ts" }));
  },
});
