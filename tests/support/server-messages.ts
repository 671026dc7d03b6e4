// The messages that a scripted server sends, one by one and in the groups that answer a flight, for tests with sockets
// in memory.
//
// Knows messages and their order. Must not know sessions, clients, or which flight is answered. The messages of a
// stream of changes are in memory-changes.ts.
import * as wire from "./wire.mjs";

type Status = "I" | "T" | "E";

interface Column {
  name: string;
  oid: number;
  size?: number;
}

export const int4 = { name: "n", oid: 23, size: 4 };

// -- logins ----------------------------------------------------------------------------------------------------------

/** The server accepts a login without a password, and also reports these settings. `processId`: of its session. */
export const loginAnswer = (settings: Record<string, string> = {}, processId = 7): Buffer =>
  Buffer.concat([
    wire.authenticationOk(),
    wire.parameterStatus("integer_datetimes", "on"),
    ...Object.entries(settings).map(([name, value]) => wire.parameterStatus(name, value)),
    wire.backendKeyData(processId, wire.int32(9)),
    wire.readyForQuery(),
  ]);

// -- errors ----------------------------------------------------------------------------------------------------------

/** An ErrorResponse. `more`: its other fields. */
export const errorResponse = (C: string, more: object = {}): Buffer =>
  wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });

/** An ErrorResponse that ends its flight: ReadyForQuery follows. */
export const errorAndReady = (C: string, status: Status = "I", more: object = {}): Buffer =>
  Buffer.concat([errorResponse(C, more), wire.readyForQuery(status)]);

/** An ErrorResponse that ends the session. */
export const fatal = (C: string, M = "no"): Buffer => errorResponse(C, { S: "FATAL", V: "FATAL", M });

/** An ErrorResponse of a server that does not send the severity twice, in field V too. */
export const errorWithoutV = (C: string, M = "no", S = "ERROR"): Buffer => wire.errorResponse({ S, C, M });

export const shutdown = (): Buffer => fatal("57P01", "terminating connection");

export const division = (): Buffer => errorResponse("22012", { M: "division by zero" });

// -- statements ------------------------------------------------------------------------------------------------------

/** CommandComplete and ReadyForQuery: the answer to a Query without rows, or the end of another flight. */
export const completeAndReady = (tag: string, status: Status = "I"): Buffer =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);

/** The answer to a statement without rows before another one in its flight: BEGIN, SAVEPOINT or a setting. */
export const ran = (tag: string): Buffer =>
  Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete(tag)]);

/** The answer to Parse, Describe, Sync. */
export const description = (columns: Column[] = [int4], parameters: number[] = [], status: Status = "I"): Buffer =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.parameterDescription(parameters)],
    ...[columns.length > 0 ? wire.rowDescription(columns) : wire.noData(), wire.readyForQuery(status)],
  ]);

/** The messages before the rows of an execution. */
export const begun = (): Buffer =>
  Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1])]);

/** Binary rows with the numbers from `from` to before `to`. */
export const rows = (from: number, to: number): Buffer =>
  Buffer.concat(Array.from({ length: to - from }, (_, at) => wire.dataRow([wire.int32(from + at)])));

/** The messages after this number of rows. */
export const ended = (count: number, status: Status = "I"): Buffer => completeAndReady(`SELECT ${count}`, status);

/** The messages after the rows of a cursor that may have more of them. */
export const suspended = (): Buffer => Buffer.concat([wire.message("s"), wire.readyForQuery("T")]);

/** The answer to an execution, with rows from `from` to before `to`. */
export const executed = (from = 7, to = from + 1, status: Status = "I"): Buffer =>
  Buffer.concat([begun(), rows(from, to), ended(to - from, status)]);

/** The same in a transaction. */
export const executedInside = (from = 1, to = from + 1): Buffer => executed(from, to, "T");

/** The answer to an execution of a statement without rows: an INSERT, or COMMIT. */
export const executedWithoutRows = (tag: string, status: Status = "I"): Buffer =>
  Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.noData(), completeAndReady(tag, status)]);

/** The answer to an execution that fails, and with it its transaction. */
export const failedInside = (C: string): Buffer => Buffer.concat([begun(), errorAndReady(C, "E")]);

// -- batches of described statements ---------------------------------------------------------------------------------

/** The answer to an item up to its rows. */
export const bound = (): Buffer => Buffer.concat([wire.bindComplete(), wire.rowDescription([int4], [1])]);

