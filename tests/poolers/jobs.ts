// What tenants do between their statements: transactions, cursors, streams that are left, deadlines and errors. Each
// checks what it got and that the client goes on.
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import { expectCode } from "./expect-code.ts";
import { scopeJobs } from "./scope-jobs.ts";
import { writeJobs } from "./write-jobs.ts";
import type { Job, Statement, Tenant } from "./tenant.ts";

/** `reading`: statements that change nothing, to be used inside transactions too, where their names may be missing. */
export function jobs(reading: readonly Statement[]): Job[] {
  const some = async (caller: pgz.Client | pgz.Transaction, tenant: Tenant, count: number) => {
    for (let n = 0; n < count; n++) await reading[tenant.random(reading.length)]!.run(caller, tenant);
  };
  const quick = reading.filter(({ streams }) => !streams);
  const together = (caller: pgz.Client | pgz.Transaction, tenant: Tenant, count: number) =>
    Array.from({ length: count }, () => quick[tenant.random(quick.length)]!.run(caller, tenant));
  return [
    {
      name: "a transaction that commits",
      async run(client, tenant) {
        await client.transaction(async (tx) => {
          await some(tx, tenant, 2);
          await note(tx, tenant, 0);
          await some(tx, tenant, 2);
          await note(tx, tenant, 1);
          assert.equal(await notes(tx, tenant), tenant.notes + 2);
        });
        tenant.notes += 2;
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a transaction that is rolled back",
      async run(client, tenant) {
        const mine = new Error("mine");
        const ended = client.transaction(async (tx) => {
          await note(tx, tenant, 0);
          await some(tx, tenant, 2);
          assert.equal(await notes(tx, tenant), tenant.notes + 1);
          throw mine;
        });
        const thrown = await ended.catch((error: unknown) => error);
        if (thrown !== mine) throw thrown;
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a transaction inside a transaction",
      async run(client, tenant) {
        await client.transaction(
          async (tx) => {
            await note(tx, tenant, 0);
            await expectCode(
              "22012",
              tx.transaction(async (inner) => {
                await note(inner, tenant, 1);
                await inner.query("select 1/0");
              }),
            );
            await tx.transaction(async (inner) => {
              await some(inner, tenant, 2);
              await note(inner, tenant, 1);
            });
          },
          { isolation: "repeatable read" },
        );
        tenant.notes += 2;
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a transaction in SQL",
      async run(client, tenant) {
        await client.exec("begin");
        try {
          await some(client, tenant, 2);
          await note(client, tenant, 0);
          await client.exec("commit");
        } catch (error) {
          await client.exec("rollback");
          throw error;
        }
        tenant.notes++;
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a cursor to its end, and one that is left",
      async run(client, tenant) {
        const { number, schema } = tenant;
        for (const last of [Infinity, 2]) {
          let next = 1;
          let batches = 0;
          for await (const batch of client.cursor<{ id: number; tenant: number }>(
            `select id, tenant from ${schema}.items order by id`,
            70,
          )) {
            for (const row of batch) assert.deepEqual(row, { id: next++, tenant: number });
            if (++batches === last) break;
          }
          assert.equal(next, last === 2 ? 141 : 201);
        }
        assert.equal(client.stats().transactionStatus, "I");
      },
    },
    {
      name: "a stream that is left",
      async run(client, tenant) {
        const { number, schema } = tenant;
        const stream = await client.stream(`select tenant, id from ${schema}.items, generate_series(1, 1000) n`);
        const reader = stream.getReader();
        const { value } = await reader.read();
        assert.equal(new TextDecoder().decode(value).split("\n")[0]?.startsWith(`{"tenant":${number},"id":`), true);
        await reader.cancel();
        await some(client, tenant, 1);
      },
    },
    {
      name: "a stream that is aborted",
      async run(client, tenant) {
        const { schema } = tenant;
        const controller = new AbortController();
        const stream = await client.stream(
          `select repeat(a.label, 20) as pad from ${schema}.items a, ${schema}.items b, ${schema}.items c`,
          { signal: controller.signal },
        );
        const reader = stream.getReader();
        await reader.read();
        controller.abort();
        await expectCode("ABORTED", drain(reader));
        await some(client, tenant, 1);
      },
    },
    {
      name: "statements made together, one of which fails",
      async run(client, tenant) {
        const failing = () => expectCode("22012", client.query("select 1/0"));
        const calls = [...together(client, tenant, 4), failing(), ...together(client, tenant, 4)];
        for (const one of await Promise.allSettled(calls)) if (one.status === "rejected") throw one.reason;
      },
    },
    {
      name: "statements made together in a transaction",
      async run(client, tenant) {
        await client.transaction((tx) => Promise.all(together(tx, tenant, 6)));
      },
    },
    {
      name: "statements made together, one of which is aborted",
      async run(client, tenant) {
        const controller = new AbortController();
        const aborted = client.query("select pg_sleep(0.02)", { signal: controller.signal }).catch(() => {});
        const calls = [aborted, ...together(client, tenant, 4)];
        setTimeout(() => controller.abort(), tenant.random(25));
        for (const one of await Promise.allSettled(calls)) if (one.status === "rejected") throw one.reason;
      },
    },
    {
      name: "a deadline",
      async run(client, tenant) {
        // In a transaction, so that it does run: PgBouncer drops a CancelRequest for a client that still waits for a
        // server connection.
        const late = client.transaction(async (tx) => {
          await note(tx, tenant, 0);
          await tx.query("select pg_sleep(10)", { timeout: 10 + tenant.random(20) });
        });
        await expectCode("QUERY_TIMEOUT", late);
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a cap",
      async run(client, tenant) {
        await expectCode(
          "RESPONSE_TOO_LARGE",
          client.query(`select * from ${tenant.schema}.items, generate_series(1, 100)`, { maxRows: 50 }),
        );
        await some(client, tenant, 1);
      },
    },
    {
      name: "a query that fails",
      async run(client, tenant) {
        await expectCode("22012", client.query(`select 10 / (5 - id) from ${tenant.schema}.items where id < 9`));
        await some(client, tenant, 1);
      },
    },
    {
      name: "several statements in one text",
      async run(client, { number, schema }) {
        const results = await client.simple(
          `select ${number} as tenant; select tenant from ${schema}.items where id = 7`,
        );
        assert.deepEqual(
          results.map(({ rows }) => rows),
          [[{ tenant: number }], [{ tenant: number }]],
        );
      },
    },
    {
      name: "describe",
      async run(client, { schema, sql }) {
        const { parameterTypes, fields } = await client.describe(
          sql`select id, label from ${sql.identifier(schema, "items")} where id = ${1}`,
        );
        assert.deepEqual([parameterTypes, fields.map(({ name }) => name)], [[23], ["id", "label"]]);
      },
    },
    ...scopeJobs,
    ...writeJobs,
  ];
}

async function note(
  caller: pgz.Client | pgz.Transaction,
  { lane, notes, schema, sql }: Tenant,
  offset: number,
): Promise<void> {
  const { rowCount } = await caller.exec(
    sql`insert into ${sql.identifier(schema, "ledger")} values (${lane}, ${`job ${notes + offset}`})`,
  );
  assert.equal(rowCount, 1);
}

async function notes(caller: pgz.Client | pgz.Transaction, { lane, schema, sql }: Tenant): Promise<number | undefined> {
  const { rows } = await caller.query<{ n: number }>(
    sql`select count(*)::int4 as n from ${sql.identifier(schema, "ledger")} where lane = ${lane}`,
  );
  return rows[0]?.n;
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}
