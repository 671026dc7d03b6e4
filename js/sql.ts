// The sql tag: values become parameters ($1, $2, …), nested fragments are spliced in and renumbered, nothing is ever interpolated.
//
// Knows: SQL text only as far as a parameter's number and a quoted identifier. Must not know: types, connections, the wire.

import { UsageError } from "./errors.ts";
import { isText } from "./text.ts";

/** A statement: text with $1, $2, … and one value for each. */
export interface Query {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What a call accepts: the result of {@link sql}, `{ text, values }`, or text without parameters. */
export type QueryInput = Query | string;

export interface Sql {
  /**
   * A frozen {@link Query} that may also stand inside another template.
   *
   * @throws UsageError `INVALID_PARAMETER` for `undefined` (NULL is `null`), `INVALID_QUERY` for text with NUL or half a surrogate pair
   */
  (template: TemplateStringsArray, ...values: unknown[]): Query;
  /** `text` as SQL, as it is. Never with text from outside. */
  unsafe(text: string): Query;
  /** A quoted name; several make a qualified one: `sql.identifier("app", "users")` is `"app"."users"`. */
  identifier(...names: string[]): Query;
}

/** Statements with parameters; see {@link Sql}. */
export const sql: Sql = Object.assign((template: TemplateStringsArray, ...values: unknown[]): Query => new Fragment(template, values), {
  unsafe: (text: string): Query => new Fragment([checkedText(text)], []),
  identifier: (...names: string[]): Query => new Fragment([names.map(quoted).join(".") || quoted("")], []),
});

/**
 * The one form in which the rest of the driver sees a statement.
 *
 * @throws UsageError `INVALID_QUERY`, `INVALID_PARAMETER`
 */
export function toQuery(input: QueryInput | TemplateStringsArray, ...values: unknown[]): Query {
  if (input instanceof Fragment) return input;
  if (typeof input === "string") return { text: checkedText(input), values: [] };
  if (isTemplate(input)) return new Fragment(input, values);
  const query = input as Partial<Query> | null | undefined;
  const given = query?.values ?? [];
  if (typeof query?.text !== "string" || !Array.isArray(given)) throw new UsageError("INVALID_QUERY", "A query is sql`…`, text, or an object with text and an array of values.");
  return PARTS in query ? (query as Query) : { text: checkedText(query.text), values: given.map(defined) };
}

/** Registered, so that a fragment made by another copy of the package composes too. */
const PARTS = Symbol.for("pgz-edge.fragment");

interface Parts {
  readonly strings: readonly string[];
  /** One fewer than `strings`; values and fragments. */
  readonly values: readonly unknown[];
}

class Fragment implements Query {
  declare readonly [PARTS]: Parts;
  #compiled: Query | undefined;

  constructor(strings: readonly string[], values: readonly unknown[]) {
    Object.defineProperty(this, PARTS, { value: { strings, values } });
    // At once, so that a mistake shows where it was made.
    values.forEach(defined);
    Object.freeze(this);
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

  #query(): Query {
    return (this.#compiled ??= compile(this[PARTS]));
  }
}

function compile(parts: Parts): Query {
  const values: unknown[] = [];
  let text = "";
  let behindParameter = false;
  const append = ({ strings, values: own }: Parts): void => {
    strings.forEach((piece, index) => {
      // `${a}0` may not turn $1 into $10.
      text += behindParameter && /^\d/.test(piece) ? ` ${piece}` : piece;
      behindParameter &&= piece === "";
      if (index >= own.length) return;
      const nested = partsOf(own[index]);
      if (nested) return append(nested);
      text += `$${values.push(own[index])}`;
      behindParameter = true;
    });
  };
  append(parts);
  return Object.freeze({ text: checkedText(text), values: Object.freeze(values) });
}

function partsOf(value: unknown): Parts | undefined {
  return typeof value === "object" && value !== null ? (value as { [PARTS]?: Parts })[PARTS] : undefined;
}

function isTemplate(input: unknown): input is TemplateStringsArray {
  return Array.isArray(input) && Array.isArray((input as { raw?: unknown }).raw);
}

function defined(value: unknown, index: number): unknown {
  if (value !== undefined) return value;
  throw new UsageError("INVALID_PARAMETER", `Value ${index + 1} of the query is undefined: pass null for NULL.`);
}

function checkedText(text: string): string {
  if (isText(text)) return text;
  throw new UsageError("INVALID_QUERY", "SQL must be text without NUL or half a surrogate pair.");
}

function quoted(name: string): string {
  if (name === "") throw new UsageError("INVALID_QUERY", "An identifier cannot be empty.");
  return `"${checkedText(name).replaceAll('"', '""')}"`;
}
