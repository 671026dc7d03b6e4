// Makes a connection fit for the next borrower: nothing runs, no transaction is open, and changed settings are reset.
//
// Knows the SQL that resets a session, and deadlines. Must not know who had the connection, or who gets it.
import { checkSession } from "../login/session-attrs.ts";
import { connectionLost } from "../runtime/contract.ts";
import { simpleQuery } from "../session/transaction-block.ts";
import type { Connection } from "../connection/connection.ts";
import type { PoolConfig } from "./options.ts";
import type { Member } from "./member.ts";

/**
 * DISCARD ALL without the parts that would cost the driver its prepared statements (DEALLOCATE ALL, DISCARD PLANS).
 * Settings return to those of the startup. RESET ALL does not reset the role.
 */
export const RESET = `set session authorization default; reset role; reset all; close all; unlisten *;
select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences`;

/** Milliseconds for a reset, and for a health check. */
const RESET_DEADLINE = 5_000,
  PING_DEADLINE = 2_000;

/**
 * Leaves the connection clean, or closed. Never rejects. `restore` makes the settings again that every borrower finds.
 */
export async function clean(
  member: Member,
  { reset }: Pick<PoolConfig, "reset">,
  restore: (member: Member) => Promise<unknown>,
): Promise<void> {
  const { connection, session, sessionChanges } = member;
  // With an early query the connection is lent before its login is complete. The login is no call of the borrower's.
  if (!connection.established) await connection.startup.done.catch(() => {});
  await connection.stopping;
  if (connection.closed) return;
  if (connection.isBusy) return connection.destroy(connectionLost("it was given back while a call was running"));
  await session.transaction.rollBack();
  const { change } = sessionChanges;
  sessionChanges.change = "none";
  if (connection.closed || reset === "never" || (reset === "auto" && change === "none")) return;
  if (change === "ends") return void (await connection.close());
  if (!(await answers(connection, RESET, RESET_DEADLINE))) return void (await connection.close());
  await restore(member);
  sessionChanges.change = "none";
}

/** Whether the server refuses writes now, for example after a failover made it a standby. Closes such a connection. */
export async function isDemoted({ connection }: Member): Promise<boolean> {
  const late = setTimeout(() => connection.destroy(connectionLost("it did not answer")), PING_DEADLINE);
  try {
    await checkSession(connection, connection.config.targetSessionAttrs);
    connection.refusedWrite = false;
    return false;
  } catch {
    await connection.close();
    return true;
  } finally {
    clearTimeout(late);
  }
}

/** Checks that the server answers in time, and destroys the connection otherwise. Never rejects. */
export async function ping(connection: Connection): Promise<void> {
  if (!(await answers(connection, "", PING_DEADLINE))) connection.destroy(connectionLost("it gave no sign of life"));
}

/** Whether the text ran without an error, in time. A connection that does not answer is destroyed. */
async function answers(connection: Connection, text: string, deadline: number): Promise<boolean> {
  if (connection.closed) return false;
  const operation = connection.operate(simpleQuery(text));
  const late = setTimeout(() => connection.destroy(connectionLost("it did not answer")), deadline);
  try {
    await operation.done;
    return operation.error === undefined;
  } catch {
    return false;
  } finally {
    clearTimeout(late);
  }
}
