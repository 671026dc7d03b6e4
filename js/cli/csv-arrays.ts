// Rewrites the arrays in CSV so that COPY can read them: the driver writes an array as JSON, `[1,null,"a"]`; PostgreSQL
// reads `{1,NULL,"a"}`.
//
// Knows CSV as the driver writes it, the tokens of JSON, and array literals. Must not know where rows come from. No
// number is parsed, so each keeps its digits. A composite value within an array stays JSON, which COPY refuses.
import type { Client } from "../index.ts";
import { EQ } from "../util/operators.ts";

/** The kind of a column's arrays. */
export interface ArrayKind {
  /** Arrays of JSON values count as one-dimensional, because inner brackets may belong to a value. */
  readonly ofJson: boolean;
  /** What stands between elements: a comma, except where their type says otherwise (box, PostGIS). */
  readonly delimiter: string;
}

/** Returns the kind of each column's arrays; `undefined` if no column has arrays. */
export async function arraysOf(client: Client, text: string): Promise<readonly (ArrayKind | undefined)[] | undefined> {
  const { fields } = await client.describe(text);
  const oids = fields.map(({ typeOid }) => typeOid);
  const { rows } = await client.query<{ oid: number; of_json: boolean; delimiter: string }>(KINDS, [oids]);
  if (!rows.length) return undefined;
  const kinds = new Map(rows.map(({ oid, of_json: ofJson, delimiter }) => [oid, { ofJson, delimiter }]));
  return fields.map(({ typeOid }) => kinds.get(typeOid));
}

export const KINDS = `select t.oid, e.typname ${EQ} any (array['json', 'jsonb']) as of_json,
    e.typdelim as delimiter
  from pg_catalog.pg_type t join pg_catalog.pg_type e on e.oid ${EQ} t.typelem
  where t.oid ${EQ} any ($1) and t.typcategory ${EQ} 'A'`;

/** Yields the same CSV with array literals in these columns. `hasHeader`: the first line has names. */
export async function* withArrays(
  data: AsyncIterable<Uint8Array>,
  kinds: readonly (ArrayKind | undefined)[],
  hasHeader: boolean,
): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = "";
  let isHeader = hasHeader;
  let quotes = 0;
  for await (const piece of data) {
    const text = decoder.decode(piece, { stream: true });
    rest += text;
    // No row ends within quotes. The check also keeps a long cell from being read again with each piece of it.
    for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) quotes++;
    if (quotes % 2) continue;
    const { rows, end } = rowsIn(rest);
    const lines = rows.map((row, at) => (isHeader && at === 0 ? row : row.map((cell, i) => rewritten(cell, kinds[i]))));
    if (rows.length) isHeader = false;
    rest = rest.slice(end);
    if (lines.length) yield encoder.encode(lines.map((row) => `${row.join(",")}\r\n`).join(""));
  }
  if (rest) yield encoder.encode(rest);
}

/** Returns the cells, as they are written, of all rows that end in this text, and the index after these rows. */
function rowsIn(text: string): { rows: string[][]; end: number } {
  const rows: string[][] = [];
  let row: string[] = [];
  let end = 0;
  for (let at = 0; ;) {
    const behind = afterCell(text, at);
    row.push(text.slice(at, behind));
    if (text[behind] === ",") at = behind + 1;
    else if (!text.startsWith("\r\n", behind)) return { rows, end }; // the row may continue
    else {
      rows.push(row);
      row = [];
      at = end = behind + 2;
    }
  }
}

/**
 * Returns the index after the cell. Not a regular expression: one with alternatives stores something for each character
 * of a long cell.
 */
function afterCell(text: string, from: number): number {
  if (text[from] !== '"') {
    PLAIN.lastIndex = from;
    return from + PLAIN.exec(text)![0].length;
  }
  for (let at = from + 1; ;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    if (text[quote + 1] !== '"') return quote + 1;
    at = quote + 2;
  }
}

const PLAIN = /[^,\r\n]*/y;

function rewritten(cell: string, kind: ArrayKind | undefined): string {
  if (kind === undefined || cell === "") return cell;
  const json = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell;
  // An array of a type that the driver cannot read is the server's text already.
  return json.startsWith("[") ? `"${arrayLiteral(json, kind).replaceAll('"', '""')}"` : cell;
}

/** Yields the tokens of JSON: strings, brackets, commas, and the texts between them. */
function* tokensOf(json: string): Generator<string> {
  for (let at = 0; at < json.length;) {
    OTHER.lastIndex = at;
    const end = json[at] === '"' ? afterString(json, at) : at + (OTHER.exec(json)?.[0].length || 1);
    const token = json.slice(at, end);
    if (token.trim()) yield token;
    at = end;
  }
}

function afterString(json: string, from: number): number {
  for (let at = from + 1; at < json.length; at++) {
    if (json[at] === "\\") at++;
    else if (json[at] === '"') return at + 1;
  }
  return json.length;
}

const OTHER = /[^[\]{},"\s]+/y;

/** Turns `["a",[null]]` into `{"a",{NULL}}`. */
export function arrayLiteral(json: string, kind: ArrayKind): string {
  let literal = "";
  /** The text so far of an element that is itself JSON. `depth` is its nesting. */
  let inside = "";
  let depth = 0;
  const deepest = kind.ofJson ? 1 : Infinity;
  let dimensions = 0;
  for (const token of tokensOf(json)) {
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

function elementOf(token: string, { ofJson, delimiter }: ArrayKind): string {
  if (token === ",") return delimiter;
  if (token === "null") return "NULL";
  if (!token.startsWith('"')) return token;
  return quoted(ofJson ? token : (JSON.parse(token) as string));
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}
