// A transaction of a call's own around its flights: what the call has described is locked until the end, so no other
// session can change it in between.
//
// Knows when such a transaction begins, and that nothing of it is left. Must not know what the call does in it, or how
// it commits.
import type { AnyCall } from "../session/call.ts";
import type { Session } from "../session/session.ts";

/**
 * Runs `work` in a transaction of its own, unless one is open. BEGIN leaves with the first flight. What `work` has not
 * committed is rolled back. The call must not succeed before: a pool then lends the session, whose next BEGIN waits in
 * the same block.
 */
export async function inTransaction<T>(
  call: AnyCall,
  { connection, transaction }: Session,
  work: (isOwn: boolean) => Promise<T>,
): Promise<T> {
  // CockroachDB runs COPY only as the single statement of its text.
  if (!transaction.isNone || connection.parameters.has("crdb_version")) return await work(false);
  transaction.beginOwn("BEGIN");
  // It is this call's to report.
  const stopListening = connection.onClosed(() => (connection.lossIsReported = true));
  try {
    return await work(true);
  } finally {
    const { operation } = call;
    await operation?.done.catch(() => {});
    await operation?.cleanup;
    await transaction.rollBack();
    stopListening();
  }
}
