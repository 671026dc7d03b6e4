// pg as a peer: a Client, a Pool, and pg-cursor.
//
// This adapter does what pg's documents leave to the user: an `error` listener on pools and clients, BEGIN and COMMIT
// on one client of the pool, ROLLBACK when that fails, `release(error)` for a client whose connection may not be clean,
// one call after the other on a single Client. Every limit that pg has is set: connectionTimeoutMillis, query_timeout
// and, on the server, statement_timeout. pg cannot cancel. Knows pg's API. Must not know what the calls are.
import pg from "pg";
// @ts-expect-error It has no types.
import UntypedCursor from "pg-cursor";
import type { User } from "../program.ts";
import {
  CALL_TIMEOUT,
  CONNECT_TIMEOUT,
  isRefusal,
  type Access,
  type Database,
  type Disturbed,
  type Lease,
  type Peer,
  type Queries,
  type Row,
  type Session,
} from "./contract.ts";
import type { Statement } from "./statement.ts";

interface Cursor extends pg.Submittable {
  read(size: number): Promise<Row[]>;
  close(): Promise<void>;
}

const Cursor = UntypedCursor as new (text: string, values: unknown[]) => Cursor;

export const peerPg: Peer = {
  name: "pg",
  isSerial: true,
  open: (user, access) => (user.kind === "client" ? client(access) : pool(user, access)),
  tells: (error, isTransaction) => (isRefusal(error) && !isTransaction ? "not stored" : "unknown"),
};

/** Whether the connection remains usable after the error. */
const isOfServer = (error: unknown): boolean => (Object(error) as { severity?: string }).severity === "ERROR";

const ignore = (): void => {};

const optionsOf = ({ host, user, password, database }: Access): pg.ClientConfig => ({
  ...{ host, user, password, database, port: 5432 },
  connectionTimeoutMillis: CONNECT_TIMEOUT,
  query_timeout: CALL_TIMEOUT,
  statement_timeout: CALL_TIMEOUT,
});

function client(access: Access): Database {
  const one = new pg.Client(optionsOf(access));
  one.on("error", ignore);
  const connected = one.connect();
  connected.catch(ignore);
  /** Each call waits for the connection, and fails with its error. */
  const ready = <T>(call: () => Promise<T>): Promise<T> => connected.then(call);
  const { query, transaction, cursor } = session(one, { watched: (call) => call, fails: () => void one.end() });
  return {
    query: (given, how) => ready(() => query(given, how)),
    transaction: (work, how) => ready(() => transaction(work, how)),
    cursor: (given, size, leave, how) => ready(() => cursor(given, size, leave, how)),
    lease: () => Promise.reject(new Error("a client")),
    end: () => one.end(),
  };
}

function pool({ options }: User, access: Access): Database {
  const all = new pg.Pool({
    ...optionsOf(access),
    max: options["max"] as number,
    min: options["min"] as number,
    idleTimeoutMillis: options["idleTimeout"] as number,
    maxLifetimeSeconds: (options["maxLifetime"] as number) / 1000,
  });
  all.on("error", ignore);
  all.on("connect", (one) => void one.on("error", ignore));
  const lease = async (): Promise<Lease> => leased(await all.connect());
  return {
    query: async (given, { timeout }) => (await all.query<Row>(configOf(given, timeout))).rows,
    transaction: (work, how) => lent(lease, (one) => one.transaction(work, how)),
    cursor: (given, size, leave, how) => lent(lease, (one) => one.cursor(given, size, leave, how)),
    lease,
    end: () => all.end(),
  };
}

async function lent<T>(lease: () => Promise<Lease>, work: (one: Lease) => Promise<T>): Promise<T> {
  const one = await lease();
  try {
    return await work(one);
  } finally {
    await one.release();
  }
}

/** A client that failed with anything but an error of the server is destroyed instead of released. */
function leased(one: pg.PoolClient): Lease {
  let broken: Error | undefined;
  const watched = async <T>(call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (error) {
      if (!isOfServer(error)) broken = error as Error;
      throw error;
    }
  };
  const { query, transaction, cursor } = session(one, { watched, fails: (error) => (broken = error) });
  return {
    query,
    transaction,
    cursor,
    release: () => Promise.resolve(one.release(broken)),
  };
}

/** What the holder of a client does in addition to its calls. */
interface Care {
  /** Sees the outcome of each call. */
  watched<T>(call: Promise<T>): Promise<T>;
  /** The connection must not be used any more. */
  fails(error: Error): void;
}

function session(one: pg.ClientBase, care: Care): Session {
  const { watched } = care;
  const queries: Queries = {
    query: async (given, { timeout }) => (await watched(one.query<Row>(configOf(given, timeout)))).rows,
  };
  return {
    ...queries,
    transaction: (work, how) => transaction(one, care, work, how),
    cursor: (given, size, leave) => watched(readAll(one, given, size, leave)),
  };
}

/**
 * ROLLBACK has only the client's own limit: giving up on a ROLLBACK would leave its connection in the transaction. If
 * ROLLBACK fails, the connection is not used any more.
 */
async function transaction(
  one: pg.ClientBase,
  { watched, fails }: Care,
  work: (tx: Queries) => Promise<void>,
  { timeout }: Disturbed,
): Promise<void> {
  const run = (text: string) => watched(one.query(configOf({ text, values: [] }, timeout)));
  try {
    await run("BEGIN");
    await work({
      query: async (given) => (await watched(one.query<Row>(configOf(given, timeout)))).rows,
    });
    await run("COMMIT");
  } catch (error) {
    await one.query("ROLLBACK").catch(fails);
    throw error;
  }
}

/**
 * Portals are named by a counter of the process. A counter for each session makes a seed give the same bytes each time.
 */
let portals = 0;
export function restartPortals(): void {
  portals = 0;
}

async function readAll(one: pg.ClientBase, given: Statement, size: number, leave: number): Promise<Row[]> {
  const cursor = one.query(named(new Cursor(given.text, [...given.values])));
  const rows: Row[] = [];
  for (;;) {
    const batch = await cursor.read(size);
    rows.push(...batch);
    if (!batch.length) break;
    if (rows.length >= leave) break;
  }
  await cursor.close();
  return rows;
}

function named(cursor: Cursor): Cursor {
  const name = `C_${++portals}`;
  return Object.defineProperty(cursor, "_portal", { get: () => name, set: ignore });
}

/** @types/pg does not know `query_timeout` of one query. */
function configOf({ text, values }: Pick<Statement, "text" | "values">, timeout: number | undefined): pg.QueryConfig {
  const config = { text, values: [...values], ...(timeout !== undefined && { query_timeout: timeout }) };
  return config as pg.QueryConfig;
}
