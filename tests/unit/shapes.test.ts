// The isolate's cache of statements: who shares an entry, who never does, and that it stays bounded.
import { expect, test } from "vitest";
import { ShapeCache, typesToRefuse } from "../../js/server/shapes.ts";

const learned = (typeOid: number) => ({
  parameterTypes: [typeOid],
  resultFormats: [1],
  columns: [
    { name: "a", tableOid: 0, columnAttributeNumber: 0, typeOid, typeSize: 4, typeModifier: -1, formatCode: 1 },
  ],
});

test("the cache returns what was learned, with a unique id", () => {
  const cache = new ShapeCache();
  const first = cache.put("server", "select 1", learned(23));
  const second = cache.put("server", "select 2", learned(23));
  expect(cache.get("server", "select 1")).toBe(first);
  expect(first.parameterTypes).toEqual(Uint32Array.of(23));
  expect(first.resultFormats).toEqual(Uint8Array.of(1));
  expect(second.id).not.toBe(first.id);
  expect(new ShapeCache().put("server", "select 1", learned(23)).id).not.toBe(first.id);
});

test("two scopes with the same SQL share no entry", () => {
  const cache = new ShapeCache();
  const mine = cache.put("1", "select x", learned(23));
  expect(cache.get("2", "select x")).toBeUndefined();
  cache.put("2", "select x", learned(25));
  expect(cache.get("1", "select x")).toBe(mine);
});

test("a NUL in a text does not shift the border between server and SQL", () => {
  const cache = new ShapeCache();
  cache.put('["a"]', "b\0c", learned(23));
  expect(cache.get('["a"]', "c")).toBeUndefined();
  expect(cache.get('["a"]', "b\0c")).toBeDefined();
});

test("equal descriptions share one shape, and a different description replaces it", () => {
  const cache = new ShapeCache();
  const first = cache.put("server", "select 1", learned(23));
  expect(cache.put("server", "select 1", learned(23))).toBe(first);
  const changed = cache.put("server", "select 1", learned(25));
  expect(changed.id).not.toBe(first.id);
  expect(cache.get("server", "select 1")).toBe(changed);
  expect(cache.size).toBe(1);
});

test("types that were looked up again make another shape, even if they are equal", () => {
  const cache = new ShapeCache();
  const type = { oid: 20001, code: 0, of: 25, parts: [], names: [] };
  const first = cache.put("server", "select 1", { ...learned(20001), types: [type] });
  expect(cache.put("server", "select 1", { ...learned(20001), types: [type] })).toBe(first);
  expect(cache.put("server", "select 1", { ...learned(20001), types: [{ ...type }] })).not.toBe(first);
});

test("a thousand shapes are kept by default", () => {
  const cache = new ShapeCache();
  for (let n = 0; n < 1_500; n++) cache.put("server", `select ${n}`, learned(23));
  expect(cache.size).toBe(1_000);
});

test("long texts are bounded by their total length, and dropped ones free their share", () => {
  const cache = new ShapeCache(1_000, 1_000);
  for (let n = 0; n < 20; n++) cache.put("server", `select ${n} ${"x".repeat(200)}`, learned(23));
  expect(cache.size).toBe(4);
  for (let n = 0; n < 20; n++) cache.forget("server", `select ${n} ${"x".repeat(200)}`);
  expect(cache.size).toBe(0);
  expect(cache.put("server", "y".repeat(2_000), learned(23)).sql).toHaveLength(2_000);
  expect(cache.size).toBe(0);
  for (let n = 0; n < 4; n++) cache.put("server", `select ${n} ${"x".repeat(200)}`, learned(23));
  expect(cache.size).toBe(4);
});

test("without a binary form, types of the database become text, then those without a fixed size, then all", () => {
  const cache = new ShapeCache();
  const columns = [23, 25, 20001, 20002].map((typeOid) => ({
    ...learned(typeOid).columns[0]!,
    typeSize: typeOid === 23 ? 4 : -1,
  }));
  const refused = (...resultFormats: number[]) =>
    typesToRefuse(cache.put("server", "select 1", { parameterTypes: [], resultFormats, columns }));
  expect(refused(1, 1, 1, 1)).toEqual([20001, 20002]);
  expect(refused(1, 1, 0, 0)).toEqual([25]);
  expect(refused(1, 0, 0, 0)).toEqual([23]);
  expect(refused(0, 0, 0, 0)).toEqual([]);
});

test("forget makes the next call describe the statement again", () => {
  const cache = new ShapeCache();
  const first = cache.put("server", "select 1", learned(23));
  cache.forget("server", "select 1");
  expect(cache.get("server", "select 1")).toBeUndefined();
  expect(cache.put("server", "select 1", learned(23)).id).not.toBe(first.id);
});
