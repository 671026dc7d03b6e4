// The conversations of the driver against Citus on three nodes: rows, streams, COPY, batches and transactions over
// shards, and the errors of nodes. `CITUS` names a checkout of its sources (tests/citus/build.sh).
//
// Knows what an application does with distributed tables. Must not know how nodes are started (cluster.mjs).
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client, Pool, Scope } from "../../js/index.ts";
import { startCitus } from "./cluster.mjs";

const { createPool, connect, sql } = (await import(
  "../../dist/node.js" as string
)) as typeof import("../../js/index.ts");
const checkout = process.env["CITUS"];
if (checkout === undefined) throw new Error("CITUS must name a checkout of Citus' sources");

let nodes: Awaited<ReturnType<typeof startCitus>>["nodes"];
let stop: () => Promise<void>;
let db: Client;
let pool: Pool;

beforeAll(async () => {
  ({ nodes, stop } = await startCitus(checkout));
  const url = `${nodes[0]!.appUrl}?sslmode=disable`;
  db = await connect(url);
  pool = createPool(url, { max: 4 });
  await db.simple(
    `create table item (tenant int4 not null, id int8 not null, name text, primary key (tenant, id));
     select create_distributed_table('item', 'tenant', shard_count => 8);
     create table kind (id int4 primary key, name text); select create_reference_table('kind')`,
  );
  await db.exec("insert into item select i % 10, i, 'n' || i from generate_series(1, 1000) i");
});

afterAll(async () => {
  await db?.close();
  await pool?.close();
  await stop?.();
});

const count = async (where = "true") =>
  (await db.query<{ n: number }>(`select count(*)::int4 as n from item where ${where}`)).rows[0]!.n;
const code = (work: Promise<unknown>) =>
  work.then(
    () => "no error",
    (error: { code?: string }) => error.code,
  );

test("the shards are on both workers", async () => {
  const { rows } = await db.query<{ port: number }>(
    "select distinct nodeport as port from citus_shards where table_name = 'item'::regclass order by 1",
  );
  expect(rows.map(({ port }) => port)).toEqual(
    nodes
      .slice(1)
      .map(({ port }) => port)
      .sort((one, other) => one - other),
  );
});

test("a statement of one shard and one of all, on the first run and later", async () => {
  for (let run = 0; run < 3; run++) {
    const one = await db.query(sql`select name from item where tenant = ${3} and id = ${13}`);
    expect(one.rows).toEqual([{ name: "n13" }]);
    const all = await db.query(sql`select tenant, count(*)::int4 as n from item where id > ${0} group by 1 order by 1`);
    expect(all.rows).toEqual(Array.from({ length: 10 }, (_, tenant) => ({ tenant, n: 100 })));
  }
});

test("five statements that are made together", async () => {
  const answers = await Promise.all([0, 1, 2, 3, 4].map((tenant) => count(`tenant = ${tenant}`)));
  expect(answers).toEqual([100, 100, 100, 100, 100]);
});

test("streams, loops and cursors over all shards, to their end and left early", async () => {
  const text = await new Response(await db.stream("select id from item")).text();
  expect(text.trimEnd().split("\n").length).toBe(1_000);
  const ids = new Set<unknown>();
  for await (const row of db.rows("select id from item")) ids.add(row["id"]);
  expect(ids.size).toBe(1_000);
  let batches = 0;
  for await (const rows of db.cursor("select id from item", 300)) batches += rows.length;
  expect(batches).toBe(1_000);
  for await (const _ of db.rows("select id from item, generate_series(1, 10000)")) break;
  for await (const _ of db.cursor("select id from item", 10)) break;
  await (await db.stream("select id from item, generate_series(1, 10000)")).cancel();
  expect(await count()).toBe(1_000);
});

