// Assertions that work in every runtime. workerd is why they exist: neither vitest's `expect` nor node:assert is sure
// to be there. They have the names of node:assert/strict where it has such an assertion. A failure's message shows both
// sides.
export class AssertionError extends Error {
  override name = "AssertionError";
}

// Not `asserts condition`: TypeScript requires an annotated receiver for that, and a case's `t` has no annotation.
export function assert(condition: unknown, message = "expected a true value"): void {
  if (!condition) throw new AssertionError(message);
}

assert.equal = (actual: unknown, expected: unknown, message = "") => {
  if (!Object.is(actual, expected)) throw differ(actual, expected, message);
};

assert.deepEqual = (actual: unknown, expected: unknown, message = "") => {
  if (!same(actual, expected)) throw differ(actual, expected, message);
};

assert.match = (actual: string, pattern: RegExp, message = "") => {
  if (!pattern.test(actual)) throw differ(actual, pattern, message);
};

/** Returns the error, which must have these properties: `await assert.rejects(promise, { code: "AUTH_FAILED" })`. */
assert.rejects = async (
  promise: Promise<unknown>,
  properties: Record<string, unknown> = {},
): Promise<Error & Record<string, unknown>> => {
  const error = await promise.then(
    (value) => {
      throw new AssertionError(`expected a rejection, got ${show(value)}`);
    },
    (reason: unknown) => reason as Error & Record<string, unknown>,
  );
  for (const [name, expected] of Object.entries(properties)) {
    if (!same(error[name], expected))
      throw new AssertionError(`expected ${name} ${show(expected)}, got ${show(error[name])} of ${error.stack}`);
  }
  return error;
};

/** Returns the error, which must have this code: `await assert.code(promise, "AUTH_FAILED")`. */
assert.code = (promise: Promise<unknown>, code: string) => assert.rejects(promise, { code });

/** Checks the rows of a result: `await assert.rows(client.query("select 1 as n"), [{ n: 1 }])`. */
assert.rows = async (result: Promise<{ rows: unknown[] }>, expected: unknown[], message = "") =>
  assert.deepEqual((await result).rows, expected, message);

function differ(actual: unknown, expected: unknown, message: string) {
  return new AssertionError(`${message && `${message}: `}expected ${show(expected)}, got ${show(actual)}`);
}

function show(value: unknown): string {
  if (value instanceof Error || value instanceof RegExp) return String(value);
  if (typeof value === "bigint") return `${value}n`;
  if (ArrayBuffer.isView(value))
    return `bytes ${Array.from(value as Uint8Array)
      .slice(0, 64)
      .join(" ")}`;
  const text =
    JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? `${inner}n` : inner)) ?? String(value);
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}

function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (a instanceof Date && b instanceof Date) return Object.is(a.getTime(), b.getTime());
  if (Array.isArray(a) !== Array.isArray(b) || ArrayBuffer.isView(a) !== ArrayBuffer.isView(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every(
      (key) => Object.hasOwn(b, key) && same((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
    )
  );
}
