// What a catalog caches about types (js/server/catalog.ts): when nothing is asked, because plain statements must not
// pay for types that they do not return; which types are looked up anew, and which are gone; which have a text form
// that can be read; what a core is told of them; and the types of names.
import { beforeEach, expect, test } from "vitest";
import { Catalog } from "../../js/server/catalog.ts";
import { TYPE_MULTIRANGE, TYPE_SAME, TYPE_TEXT, type CoreConnection } from "../../js/wasm/boundary.ts";
import { define, type Definition } from "../../js/wasm/type-definitions.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../../js/values/oid.ts";

const typed = (...oids: number[]) => oids.map((typeOid) => ({ typeOid }));
type Rows = Parameters<Catalog["learn"]>[1];
const rows = (...given: readonly (readonly unknown[])[]) => structuredClone(given) as Rows;

const MOOD = FIRST_OF_A_DATABASE;
const mood = [MOOD, "e", "mood", [0], [], ","] as const;
const moods = [20_002, "A", "_mood", [MOOD], [], ","] as const;
const pair = [20_003, "c", "pair", [20_002, 23], ["a", "b"], ","] as const;
const pairs = [20_004, "A", "_pair", [20_003], [], ","] as const;
const all = rows(mood, moods, pair, pairs);
const ALL = all.map(([oid]) => oid);

let catalog: Catalog;
beforeEach(() => {
  catalog = new Catalog();
});

// -- look-ups --------------------------------------------------------------------------------------------------------

test("built-in types, cached or not, need no catalog query", () => {
  expect(catalog.question(typed(23, 25, 790, 3614, 1007))).toBeUndefined();
  expect(catalog.definitions(typed(23, 790))).toEqual([]);
});

test("a type is looked up once, even if the catalog does not have it, except if a composite is in it", () => {
  const wanted = typed(23, 20_003, 30_000);
  expect(catalog.question(wanted)).toContain("array[20003,30000]");
  catalog.learn(wanted, rows(mood, moods, pair));
  expect(catalog.question(typed(23, 20_002, 30_000))).toBeUndefined();
  // It may have other attributes by now.
  expect(catalog.question(wanted)).toContain("array[20003]");
  expect(catalog.question(typed(MOOD))).toBeUndefined();
  expect(catalog.question(typed(20_004))).toContain("array[20004]");
  expect(catalog.definitions(wanted).map(({ oid }) => oid)).toEqual([20_003, 20_002, MOOD]);
  expect(catalog.definitions(typed(30_000))).toEqual([]);
});

test("only types of the database are looked up, including the first such OID", () => {
  expect(catalog.question(typed(23, MOOD - 1, MOOD))).toContain(`array[${MOOD}]`);
  expect(catalog.question(typed(MOOD - 1))).toBeUndefined();
  expect(catalog.question([])).toBeUndefined();
});

test.each([RECORD, RECORD_ARRAY])("with a column of type %s all types are looked up, and once is enough", (record) => {
  const wanted = typed(23, record, MOOD);
  expect(catalog.question(wanted)).toMatch(new RegExp(`array\\[${MOOD}\\].*typarray`, "s"));
  expect(catalog.question(typed(23, MOOD))).not.toContain("typarray");
  catalog.learn(wanted, rows(mood, moods));
  expect(catalog.question(wanted)).toBeUndefined();
  // The record may hold a composite, which may have other attributes by now.
  catalog.learn(wanted, all);
  expect(catalog.question(wanted)).toContain("typarray");
  expect(catalog.definitions(typed(23, record)).map(({ oid }) => oid)).toEqual(expect.arrayContaining(ALL));
});

test("an answer about columns without a record does not cover all other types", () => {
  catalog.learn(typed(MOOD, 23), all);
  expect(catalog.question(typed(RECORD))).toContain("typarray");
});

test("a look-up asks for the attributes of composites in their order", () => {
  const question = catalog.question(typed(MOOD))!;
  for (const what of ["atttypid", "attname"])
    expect(question).toMatch(
      new RegExp(`select ${what} from pg_catalog\\.pg_attribute\\s+where[^]*?\\s+order by attnum\\)`),
    );
});

// -- cached types ----------------------------------------------------------------------------------------------------

