// Defines an integration case and its context. A case is written once, and runs in Node on each server. In Deno, Bun
// and workerd, and under TLS, it runs where it says what can differ there, and everywhere in a release. So it uses web
// standards, `t.pgz`, `t.side` and `t.faults`, and nothing of a runtime.
import type * as pgz from "../../js/index.ts";
import type { ServerDescriptor } from "../servers/index.mjs";
import { assert } from "./assert.ts";

export type Runtime = "node" | "deno" | "bun" | "workerd";

/** A real server, with the CA's text. */
export interface Server extends ServerDescriptor {
  caPem?: string;
}

/** PGZ_TEST_SERVERS, as tests/run.mjs writes it. */
export interface TestServers {
  servers: Server[];
  pgbouncer?: Server;
  /** tests/servers/sidecar.mjs */
  side: string;
  /** tests/servers/websockets.mjs: proxies to all of them */
  webSockets: { plain: string; tls: string };
  /** tests/faults/host.mjs: scripted servers, byte proxies */
  faults?: string;
  /** Set by `make quick`. */
  quick?: true;
}

/** Where a case runs, and with which server. */
export interface Setting {
  server: Server;
  tls: boolean;
  /** A case may ask for it only if it says by `differs` what a runtime changes. */
  runtime: Runtime;
  pgz: typeof pgz;
  assert: typeof assert;
  /**
   * Connection options for this server with `sslmode` verify-full or disable, ready to be spread: `{ ...t.options,
   * user: "app_md5" }`.
   */
  options: {
    host: string;
    port: number;
    database: string;
    user: string;
    password: string;
    sslmode: "disable" | "verify-full";
    ca?: string;
  };
  /** Runs SQL as superuser over a connection that is not of this driver; values are the server's text. */
  side(sql: string): Promise<(string | null)[][]>;
  /** The control URL of the fault host, see tests/faults/host.mjs. */
  faults: string;
}

/** A case's setting, and what it opens there. */
export interface Context extends Setting {
  /** Connects with this case's options and with these. The client is closed after the case. */
  client(options?: pgz.Options): Promise<pgz.Client>;
  /** Makes such a pool. After the case it is closed, and must have no connection then. */
  pool(options?: pgz.PoolOptions): pgz.Pool;
  /** Runs `work` after the case, whatever its outcome. What was opened last is closed first. */
  after(work: () => unknown): void;
}

/**
 * What a runtime brings itself, so that a case which depends on it can have another outcome there:
 *
 * - `sockets`: when bytes, an end or a reset are seen, also on an idle socket; how much is taken before a writer must
 *   wait; what still leaves before a close.
 * - `tls`: the handshake, certificates, how an alert or a cut record is reported.
 * - `crypto`: the keys and proofs of a login.
 * - `streams`: ReadableStream, Response, Blob and CompressionStream, and which end of them hears of a cancel.
 * - `timers`: setTimeout and AbortSignal, and what runs before them.
 * - `text`: TextEncoder and TextDecoder on the memory of the wasm.
 * - `engine`: stacks, numbers, dates, Temporal and `await using` of JavaScriptCore and of other versions of V8; the
 *   WebAssembly of each.
 * - `modules`: modules of Node that are there or not.
 *
 * The Rust core, the SQL that it and the shim send, and the order of calls are the same code everywhere.
 */
export type Difference = "sockets" | "tls" | "crypto" | "streams" | "timers" | "text" | "engine" | "modules";

/** How a case is registered (registrations.ts). */
export interface Registered {
  /**
   * Set if its outcome depends on what a runtime brings itself. In `make test` the other cases run in Node only, and
   * plain only; a release runs every case in each runtime, plain and under TLS.
   */
  differs?: readonly Difference[];
  /** Needs the roles of our test servers, so it is not registered for the server of DATABASE_URL. */
  ownServer?: true;
  /** Registered only once, with or without TLS, because the case connects in both ways itself, or in neither. */
  only?: "plain" | "tls";
  /** Runs plain and under TLS everywhere, because it is about the bytes of a socket. */
  both?: true;
  /** The first version of PostgreSQL that behaves as the case says. It is not registered for older ones. */
  since?: number;
  /** Takes more than a second and a half, mostly waiting: `make quick` leaves it out. */
  slow?: true;
}

export interface Case extends Registered {
  name: string;
  run(setting: Setting): Promise<void>;
}

type Run = (t: Context) => Promise<void>;
/** Cases by name. One that is registered everywhere is only its function. */
export type Cases = Readonly<Record<string, Run | (Registered & { run: Run })>>;

/** Returns these cases, all of which are also registered in the common way. */
export const casesOf = (all: Cases, common: Registered = {}): Case[] =>
  Object.entries(all).map(([name, one]) => {
    const { run, ...own } = typeof one === "function" ? { run: one } : one;
    const registered = { ...common, ...own };
    return { name, ...registered, run: (setting) => perform(name, registered, run, setting) };
  });

async function perform(name: string, { differs }: Registered, run: Run, setting: Setting): Promise<void> {
  const ends: (() => unknown)[] = [];
  const t: Context = {
    ...setting,
    get runtime() {
      if (!differs) throw new Error(`"${name}" asks for the runtime, and does not say what differs there`);
      return setting.runtime;
    },
    async client(options) {
      const client = await setting.pgz.connect({ ...setting.options, ...options });
      ends.push(() => client.close());
      return client;
    },
    pool(options) {
      const pool = setting.pgz.createPool({ ...setting.options, ...options });
      ends.push(async () => {
        await pool.close({ timeout: 0 });
        assert.equal(pool.stats().total, 0, "connections after close()");
      });
      return pool;
    },
    after: (work) => void ends.push(work),
  };
  const errors: unknown[] = [];
  const attempt = async (work: () => unknown) => {
    try {
      await work();
    } catch (error) {
      errors.push(error);
    }
  };
  await attempt(() => run(t));
  for (const end of ends.reverse()) await attempt(end);
  // A later error may follow from the case's own.
  if (errors.length > 0) throw errors[0];
}

export function context(
  runtime: Runtime,
  driver: typeof pgz,
  { server, tls }: { server: Server; tls: boolean },
  { side, faults }: TestServers,
): Setting {
  const { host, port, database, user, password, caPem } = server;
  // workerd takes its CA from the process environment, and has no socket option for it.
  const ca = tls && runtime !== "workerd" && caPem !== undefined ? { ca: caPem } : {};
  return {
    server,
    tls,
    runtime,
    pgz: driver,
    assert,
    options: { host, port, database, user, password, sslmode: tls ? "verify-full" : "disable", ...ca },
    faults: faults ?? "",
    async side(sql) {
      // Uses a new connection each time: Bun may reuse a connection that the other side is just closing.
      const response = await fetch(`${side}/sql`, {
        headers: { connection: "close" },
        method: "POST",
        body: JSON.stringify({ server: server.name, sql }),
      });
      const { rows, error } = (await response.json()) as { rows?: (string | null)[][]; error?: string };
      if (rows === undefined) throw new Error(`side connection: ${error}`);
      return rows;
    },
  };
}
