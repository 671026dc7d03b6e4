// postgres.js as a peer.
//
// An abort is `query.cancel()`, in a transaction that of the running query. postgres.js has no timeout for a call, only
// connect_timeout, and on the server statement_timeout. The server model does not know its query of pg_type during
// connect. So the model gets another statement, which returns the one row that the calls need. Knows postgres.js's API.
// Must not know what the calls are.
import postgres from "postgres";
import type { User } from "../program.ts";
import {
  CALL_TIMEOUT,
  CONNECT_TIMEOUT,
  isRefusal,
  type Access,
  type Database,
  type Disturbed,
  type Peer,
  type Queries,
  type Row,
  type Session,
} from "./contract.ts";
import { statement, type Statement } from "./statement.ts";

export const peerPostgres: Peer = {
  name: "postgres.js",
  isSerial: false,
  open,
  tells: (error, isTransaction) =>
    !isTransaction && (isRefusal(error) || isOfUnsent(error)) ? "not stored" : "unknown",
  edit: withTypes,
};

/** Replaces the query for array types by one that returns only int4. */
function withTypes(bytes: Buffer): Buffer {
  if (!bytes.includes("b.typarray")) return bytes;
  const known = "select oid, typarray from (values (23, 1007)) b (oid, typarray)";
  const text = bytes
    .toString("latin1")
    .replace(/select b\.oid, b\.typarray[^]*order by b\.oid/, (asked) => known.padEnd(asked.length));
  return Buffer.from(text, "latin1");
}

/** 57014 without a severity is the library's own error for a query that it has not sent. */
function isOfUnsent(error: unknown): boolean {
  const { severity, code } = Object(error) as { severity?: string; code?: string };
  return severity === undefined && code === "57014";
}

/** Seconds that `end()` allows for calls to finish. */
const END_TIMEOUT = 5;

const seconds = (milliseconds: unknown): number => Number(milliseconds) / 1000;

function open({ kind, options }: User, { host, user, password, database }: Access): Database {
  const sql = postgres({
    ...{ host, user, password, database, port: 5432 },
    max: kind === "client" ? 1 : (options["max"] as number),
    ...(kind === "pool" && {
      idle_timeout: seconds(options["idleTimeout"]),
      max_lifetime: seconds(options["maxLifetime"]),
    }),
    connect_timeout: seconds(CONNECT_TIMEOUT),
    onnotice: () => {},
    connection: { statement_timeout: CALL_TIMEOUT },
  });
  return {
    ...queries(sql),
    transaction: (work, how) => begin(sql, work, how),
    cursor: (given, size, leave, how) => readAll(sql, given, size, leave, how),
    lease: async () => {
      const reserved = await sql.reserve();
      return { ...reservedSession(reserved), release: () => Promise.resolve(reserved.release()) };
    },
    end: (isHard) => sql.end({ timeout: isHard ? 0 : END_TIMEOUT }),
  };
}

/** A reserved connection has no `begin`, so its transactions are written in SQL. */
function reservedSession(sql: postgres.Sql): Session {
  return {
    ...queries(sql),
    async transaction(work, how) {
      const { query } = queries(sql);
      try {
        await query(statement`begin`, how);
        await work({ query: (given) => query(given, how) });
        await query(statement`commit`, how);
      } catch (error) {
        await query(statement`rollback`, {}).catch(() => {});
        throw error;
      }
    },
    cursor: (given, size, leave, how) => readAll(sql, given, size, leave, how),
  };
}

type Sql = postgres.Sql | postgres.TransactionSql;
type Pending = postgres.PendingQuery<Row[]>;

function made(sql: Sql, { strings, values }: Statement): Pending {
  return sql(strings, ...(values as readonly postgres.ParameterOrFragment<never>[])) as unknown as Pending;
}

function queries(sql: Sql): Queries {
  return {
    query: (given, how) => {
      const query = made(sql, given);
      return stopped(
        () => query,
        how,
        async () => [...(await query)],
      );
    },
  };
}

async function begin(sql: postgres.Sql, work: (tx: Queries) => Promise<void>, how: Disturbed): Promise<void> {
  let running: Pending | undefined;
  await stopped(
    () => running,
    how,
    () =>
      sql.begin((tx) =>
        work({
          query: async (given) => [...(await (running = made(tx, given)))],
        }),
      ),
  );
}

async function readAll(
  sql: postgres.Sql,
  given: Statement,
  size: number,
  leave: number,
  how: Disturbed,
): Promise<Row[]> {
  const query = made(sql, given);
  return stopped(
    () => query,
    how,
    async () => {
      const rows: Row[] = [];
      for await (const batch of query.cursor(size)) {
        rows.push(...batch);
        if (rows.length >= leave) break;
      }
      return rows;
    },
  );
}

/** Cancels the running query when its time comes. */
async function stopped<T>(
  running: () => Pending | undefined,
  { abort }: Disturbed,
  call: () => Promise<T>,
): Promise<T> {
  const timer = abort === undefined ? undefined : setTimeout(() => running()?.cancel(), abort);
  try {
    return await call();
  } finally {
    clearTimeout(timer);
  }
}
