// What an integration case is and what it is given. A case is written once and runs in Node, Deno, Bun and workerd, on
// each server, plain and under TLS; so it uses web standards, `t.pgz`, `t.side` and `t.faults`, and nothing of a
// runtime.
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

export interface Context {
  server: Server;
  tls: boolean;
  runtime: Runtime;
  pgz: typeof pgz;
  assert: typeof assert;
  /**
   * Connection options for this server with `sslmode` verify-full or disable, to be spread: `{ ...t.options, user:
   * "app_md5" }`.
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
  /** Runs SQL as superuser over a connection that is not ours; values as the server's text. */
  side(sql: string): Promise<(string | null)[][]>;
  /** The control URL of the fault host, see tests/faults/host.mjs. */
  faults: string;
}

export interface Case {
  name: string;
  /** Needs our own roles: not registered for the server of DATABASE_URL. */
  ownServer?: true;
  /** Registered once only, with or without TLS, because it makes its own connections of both kinds or of neither. */
  only?: "plain" | "tls";
  /** Takes more than a second and a half, mostly waiting: `make quick` leaves it out. */
  slow?: true;
  run(t: Context): Promise<void>;
}

export interface Registration {
  name: string;
  case: Case;
  server: Server;
  tls: boolean;
}

/**
 * Every case once per server, plain and under TLS. TLS ends below what a server's version changes, so that an older
 * server has those cases under it that are about TLS.
 */
export function registrations(all: readonly Case[], { servers, quick }: TestServers): Registration[] {
  const cases = all.filter(({ slow }) => !(slow && quick));
  const names = cases.map(({ name }) => name);
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new Error(`two cases are named "${twice}"; workerd finds them by name`);
  return servers.flatMap((server, at) =>
    [false, ...(server.tls ? [true] : [])].flatMap((tls) =>
      cases
        .filter(({ ownServer }) => server.own || !ownServer)
        .filter(({ only }) => (only ? only === (tls ? "tls" : "plain") : at === 0 || !tls))
        .map((one) => ({ name: `${one.name} [${server.name} ${tls ? "tls" : "plain"}]`, case: one, server, tls })),
    ),
  );
}

export function context(
  runtime: Runtime,
  driver: typeof pgz,
  { server, tls }: Pick<Registration, "server" | "tls">,
  { side, faults }: TestServers,
): Context {
  const { host, port, database, user, password, caPem } = server;
  // workerd takes its CA from the process environment; no socket option of its own exists.
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
      // A connection of its own: Bun takes one again that the other side is just closing.
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
