// Edge cases of the isolate's cache of statements (js/server/shapes.ts): exact bounds, and which types are
// requested as text.
import { expect, test, vi } from "vitest";
import { encodedStatement, newStatement, ShapeCache, typesToRefuse } from "../../js/server/shapes.ts";
import type { Column } from "../../js/wasm/boundary.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../../js/values/oid.ts";

/** The memory of an isolate without any cached statement. */
async function newIsolate() {
  vi.resetModules();
  return import("../../js/server/shapes.ts");
}

const column = (typeOid: number, typeSize = 4): Column => ({
  name: "a",
  tableOid: 0,
  columnAttributeNumber: 0,
  typeOid,
  typeSize,
  typeModifier: -1,
  formatCode: 1,
});
const learned = (columns: readonly Column[], parameterTypes: readonly number[] = []) => ({
  parameterTypes,
  resultFormats: columns.map(() => 1),
  columns,
});
const int4 = learned([column(23)]);

test("ids start above 0, because 0 means a statement without a name to the core", async () => {
  const shapes = await newIsolate();
  expect([shapes.newShapeId(), shapes.newShapeId()]).toEqual([1, 2]);
});

// -- bounds ----------------------------------------------------------------------------------------------------------

test("a statement with other parameter types or other database types is another shape", () => {
  const cache = new ShapeCache();
  const type = { oid: 20_001, code: 0, of: 25, parts: [], names: [] };
  const all = [
    learned([], [23]),
    learned([], [25]),
    learned([], [25, 25]),
    { ...learned([], [25, 25]), types: [type] },
  ];
  expect(new Set(all.map((each) => cache.put("server", "select", each).id)).size).toBe(all.length);
  expect(cache.size).toBe(1);
});

test("a used shape stays when others are added, even if used twice in a row", () => {
  const cache = new ShapeCache(2);
  for (const text of ["a", "b"]) cache.put("server", text, int4);
  for (const text of ["a", "b", "a", "a"]) cache.get("server", text);
  cache.put("server", "c", int4);
  expect(["a", "b", "c"].map((text) => cache.get("server", text)?.sql)).toEqual(["a", undefined, "c"]);
  // Statements of another server are separate.
  expect(cache.get("other", "c")).toBeUndefined();
});

test("texts are kept up to exactly the bound, and a text that is learned repeatedly counts once", () => {
  const cache = new ShapeCache(100, 100);
  // With its server and the separators, a text of 40 characters counts as 50.
  const [first, second] = ["x".repeat(40), "y".repeat(40)];
  const server = "server789";
  const kept = () => [first, second].map((text) => cache.get(server, text) !== undefined);
  cache.put(server, first, int4);
  for (const typeOid of [23, 25, 23, 25]) cache.put(server, second, learned([column(typeOid)]));
  expect(kept()).toEqual([true, true]);
  cache.forget(server, "never learned");
  cache.put(server, "z", int4);
  expect(kept()).toEqual([false, true]);
});

// -- text formats ----------------------------------------------------------------------------------------------------

test("the lowest OID of database types counts as such a type, whose binary form is refused first", () => {
  const columns = [column(23), column(FIRST_OF_A_DATABASE), column(25, -1)];
  expect(typesToRefuse(new ShapeCache().put("server", "a", learned(columns)))).toEqual([FIRST_OF_A_DATABASE]);
});

test.each([RECORD, RECORD_ARRAY])(
  "an anonymous record (%s) is never text, whatever columns are beside it",
  (record) => {
    for (const columns of [[column(record, -1)], [column(20_001), column(record, -1)]])
      expect(typesToRefuse(new ShapeCache().put("server", "a", learned(columns)))).toEqual([]);
  },
);

// -- encoded statements ----------------------------------------------------------------------------------------------

test("Bind and Parse of a statement end with its formats, its text and the types that are sent in binary", () => {
  const cache = new ShapeCache();
  // int4 is sent in binary, and a timestamptz is parsed by the server.
  const shape = cache.put("server", "é$1", learned([column(23), column(25, -1)], [23, 1184, 20]));
  const bytes = encodedStatement(shape);
  const text = [0xc3, 0xa9, 0x24, 0x31, 0];
  const types = [0, 3, 0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 20];
  expect([...bytes]).toEqual([0, 2, 0, 1, 0, 1, ...text, ...types]);
  // Encoded once. Another text is encoded anew, and leaves the first unchanged.
  expect(encodedStatement(shape)).toBe(bytes);
  expect([...newStatement(shape, "ab")]).toEqual([0, 2, 0, 1, 0, 1, 0x61, 0x62, 0, ...types]);
  expect(newStatement(shape)).toEqual(bytes);
  expect(newStatement(shape)).not.toBe(bytes);
});

test("a statement without parameters and columns is encoded as such", () => {
  const shape = new ShapeCache().put("server", "", learned([]));
  expect([...encodedStatement(shape)]).toEqual([0, 0, 0, 0, 0]);
});
