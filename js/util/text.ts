// What PostgreSQL's text can hold, asked of options, SQL and parameters alike; and text that is JSON already.
import { UsageError } from "./errors.ts";

/** Text without NUL, which would end it on the wire, and without halves of surrogate pairs, which UTF-8 would silently make U+FFFD. */
export function isText(value: unknown): value is string {
  // With the u flag a surrogate matches only when it is alone.
  return typeof value === "string" && !/[\0\ud800-\udfff]/u.test(value);
}

/** The end of a sentence about what is not. */
export const MUST = "must be text without NUL and without unpaired surrogates.";

/** JSON text that is to be taken as it is. Registered, so that one made by another copy of the package is known too. */
const JSON_TEXT = Symbol.for("pgz-edge.json");

/** What `sql.json` makes: a parameter that is JSON, whatever its value. */
export class JsonText {
  declare readonly [JSON_TEXT]: string;

  /** @throws UsageError `INVALID_PARAMETER` for what JSON cannot hold */
  constructor(value: unknown) {
    let text;
    try {
      text = JSON.stringify(value);
    } catch {
      // Circular, or a bigint.
    }
    if (text === undefined) throw new UsageError("INVALID_PARAMETER", "sql.json needs a value that JSON can represent.");
    Object.defineProperty(this, JSON_TEXT, { value: text });
    Object.freeze(this);
  }

  /** Inside another JSON value it is what it was made of. */
  toJSON(): unknown {
    return JSON.parse(this[JSON_TEXT]);
  }
}

export function jsonTextOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null ? (value as { [JSON_TEXT]?: string })[JSON_TEXT] : undefined;
}
