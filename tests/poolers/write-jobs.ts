// What tenants write many at a time: batches, COPY in and out, and statements that are prepared as objects.
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import type { Client, Job, Tenant } from "./tenant.ts";

export const writeJobs: Job[] = [
  {
    name: "an atomic batch",
    async run(client, tenant) {
      const results = await client.batch([...notesOf(tenant, 3), who(tenant)], { atomic: true });
      assert.deepEqual(
        results.map(({ rowCount }) => rowCount),
        [1, 1, 1, 1],
      );
      assert.deepEqual(results[3]?.rows, [{ tenant: tenant.number }]);
      tenant.notes += 3;
      await checkNotes(client, tenant);
    },
  },
  {
    name: "an atomic batch that fails leaves nothing",
    async run(client, tenant) {
      const failed = client.batch([...notesOf(tenant, 2), "select 1/0", ...notesOf(tenant, 1)], { atomic: true });
      const error = await failed.then(
        () => undefined,
        (reason: unknown) => reason as { code?: string },
      );
      assert.equal(error?.code, "22012");
      await checkNotes(client, tenant);
    },
  },
  {
    // The same text again and again, so that a name would pay; and with a Sync behind each, so that the server
    // connection may change in between.
    name: "batches of one statement many times",
    async run(client, tenant) {
      const { number, schema, sql, random } = tenant;
      const ids = Array.from({ length: 40 }, () => 1 + random(200));
      const queries = ids.map((id) => sql`select id, label from ${sql.identifier(schema, "items")} where id = ${id}`);
      const expected = ids.map((id) => [{ id, label: `item ${id} of ${number}` }]);
      const results = await client.batch(queries);
      assert.deepEqual(
        results.map(({ rows }) => rows),
        expected,
      );
      const settled = await client.batch(queries, { atomic: false });
      assert.deepEqual(
        settled.map((one) => (one.status === "fulfilled" ? one.value.rows : one.reason)),
        expected,
      );
    },
  },
  {
    name: "a batch of which one fails alone",
    async run(client, tenant) {
      const settled = await client.batch([...notesOf(tenant, 1), "select 1/0", who(tenant)], { atomic: false });
      tenant.notes++;
      assert.deepEqual(
        settled.map((one) => (one.status === "fulfilled" ? one.value.rows : (one.reason as pgz.PgzError).code)),
        [[], "22012", [{ tenant: tenant.number }]],
      );
      await checkNotes(client, tenant);
    },
  },
  {
    name: "a batch inside a transaction",
    async run(client, tenant) {
      await client.transaction(async (tx) => {
        await tx.query(who(tenant));
        const results = await tx.batch([...notesOf(tenant, 2), who(tenant)]);
        assert.deepEqual(results[2]?.rows, [{ tenant: tenant.number }]);
      });
      tenant.notes += 2;
      await checkNotes(client, tenant);
    },
  },
  {
    name: "COPY in and out again",
    async run(client, tenant) {
      const { lane, number, schema, random } = tenant;
      const lines = Array.from({ length: 50 + random(500) }, (_, id) => `${lane}\t${id}\tbulk ${id} of ${number}\n`);
      await client.exec(`delete from ${schema}.bulk where lane = ${lane}`);
      const copied = await client.copyFrom(`copy ${schema}.bulk from stdin`, pieces(lines.join(""), 1 + random(2000)));
      assert.equal(copied.rowCount, lines.length);
      const stream = await client.copyTo(
        `copy (select * from ${schema}.bulk where lane = ${lane} order by id) to stdout`,
      );
      assert.equal(await new Response(stream).text(), lines.join(""));
    },
  },
  {
    name: "COPY whose source fails leaves nothing",
    async run(client, tenant) {
      const { lane, schema, sql } = tenant;
      const mine = new Error("mine");
      const before = await bulk(client, tenant);
      async function* source() {
        yield* pieces(`${lane}\t-1\tlost\n`, 5);
        throw mine;
      }
      const failed = client.copyFrom(`copy ${schema}.bulk from stdin`, source());
      const error = await failed.then(
        () => undefined,
        (reason: unknown) => reason as pgz.PgzError,
      );
      assert.deepEqual([error?.code, error?.cause], ["COPY_SOURCE_FAILED", mine]);
      assert.equal(await bulk(client, tenant), before);
      const { rows } = await client.query(
        sql`select count(*)::int4 as n from ${sql.identifier(schema, "bulk")} where lane = ${lane} and id < 0`,
      );
      assert.deepEqual(rows, [{ n: 0 }]);
    },
  },
  {
    name: "COPY that is left",
    async run(client, tenant) {
      const { schema, number } = tenant;
      const reader = (
        await client.copyTo(`copy (select i.* from ${schema}.items i, generate_series(1, 500)) to stdout`)
      ).getReader();
      assert.equal(new TextDecoder().decode((await reader.read()).value).includes(` of ${number}\t`), true);
      await reader.cancel();
      assert.deepEqual((await client.query(who(tenant))).rows, [{ tenant: number }]);
    },
  },
  {
    name: "rows by COPY in binary",
    async run(client, tenant) {
      const { lane, number, schema, sql, random } = tenant;
      await client.exec(`delete from ${schema}.bulk where lane = ${lane}`);
      const rows = Array.from({ length: 20 + random(100) }, (_, id) => ({ lane, id, label: `row ${id} of ${number}` }));
      const { rowCount } = await client.copyFromRows(sql.identifier(schema, "bulk"), ["lane", "id", "label"], rows);
      assert.equal(rowCount, rows.length);
      let next = 0;
      for await (const row of client.copyToRows(
        `select lane, id, label from ${schema}.bulk where lane = ${lane} order by id`,
      ))
        assert.deepEqual(row, rows[next++]);
      assert.equal(next, rows.length);
    },
  },
  {
    name: "a prepared statement",
    async run(client, tenant) {
      const { number, schema, random } = tenant;
      const statement = await client.prepare<{ label: string }>(`select label from ${schema}.items where id = $1`);
      for (let n = 0; n < 3; n++) {
        const id = 1 + random(200);
        assert.deepEqual((await statement.query([id])).rows, [{ label: `item ${id} of ${number}` }]);
      }
      statement.close();
    },
  },
];

const who = ({ schema, sql }: Tenant) => sql`select distinct tenant from ${sql.identifier(schema, "items")}`;

function notesOf({ lane, notes, schema, sql }: Tenant, count: number): pgz.Query[] {
  return Array.from(
    { length: count },
    (_, n) => sql`insert into ${sql.identifier(schema, "ledger")} values (${lane}, ${`batch ${notes + n}`})`,
  );
}

async function checkNotes(client: Client, { lane, notes, schema, sql }: Tenant): Promise<void> {
  const { rows } = await client.query(
    sql`select count(*)::int4 as n from ${sql.identifier(schema, "ledger")} where lane = ${lane}`,
  );
  assert.deepEqual(rows, [{ n: notes }]);
}

async function bulk(client: Client, { lane, schema, sql }: Tenant): Promise<number | undefined> {
  const { rows } = await client.query<{ n: number }>(
    sql`select count(*)::int4 as n from ${sql.identifier(schema, "bulk")} where lane = ${lane}`,
  );
  return rows[0]?.n;
}

/** The text's bytes in pieces that end anywhere. */
function* pieces(text: string, size: number): Iterable<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
