// Checks text that PostgreSQL can hold, for options, SQL and parameters alike.

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

/** The most bytes of a name. The server cuts a longer one, and what is left is the name of another thing. */
const LONGEST_NAME = 63;

/** Whether the server would keep all of this name, unless it was built with a larger NAMEDATALEN. */
export function isWholeName(name: string): boolean {
  return name.length * 3 <= LONGEST_NAME || new TextEncoder().encode(name).length <= LONGEST_NAME;
}

/** The end of an error message about a name that {@link isWholeName} refuses. */
export const MUST_BE_WHOLE = `must have at most ${LONGEST_NAME} bytes: the server would cut it.`;

/** Whether `await` would wait for the value: a promise, or for example a query builder. As JSON it would be `{}`. */
export function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}