test("COPY both ways goes to every shard", async () => {
  const line = (id: number) => `${id % 10}\t${id}\tcopied\n`;
  const lines = Array.from({ length: 5_000 }, (_, index) => line(10_000 + index));
  expect((await db.copyFrom("copy item from stdin", lines)).rowCount).toBe(5_000);
  const rows = Array.from({ length: 500 }, (_, index) => [index % 10, 20_000 + index, "rows"]);
  expect((await db.copyFromRows("item", ["tenant", "id", "name"], rows)).rowCount).toBe(500);
  const out = await new Response(await db.copyTo("copy item to stdout")).text();
  expect(out.trimEnd().split("\n").length).toBe(6_500);
  const read: unknown[] = [];
  for await (const row of db.copyToRows("select id from item where name = 'rows'")) read.push(row);
  expect(read.length).toBe(500);
  // One row that is there already undoes the rows of every shard.
  const failed = await db
    .copyFrom("copy item from stdin", [line(30_000), line(10_000)])
    .catch((error: unknown) => error);
  expect(failed).toMatchObject({ name: "PostgresError", message: expect.stringContaining("duplicate key") });
  expect(await count("id = 30000")).toBe(0);
  await db.exec("delete from item where id >= 10000");
});

const insert = (id: number) => sql`insert into item values (${id % 10}, ${id}, 'batch')`;

