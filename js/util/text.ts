// Checks text that PostgreSQL can hold, for options, SQL and parameters alike; and marks text that is JSON already.
import { UsageError } from "./errors.ts";

/**
 * Whether the value is text without NUL, which would end it on the wire, and without unpaired surrogates, which UTF-8
 * would turn into U+FFFD.
 */
export function isText(value: unknown): value is string {
  // With the u flag a surrogate matches only if it is unpaired.
  return typeof value === "string" && !/[\0\ud800-\udfff]/u.test(value);
}

/** The end of an error message about text that {@link isText} refuses. */
export const MUST = "must be text without NUL and without unpaired surrogates.";

/** Whether `await` would wait for the value: a promise, or for example a query builder. As JSON it would be `{}`. */
export function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

/**
 * Marks JSON text that is sent unchanged. A registered symbol, so that it also works between two copies of the package.
 */
const JSON_TEXT = Symbol.for("pgz-edge.json");

/** The result of `sql.json`: a parameter that is JSON, whatever its value. */
export class JsonText {
  declare readonly [JSON_TEXT]: string;

  /** @throws UsageError `INVALID_PARAMETER` for a value that JSON cannot represent */
  constructor(value: unknown) {
    if (isThenable(value)) throw new UsageError("INVALID_PARAMETER", "sql.json was given a promise: await it first.");
    let text;
    try {
      text = JSON.stringify(value);
    } catch {
      // Circular, or a bigint.
    }
    if (text === undefined)
      throw new UsageError("INVALID_PARAMETER", "sql.json needs a value that JSON can represent.");
    Object.defineProperty(this, JSON_TEXT, { value: text });
    Object.freeze(this);
  }

  /**
   * Inside another JSON value it is the value that it was made from.
   *
   * @example
   * JSON.stringify({ note: sql.json({ a: 1 }) }); // {"note":{"a":1}}
   */
  toJSON(): unknown {
    return JSON.parse(this[JSON_TEXT]);
  }
}

export function jsonTextOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null ? (value as { [JSON_TEXT]?: string })[JSON_TEXT] : undefined;
}