test("an unchanged type keeps its object, and a changed type gets a new one", () => {
  catalog.learn(typed(20_003), all);
  const before = catalog.definitions(typed(20_003));
  catalog.learn(typed(20_003), structuredClone(all));
  expect(catalog.knows(before)).toBe(true);
  catalog.learn(typed(20_003), rows(mood, moods, [...pair.slice(0, 4), ["a", "c"]]));
  expect(catalog.knows(before)).toBe(false);
  const after = catalog.definitions(typed(20_003));
  expect(after[0]!.names).toEqual(["a", "c"]);
  // The types that it is made of have not changed.
  expect(after.slice(1)).toEqual(before.slice(1));
  expect(catalog.knows(before.slice(1))).toBe(true);
});

test("a type that stops being readable is text from then on", () => {
  catalog.learn(typed(20_001), rows([20_001, "hstore", "hstore", [0], [], ","]));
  const before = catalog.definitions(typed(20_001));
  expect(before).toHaveLength(1);
  catalog.learn(typed(20_001), rows([20_001, "mine", "hstore", [0], [], ","]));
  expect(catalog.definitions(typed(20_001))).toMatchObject([{ oid: 20_001, code: TYPE_TEXT }]);
  catalog.learn(typed(20_001), rows([20_001, "hstore", "hstore", [0], [], ","]));
  expect(catalog.definitions(typed(20_001))).toEqual(before);
});

test("if the catalog cannot be read, types stay text and are not looked up again", () => {
  catalog.learnNothing(typed(23, MOOD, 20_003));
  expect(catalog.question(typed(MOOD, 20_003))).toBeUndefined();
  expect(catalog.definitions(typed(MOOD))).toEqual([]);
  expect(catalog.gone(typed(MOOD))).toEqual([]);
});

test("if the catalog can no longer be read, cached types stay", () => {
  catalog.learn(typed(MOOD), all);
  catalog.learnNothing(typed(MOOD));
  expect(catalog.definitions(typed(MOOD)).map(({ oid }) => oid)).toEqual([MOOD]);
});

test("without columns all cached definitions are returned", () => {
  catalog.learn(typed(20_004), all);
  expect(new Set(catalog.definitions().map(({ oid }) => oid))).toEqual(new Set(ALL));
  expect(catalog.definitions([])).toEqual([]);
});

test("a value that did not fit its type drops everything cached", () => {
  catalog.learn(typed(RECORD, MOOD), all);
  catalog.learnNames({ mood: MOOD });
  catalog.forget(MOOD);
  expect(catalog.question(typed(MOOD))).toContain(`array[${MOOD}]`);
  expect(catalog.question(typed(20_003))).toContain("array[20003]");
  expect(catalog.definitions(typed(20_003))).toEqual([]);
  expect([...catalog.readable()]).toEqual([]);
  expect(catalog.oid("mood")).toBeUndefined();
  catalog.learn(typed(MOOD), rows(mood));
  // That answer did not cover records.
  expect(catalog.question(typed(RECORD))).toContain("typarray");
});

test("a value of a built-in type drops nothing", () => {
  catalog.learn(typed(RECORD, MOOD), rows(mood));
  catalog.forget(MOOD - 1);
  expect(catalog.question(typed(MOOD, RECORD))).toBeUndefined();
});

test("a type that came in a record, such as the row of a table, is looked up with the next one", () => {
  catalog.learn(typed(RECORD), rows(mood));
  expect(catalog.question(typed(RECORD_ARRAY))).toBeUndefined();
  for (const oid of [20_009, 790]) {
    catalog.forget(oid);
    expect(catalog.question(typed(RECORD))).toContain("array[20009]");
  }
});

// -- what a core is told ---------------------------------------------------------------------------------------------

test("a core is told all definitions that it needs, sorted, and none twice", () => {
  catalog.learn(typed(20_003), rows([...pair.slice(0, 4), ["é", "b"]], moods, mood));
  const told: unknown[] = [];
  const handle = { define_types: (...given: unknown[]) => void told.push(given) } as unknown as CoreConnection;
  const known = new Map<number, Definition>();
  for (const oid of [MOOD, 20_003, 20_002]) define(handle, known, catalog.definitions(typed(oid)));
  const definitions = catalog.definitions(typed(20_003));
  expect(catalog.knows(definitions)).toBe(true);
  catalog.forget(MOOD);
  expect(catalog.knows(definitions)).toBe(false);
  expect(catalog.knows([])).toBe(true);
  expect(told).toEqual([
    [Uint32Array.of(MOOD, 0, 25, 0), new Uint32Array(), ""],
    // Lengths of names are counted in UTF-8 bytes.
    [Uint32Array.of(MOOD, 0, 25, 0, 20_002, 1, MOOD, 0, 20_003, 4, 2, 0), Uint32Array.of(20_002, 0, 2, 23, 2, 3), "éb"],
  ]);
});