test("a batch in a transaction is stored whole or not at all", async () => {
  await db.transaction((tx) => tx.batch([insert(40_001), insert(40_002), insert(40_003)]));
  expect(await count("name = 'batch'")).toBe(3);
  const call = db.transaction((tx) => tx.batch([insert(40_004), insert(40_001)]));
  expect(await call.catch((error: unknown) => error)).toMatchObject({ code: "23505", batch: { index: 1 } });
  expect(await count("name = 'batch'")).toBe(3);
  const parts = await db.batch([insert(40_005), insert(40_001), insert(40_006)], { atomic: false });
  expect(parts.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect((await db.exec("delete from item where name = 'batch'")).rowCount).toBe(5);
});

// It is one transaction to the coordinator, without BEGIN. Citus opens no transactions on the nodes for that, so each
// of them stores its statement at once (docs/servers.md, Citus).
test("a batch by itself is not undone on the nodes", async () => {
  await db.exec(insert(41_001));
  expect(await code(db.batch([insert(41_004), insert(41_001)]))).toBe("23505");
  expect(await count("name = 'batch'")).toBe(2);
  // In a scope the settings have begun a distributed transaction.
  const scoped = db.scope({ settings: { "app.tenant": 1 } });
  expect(await code(scoped.batch([insert(41_005), insert(41_001)]))).toBe("23505");
  expect(await code(scoped.batch([insert(41_005), insert(41_001)]))).toBe("23505");
  expect(await count("name = 'batch'")).toBe(2);
  await db.exec("delete from item where name = 'batch'");
});

test("transactions commit on every node, and roll back on every node", async () => {
  const add = (tenant: number) => sql`insert into item values (${tenant}, ${50_000 + tenant}, 'tx')`;
  await db.transaction(async (tx) => {
    for (let tenant = 0; tenant < 5; tenant++) await tx.exec(add(tenant));
    const inner = tx.transaction(async (nested) => {
      await nested.exec(add(7));
      throw new Error("back");
    });
    await expect(inner).rejects.toThrow("back");
    await tx.last(add(5));
  });
  expect(await count("name = 'tx'")).toBe(6);
  const undone = db.transaction(async (tx) => {
    await tx.exec("delete from item where name = 'tx'");
    throw new Error("undone");
  });
  await expect(undone).rejects.toThrow("undone");
  expect(await count("name = 'tx'")).toBe(6);
  await db.exec("delete from item where name = 'tx'");
});

test("transactions that wait for each other on two nodes are a conflict, which runs again", async () => {
  await db.exec("insert into item values (0, 60000, 'lock'), (1, 60000, 'lock')");
  let runs = 0;
  let met = 0;
  let bothHere = () => {};
  const both = new Promise<void>((resolve) => (bothHere = resolve));
  const update = (tenant: number) => sql`update item set name = 'lock' where tenant = ${tenant} and id = 60000`;
  const crossing = (first: number, second: number) =>
    pool.transaction(
      async (tx) => {
        runs++;
        await tx.exec(update(first));
        if (++met === 2) bothHere();
        await both;
        await tx.exec(update(second));
      },
      { retry: 5 },
    );
  await Promise.all([crossing(0, 1), crossing(1, 0)]);
  expect(runs).toBeGreaterThan(2);
  await db.exec("delete from item where id = 60000");
});

test("an error of a node has its code, and the session goes on", async () => {
  const twice = await db.exec("insert into item values (3, 13, 'again')").catch((error: unknown) => error);
  expect(twice).toMatchObject({ code: "23505", message: expect.stringContaining("item_pkey_") });
  expect(await code(db.query("select 1 / (id - id) from item"))).toBe("22012");
  expect(await code(db.query("select tenant / (id - 13) from item where tenant = 3"))).toBe("22012");
  expect(await code(db.query("select nothing from item"))).toBe("42703");
  // What Citus does not do over shards.
  expect(await code(db.exec("update item set tenant = 5 where id = 13"))).toBe("0A000");
  expect(await count()).toBe(1_000);
});

test("a cancel reaches the nodes", async () => {
  expect(await code(db.query("select pg_sleep(30) from item where tenant = 3", { timeout: 200 }))).toBe(
    "QUERY_TIMEOUT",
  );
  expect(await code(db.query("select pg_sleep(30), count(*) from item", { timeout: 200 }))).toBe("QUERY_TIMEOUT");
  const worker = await connect(`${nodes[1]!.appUrl}?sslmode=disable`);
  const { rows } = await worker.query(
    "select pid from pg_stat_activity where state = 'active' and query like '%pg_sleep(30)%' and pid <> pg_backend_pid()",
  );
  expect(rows).toEqual([]);
  await worker.close();
});

test("prepared statements, and descriptions, of distributed tables", async () => {
  using byId = await db.prepare<{ name: string }>("select name from item where tenant = $1 and id = $2");
  for (const id of [13, 23, 33]) expect((await byId.query([3, id])).rows).toEqual([{ name: `n${id}` }]);
  const { parameterTypes, fields } = await db.describe("select id, name from item where tenant = $1");
  expect([parameterTypes, fields.map(({ typeOid }) => typeOid)]).toEqual([[23], [20, 25]]);
});

test("each node takes queries, and sees what another one has stored", async () => {
  const worker = await connect(`${nodes[2]!.appUrl}?sslmode=disable`);
  await worker.exec("insert into kind values (1, 'one')");
  expect((await db.query("select * from kind")).rows).toEqual([{ id: 1, name: "one" }]);
  expect((await worker.query("select count(*)::int4 as n from item")).rows).toEqual([{ n: 1_000 }]);
  await worker.close();
});

test("settings of a transaction reach the nodes where SET LOCAL is propagated", async () => {
  for (const text of [
    "create table secret (tenant int4 not null, v text)",
    "select create_distributed_table('secret', 'tenant')",
    "insert into secret values (1, 'a'), (2, 'b'), (3, 'c')",
    "alter table secret enable row level security",
    "alter table secret force row level security",
    "create policy own on secret using (tenant = nullif(current_setting('app.tenant', true), '')::int4)",
  ])
    await db.exec(text);
  const { rows } = await db.transaction(async (tx) => {
    await tx.simple("set local citus.propagate_set_commands = 'local'; set local app.tenant = '2'");
    return await tx.query("select v from secret");
  });
  expect(rows).toEqual([{ v: "b" }]);
});

/** Each conversation of a scope. */
const inScope: Record<string, (scope: Scope) => Promise<unknown>> = {
  query: async (scope) => (await scope.query(OWN)).rows,
  json: async (scope) => JSON.parse(new TextDecoder().decode(await scope.json(OWN))),
  stream: async (scope) => [JSON.parse(await new Response(await scope.stream(OWN)).text())],
  rows: (scope) => collected(scope.rows(OWN)),
  cursor: async (scope) => (await collected(scope.cursor(OWN, 10))).flat(),
  batch: async (scope) => (await scope.batch([OWN, `${OWN} limit 5`]))[1]!.rows,
  "batch, not atomic": async (scope) => {
    const [, item] = await scope.batch([OWN, `${OWN} limit 5`], { atomic: false });
    return (item as PromiseFulfilledResult<{ rows: unknown[] }>).value.rows;
  },
  prepare: async (scope) => (await (await scope.prepare(OWN)).query()).rows,
  transaction: (scope) => scope.transaction(async (tx) => (await tx.query(OWN)).rows),
  "a batch in a transaction": (scope) => scope.transaction(async (tx) => (await tx.batch([OWN]))[0]!.rows),
  last: (scope) => scope.transaction(async (tx) => (await tx.last(OWN)).rows),
  "COPY in a transaction": (scope) => scope.transaction(async (tx) => collected(tx.copyToRows(OWN))),
};
const OWN = "select v from secret";
async function collected<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

test.each(Object.entries(inScope))("the settings of a scope reach the nodes: %s", async (_, run) => {
  const scope = db.scope({ settings: { "app.tenant": 2, search_path: "public, pg_temp" } });
  expect(await run(scope)).toEqual([{ v: "b" }]);
  expect(await run(scope)).toEqual([{ v: "b" }]);
  expect((await db.query(OWN)).rows).toEqual([]);
  // And no other tenant's row can be written.
  expect(await code(scope.exec("insert into secret values (3, 'mine')"))).toBe("42501");
});

test("a scope's call takes one flight once its server is known", async () => {
  const scope = db.scope({ settings: { "app.tenant": 3 } });
  await scope.query(OWN);
  const { flights } = db.stats();
  expect((await scope.query(OWN)).rows).toEqual([{ v: "c" }]);
  expect(db.stats().flights - flights).toBe(1);
});

test("a process that does not know the server finds it out by its first call, whichever that is", () => {
  for (const first of ["query", "batch", "prepare", "transaction", "copy"]) {
    const url = `${nodes[0]!.appUrl}?sslmode=disable`;
    const program = `
      import { createClient } from ${JSON.stringify(new URL("../../dist/node.js", import.meta.url).href)};
      const db = createClient(${JSON.stringify(url)});
      const scope = db.scope({ settings: { "app.tenant": 2 } });
      const calls = {
        query: async () => (await scope.query("${OWN}")).rows,
        batch: async () => (await scope.batch(["${OWN}", "${OWN} limit 2"]))[1].rows,
        prepare: async () => (await (await scope.prepare("${OWN}")).query()).rows,
        transaction: () => scope.transaction(async (tx) => (await tx.query("${OWN}")).rows),
        copy: () => scope.transaction(async (tx) => {
          const text = await new Response(await tx.copyTo("copy (${OWN}) to stdout")).text();
          return [{ v: text.trim() }];
        }),
      };
      console.log(JSON.stringify(await calls.${first}()));
      await db.close();`;
    const words = ["--input-type=module", "--eval", program];
    expect(execFileSync(process.execPath, words, { encoding: "utf8" }).trim(), first).toBe('[{"v":"b"}]');
  }
});

test("a node that is gone fails what needs it, and nothing else", async () => {
  await nodes[2]!.stop();
  const gone = await db.query("select count(*) from item").catch((error: unknown) => error);
  expect(gone).toMatchObject({ name: "PostgresError" });
  expect((await db.query("select 1 as a")).rows).toEqual([{ a: 1 }]);
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, tenant) => code(db.query(sql`select * from item where tenant = ${tenant}`))),
  );
  expect(new Set(answers).size, `${answers}`).toBe(2);
  expect(answers).toContain("no error");
  expect(db.stats().state).toBe("idle");
});
