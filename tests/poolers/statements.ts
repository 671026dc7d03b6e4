// A tenant's 50 statements, in ten kinds of five: 45 texts that only this tenant has (they name its schema) and five
// that all tenants share.
import { assert } from "../integration/assert.ts";
import type { Query } from "../../js/index.ts";
import type { Caller, Statement, Tenant } from "./tenant.ts";

export function statements(tenant: Tenant): Statement[] {
  const { schema, sql } = tenant;
  const [items, counters, ledger] = [
    sql.identifier(schema, "items"),
    sql.identifier(schema, "counters"),
    sql.identifier(schema, "ledger"),
  ];
  return Array.from({ length: 50 }, (_, index) =>
    kinds[index % kinds.length]!(index, { sql, schema, items, counters, ledger, q: sql.unsafe(String(index)) }),
  );
}

/** What texts are made of: the tenant's tables, and `q`, which tells statements of one kind apart. */
interface Parts extends Pick<Tenant, "sql" | "schema"> {
  items: Query;
  counters: Query;
  ledger: Query;
  q: Query;
}

type Kind = (index: number, parts: Parts) => Statement;

const reading = (run: Statement["run"]): Statement => ({ changes: false, streams: false, run });
const streaming = (run: Statement["run"]): Statement => ({ changes: false, streams: true, run });
const changing = (run: Statement["run"]): Statement => ({ changes: true, streams: false, run });

const lines = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const item = (tenant: number, id: number) => ({
  id,
  tenant,
  label: `item ${id} of ${tenant}`,
  mood: id % 2 === 0 ? "calm" : `tenant ${tenant}`,
});

const kinds: Kind[] = [
  // One row by its key, with a type that only this tenant's schema has.
  (index, { sql, items, q }) =>
    reading(async (caller, { number, random }) => {
      const id = 1 + random(200);
      const { rows } = await caller.query(
        sql`select id, tenant, label, mood, ${q} as q from ${items} where id = ${id}`,
      );
      assert.deepEqual(rows, [{ ...item(number, id), q: index }]);
    }),
  // The same text for all tenants: only the values differ.
  (index, { sql, q }) =>
    reading(async (caller, { number, lane, random }) => {
      const value = random(1_000_000);
      const { rows } = await caller.query(
        sql`select ${number}::int4 as tenant, ${lane}::int4 as lane, ${value}::int8 as value, ${q} as q`,
      );
      assert.deepEqual(rows, [{ tenant: number, lane, value: String(value), q: index }]);
    }),
  (index, { sql, items, q }) =>
    reading(async (caller, { number, random }) => {
      const to = 1 + random(200);
      const { rows } = await caller.query(
        sql`select count(*)::int4 as n, sum(tenant * id + ${q})::int4 as s from ${items} where id <= ${to}`,
      );
      assert.deepEqual(rows, [{ n: to, s: (number * to * (to + 1)) / 2 + index * to }]);
    }),
  // Types of parameters that differ from statement to statement: a foreign one could not take them.
  (index, { schema, sql, items, q }) =>
    reading(async (caller, { number, random }) => {
      const list = [number, index, random(1000)];
      const document = { tenant: number, index, word: `w${random(1000)}` };
      const { rows } = await caller.query(
        sql`select ${list}::int4[] as list, ${document}::jsonb as document, ${schema}::text as schema
          where ${index}::int4 = ${q} and exists (table ${items})`,
      );
      assert.deepEqual(rows, [{ list, document, schema }]);
    }),
  // Counts each run once: a statement that ran twice, or on somebody else's table, shows.
  (index, { sql, counters, q }) =>
    changing(async (caller, { lane, counted }) => {
      const { rows } = await caller.query<{ n: number }>(
        sql`update ${counters} set n = n + 1 where lane = ${lane} and statement = ${q} returning n`,
      );
      const n = (counted.get(index) ?? 0) + 1;
      counted.set(index, n);
      assert.deepEqual(rows, [{ n }]);
    }),
  (index, { sql, ledger, q }) =>
    changing(async (caller, tenant) => {
      const note = `${index} ${tenant.notes}`;
      const { command, rowCount } = await caller.exec(
        sql`insert into ${ledger} (note, lane) values (${note}, ${tenant.lane}) /* ${q} */`,
      );
      tenant.notes++;
      assert.deepEqual([command, rowCount], ["INSERT", 1]);
    }),
  // Rows as bytes, in one piece and streamed.
  (index, { sql, items, q }) =>
    reading(async (caller, { number, random }) => {
      const from = 1 + random(150);
      const bytes = await caller.json(
        sql`select id, tenant, label, mood from ${items} where id between ${from} and ${from} + ${q} order by id`,
      );
      assert.equal(new TextDecoder().decode(bytes), JSON.stringify(itemsOf(number, from, Math.min(from + index, 200))));
    }),
  (index, { sql, items, q }) =>
    streaming(async (caller, { number, random }) => {
      const times = 1 + random(5);
      const query = sql`select id, tenant, label, mood from ${items}, generate_series(1, ${times})
        where id > ${q} order by id, generate_series`;
      const text = await new Response(await caller.stream(query)).text();
      assert.equal(text, lines(itemsOf(number, index + 1, 200).flatMap((row) => Array<typeof row>(times).fill(row))));
    }),
  (_, { sql, items, q }) =>
    streaming(async (caller, { number, random }) => {
      const to = 1 + random(200);
      let next = 1;
      for await (const row of caller.rows(
        sql`select id, tenant, label, mood from ${items} where id <= ${to} order by id /* ${q} */`,
      ))
        assert.deepEqual(row, item(number, next++));
      assert.equal(next, to + 1);
    }),
  // Without parameters.
  (index, { schema }) =>
    reading(async (caller: Caller, { number }) => {
      const { rows } = await caller.query(`select distinct tenant, ${index} as q from ${schema}.items`, {
        rowMode: "array",
      });
      assert.deepEqual(rows, [[number, index]]);
    }),
];

function itemsOf(tenant: number, from: number, to: number) {
  return Array.from({ length: Math.max(to - from + 1, 0) }, (_, at) => item(tenant, from + at));
}
