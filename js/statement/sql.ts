// The sql tag: values become parameters ($1, $2, …), and nested fragments are spliced in and renumbered. Nothing is
// ever interpolated.
//
// Knows: SQL text only as far as a parameter's number and a quoted identifier. Must not know: types, connections, the
// wire.

import { checkObject } from "../config/rules.ts";
import { UsageError } from "../util/errors.ts";
import { shownWith } from "../util/shown.ts";
import { shownSql } from "../util/shown-sql.ts";
import { LONGEST_KEY, LONGEST_TEMPLATE, MOST_STEPS } from "../util/limits.ts";
import { JsonText } from "../util/json.ts";
import { isText, isWholeName, MUST, MUST_BE_WHOLE } from "../util/text.ts";
import type { SqlRow, SqlValue, TakenBy } from "../values/parameter-types.ts";

/** Exists only in types: no query has such a member. */
declare const ROW: unique symbol;
interface HasRow<Said> {
  [ROW]?(said: Said): void;
}
/** If no row type is given, there is nothing from which the compiler could infer one. */
type RowMark<Row> = [Row] extends [never] ? object : { readonly row: Row };

/**
 * A statement: text with `$1`, `$2` … and one value for each. `Row` is the type of its rows, if one was given
 * (docs/queries.md); it exists only for the compiler. A query with a row type can be used as a query without one, and
 * the other way round, because the parameters of a method may differ in both directions.
 */
