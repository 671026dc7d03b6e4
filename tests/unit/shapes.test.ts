// The isolate's cache of statements: who shares an entry, who never does, and that it stays bounded.
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import { serverKey, ShapeCache } from "../../js/session/shapes.ts";

const learned = (typeOid: number) => ({
  parameterTypes: [typeOid],
  resultFormats: [1],
  columns: [
    { name: "a", tableOid: 0, columnAttributeNumber: 0, typeOid, typeSize: 4, typeModifier: -1, formatCode: 1 },
  ],
});
const key = (url: string, options = {}) => serverKey(resolveConfig(url, {}, options));

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

test("two databases with the same SQL share no entry", () => {
  const cache = new ShapeCache();
  const base = "postgres://u@h:5432/d";
  const others = [
    key("postgres://u@h:5432/e"),
    key("postgres://u@h:5433/d"),
    key("postgres://u@i:5432/d"),
    key("postgres://v@h:5432/d"),
    key(base, { startup: { search_path: "other" } }),
    key(base, { options: "-c search_path=other" }),
    key("postgres://u@h:5432/d%22%2C%22x"),
  ];
  expect(new Set([key(base), ...others]).size).toBe(others.length + 1);
  const mine = cache.put(key(base), "select x", learned(23));
  for (const other of others) expect(cache.get(other, "select x")).toBeUndefined();
  for (const other of others) cache.put(other, "select x", learned(25));
  expect(cache.get(key(base), "select x")).toBe(mine);
});

test("the same server has the same key, whatever the password and the limits", () => {
  expect(key("postgres://u:one@h/d", { maxRows: 5 })).toBe(key("postgres://u:two@h/d?sslmode=disable"));
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

test("a type without binary form on a server is requested as text, in every statement there", () => {
  const cache = new ShapeCache();
  const types = [23, 25, 20001, 20002].map((typeOid) => ({ typeOid, typeSize: typeOid === 23 ? 4 : -1 }));
  const all = (oids: readonly number[]) => ({
    parameterTypes: [],
    resultFormats: oids.map(() => 1),
    columns: types
      .filter(({ typeOid }) => oids.includes(typeOid))
      .map((type) => ({ name: "a", tableOid: 0, columnAttributeNumber: 0, typeModifier: -1, formatCode: 1, ...type })),
  });
  const formats = (server: string, sql: string) => [...cache.get(server, sql)!.resultFormats];
  const refuse = () => cache.refuseBinary("server", cache.get("server", "select 1")!);
  const first = cache.put("server", "select 1", all([23, 25, 20001, 20002]));
  // Types of the database become text first, then types without a fixed size, then all.
  expect(refuse()).toBe(true);
  expect(formats("server", "select 1")).toEqual([1, 1, 0, 0]);
  expect(cache.get("server", "select 1")!.id).not.toBe(first.id);
  cache.put("server", "select 2", all([20002]));
  cache.put("other", "select 2", all([20002]));
  expect([formats("server", "select 2"), formats("other", "select 2")]).toEqual([[0], [1]]);
  expect([refuse(), formats("server", "select 1")]).toEqual([true, [1, 0, 0, 0]]);
  expect([refuse(), formats("server", "select 1")]).toEqual([true, [0, 0, 0, 0]]);
  expect(refuse()).toBe(false);
  // The formats stay text when the statement is learned anew.
  cache.forget("server", "select 1");
  cache.put("server", "select 1", all([23, 25, 20001, 20002]));
  expect(formats("server", "select 1")).toEqual([0, 0, 0, 0]);
  const record = cache.put("other", "select 3", learned(2249));
  expect(cache.refuseBinary("other", record)).toBe(false);
});

test("forget makes the next call describe the statement again", () => {
  const cache = new ShapeCache();
  const first = cache.put("server", "select 1", learned(23));
  cache.forget("server", "select 1");
  expect(cache.get("server", "select 1")).toBeUndefined();
  expect(cache.put("server", "select 1", learned(23)).id).not.toBe(first.id);
});