/** The rest of an item's answer, with one row. */
export const row = (n: number): Buffer => Buffer.concat([rows(n, n + 1), wire.commandComplete("SELECT 1")]);

/** The complete answer to an item with one row. */
export const boundRow = (n: number): Buffer => Buffer.concat([bound(), row(n)]);

// -- first runs ------------------------------------------------------------------------------------------------------

/**
 * The answers up to the check, which has passed, for a statement with these columns. `prelude`: the command tag of the
 * statement before it.
 */
export const checked = (columns = [int4], parameters: number[] = [], prelude?: string): Buffer =>
  answersOf([wire.parseComplete()], columns, parameters, prelude);

/** The same if the check was prepared before. */
export const checkedLater = (columns = [int4]): Buffer => answersOf([], columns, []);

function answersOf(prepared: Buffer[], columns: (typeof int4)[], parameters: number[], prelude?: string): Buffer {
  return Buffer.concat([
    wire.closeComplete(),
    ...(prelude ? [ran(prelude)] : []),
    ...firstDescribed(columns, parameters),
    ...prepared,
    wire.bindComplete(),
    wire.commandComplete("SELECT 0"),
  ]);
}

/** The answers to a first run up to its check, which is prepared or runs next. */
export const firstDescribed = (columns: Column[] = [int4], parameters: number[] = []): Buffer[] => [
  ...[wire.parseComplete(), wire.parameterDescription(parameters), wire.rowDescription(columns)],
];

/** Rows of one column, as text. */
export const textRows = (...values: (string | null)[]): Buffer =>
  Buffer.concat(values.map((value) => wire.dataRow([value === null ? null : Buffer.from(value)])));

/** The messages before the rows of a first run. */
export const firstBegun = (columns = [int4], parameters: number[] = [], prelude?: string): Buffer =>
  Buffer.concat([checked(columns, parameters, prelude), wire.bindComplete()]);

/** The answer to a first run, with rows of one column. */
export const firstExecuted = (...values: string[]): Buffer =>
  Buffer.concat([firstBegun(), textRows(...values), ended(values.length)]);

/** The answer to a first run behind BEGIN, with one row. */
export const firstInTransaction = (value: string, columns = [int4]): Buffer =>
  Buffer.concat([firstBegun(columns, [], "BEGIN"), textRows(value), ended(1, "T")]);

/** A check that fails for the types of these columns, or of these parameters. */
export const missesTypes = (columns: Column[], status: Status = "I", parameters: number[] = []): Buffer => {
  const M = 'invalid input syntax for type integer: "pgz-edge: types"';
  const before = [...firstDescribed(columns, parameters), wire.parseComplete(), wire.bindComplete()];
  return Buffer.concat([...before, errorAndReady("22P02", status, { M })]);
};

const json = { name: "json", oid: 114, size: -1 };

/** The catalog's answer to one of the driver's own queries. */
export const says = (answer: string): Buffer =>
  Buffer.concat([wire.rowDescription([json]), textRows(answer), ended(1)]);

// -- COPY ------------------------------------------------------------------------------------------------------------

/** A response with one column, as text or binary. */
const copyResponse = (letter: string, format: number) =>
  wire.message(letter, Buffer.of(format), wire.int16(1), wire.int16(format));
export const copyInResponse = (format = 0): Buffer => copyResponse("G", format);
export const copyOutResponse = (format = 0): Buffer => copyResponse("H", format);
export const copyData = (data: string | Uint8Array): Buffer => wire.message("d", Buffer.from(data));
export const copyDone = (): Buffer => wire.message("c");

/** A binary row with one int4. */
export const binaryRow = (value: number): Buffer => Buffer.concat([wire.int16(1), wire.int32(4), wire.int32(value)]);

/** The messages of a binary COPY of int4 with these values, up to CopyDone. */
export const binaryCopy = (...values: number[]): Buffer =>
  Buffer.concat([
    copyOutResponse(1),
    copyData(Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), Buffer.alloc(8)])),
    ...values.map((value) => copyData(binaryRow(value))),
    copyData(wire.int16(-1)),
    copyDone(),
  ]);

// -- notifications ---------------------------------------------------------------------------------------------------

/** A NotificationResponse on the channel "jobs". */
export const notified = (payload: string): Buffer =>
  wire.message("A", wire.int32(9), Buffer.from(`jobs\0${payload}\0`));

/** Many notifications, with the payloads "0", "1" … */
export const notifiedOften = (count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => notified(String(at))));
