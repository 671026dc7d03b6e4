// This repository's driver as a peer, with the common calls.
//
// Knows its API. Must not know what the calls are, or pg and postgres.js.
import { driver } from "../driver.ts";
import type * as pgz from "../../../js/index.ts";
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

/** `connect` makes the sockets of one user. */
export function ours(connect: (access: Access) => pgz.Connector): Peer {
  return {
    name: "pgz-edge",
    isSerial: false,
    open: (user, access) => open(user, access, connect(access)),
    tells(error, isTransaction) {
      const { retryable, transaction } = Object(error) as Record<string, unknown>;
      if (transaction === "committed") return "stored";
      if (retryable || transaction === "rolled back") return "not stored";
      return isRefusal(error) && !isTransaction ? "not stored" : "unknown";
    },
  };
}

function open(user: User, { host, user: role, password, database }: Access, connect: pgz.Connector): Database {
  const options: pgz.PoolOptions = {
    ...user.options,
    ...(user.kind === "pool" && { acquireTimeout: 30_000 }),
    connectTimeout: CONNECT_TIMEOUT,
    timeout: CALL_TIMEOUT,
    ...{ host, user: role, password, database, connect },
    sslmode: "disable",
    allowCleartextPassword: true,
  };
  if (user.kind === "client") {
    const client = driver.createClient(options);
    return { ...session(client), lease: () => Promise.reject(new Error("a client")), end: () => client.close() };
  }
  const pool = driver.createPool(options);
  return {
    ...session(pool),
    lease: async (): Promise<Lease> => {
      const lease = await pool.acquire();
      return { ...session(lease), release: () => lease.release() };
    },
    end: (isHard) => pool.close(isHard ? { timeout: 0 } : {}),
  };
}

function session(caller: pgz.Client | pgz.Pool | pgz.Lease): Session {
  return {
    ...queries(caller),
    transaction: (work, how) =>
      stopped(how, async (options) => {
        await caller.transaction((tx) => work(queries(tx)), options);
      }),
    cursor: (given, size, leave, how) =>
      stopped(how, async (options) => {
        const rows: Row[] = [];
        for await (const batch of caller.cursor(queryOf(given), size, options)) {
          rows.push(...batch);
          if (rows.length >= leave) break;
        }
        return rows;
      }),
  };
}

function queries(caller: pgz.Client | pgz.Pool | pgz.Lease | pgz.Transaction): Queries {
  return {
    query: (given, how) => stopped(how, async (options) => (await caller.query(queryOf(given), options)).rows),
  };
}

const queryOf = ({ text, values }: Statement): pgz.Query => ({ text, values });

/** Runs with the step's signal and timeout. */
async function stopped<T>(
  { abort, timeout }: Disturbed,
  call: (options: { signal?: AbortSignal; timeout?: number }) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = abort === undefined ? undefined : setTimeout(() => controller.abort(), abort);
  try {
    return await call({
      ...(timer !== undefined && { signal: controller.signal }),
      ...(timeout !== undefined && { timeout }),
    });
  } finally {
    clearTimeout(timer);
  }
}
