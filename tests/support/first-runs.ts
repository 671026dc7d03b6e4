// The messages of a first run and the server's answers, for tests with sockets in memory.
//
// Knows messages and their order. Must not know sessions or clients.
import { int4 } from "./memory-session.ts";
import * as wire from "./wire.mjs";

/** The flight of a first run. */
export const firstFlight = ["Close", "Parse", "Parse", "Bind", "Execute", "Describe", "Bind", "Execute", "Sync"];
/** The flight of a description. */
export const described = ["Parse", "Describe", "Sync"];

/** The flight from the third first run on: the second has prepared the check. */
export const laterFlight = ["Close", "Parse", "Bind", "Execute", "Describe", "Bind", "Execute", "Sync"];

/** The flight with BEGIN or a similar statement before it. */
export const behindPrelude = ["Close", "Parse", "Bind", "Execute", ...firstFlight.slice(1)];

/**
 * The answers up to the description, for a statement with these columns. `prelude`: the command tag of the statement
 * before it.
 */
export function checked(columns = [int4], parameters: number[] = [], prelude?: string): Buffer {
  return answersOf([wire.parseComplete()], columns, parameters, prelude);
}

/** The same if the check was prepared before. */
export function checkedLater(columns = [int4]): Buffer {
  return answersOf([], columns, []);
}

function answersOf(prepared: Buffer[], columns: (typeof int4)[], parameters: number[], prelude?: string): Buffer {
  return Buffer.concat([
    wire.closeComplete(),
    ...(prelude ? [wire.parseComplete(), wire.bindComplete(), wire.commandComplete(prelude)] : []),
    wire.parseComplete(),
    ...prepared,
    wire.bindComplete(),
    wire.commandComplete("SELECT 0"),
    wire.parameterDescription(parameters),
    wire.rowDescription(columns),
  ]);
}

/** Rows of one column, as text. */
export function texts(...values: (string | null)[]): Buffer {
  return Buffer.concat(values.map((value) => wire.dataRow([value === null ? null : Buffer.from(value)])));
}

/** The messages after the rows. */
export function over(count: number, status = "I"): Buffer {
  return Buffer.concat([wire.commandComplete(`SELECT ${count}`), wire.readyForQuery(status as "I")]);
}

/** An error that ends its flight. */
export function failed(code: string, message = "no"): Buffer {
  return Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: message }), wire.readyForQuery()]);
}

const json = { name: "json", oid: 114, size: -1 };

/** The catalog's answer to one of the driver's own queries. */
export function says(answer: string): Buffer {
  return Buffer.concat([wire.rowDescription([json]), texts(answer), over(1)]);
}

/** A check that fails because the driver must first query the catalog for these column types. */
export function missesTypes(oids: readonly number[], status = "I"): Buffer {
  const message = `invalid input syntax for type integer: "pgz-edge: columns {${oids.join()}}"`;
  return Buffer.concat([
    ...[wire.parseComplete(), wire.parseComplete(), wire.bindComplete()],
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: "22P02", M: message }),
    wire.readyForQuery(status as "I"),
  ]);
}
