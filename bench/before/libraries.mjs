// One build of ours, which is the last argument. Each request runs a shape and returns its facts, which must be
// the same in every build, and the number of units of work.
import process from "node:process";
import { sha256 } from "../lib/child.mjs";
import { shapes as results } from "../lib/shapes.mjs";

const [, , url, dist] = process.argv.slice(2);
const { connect, createPool, sql } = await import(dist);
const [client, unnamed] = [await connect(url), await connect(url, { prepare: "unnamed" })];
await client.exec("create temp table before_rows (n int4, t text)");
const pool = createPool(url, { max: 1 });
// The other build may be creating it.
await client.exec("create function before_one() returns int4 language sql as 'select 1'").catch(() => {});

const five = (on) => async (times) => {
  let sum = 0;
  for (let n = 0; n < times; n++) {
    const { rows } = await on.query(
      sql`select ${n}::int4 as n, ${"text"}::text as t, ${1.5}::float8 as f, ${true}::bool as b, ${[1, 2]}::int4[] as a`,
    );
    sum += rows[0].n + rows[0].a[1];
  }
  return { units: times, facts: String(sum) };
};

const one =
  (on, text = "select 1 as n") =>
  async (times) => {
    let sum = 0;
    for (let n = 0; n < times; n++) sum += (await on.query(text)).rows[0].n;
    return { units: times, facts: String(sum) };
  };

const stream = (text) => async (_, rows) => {
  let bytes = 0;
  let last;
  for await (const chunk of await client.stream(text(rows))) {
    bytes += chunk.length;
    last = chunk;
  }
  return { units: rows, facts: `${bytes} ${sha256(last.subarray(-20))}` };
};

const objects = (text) => async (_, rows) => {
  const all = (await client.query(text(rows))).rows;
  return { units: rows, facts: `${all.length} ${JSON.stringify(all.at(-1))}` };
};

async function batch(times) {
  await client.exec("truncate before_rows");
  const insert = (n) => sql`insert into before_rows values (${n}::int4, ${"text"}::text)`;
  await client.batch(Array.from({ length: times }, (_, n) => insert(n)));
  const { rows } = await client.query("select count(*)::int4 as n, sum(n)::text as s from before_rows");
  return { units: times, facts: JSON.stringify(rows) };
}

const shapes = {
  "query select 1": one(client),
  "query select 1, unnamed": one(unnamed),
  "query pool select 1": one(pool),
  "query pool function": one(pool, "select before_one() as n"),
  "query five parameters": five(client),
  "query five parameters, unnamed": five(unnamed),
  "batch of inserts": batch,
  ...Object.fromEntries(Object.entries(results).map(([name, text]) => [`stream ${name}`, stream(text)])),
  "rows narrow_int": objects(results.narrow_int),
  "rows mixed_5col": objects(results.mixed_5col),
};

export const open = () => ({
  shapes: Object.keys(shapes),
  // Many small calls run slowly for a thousand calls after a forced collection.
  clean: ({ shape }) => shape.startsWith("stream") || shape.startsWith("rows"),
  run: ({ shape, times, rows }) => shapes[shape](times, rows),
});