test("types of extensions are recognized by their extension, not by their name", () => {
  const given = rows(
    [20_005, "hstore", "hstore", [0], [], ","],
    [20_006, null, "hstore", [0], [], ","],
    [20_007, "d", "positive", [20], [], ","],
    [20_008, "m", "m", [20_009], [], ","],
    [20_010, "postgis", "geometry", [0], [], ":"],
    [20_011, "p", "shell", [0], [], ","],
  );
  catalog.learn(typed(20_005, 20_006), given);
  const found = catalog.definitions(typed(20_005, 20_006, 20_007, 20_008, 20_010, 20_011));
  expect(found.map(({ oid, code, of }) => [oid, code, of])).toEqual([
    [20_005, TYPE_SAME, 1],
    // Of these base types only the text is known, and what stands between the elements of their arrays.
    [20_006, TYPE_TEXT, ",".charCodeAt(0)],
    [20_007, TYPE_SAME, 20],
    [20_008, TYPE_MULTIRANGE, 20_009],
    [20_010, TYPE_TEXT, ":".charCodeAt(0)],
  ]);
});

// -- types that are gone ---------------------------------------------------------------------------------------------

test("a type that is missing in the answer is gone", () => {
  const wanted = typed(23, MOOD, 20_003, RECORD);
  catalog.learn(wanted, rows(mood));
  expect(catalog.gone(typed(23, MOOD, RECORD))).toEqual([]);
  expect(catalog.gone(typed(MOOD, 20_003))).toEqual([20_003]);
  // Others have the same description.
  expect(catalog.gone(typed(20_003))).toEqual([20_003]);
  // It has already been looked up.
  expect(catalog.question(typed(20_003))).toBeUndefined();
});

test("a cached type is not gone, even if a later answer lacks it", () => {
  catalog.learn(typed(MOOD), all);
  catalog.learn(typed(MOOD, 20_003), rows());
  expect(catalog.gone(typed(MOOD, 20_003))).toEqual([]);
});

test("each of several types that are gone is reported, in whichever column it is", () => {
  catalog.learn(typed(MOOD, 20_003), []);
  expect(catalog.gone(typed(MOOD))).toEqual([MOOD]);
  expect(catalog.gone(typed(23, 20_003))).toEqual([20_003]);
});

// -- types whose text can be read ------------------------------------------------------------------------------------

test("types of columns without a composite inside can be read as text, the latest first", () => {
  expect([...catalog.readable()]).toEqual([]);
  catalog.learn(typed(23, MOOD, 20_004), all);
  catalog.learn(typed(20_003), all);
  catalog.learn(typed(20_002), all);
  expect([...catalog.readable()]).toEqual([20_002, MOOD]);
});

test("unknown types are text, which can be read", () => {
  catalog.learnNothing(typed(23, MOOD - 1, MOOD, 30_000));
  expect([...catalog.readable()]).toEqual([30_000, MOOD]);
});

// -- names -----------------------------------------------------------------------------------------------------------

test("names are looked up until the server has given their types, and numbers never", () => {
  expect(catalog.nameQuestion(["mood", "public.pair", "23"])).toContain('["mood","public.pair"]');
  expect(catalog.nameQuestion(["23", "20003"])).toBeUndefined();
  expect(catalog.nameQuestion([])).toBeUndefined();
  catalog.learnNames({ mood: MOOD, "public.pair": null });
  expect(["mood", "public.pair", "20003", "2x", "x2"].map((name) => catalog.oid(name))).toEqual([
    MOOD,
    undefined,
    20_003,
    undefined,
    undefined,
  ]);
  // The missing type may exist by now.
  expect(catalog.nameQuestion(["mood", "public.pair"])).toContain('["public.pair"]');
});

test("a name that contains the closing quotes is escaped and looked up", () => {
  const question = catalog.nameQuestion(["a$$b"])!;
  expect(question).toContain('$$["a\\u0024\\u0024b"]$$');
});

test("an answer about types drops the cached names, which may now mean other types", () => {
  catalog.learnNames({ mood: MOOD });
  catalog.learn(typed(20_003), all);
  expect(catalog.oid("mood")).toBeUndefined();
});
