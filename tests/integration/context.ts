// Defines an integration case and its context. A case is written once and runs in Node, Deno, Bun and workerd, on each
// server, plain and under TLS. So it uses web standards, `t.pgz`, `t.side` and `t.faults`, and nothing of a runtime.
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
  /** Each case runs once, plain or under TLS by turns: set where another suite runs it in both ways. */
  byTurns?: true;
}

export interface Context {
  server: Server;
  tls: boolean;
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

export interface Case {
  name: string;
  /** Needs the roles of our test servers, so it is not registered for the server of DATABASE_URL. */
  ownServer?: true;
  /** Registered only once, with or without TLS, because the case connects in both ways itself, or in neither. */
  only?: "plain" | "tls";
  /** Depends on the runtime's sockets, so `byTurns` does not hold for it. */
  both?: true;
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
 * Registers every case once per server, plain and under TLS. Behaviour that depends on the server's version does not
 * depend on TLS, so an older server runs only the TLS cases under TLS. With `byTurns` a case is registered once: every
 * other one plain, the rest under TLS.
 */
export function registrations(all: readonly Case[], { servers, quick, byTurns }: TestServers): Registration[] {
  const cases = all.filter(({ slow }) => !(slow && quick));
  const names = cases.map(({ name }) => name);
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new Error(`two cases are named "${twice}"; workerd finds them by name`);
  return servers.flatMap((server, at) =>
    [false, ...(server.tls ? [true] : [])].flatMap((tls) =>
      cases
        .filter(({ ownServer }) => server.own || !ownServer)
        .filter(({ only, both }, index) => {
          if (only !== undefined) return only === (tls ? "tls" : "plain");
          if (byTurns && server.tls && !both) return tls === (index % 2 === 1);
          return at === 0 || !tls;
        })
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
