// Names of statements and answers: equal only where the server gets equal values.
import { expect, test } from "vitest";
import { isPlain, nameOf, statementName, textOf } from "../../js/cache/names.ts";
import { sql } from "../../js/index.ts";

const DIFFERENT: readonly (readonly [one: unknown, other: unknown])[] = [
  [-0, 0],
  [sql.json("1"), "1"],
  [sql.json({ a: 1 }), { a: 1 }],
  [new Uint8Array([1, 2]), new Uint8Array([1, 3])],
  [new Uint8Array([1, 2]), new Uint16Array([1, 2])],
  [new Uint8Array([1]).buffer, new Uint8Array([2]).buffer],
  [new DataView(new ArrayBuffer(1)), new DataView(new ArrayBuffer(2))],
  [NaN, null],
  [Infinity, -Infinity],
  [1n, 1],
  [[[1], [2]], [[1, 2]]],
  [["a", "b"], ["a,b"]],
  [[-0], [0]],
  [new Date(0), new Date(1)],
];

test.each(DIFFERENT)("%o and %o have different names", async (one, other) => {
  expect(textOf([one])).not.toBe(textOf([other]));
  expect(await nameOf([one])).not.toBe(await nameOf([other]));
  const padding = "x".repeat(100);
  expect(await nameOf([padding, one])).not.toBe(await nameOf([padding, other]));
});

test("a short name is the thing itself, and a long one has the length of a hash", async () => {
  expect(await nameOf(["a", 1])).toBe('["a",1]');
  expect(await nameOf(["a".repeat(1_000)])).toMatch(/^[A-Za-z0-9+/]{24}$/);
  expect(await nameOf(["a".repeat(1_000)])).toBe(await nameOf(["a".repeat(1_000)]));
  expect([await statementName("select 1"), await statementName("select 1")]).toEqual(['["select 1"]', '["select 1"]']);
});

test.each([
  [{ user: 1, of: { tenant: "a", roles: ["b", null, undefined, true, 1n] } }, true],
  [Object.assign(Object.create(null) as object, { a: 1 }), true],
  [{ tenant: new Map() }, false],
  [{ tenant: [new Set()] }, false],
  [{ tenant: new Date(0) }, false],
  [{ tenant: Symbol("a") }, false],
  [{ tenant: () => "a" }, false],
  [{ tenant: new (class Tenant {})() }, false],
])("JSON shows all of %o: %s", (value, expected) => {
  expect(isPlain(value)).toBe(expected);
});
