// Jobs of the libraries that read rows bit by bit over pg. They run in Node by libraries.mjs and in workerd by
// tests/workerd, with the modules that each has loaded.
import assert from "node:assert/strict";

export async function cursors({ Client }, Cursor, url) {
  const client = new Client(url);
  await client.connect();
  const cursor = client.query(new Cursor("select i from generate_series(1, $1) i", [250]));
  const sizes = [];
  for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100)) sizes.push(rows.length);
  assert.deepEqual(sizes, [100, 100, 50]);
  const left = client.query(new Cursor("select i from generate_series(1, 1000000) i"));
  assert.deepEqual(await left.read(1), [{ i: 1 }]);
  await left.close();
  await assert.rejects(client.query(new Cursor("select 1/0")).read(1), { code: "22012" });
  assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
  await client.end();
}

export async function queryStreams({ Pool }, QueryStream, url) {
  const pool = new Pool({ connectionString: url });
  const client = await pool.connect();
  let count = 0;
  for await (const { i } of client.query(new QueryStream("select i from generate_series(1, 10000) i")))
    count += Number(i === count + 1);
  assert.equal(count, 10_000);
  for await (const { i } of client.query(new QueryStream("select i from generate_series(1, 10000) i")))
    if (i === 5) break;
  assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
  client.release();
  await pool.end();
}
