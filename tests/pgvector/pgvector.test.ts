// Vectors of pgvector, both ways: what copyFromRows stores of an array is what the server makes of the same text, and
// what is read is what the server writes.
//
// Knows the extension. Its server comes from tests/servers/pgvector.mjs.
import { transform } from "esbuild";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type * as pgz from "../../js/index.ts";
import { fencesOf } from "../packaging/fences.ts";
import { logFile } from "../servers/index.mjs";
import { startWithVector } from "../servers/pgvector.mjs";

const driver = (await import("../../dist/node.js" as string)) as typeof pgz;

let server: Awaited<ReturnType<typeof startWithVector>>;
let client: pgz.Client;
beforeAll(async () => {
  server = await startWithVector({ log: logFile("pgvector") });
  client = await driver.createClient(`${server.descriptor.superuserUrl}?sslmode=disable`);
  await client.exec("create extension vector");
});
afterAll(async () => {
  await client?.close();
  await server?.stop();
});

/** Numbers that a float4 holds: those of which the text has as many digits as it can have, too. */
const numbers = fc.float32Array({ noNaN: true, noDefaultInfinity: true, minLength: 1, maxLength: 40 });
const textOf = (vector: Float32Array) => `[${vector}]`;

test("copyFromRows stores arrays and texts as the server stores their text", async () => {
  await client.exec("create table copied (id int, by_array vector, by_text vector, expected text)");
  const vectors = fc.sample(numbers, { numRuns: 300, seed: 1 });
  const columns = ["id", "by_array", "by_text", "expected"];
  const rows = vectors.map((vector, id) => [id, vector, textOf(vector), textOf(vector)]);
  expect(await client.copyFromRows("copied", columns, rows)).toEqual({ command: "COPY", rowCount: 300 });
  const wrong = "select * from copied where by_array <> expected::vector or by_text <> expected::vector";
  expect((await client.query(wrong)).rows).toEqual([]);
});

test("numbers that no float4 holds are stored as the server reads them", async () => {
  await client.exec("create table small (v vector, expected text)");
  const [text, numbers] = ["[1e-50,-1e-46,16777217,0.5]", [1e-50, -1e-46, 16_777_217, 0.5]];
  const texts = ["[1e-50, -1e-46, 16777216, 0.5]", driver.sql.json([1e-50, -1e-46, 16_777_216, 0.5])];
  const rows = [numbers, ...texts].map((v) => [v, text]);
  await client.copyFromRows("small", ["v", "expected"], rows);
  expect((await client.query("select v::text from small where v <> expected::vector")).rows).toEqual([]);
});

test("a table with a column that only text can fill takes the same values", async () => {
  await client.exec("create table described (v vector(2), words tsvector)");
  await client.copyFromRows("described", ["v", "words"], [[Float32Array.of(0.1, -2e-20), "a b"]]);
  expect((await client.query("select * from described")).rows).toEqual([{ v: "[0.1,-2e-20]", words: "'a' 'b'" }]);
});

test("what is read is the server's text, and an array by option types", async () => {
  await client.exec("create table read (v vector, h halfvec, s sparsevec, l vector[])");
  const vectors = fc.sample(numbers, { numRuns: 100, seed: 2 });
  await client.copyFromRows(
    "read",
    ["v"],
    vectors.map((vector) => [vector]),
  );
  await client.exec("insert into read (h, s, l) values ('[1,0.5]', '{1:1.5}/3', array['[1,2]', '[3]']::vector[])");
  const both = await client.query<{ v: string; text: string }>(
    "select v, v::text as text from read where v is not null",
  );
  expect(both.rows.map(({ v }) => v)).toEqual(both.rows.map(({ text }) => text));
  expect((await client.query("select h, s, l from read where v is null")).rows).toEqual([
    { h: "[1,0.5]", s: "{1:1.5}/3", l: ["[1,2]", "[3]"] },
  ]);

  const types = { vector: (text: string) => Float32Array.from(JSON.parse(text) as number[]) };
  const typed = await client.query<{ v: Float32Array }>("select v from read where v is not null", { types });
  expect(typed.rows.map(({ v }) => v)).toEqual(vectors);
});

test("the example of docs/recipes.md runs", async () => {
  const { code } = fencesOf("docs/recipes.md").find((fence) => fence.code.includes("Float32Array"))!;
  const { code: plain } = await transform(`async (db, sql) => { ${code}\nreturn { near, stored }; }`, {
    loader: "ts",
    target: "es2022",
  });
  type Example = (db: pgz.Client, sql: typeof driver.sql) => Promise<{ near: pgz.QueryResult<object> }>;
  const example = (0, eval)(plain.replace(/;\s*$/, "")) as Example;
  await client.exec("create table items (id int, embedding vector(3))");
  const { near } = await example(client, driver.sql);
  expect(near.rows).toEqual([{ id: 1 }]);
});

test.each([
  ["another number of dimensions", Float32Array.of(1), "22000"],
  ["no dimension", new Float32Array(), "INVALID_PARAMETER"],
  ["a number that no float4 holds", [1e39, 0, 0], "PARAMETER_OUT_OF_RANGE"],
  ["a null", [0.1, null, 0], "INVALID_PARAMETER"],
  ["a list of vectors", [[0.1, 0.2, 0.3]], "INVALID_PARAMETER"],
  ["bytes", new Uint8Array(3), "INVALID_PARAMETER"],
  ["NaN", Float32Array.of(NaN, 0, 0), "22000"],
])("%s is refused", async (_, vector, code) => {
  await client.exec("create table if not exists refused (v vector(3))");
  await expect(client.copyFromRows("refused", ["v"], [[vector]])).rejects.toMatchObject({ code });
});

test("as a parameter a Float32Array is refused, whatever the type: in a domain over bytea it would be other bytes", async () => {
  await client.exec("create domain blob as bytea");
  for (const type of ["vector", "halfvec", "sparsevec", "blob"])
    await expect(client.query(`select $1::${type}`, [Float32Array.of(1, 2)])).rejects.toMatchObject({
      code: "INVALID_PARAMETER",
    });
});