export interface Query<Row = never> extends HasRow<RowMark<Row>> {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What a call accepts: the result of {@link sql}, an object with `text` and `values` and nothing else, or text. */
export type QueryInput<Row = never> = Query<Row> | string;

/**
 * {@link QueryInput} as the parameter of a call that gives rows. It is another interface, so the compiler infers by
 * members, and finds no `Row` if none was given. From {@link Query} it would infer by the name, and find `never`.
 */
export type RowInput<Row> = RowQuery<Row> | string;
interface RowQuery<Row> extends HasRow<RowMark<Row>> {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** The rows of a query; `Otherwise` if it has no row type. */
export type RowOf<Input, Otherwise = Record<string, unknown>> =
  Input extends HasRow<infer Found> ? (Found extends { readonly row: infer Row } ? Row : Otherwise) : Otherwise;

/** `unknown` if at least one query of the list has a row type; otherwise `never`. */
export type SomeHaveRow<Queries extends readonly QueryInput[]> = [RowOf<Queries[number], never>] extends [never]
  ? never
  : unknown;

/**
 * The `sql` tag and its helpers (docs/queries.md). Values become parameters, never SQL text.
 *
 * @example
 * const active = sql`active = ${true}`;
 * sql`select * from ${sql.identifier("users")} where ${active} and id in ${sql.in([1, 2])}`;
 * sql`insert into users ${sql.values([{ id: 7, name: "Grace" }])}`;
 */
export interface Sql {
  /**
   * Makes a {@link Query} that cannot be changed. It may be used inside another template.
   *
   * @throws UsageError `INVALID_PARAMETER` for `undefined` (NULL is `null`), `INVALID_QUERY` for text with NUL or an
   * unpaired surrogate
   */
  (template: TemplateStringsArray, ...values: SqlValue[]): Query;
  /**
   * The same, with a type for its rows: calls that run it return rows of this type.
   *
   * @example
   * const { rows } = await client.query(sql<{ name: string }>`select name from users where id = ${7}`);
   */
  <Row>(template: TemplateStringsArray, ...values: TakenBy<Row>): Query<Row>;
  /**
   * `text` as SQL, unchanged. Never use it with text from outside. With `values` for its `$1`, `$2` … it is a whole
   * statement, and cannot be used inside another template.
   *
   * @example
   * sql`select * from log order by ${sql.unsafe(isNewest ? "at desc" : "at")}`;
   */
  unsafe(text: string, values?: readonly unknown[]): Query;
  /**
   * A quoted name. Several names make a qualified one: `sql.identifier("app", "users")` is `"app"."users"`.
   *
   * @example
   * sql`select * from ${sql.identifier(schema, "users")}`;
   */
  identifier(...names: string[]): Query;
  /**
   * Fragments and values with `separator` between them (default `, `). An empty list becomes nothing.
   *
   * @example
   * sql`select * from users where ${sql.join([sql`active`, sql`age > ${18}`], sql` and `)}`;
   */
  join(parts: readonly SqlValue[], separator?: Query): Query;
  /**
   * `($1, $2)` for `in`. An empty list is refused (`INVALID_QUERY`); `= any(${list})` takes one.
   *
   * @example
   * sql`select * from users where id in ${sql.in([1, 2])}`;
   */
  in(values: readonly SqlValue[]): Query;
  /**
   * For update: `"a" = $1, "b" = $2`, with these columns, or with all of the object's own properties.
   *
   * @example
   * sql`update users set ${sql.set({ name: "Ann", age: 36 })} where id = ${7}`;
   */
  set<Row extends object, Column extends keyof Row & string = keyof Row & string>(
    row: Row & Partial<SqlRow<Column>>,
    ...columns: Column[]
  ): Query;
  /**
   * For insert: `("a", "b") values ($1, $2), ($3, $4)`, with these columns, or with all of the first row's own
   * properties. Rows that are arrays give `values ($1, $2)` without names. A row that lacks a column is refused
   * (`INVALID_PARAMETER`). So are an empty list, and a row with a member that the first row lacks, unless the columns
   * are named (`INVALID_QUERY`). One row may be given without a list. For hundreds of rows take `unnest`, whose text is
   * the same for any number of them.
   *
   * @example
   * sql`insert into users ${sql.values([{ id: 7, name: "Grace" }])}`;
   */
  values(rows: readonly (readonly SqlValue[])[]): Query;
  values<Row extends SqlRow<string>>(
    rows: string extends keyof Row ? Row | readonly Row[] : never,
    ...columns: string[]
  ): Query;
  values<Row extends object, Column extends keyof Row & string = keyof Row & string>(
    row: Row & SqlRow<Column> & { readonly [Symbol.iterator]?: never },
    ...columns: Column[]
  ): Query;
  values<Row extends object, Column extends keyof Row & string = keyof Row & string>(
    rows: readonly (Row & SqlRow<Column>)[],
    ...columns: Column[]
  ): Query;
  /**
   * Returns the row, or rows, with column names for its members: `createdAt` becomes `created_at`. For `sql.values`,
   * `sql.set` and `unnest`, if rows are read with `columnNames: "camelCase"`.
   *
   * @example
   * sql`insert into users ${sql.values(sql.snakeCase({ id: 7, createdAt: new Date() }))}`;
   */
  snakeCase<Row extends object>(row: Row & Partial<SqlRow<keyof Row>>): Record<string, SqlValue>;
  snakeCase<Row extends object>(rows: readonly (Row & Partial<SqlRow<keyof Row>>)[]): Record<string, SqlValue>[];
  /**
   * A parameter that is always encoded as JSON. A plain string for a parameter of type json is sent unchanged, as JSON
   * text; `sql.json("x")` sends the JSON string `"x"`.
   *
   * @example
   * sql`insert into notes (body) values (${sql.json("a string of JSON")})`;
   */
  json(value: unknown): JsonText;
}

/** Makes statements with parameters; see {@link Sql}. */
export const sql: Sql = Object.assign(tag, {
  unsafe: (text: string, values?: readonly unknown[]): Query =>
    values === undefined ? new Fragment([checkedText(text)], []) : new Whole(text, values),
  identifier: (...names: string[]): Query => new Fragment([names.map(quoted).join(".") || quoted("")], []),
  join: (parts: readonly unknown[], separator = COMMA): Query => {
    if (!Array.isArray(parts)) throw new UsageError("INVALID_QUERY", "sql.join needs an array of fragments or values.");
    if (!partsOf(separator))
      throw new UsageError("INVALID_QUERY", "The separator of sql.join is a fragment, such as sql` and `.");
    const all = parts.flatMap((part, index) => (index ? [separator, part] : [part]));
    return new Fragment(Array<string>(all.length + 1).fill(""), all);
  },
  in: (values: readonly unknown[]): Query =>
    new Fragment(["(", ...Array<string>(some(values).length - 1).fill(", "), ")"], [...values]),
  set(row: object, ...columns: string[]): Query {
    const names = columnsOf(row, columns, "sql.set needs an object with at least one column to set.");
    return new Fragment(
      [...names.map((name, index) => `${index ? ", " : ""}${quoted(name)} = `), ""],
      names.map((name) => ownValue(row, name)),
    );
  },
  values(given: object, ...columns: string[]): Query {
    const rows = Array.isArray(given) || typeof given !== "object" ? some(given as readonly object[]) : [given];
    const [first] = rows;
    if (Array.isArray(first) && columns.length)
      throw new UsageError(
        "INVALID_QUERY",
        "Rows that are arrays have no columns to choose: write the names in front, as in insert into t (a, b).",
      );
    const names = Array.isArray(first) ? undefined : columnsOf(first!, columns, ROWS);
    const width = names?.length ?? (first as unknown[]).length;
    const head = `${names ? `(${names.map(quoted).join(", ")}) ` : ""}values (`;
    const tuples = rows.map((row) => {
      const tuple = names ? names.map((name) => ownValue(row, name)) : some(row as unknown[]);
      if (names && !columns.length) checkNoOther(row, names);
      if (tuple.length !== width)
        throw new UsageError("INVALID_QUERY", `A row has ${tuple.length} values, but the first row has ${width}.`);
      return tuple;
    });
    const strings = tuples.flatMap((_, index) => [index ? "), (" : head, ...Array<string>(width - 1).fill(", ")]);
    return new Fragment([...strings, ")"], tuples.flat());
  },
  snakeCase: snakeCase as Sql["snakeCase"],
  json: (value: unknown): JsonText => new JsonText(value),
});

function snakeCase(given: object | readonly object[]): object {
  if (Array.isArray(given)) return given.map((row: object) => snakeCase(row));
  if (typeof given !== "object" || given === null)
    throw new UsageError("INVALID_QUERY", "sql.snakeCase needs an object, or an array of objects.");
  const column = (name: string) => name.replace(/(?<=[^_])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const columns = Object.entries(given).map(([name, value]) => [column(name), value as unknown] as const);
  const row = Object.fromEntries(columns);
  if (Object.keys(row).length === columns.length) return row;
  throw new UsageError(
    "INVALID_QUERY",
    "sql.snakeCase would make one column of two members, as of createdAt and created_at.",
  );
}

function tag(template: TemplateStringsArray, ...values: unknown[]): Query {
  if (isTemplate(template)) return new Fragment(template, values);
  // A list, as other drivers' sql(ids) takes it, would become SQL text.
  throw new UsageError("INVALID_QUERY", "Write sql`…`, or use sql.in, sql.values, sql.set or sql.identifier.");
}

function some<T>(list: readonly T[]): readonly T[] {
  if (Array.isArray(list) && list.length) return list;
  throw new UsageError(
    "INVALID_QUERY",
    "A list of values must be an array with at least one value: skip the statement, or use = any(array).",
  );
}

const ROWS = "sql.values needs rows: objects with at least one column each, or arrays of values.";

function columnsOf(row: object, columns: readonly string[], must: string): readonly string[] {
  const names = columns.length ? columns : Object.keys(Object(row) as object);
  if (typeof row === "object" && names.length) return names;
  throw new UsageError("INVALID_QUERY", must);
}

/** A value that the first row has no column for would be dropped. */
function checkNoOther(row: object, names: readonly string[]): void {
  const values = row as Readonly<Record<string, unknown>>;
  const other = Object.keys(values).find((name) => !names.includes(name) && values[name] !== undefined);
  if (other === undefined) return;
  throw new UsageError(
    "INVALID_QUERY",
    `A row has a value for "${other}", and the first row has none: name the columns, sql.values(rows, "a", "b").`,
  );
}

/** Only own properties. A row is any object: an interface has no index signature, so it is no Record. */
export function ownValue(row: object, name: string): unknown {
  const values = row as Readonly<Record<string, unknown>>;
  if (typeof row === "object" && row !== null && Object.hasOwn(row, name) && values[name] !== undefined)
    return values[name];
  throw new UsageError("INVALID_PARAMETER", `A row has no value for column "${name}": pass null for NULL.`);
}

/**
 * The only form in which the rest of the driver sees a statement.
 *
 * @throws UsageError `INVALID_QUERY`, `INVALID_PARAMETER`
 */
export function toQuery(input: QueryInput): Query {
  if (input instanceof Fragment || input instanceof Whole) return input;
  if (typeof input === "string") return { text: checkedText(input), values: [] };
  checkNoTag(input);
  const query = input as Partial<Query> | null | undefined;
  const given = query?.values ?? [];
  if (typeof query?.text !== "string" || !Array.isArray(given))
    throw new UsageError("INVALID_QUERY", "A query is sql`…`, text, or an object with text and an array of values.");
  if (PARTS in query) return query as Query;
  checkMembers(query);
  return { text: checkedText(query.text), values: given.map(numbered) };
}

/** Throws for the strings of a template: the call was written as a tag, and is none. */
export function checkNoTag(input: unknown): void {
  if (!isTemplate(input)) return;
  throw new UsageError(
    "INVALID_QUERY",
    "Of all calls only query, first, rows and exec are tags: write the others as stream(sql`…`).",
  );
}

/**
 * Reads the arguments of a call up to its options: a query; a template with its values; or a text and an array of
 * values, as pg takes them.
 */
export function toCall(input: QueryInput | TemplateStringsArray, given: readonly unknown[]): [Query, options: object] {
  if (isTemplate(input)) return [new Fragment(input, given), NO_OPTIONS];
  const [values] = given;
  const hasValues = typeof input === "string" && Array.isArray(values);
  const query = hasValues ? new Whole(input, values) : toQuery(input);
  const rest = hasValues ? given.slice(1) : given;
  const [options = NO_OPTIONS] = rest;
  checkObject(options);
  // Mostly a callback.
  for (let at = 1; at < rest.length; at++)
    if (rest[at] !== undefined) checkObject(typeof rest[at] === "function" ? rest[at] : undefined);
  return [query, options as object];
}

const NO_OPTIONS: object = Object.freeze({});

/** Other members, which pg's query objects have, would be ignored. Objects of other classes have what they need. */
function checkMembers(query: object): void {
  const prototype: unknown = Object.getPrototypeOf(query);
  if (prototype !== Object.prototype && prototype !== null) return;
  for (const name of Object.keys(query))
    if (name !== "text" && name !== "values" && (query as Record<string, unknown>)[name] !== undefined)
      throw new UsageError(
        "INVALID_QUERY",
        `A query object has text and values, and no "${name}": ${insteadOf(name)}.`,
      );
}

function insteadOf(name: string): string {
  if (name === "name") return "the driver names prepared statements itself (option prepare)";
  return "options are the next argument, query({ text, values }, { rowMode })";
}

/** The text of SQL that has no place for values. */
export function plainText(input: QueryInput): string {
  const { text, values } = toQuery(input);
  if (values.length)
    throw new UsageError("INVALID_QUERY", "COPY takes no parameters: use rows() for a query that has some.");
  return text;
}

/** Registered, so that a fragment made by another copy of the package composes too. */
const PARTS = Symbol.for("pgz-edge.fragment");

interface Parts {
  readonly strings: readonly string[];
  /** One fewer than `strings`; values and fragments. */
  readonly values: readonly unknown[];
}

/** Without the values, which may be secrets. */
function shownQuery({ text, values: { length } }: Query): object {
  return { text: shownSql(text), values: `${length} value${length === 1 ? "" : "s"}` };
}

/** JavaScript would write `[object Object]`, and the server would take it for SQL, or store it. */
function refuseText(): never {
  throw new UsageError(
    "INVALID_QUERY",
    "A query inside a text: put sql in front of the outer template, sql`… ${fragment}`, or read the query's .text.",
  );
}

/** A text with values for its own `$1`, `$2` …: nothing can be nested in it, and it cannot be nested. */
class Whole implements Query {
  static {
    shownWith(this, "Query", shownQuery);
  }
  readonly text: string;
  readonly values: readonly unknown[];

  constructor(text: string, values: readonly unknown[]) {
    this.text = checkedText(text);
    if (!Array.isArray(values)) throw new UsageError("INVALID_QUERY", "The values of $1, $2 … must be an array.");
    this.values = Object.freeze(values.map(numbered));
    Object.freeze(this);
  }

  toString(): string {
    return refuseText();
  }
}

class Fragment implements Query {
  static {
    shownWith(this, "Query", shownQuery);
  }
  // Private members and getters make it immutable, at a quarter of the cost of defining and freezing properties.
  readonly #parts: Parts;
  #compiled: Query | undefined;

  constructor(strings: readonly string[], values: readonly unknown[]) {
    // Checked here, so that the error's stack shows where the mistake was made.
    for (let index = 0; index < values.length; index++) {
      const value = values[index];
      if (value === undefined || value instanceof Whole) refuse(value, index, strings[index]!);
    }
    this.#parts = { strings, values };
  }

  get [PARTS](): Parts {
    return this.#parts;
  }

  get text(): string {
    return this.#query().text;
  }

  get values(): readonly unknown[] {
    return this.#query().values;
  }

  toJSON(): Query {
    return this.#query();
  }

  toString(): string {
    return refuseText();
  }

  #query(): Query {
    return (this.#compiled ??= compile(this.#parts));
  }
}

const COMMA: Query = new Fragment([", "], []);

/**
 * The compiled texts: nested maps, with one step for each template and value of a statement in their order. The text is
 * at the end.
 */
interface Node extends Map<unknown, Node> {
  text?: string;
}
let compiled: Node = new Map();
let kept = 0;
const VALUE = Symbol("value");

/**
 * The text depends only on the templates and on which of their values are fragments, so these are the path to it. Each
 * template has a fixed number of values, so no path is the beginning of another one.
 */
function compile(parts: Parts): Query {
  const values: unknown[] = [];
  let node: Node | undefined = compiled;
  let steps = 0;
  const step = (key: unknown) => {
    let next: Node | undefined;
    if (
      node &&
      key !== undefined &&
      ++steps <= LONGEST_TEMPLATE &&
      !(typeof key === "string" && key.length > LONGEST_KEY)
    ) {
      next = node.get(key);
      if (!next) {
        node.set(key, (next = new Map()));
        kept++;
      }
    }
    node = next;
  };
  step(keyOf(parts.strings));
  let place: Place | undefined = placeIn(parts);
  while (place) {
    const { values: own } = place.parts;
    if (place.next === own.length) {
      place = place.outer;
      continue;
    }
    const value: unknown = own[place.next++];
    const nested = partsOf(value);
    if (nested) {
      step(keyOf(nested.strings));
      place = placeIn(nested, place);
    } else if (isList(value)) {
      step(value.length);
      place = placeIn({ strings: NONE, values: value }, place);
    } else {
      step(VALUE);
      values.push(value);
    }
  }
  const text = node?.text ?? textOf(parts);
  if (node) node.text = text;
  if (kept > MOST_STEPS) {
    compiled = new Map();
    kept = 0;
  }
  return { text, values };
}

/** A template is identified by itself, anything else by its content. */
function keyOf(strings: readonly string[]): unknown {
  if (isTemplate(strings)) return strings;
  return strings.length > LONGEST_TEMPLATE ? undefined : JSON.stringify(strings);
}

/** How far a fragment, or a list of fragments, is read. Fragments may be nested deeper than functions can be. */
interface Place {
  readonly parts: Parts;
  /** The index of the next string and value. */
  next: number;
  /** The place of the fragment that this one is in. */
  readonly outer: Place | undefined;
}

function placeIn(parts: Parts, outer?: Place): Place {
  return { parts, next: 0, outer };
}

/** The strings of a list of fragments. */
const NONE: readonly string[] = [];

/** A list of fragments, to be written one after the other. */
function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.length > 0 && value.every(partsOf);
}

/** Without the cache. */
function textOf(parts: Parts): string {
  let text = "";
  let parameters = 0;
  let followsParameter = false;
  let place: Place | undefined = placeIn(parts);
  while (place) {
    const { strings, values: own } = place.parts;
    const index: number = place.next++;
    const piece = strings[index] ?? "";
    // `${a}0` must not turn $1 into $10.
    text += followsParameter && /^\d/.test(piece) ? ` ${piece}` : piece;
    followsParameter &&= piece === "";
    if (index === own.length) {
      place = place.outer;
      continue;
    }
    const value = own[index];
    const nested = partsOf(value);
    if (nested) place = placeIn(nested, place);
    else if (isList(value)) place = placeIn({ strings: NONE, values: value }, place);
    else {
      text += `$${++parameters}`;
      followsParameter = true;
    }
  }
  return checkedText(text);
}

function partsOf(value: unknown): Parts | undefined {
  return typeof value === "object" && value !== null ? (value as { [PARTS]?: Parts })[PARTS] : undefined;
}

/** A fragment of these strings, with a value between each two of them. */
export function fragment(strings: readonly string[], values: readonly unknown[]): Query {
  return new Fragment(strings, values);
}

/** Whether the value is SQL that a template takes in. */
export function isFragment(value: unknown): value is Query {
  return partsOf(value) !== undefined;
}

function isTemplate(input: unknown): input is TemplateStringsArray {
  return Array.isArray(input) && Array.isArray((input as { raw?: unknown }).raw);
}

/** @throws UsageError `INVALID_PARAMETER` */
function numbered(value: unknown, index: number): unknown {
  if (value !== undefined) return value;
  throw new UsageError("INVALID_PARAMETER", `The value of $${index + 1} is undefined: pass null for NULL.`);
}

/** Names the value by the words in front of it. */
function refuse(value: unknown, index: number, before: string): never {
  if (value !== undefined)
    throw new UsageError(
      "INVALID_QUERY",
      "A query of bind(), or of sql.unsafe with values, is a whole statement: write sql`…` to put it inside.",
    );
  const words = before.trim().split(/\s+/).slice(-5).join(" ").slice(-60);
  const place = /\w/.test(words) ? `, after "${words}",` : "";
  throw new UsageError(
    "INVALID_PARAMETER",
    `Value ${index + 1} of the query${place} is undefined: pass null for NULL.`,
  );
}

function checkedText(text: string): string {
  if (isText(text)) return text;
  throw new UsageError("INVALID_QUERY", `SQL ${MUST}`);
}

function quoted(name: string): string {
  if (name === "") throw new UsageError("INVALID_QUERY", "An identifier cannot be empty.");
  if (typeof name !== "string") throw new UsageError("INVALID_QUERY", "An identifier must be text.");
  checkedText(name);
  if (!isWholeName(name))
    throw new UsageError("INVALID_QUERY", `The identifier "${name.slice(0, 20)}…" ${MUST_BE_WHOLE}`);
  return `"${name.replaceAll('"', '""')}"`;
}
