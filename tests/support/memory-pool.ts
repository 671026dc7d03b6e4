// A pool over sockets in memory, and a server that accepts every login and answers each "select n" with one row. The
// pool is closed when its test has finished.
import { onTestFinished } from "vitest";
import { createPool, type Pool } from "../../js/pool/pool.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import { installRuntime, runtime, type Runtime } from "../../js/runtime/runtime.ts";
import { accepted, newServer, quiet, type Session } from "./memory-session.ts";
import { completeAndReady, description, executed, fatal, loginAnswer, shutdown } from "./server-messages.ts";

/** The settings that a test may change, and the events that it may read. */
export interface MemoryServer {
  /** The number of connections, for cancels too. */
  accepted: number;
  /** Sessions that have logged in, in order. */
  readonly sessions: Session[];
  /** Executions and Queries are answered only after this. */
  gate: Promise<unknown> | undefined;
  /** The number of executions that are answered with the end of the session, before the execution begins. */
  farewells: number;
  /**
   * The outcomes of the next logins. `false` refuses the login, since the server has no free connection, and "never"
   * leaves it without an answer. Later logins are accepted.
   */
  readonly logins: (boolean | "never")[];
  /**
   * The number of logins that are answered with one message too many, as pgpool-II does after an earlier client left
   * too early.
   */
  strays: number;
  /** The number of Queries so far. They are the pool's own, such as health checks and resets. */
  queries: number;
  /** The transaction status after each execution. */
  status: "I" | "T";
}

/** A promise, and the function that resolves it. */
export function gate(): { readonly closed: Promise<void>; open(): void } {
  let open = () => {};
  const closed = new Promise<void>((resolve) => (open = resolve));
  return { closed, open };
}

let databases = 0;

/** `traits`: the runtime's differences from Node. */
export function memoryPool(
  options: PoolOptions = {},
  traits: Partial<Runtime> = {},
): { pool: Pool; server: MemoryServer } {
  newServer();
  installRuntime({ ...runtime(), ...traits });
  const server: MemoryServer = {
    accepted: 0,
    sessions: [],
    gate: undefined,
    farewells: 0,
    logins: [],
    strays: 0,
    queries: 0,
    status: "I",
  };
  void letEverybodyIn(server);
  const place = { host: "memory", user: "u", database: `pooled${databases++}`, sslmode: "disable" } as const;
  const pool = createPool({ ...place, firstRun: "describe", prepare: "unnamed" }, options);
  onTestFinished(() => pool.close({ timeout: 0 }));
  return { pool, server };
}

async function letEverybodyIn(server: MemoryServer): Promise<void> {
  for (;;) {
    const session = await accepted();
    server.accepted++;
    void answer(session, server);
  }
}

async function answer(session: Session, server: MemoryServer): Promise<void> {
  for (;;) {
    const flight = await session.flight();
    const last = flight.at(-1);
    const login = last === "StartupMessage" ? server.logins.shift() : undefined;
    if (login === "never") continue;
    if (login === false) {
      await quiet(); // a query that is sent with the login has been sent
      session.send(fatal("53300"));
    } else if (last === "StartupMessage") {
      const stray = server.strays-- > 0 ? [completeAndReady("SET")] : [];
      session.send(loginAnswer(), ...stray);
      server.sessions.push(session);
    } else if (last === "Query") {
      server.queries++;
      if (server.gate) await server.gate;
      session.send(completeAndReady("SET"));
    } else if (last === "CancelRequest") {
      return session.peer.end();
    } else if (last !== "Sync") {
      return;
    } else if (!flight.includes("Execute")) {
      session.send(description());
    } else if (server.farewells > 0) {
      server.farewells--;
      session.send(shutdown());
    } else {
      if (server.gate) await server.gate;
      session.send(executed(0, 1, server.status));
    }
  }
}

/** Holds back the server's answers, and releases them one by one, or all. */
export function holdBack(server: MemoryServer): { one(): Promise<void>; all(): void } {
  let held = gate();
  server.gate = held.closed;
  return {
    async one() {
      const { open } = held;
      held = gate();
      server.gate = held.closed;
      open();
      await quiet();
    },
    all() {
      server.gate = undefined;
      held.open();
    },
  };
}
