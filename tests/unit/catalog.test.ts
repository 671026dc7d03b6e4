// What is asked of a server's catalog, and when nothing is asked: plain statements must not pay for types that they do
// not return.
import { expect, test } from "vitest";
import type { Column, CoreConnection } from "../../js/wasm/boundary.ts";
import { Catalog, catalogOf } from "../../js/session/catalog.ts";
import { define, type Definition } from "../../js/wasm/type-definitions.ts";

const columns = (...typeOids: number[]): Column[] =>
  typeOids.map((typeOid) => ({
    name: "a",
    tableOid: 0,
    columnAttributeNumber: 0,
    typeOid,
    typeSize: -1,
    typeModifier: -1,
    formatCode: 0,
  }));

const enumeration = [20001, "e", "mood", [0], []] as const;
const array = [20002, "A", "_mood", [20001], []] as const;
const composite = [20003, "c", "pair", [20002, 23], ["é", "b"]] as const;
const rows = (...given: readonly (readonly unknown[])[]) => structuredClone(given) as Parameters<Catalog["learn"]>[1];

/** Records what a core was told: the arguments of `define_types`. */
function listener() {
  const told: unknown[] = [];
  return {
    told,
    handle: { define_types: (...given: unknown[]) => void told.push(given) } as unknown as CoreConnection,
  };
}

test("built-in types, cached or not, need no catalog query", () => {
  const catalog = new Catalog();
  expect(catalog.question(columns(23, 25, 790, 3614, 1007))).toBeUndefined();
  expect(catalog.definitions(columns(23, 790))).toEqual([]);
});

test("a type is looked up once, even if the catalog does not have it", () => {
  const catalog = new Catalog();
  const wanted = columns(23, 20003, 30000);
  expect(catalog.question(wanted)).toContain("array[20003,30000]");
  catalog.learn(wanted, rows(enumeration, array, composite, [30000, "postgis", "geometry", [0], []]));
  expect(catalog.question(wanted)).toBeUndefined();
  expect(catalog.question(columns(20001))).toBeUndefined();
  expect(catalog.question(columns(20004))).toContain("array[20004]");
  expect(catalog.definitions(wanted).map(({ oid }) => oid)).toEqual([20003, 20002, 20001]);
  expect(catalog.definitions(columns(30000))).toEqual([]);
});

test("a record may hold any type, so all are looked up at once", () => {
  const catalog = new Catalog();
  expect(catalog.question(columns(2249))).toContain("typarray");
  catalog.learn(columns(2249), rows(enumeration));
  expect(catalog.question(columns(2287))).toBeUndefined();
  expect(catalog.definitions(columns(2249)).map(({ oid }) => oid)).toEqual([20001]);
  // This type came in a value, such as the row of a table.
  catalog.forget(20009);
  expect(catalog.question(columns(2249))).toContain("array[20009]");
  catalog.forget(790);
  expect(catalog.question(columns(2249))).toContain("array[20009]");
});

test("a core is told all definitions that it needs, sorted, and none twice", () => {
  const catalog = new Catalog();
  catalog.learn(columns(20003), rows(composite, array, enumeration));
  const { told, handle } = listener();
  const known = new Map<number, Definition>();
  define(handle, known, catalog.definitions(columns(20001)));
  define(handle, known, catalog.definitions(columns(20003)));
  define(handle, known, catalog.definitions(columns(20002)));
  const all = catalog.definitions(columns(20003));
  expect(catalog.knows(all)).toBe(true);
  catalog.forget(20001);
  expect(catalog.knows(all)).toBe(false);
  expect(catalog.knows([])).toBe(true);
  expect(told).toEqual([
    [Uint32Array.of(20001, 0, 25, 0), new Uint32Array(), ""],
    // Lengths of names are counted in UTF-8 bytes.
    [Uint32Array.of(20001, 0, 25, 0, 20002, 1, 20001, 0, 20003, 4, 2, 0), Uint32Array.of(20002, 0, 2, 23, 2, 3), "éb"],
  ]);
});

test("types of extensions are recognized by their extension, not by their name", () => {
  const catalog = new Catalog();
  catalog.learn(
    columns(20005, 20006),
    rows(
      [20005, "hstore", "hstore", [0], []],
      [20006, null, "hstore", [0], []],
      [20007, "d", "positive", [20], []],
      [20008, "m", "m", [20009], []],
    ),
  );
  expect(catalog.definitions(columns(20005, 20006, 20007, 20008)).map(({ oid, code, of }) => [oid, code, of])).toEqual([
    [20005, 0, 1],
    [20007, 0, 20],
    [20008, 3, 20009],
  ]);
});

test("servers do not share a catalog, and the number of catalogs is bounded", () => {
  const first = catalogOf("catalog test 0");
  expect(catalogOf("catalog test 0")).toBe(first);
  for (let number = 1; number <= 100; number++) expect(catalogOf(`catalog test ${number}`)).not.toBe(first);
  expect(catalogOf("catalog test 0")).not.toBe(first);
});
