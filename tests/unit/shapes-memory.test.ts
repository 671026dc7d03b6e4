// The edges of the isolate's memory of statements (js/session/shapes.ts): keys of servers and scopes, epochs of
// schemas, exact bounds, and which types are asked for as text.
import { expect, test, vi } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import { encodedStatement, newStatement, scopedKey, ShapeCache } from "../../js/session/shapes.ts";
import type { Column } from "../../js/wasm/boundary.ts";
import { MOST_SERVERS } from "../../js/util/limits.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../../js/values/oid.ts";

/** The memory of an isolate that knows nothing. */
async function newIsolate() {
  vi.resetModules();
  return import("../../js/session/shapes.ts");
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

// -- keys and epochs -------------------------------------------------------------------------------------------------

test("a scope whose settings mean nothing has the key of its server, others have one for each meaning", () => {
  const server = "server one";
  expect(scopedKey(server, "")).toBe(server);
  const [one, two, other] = [scopedKey(server, "one"), scopedKey(server, "two"), scopedKey("server two", "one")];
  expect(new Set([server, one, two, other]).size).toBe(4);
  expect(scopedKey(server, "one")).toBe(one);
});

test("with more keys than are kept a scope has another one, and a configured server keeps its own", async () => {
  const shapes = await newIsolate();
  const config = resolveConfig("postgres://u@h/d");
  const own = shapes.serverKey(config);
  const keys = Array.from({ length: MOST_SERVERS - 1 }, (_, at) => shapes.scopedKey(own, `${at}`));
  expect(keys.filter((key, at) => shapes.scopedKey(own, `${at}`) !== key)).toEqual([]);
  expect(new Set([own, ...keys]).size).toBe(MOST_SERVERS);
  // The server's own key is the oldest.
  const [more] = ["more", "another"].map((meaning) => shapes.scopedKey(own, meaning));
  const again = shapes.scopedKey(own, "0");
  expect([own, more, ...keys]).not.toContain(again);
  expect(shapes.scopedKey(own, `${MOST_SERVERS - 2}`)).toBe(keys.at(-1));
  expect(shapes.serverKey(config)).toBe(own);
});

test("a schema that changes has an epoch that it has not had, and no other server's", async () => {
  const shapes = await newIsolate();
  expect([shapes.epochOf("one"), shapes.epochOf("two")]).toEqual([0, 0]);
  const seen = new Set([0]);
  for (let change = 1; change <= 3; change++) {
    shapes.schemaChanged("one");
    seen.add(shapes.epochOf("one"));
    expect(seen.size).toBe(change + 1);
  }
  expect(shapes.epochOf("two")).toBe(0);
  shapes.schemaChanged("two");
  expect(seen).not.toContain(shapes.epochOf("two"));
});

test("so many epochs are kept, and after that each server has a later one", async () => {
  const shapes = await newIsolate();
  const all = Array.from({ length: MOST_SERVERS }, (_, at) => `${at}`);
  all.forEach(shapes.schemaChanged);
  const epochs = new Set(all.map(shapes.epochOf));
  expect([epochs.size, epochs.has(0)]).toEqual([MOST_SERVERS, false]);
  shapes.schemaChanged("more");
  expect(shapes.epochOf("0")).toBe(shapes.epochOf("never changed"));
  expect(epochs).not.toContain(shapes.epochOf("0"));
  shapes.schemaChanged("0");
  expect(epochs).not.toContain(shapes.epochOf("0"));
});

test("ids begin above 0, by which the core knows a statement without a name", async () => {
  const shapes = await newIsolate();
  expect([shapes.newShapeId(), shapes.newShapeId()]).toEqual([1, 2]);
});

// -- what is kept ----------------------------------------------------------------------------------------------------

test("a statement whose parameters have other types is another shape, and so is one with types of the database", () => {
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

test("a shape that is used stays when others come, also where it was used twice in a row", () => {
  const cache = new ShapeCache(2);
  for (const text of ["a", "b"]) cache.put("server", text, int4);
  for (const text of ["a", "b", "a", "a"]) cache.get("server", text);
  cache.put("server", "c", int4);
  expect(["a", "b", "c"].map((text) => cache.get("server", text)?.sql)).toEqual(["a", undefined, "c"]);
  // Of another server nobody has asked for it.
  expect(cache.get("other", "c")).toBeUndefined();
});

test("texts are kept up to the bound itself, and one that is learned again and again counts once", () => {
  const cache = new ShapeCache(100, 100);
  // With its server and what parts them a text of 40 characters counts 50.
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

// -- as text ---------------------------------------------------------------------------------------------------------

test("the first type of a database is one of its own, which is refused before others", () => {
  const cache = new ShapeCache();
  cache.refuseBinary(
    "server",
    cache.put("server", "a", learned([column(23), column(FIRST_OF_A_DATABASE), column(25, -1)])),
  );
  expect([...cache.get("server", "a")!.resultFormats]).toEqual([1, 0, 1]);
  // What stays binary of it stays as it was.
  cache.refuseBinary("server", cache.get("server", "a")!);
  expect([...cache.get("server", "a")!.resultFormats]).toEqual([1, 0, 0]);
});

test("a shape that is asked for as text keeps the types of its parameters and its columns", () => {
  const cache = new ShapeCache();
  const before = cache.put("server", "a", learned([column(23)], [25, 23]));
  expect(cache.refuseBinary("server", before)).toBe(true);
  const after = cache.get("server", "a")!;
  expect(after).toMatchObject({ sql: "a", parameterTypes: Uint32Array.of(25, 23), resultFormats: Uint8Array.of(0) });
  expect(after.columns).toEqual(before.columns);
});

test.each([RECORD, RECORD_ARRAY])("an anonymous record (%s) is never text, whatever is beside it", (record) => {
  const cache = new ShapeCache();
  for (const columns of [[column(record, -1)], [column(20_001), column(record, -1)]]) {
    const shape = cache.put("server", "a", learned(columns));
    expect(cache.refuseBinary("server", shape)).toBe(false);
    expect([...cache.get("server", "a")!.resultFormats]).toEqual(columns.map(() => 1));
  }
});

test("of so many servers it is known which types are text, and of so many types of each", () => {
  const cache = new ShapeCache(2, 1 << 30);
  const isText = (server: string, typeOid: number) =>
    cache.put(server, `select ${typeOid}`, learned([column(typeOid)])).resultFormats[0] === 0;
  const refuse = (server: string, typeOid: number) =>
    cache.refuseBinary(server, cache.put(server, `select ${typeOid}`, learned([column(typeOid)])));
  const types = [20_001, 20_002];
  for (const type of types) refuse("0", type);
  expect(types.map((type) => isText("0", type))).toEqual([true, true]);
  refuse("0", 20_003);
  expect([...types, 20_003].map((type) => isText("0", type))).toEqual([false, true, true]);
  const others = Array.from({ length: MOST_SERVERS - 1 }, (_, at) => `${at + 1}`);
  const shape = cache.put("1", "select 23", learned([column(23)]));
  for (const server of others) cache.refuseBinary(server, shape);
  expect([isText("0", 20_003), isText("1", 23)]).toEqual([true, true]);
  refuse("more", 23);
  expect([isText("0", 20_003), isText("1", 23), isText("more", 23)]).toEqual([false, true, true]);
});

// -- on the wire -----------------------------------------------------------------------------------------------------

test("Bind and Parse of a statement end with its formats, its text and the types that go in binary", () => {
  const cache = new ShapeCache();
  // int4 goes in binary; a timestamptz is read by the server.
  const shape = cache.put("server", "é$1", learned([column(23), column(25, -1)], [23, 1184, 20]));
  const bytes = encodedStatement(shape);
  const text = [0xc3, 0xa9, 0x24, 0x31, 0];
  const types = [0, 3, 0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 20];
  expect([...bytes]).toEqual([0, 2, 0, 1, 0, 1, ...text, ...types]);
  // Made once, and anew for another text, which leaves the first as it was.
  expect(encodedStatement(shape)).toBe(bytes);
  expect([...newStatement(shape, "ab")]).toEqual([0, 2, 0, 1, 0, 1, 0x61, 0x62, 0, ...types]);
  expect(newStatement(shape)).toEqual(bytes);
  expect(newStatement(shape)).not.toBe(bytes);
});

test("a statement that takes and returns nothing says so on the wire", () => {
  const shape = new ShapeCache().put("server", "", learned([]));
  expect([...encodedStatement(shape)]).toEqual([0, 0, 0, 0, 0]);
});
