// Rows of any number as one parameter for each column, so that the text is the same for each number of them: a
// statement that the server knows after its first run.
//
// A function of its own and no member of `sql`: a Worker that does not call it has none of it.
//
// Knows SQL text only as far as the name of a type, which the reader of SQL reads. Must not know: connections, how an
// array travels.
import { UsageError } from "../util/errors.ts";
import { SqlReader } from "../util/sql-reader.ts";
import { keepFlat } from "../values/serialize.ts";
import type { SqlRow } from "../values/parameter-types.ts";
import { fragment, isFragment, ownValue, sql, type Query } from "./sql.ts";

/**
 * `rows` as a table for `insert`, `from`, `using` or `in`: `(select … as "id", … as "name")`. `types` names the columns
 * in their order, and the type of each as SQL has it: a word such as `int4`, with its schema if it needs one, or a
 * fragment for any other: ``sql`double precision` ``. No rows are a table without rows.
 *
 * As with every SELECT, an insert takes the columns in their order, and not by their names. A type of text or bits has
 * no length here, and a char is `bpchar`: a cast to `varchar(20)` or `char` would cut a longer text without an error.
 *
 * The type must be said: PostgreSQL cannot know it from an array, and a text that depended on what the isolate happens
 * to know of the table would be another statement in the next one.
 *
 * @throws UsageError `INVALID_PARAMETER` for a row that lacks a column, has a fragment, or an array in a column that is
 * not of json, jsonb or a built-in multirange, because unnest would make several rows of it: the error's `row` is the
 * row's number. Another value that its type does not accept is refused when the query runs, with its `row`, and
 * with the number of its column among all of the statement's values as `parameter`. `INVALID_QUERY` for other arguments
 *
 * @example
 * const rows = [{ id: 7, name: "Grace" }, { id: 8, name: "Joan" }];
 * await db.exec(sql`insert into users (id, name) ${unnest(rows, { id: "int4", name: "text" })}`);
 * await db.exec(sql`update users set name = new.name
 *   from ${unnest(rows, { id: "int4", name: "text" })} as new where users.id = new.id`);
 */
export function unnest<Row extends object, Types extends Readonly<Record<string, string | Query>>>(
  rows: readonly (Row & RowOf<Row, Types>)[],
  types: Types,
): Query {
  if (!Array.isArray(rows)) throw new UsageError("INVALID_QUERY", "unnest needs an array of objects.");
  const columns = typeof types === "object" && !Array.isArray(types) ? Object.entries<unknown>(types ?? {}) : [];
  if (!columns.length)
    throw new UsageError("INVALID_QUERY", 'unnest needs the type of each column: unnest(rows, { id: "int4" }).');
  // In the list of SELECT and not in FROM, where a composite type would become a column for each of its attributes. As
  // one fragment, because a statement of many fragments is not cached.
  const ends = columns.map(([name, type]) => `::${typeOf(name, type)}[]) as ${sql.identifier(name).text}`);
  const last = ends.pop()!;
  // Read once, so that all columns are of the same rows. Not by map, which skips the holes of an array.
  const all = Array.from(rows);
  return fragment(
    ["(select pg_catalog.unnest(", ...ends.map((end) => `${end}, pg_catalog.unnest(`), `${last})`],
    columns.map(([name, type]) => valuesOf(all, name, takesArrays(type))),
  );
}

/** What a row must have, as far as the compiler knows its members and the columns. */
type RowOf<Row, Types> = string extends keyof Row
  ? SqlRow<string>
  : string extends keyof Types
    ? unknown
    : SqlRow<keyof Types>;

function valuesOf(rows: readonly object[], name: string, mayBeArray: boolean): unknown[] {
  const values = rows.map((row, index) => {
    try {
      return checked(name, ownValue(row, name), mayBeArray);
    } catch (error) {
      throw error instanceof UsageError ? Object.assign(error, { row: index }) : error; // a getter's own
    }
  });
  return mayBeArray ? values : keepFlat(values);
}

function checked(name: string, value: unknown, mayBeArray: boolean): unknown {
  if (isFragment(value))
    throw new UsageError("INVALID_PARAMETER", `Column "${name}" of unnest takes values, and no fragments of SQL.`);
  if (Array.isArray(value) && !mayBeArray) throw severalRows(name);
  return value;
}

function severalRows(name: string): UsageError {
  const why = `Column "${name}" has arrays, and unnest would make several rows of each`;
  return new UsageError(
    "INVALID_PARAMETER",
    `${why}: use sql.values, copyFromRows, type "jsonb", or for a vector its text (docs/queries.md).`,
  );
}

/** Whether an array is one value of the type: JSON, or the ranges of a multirange, whose text is made here. */
function takesArrays(type: unknown): boolean {
  return typeof type === "string" && /^(pg_catalog\.)?(jsonb?|(int[48]|num|date|ts|tstz)multirange)$/i.test(type);
}

/** A word has letters, digits and underscores, with one point at most: no other SQL can be written with these. */
const WORD = /^[a-z_]\w*(\.[a-z_]\w*)?$/i;

/** `name` has 63 bytes, and the others, without a length, one character or bit. */
const OF_ONE = new Set(["char", "character", "nchar", "national", "bit", "name"]);
const OF_ANY_LENGTH = new Set(["bpchar", "varchar", "varbit", "varying"]);

/** Whether a cast to the type, if it is a built-in one, cuts a longer value without an error. */
function cuts(type: string): boolean {
  const words: string[] = [];
  const symbols = new Set<string>();
  for (const reader = new SqlReader(type); reader.next() !== "end";) {
    if (reader.kind === "word" || reader.kind === "name") words.push(reader.name);
    else symbols.add(reader.text);
  }
  if (symbols.has(".") && words[0] !== "pg_catalog") return false;
  const hasLength = symbols.has("(");
  const isAny = words.some((word) => OF_ANY_LENGTH.has(word));
  return isAny ? hasLength : words.some((word) => OF_ONE.has(word));
}

function typeOf(column: string, type: unknown): string {
  const ofFragment = isFragment(type) && !type.values.length ? type.text : undefined;
  const text = ofFragment ?? type;
  if (typeof text === "string" && /\]\s*$/.test(text)) throw severalRows(column);
  if (typeof text === "string" && cuts(text))
    throw new UsageError(
      "INVALID_QUERY",
      `The type of column "${column}" would cut longer values: write "text", "bpchar", "varchar" or "varbit".`,
    );
  if (typeof text === "string" && (ofFragment?.trim() || WORD.test(text))) return text;
  throw new UsageError(
    "INVALID_QUERY",
    `The type of column "${column}" must be a word such as "int4" or "app.mood", or a fragment without a length: ` +
      "sql`double precision`.",
  );
}
