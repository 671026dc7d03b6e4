// One statement from its text and values to the end of its result: learn its shape, run it, and once more when what was known is stale.
//
// Knows shapes, parameters and the SQLSTATEs of stale statements. Must not know sockets, or what becomes of the rows.
import { PostgresError } from "../errors.ts";
import type { Query } from "../sql.ts";
import type { CoreConnection, RowFormat } from "./boundary.ts";
import type { Connection } from "./connection.ts";
import type { Operation, Sink } from "./operation.ts";
import { checkCount, encodeParameters } from "./parameters.ts";
import { serverKey, shapes } from "./shapes.ts";

/** The call that the statement is for. */
interface Caller {
  readonly finished: boolean;
  operate(connection: Connection, command: (handle: CoreConnection) => number, sink?: Sink): Operation;
}

export interface Execution {
  readonly query: Query;
  readonly format: RowFormat;
  readonly maxRows: number;
  readonly maxBytes: number;
  /** A new one for each run: a second run starts from nothing. */
  readonly sink: () => Sink;
}

/** The ended operation, or `undefined` when the call was over before. Rejects with what the call is to reject with. */
export async function execute(call: Caller, connection: Connection, execution: Execution): Promise<Operation | undefined> {
  const { query, format, maxRows, maxBytes } = execution;
  const { text, values } = query;
  checkCount(values);
  const server = serverKey(connection.config);
  for (let again = true; ; again = false) {
    let shape = shapes.get(server, text);
    if (!shape) {
      const learning = call.operate(connection, (handle) => handle.describe(text));
      await learning.done;
      if (call.finished) return undefined;
      if (learning.error) throw learning.error;
      shape = shapes.put(server, text, learning.shape!);
    }
    const { id, parameterTypes, resultFormats } = shape;
    const parameters = encodeParameters(values, parameterTypes);
    const outsideTransaction = connection.transactionStatus === "I";
    const operation = call.operate(connection, (handle) => handle.execute(id, text, parameterTypes, resultFormats, parameters, format, maxRows, maxBytes), execution.sink());
    try {
      await operation.done;
    } catch (error) {
      // The core could not read what came by what was learned.
      if (/^(SHAPE_CHANGED|UNKNOWN_BINARY)$/.test((error as { code?: string }).code ?? "")) shapes.forget(server, text);
      throw error;
    }
    if (call.finished) return undefined;
    const { error, committed } = operation;
    if (!error) return operation;
    if (!isStale(error)) throw error;
    connection.forget(id);
    shapes.forget(server, text);
    if (!again || !outsideTransaction || committed) throw error;
  }
}

/** The server no longer has, or no longer accepts, what was prepared; in an implicit transaction nothing has happened then. */
function isStale(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  const { code, routine } = error;
  // Other 0A000 and 08P01 are the user's own; these two are "cached plan must not change result type", and formats for columns that are no more.
  if (code === "0A000") return routine === "RevalidateCachedQuery";
  if (code === "08P01") return routine === "PortalSetResultFormat";
  return code === "26000" || code === "42P05";
}
