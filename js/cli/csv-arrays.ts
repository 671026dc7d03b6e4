// CSV whose arrays COPY reads: the driver writes an array as JSON, `[1,null,"a"]`, and PostgreSQL reads `{1,NULL,"a"}`.
//
// Knows CSV as the driver writes it, the tokens of JSON, and array literals. Must not know where rows come from. No
// number is read, so that each keeps its digits. A composite value within an array stays JSON, which nothing reads back.
import type { Client } from "../index.ts";

/** What a column holds: arrays of JSON values have one dimension, whatever is in them. */
export type ArrayKind = "array" | "array of JSON";

/** By column; `undefined` where there is no array in any. */
export async function arraysOf(client: Client, text: string): Promise<readonly (ArrayKind | undefined)[] | undefined> {
  const { fields } = await client.describe(text);
  const { rows } = await client.query<{ oid: number; of_json: boolean }>(KINDS, [fields.map(({ typeOid }) => typeOid)]);
  if (!rows.length) return undefined;
  const kinds = new Map(rows.map(({ oid, of_json }) => [oid, of_json ? "array of JSON" : "array"] as const));
  return fields.map(({ typeOid }) => kinds.get(typeOid));
}

const KINDS = `select t.oid, e.typname in ('json', 'jsonb') as of_json
  from pg_catalog.pg_type t join pg_catalog.pg_type e on e.oid = t.typelem
  where t.oid = any($1) and t.typcategory = 'A'`;

/** The same CSV with array literals in these columns. `hasHeader`: its first line is names. */
export async function* withArrays(
  data: AsyncIterable<Uint8Array>,
  kinds: readonly (ArrayKind | undefined)[],
  hasHeader: boolean,
): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = "";
  let isHeader = hasHeader;
  for await (const piece of data) {
    rest += decoder.decode(piece, { stream: true });
    const { rows, end } = rowsIn(rest);
    const lines = rows.map((row, at) => (isHeader && at === 0 ? row : row.map((cell, i) => rewritten(cell, kinds[i]))));
    if (rows.length) isHeader = false;
    rest = rest.slice(end);
    if (lines.length) yield encoder.encode(lines.map((row) => `${row.join(",")}\r\n`).join(""));
  }
  if (rest) yield encoder.encode(rest);
}

/** Cells as they are written, of all rows that end in this text. */
function rowsIn(text: string): { rows: string[][]; end: number } {
  const rows: string[][] = [];
  let row: string[] = [];
  let end = 0;
  for (const { 1: cell = "", 2: behind = "", index, 0: whole } of text.matchAll(CELL)) {
    row.push(cell);
    if (behind === ",") continue;
    if (behind === "") break; // it may go on
    rows.push(row);
    row = [];
    end = index + whole.length;
  }
  return { rows, end };
}

/** Sticky: a cell in quotes that goes on in the next piece is none, and nothing behind it is. */
const CELL = /("(?:[^"]|"")*"|[^,"\r\n]*)(,|\r\n|$)/gy;

function rewritten(cell: string, kind: ArrayKind | undefined): string {
  if (kind === undefined || cell === "") return cell;
  const json = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell;
  // What has no binary form is the server's text already.
  return json.startsWith("[") ? `"${arrayLiteral(json, kind).replaceAll('"', '""')}"` : cell;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{},]|[^[\]{},"\s]+/g;

/** `["a",[null]]` to `{"a",{NULL}}`. */
export function arrayLiteral(json: string, kind: ArrayKind): string {
  let literal = "";
  /** Of an element that is JSON itself: its text so far, and how deep it is. */
  let inside = "";
  let depth = 0;
  const deepest = kind === "array of JSON" ? 1 : Infinity;
  let dimensions = 0;
  for (const [token] of json.matchAll(TOKEN)) {
    const opens = token === "{" || (token === "[" && dimensions === deepest);
    if (depth || opens) {
      inside += token;
      if (token === "{" || token === "[") depth++;
      else if (token === "}" || token === "]") depth--;
      if (!depth) {
        literal += quoted(inside);
        inside = "";
      }
    } else if (token === "[") {
      dimensions++;
      literal += "{";
    } else if (token === "]") {
      dimensions--;
      literal += "}";
    } else literal += elementOf(token, kind);
  }
  return literal;
}

function elementOf(token: string, kind: ArrayKind): string {
  if (token === ",") return ",";
  if (token === "null") return "NULL";
  if (!token.startsWith('"')) return token;
  return quoted(kind === "array of JSON" ? token : (JSON.parse(token) as string));
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}
