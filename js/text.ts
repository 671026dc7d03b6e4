// What PostgreSQL's text can hold, asked of options, SQL and parameters alike.

/** Text without NUL, which would end it on the wire, and without halves of surrogate pairs, which UTF-8 would silently make U+FFFD. */
export function isText(value: unknown): value is string {
  // With the u flag a surrogate matches only when it is alone.
  return typeof value === "string" && !/[\0\ud800-\udfff]/u.test(value);
}
