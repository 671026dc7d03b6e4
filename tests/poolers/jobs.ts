// What tenants do between their statements: calls of tests/random, and calls that are aborted or late. Such a call must
// run on the server, because PgBouncer drops a CancelRequest for a client that still waits for a server connection.
// Each job checks its results, and that the client still works.
import type * as pgz from "../../js/index.ts";
import { assert, AssertionError } from "../integration/assert.ts";
import { callWhich } from "../random/calls.ts";
import { Dice } from "../random/dice.ts";
import { ended, judged } from "../random/judge.ts";
import type { Plan } from "../random/plan.ts";
import { transaction } from "../random/transactions.ts";
import { expectCode } from "./expect-code.ts";
import { scopeJobs } from "./scope-jobs.ts";
import type { Job, Statement, Tenant } from "./tenant.ts";

/** How many calls of tests/random each tenant makes. */
const CALLS = 30;
/** Milliseconds within which a call must settle. */
const DEADLINE = 20_000;

/** DDL and calls about one session do not fit a pooler. */
const fits = (plan: Plan) => plan.kind !== "quiet";

/** Draws a call, and every fifth time a transaction of calls. `without`: calls that do not work behind this pooler. */
function drawn({ world, random }: Tenant, without: RegExp | undefined): Plan {
  const dice = new Dice(random(2 ** 31));
  const isAllowed = (plan: Plan) => fits(plan) && !without?.test(plan.says);
  const whole = dice.oneIn(5) ? transaction(dice, world, isAllowed) : undefined;
  return whole !== undefined && isAllowed(whole) ? whole : callWhich(isAllowed, dice, world);
}

const call = (without: RegExp | undefined): Job => ({
  name: "a call",
  async run(client, tenant) {
    const plan = drawn(tenant, without);
    const { ledger } = tenant.world;
    const error = await ended(plan, client, {}, ledger, DEADLINE);
    const fault = judged(plan, ledger, error, (code) => code === plan.fails);
    if (fault === undefined) return;
    const { code } = (error ?? {}) as { code?: string };
    const isWrong = error === undefined || error instanceof AssertionError;
    throw isWrong
      ? new AssertionError(`${plan.says}: ${fault}`)
      : Object.assign(new Error(`${plan.says}: ${fault}`), { code });
  },
});

/** `reading`: statements that change nothing. They may run in transactions too, where their names may be missing. */
export function jobs(reading: readonly Statement[], without?: RegExp): Job[] {
  const some = async (caller: pgz.Client | pgz.Transaction, tenant: Tenant, count: number) => {
    for (let n = 0; n < count; n++) await reading[tenant.random(reading.length)]!.run(caller, tenant);
  };
  const quick = reading.filter(({ streams }) => !streams);
  const together = (caller: pgz.Client | pgz.Transaction, tenant: Tenant, count: number) =>
    Array.from({ length: count }, () => quick[tenant.random(quick.length)]!.run(caller, tenant));
  const own: Job[] = [
    {
      name: "a transaction of statements, made together and one after another",
      async run(client, tenant) {
        await client.transaction(async (tx) => {
          await some(tx, tenant, 2);
          await note(tx, tenant);
          await Promise.all(together(tx, tenant, 6));
        });
        tenant.notes++;
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
    {
      name: "a transaction inside a transaction",
      async run(client, tenant) {
        await client.transaction(
          async (tx) => {
            await note(tx, tenant);
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
          await note(client, tenant);
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
      name: "statements made together, one of which fails and one of which is aborted",
      async run(client, tenant) {
        const controller = new AbortController();
        const aborted = client.query("select pg_sleep(0.02)", { signal: controller.signal }).catch(() => {});
        const failing = expectCode("22012", client.query("select 1/0"));
        const calls = [aborted, failing, ...together(client, tenant, 4)];
        setTimeout(() => controller.abort(), tenant.random(25));
        for (const one of await Promise.allSettled(calls)) if (one.status === "rejected") throw one.reason;
      },
    },
    {
      name: "a deadline",
      async run(client, tenant) {
        const late = client.transaction(async (tx) => {
          await note(tx, tenant);
          await tx.query("select pg_sleep(10)", { timeout: 10 + tenant.random(20) });
        });
        await expectCode("QUERY_TIMEOUT", late);
        assert.equal(await notes(client, tenant), tenant.notes);
      },
    },
  ];
  return [...own, ...scopeJobs, ...Array.from({ length: CALLS }, () => call(without))].filter(
    ({ name }) => !without?.test(name),
  );
}

async function note(
  caller: pgz.Client | pgz.Transaction,
  { lane, notes, schema, sql }: Tenant,
  offset = 0,
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
