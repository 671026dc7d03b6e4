// Kysely and Drizzle over the session's own client or pool: their SQL, their transactions, their errors.
//
// Knows the results that each of them must give. Both are packages, which are bundled with the simulator. Must not know
// how the adapters call the driver.
import { DrizzleQueryError, eq, inArray, sql as drizzled } from "drizzle-orm";
import { integer, pgTable } from "drizzle-orm/pg-core";
import { Kysely, sql as kysely } from "kysely";
import { drizzle } from "../../../js/adapters/drizzle.ts";
import { PgzDialect } from "../../../js/adapters/kysely.ts";
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import { range, type Caller, type Disturbed } from "../../random/plan.ts";
import { driver } from "../driver.ts";
import { codeOf, endOf, refused, type CallWorld, type Make } from "./call.ts";

class Own extends Error {
  readonly code = "own";
}

const FAILS = { well: undefined, own: "own", "22012": "22012" } as const;

/**
 * Settles the numbers of a transaction by its outcome. `commits`: the callback has returned, so COMMIT may have been
 * sent. An error after that leaves the numbers in doubt.
 */
async function settled(
  { ledger }: CallWorld,
  numbers: readonly number[],
  transaction: (commits: () => void) => Promise<unknown>,
): Promise<void> {
  let isCommitting = false;
  const error = await endOf(transaction(() => (isCommitting = true)));
  if (error === undefined) return ledger.settle(numbers, "stored");
  if (!isCommitting) ledger.settle(numbers, "absent");
  throw causeOf(error);
}

/** Drizzle's and Kysely's own errors have the driver's as their cause. */
function causeOf(error: unknown): unknown {
  const { cause } = error as { cause?: unknown };
  return !(error instanceof driver.PgzError) && cause !== undefined ? cause : error;
}

async function ofDriver<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw causeOf(error);
  }
}

// -- Kysely -----------------------------------------------------------------------------------------------------------

interface Tables {
  ledger: { n: number };
}

/** `timeout` applies to each query. */
function kyselyOver(caller: Caller, { schema }: CallWorld, { timeout }: Disturbed): Kysely<Tables> {
  const query = timeout === undefined ? {} : { timeout };
  const given = "acquire" in caller ? { pool: caller } : { client: caller as pgz.Client };
  return new Kysely<Tables>({ dialect: new PgzDialect({ ...given, query }) }).withSchema(schema);
}

const kyselySelects: Make = (_, world) => {
  const number = ++world.number;
  return {
    says: `Kysely: select of ${number}`,
    takesLease: true,
    kind: "client",
    async run(caller, options) {
      const db = kyselyOver(caller, world, options);
      const { rows } = await kysely<{ n: number }>`select ${number}::int4 as n`.execute(db);
      assert.deepEqual(rows, [{ n: number }]);
    },
  };
};

const kyselyInserts: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(3));
  return {
    says: `Kysely: insert ${numbers.join()} returning`,
    kind: "client",
    groups: [numbers],
    async run(caller, options) {
      const rows = await kyselyOver(caller, world, options)
        .insertInto("ledger")
        .values(numbers.map((n) => ({ n })))
        .returning("n")
        .execute();
      assert.deepEqual(
        rows.map(({ n }) => n),
        numbers,
      );
    },
  };
};

const kyselyTransaction: Make = (dice, world) => {
  const numbers = world.ledger.take(2);
  const end = dice.pick(["well", "well", "own", "22012"] as const);
  const fails = FAILS[end];
  return {
    says: `Kysely: transaction that ends ${end}`,
    kind: "transaction",
    groups: [numbers],
    settles: true,
    ...(fails === undefined ? {} : { fails }),
    async run(caller, options) {
      const db = kyselyOver(caller, world, options);
      await settled(world, numbers, (commits) =>
        db.transaction().execute(async (trx) => {
          for (const n of numbers) await trx.insertInto("ledger").values({ n }).execute();
          const found = await trx.selectFrom("ledger").select("n").where("n", "in", numbers).orderBy("n").execute();
          assert.deepEqual(
            found.map(({ n }) => n),
            numbers,
          );
          if (end === "own") throw new Own("of its own accord");
          if (end === "22012") await kysely`select 1 / 0`.execute(trx);
          commits();
        }),
      );
    },
  };
};

/** Reads rows one by one, to the end or not. */
const kyselyStreams: Make = (dice, world) => {
  const first = (world.number += 1_000_000);
  const count = 1 + dice.below(60);
  const leave = dice.oneIn(2) ? 1 + dice.below(20) : Infinity;
  return {
    says: `Kysely: stream of ${count} rows${leave < Infinity ? `, left after ${leave}` : ""}`,
    takesLease: true,
    kind: "client",
    streams: true,
    async run(caller, options) {
      const db = kyselyOver(caller, world, options);
      const query = kysely<{ n: number }>`select n from generate_series(${first}::int4, ${first + count - 1}::int4) n`;
      const seen: number[] = [];
      const rows = db.getExecutor().stream<{ n: number }>(query.compile(db), 7);
      for await (const { rows: some } of rows) {
        seen.push(...some.map(({ n }) => n));
        if (seen.length >= leave) break;
      }
      assert.deepEqual(seen, range(first, first + seen.length - 1));
      assert(leave === Infinity ? seen.length === count : seen.length >= Math.min(leave, count), `${seen.length} rows`);
    },
  };
};

const kyselyFails: Make = (_, world) => ({
  says: "Kysely: 42P01 of a table that is not there",
  takesLease: true,
  kind: "client",
  fails: "42P01",
  run: async (caller, options) =>
    void (await kysely`select * from no_such_table`.execute(kyselyOver(caller, world, options))),
});

// -- Drizzle ----------------------------------------------------------------------------------------------------------

/**
 * The table has no schema, because Drizzle would write it before each column: the model's names have two parts at most.
 */
const table = pgTable("ledger", { n: integer() });

const drizzleSelects: Make = (_, world) => {
  const number = ++world.number;
  return {
    says: `Drizzle: execute of ${number}`,
    kind: "client",
    async run(caller) {
      const { rows } = await ofDriver(drizzle(caller).execute(drizzled`select ${number}::int4 as n`));
      assert.deepEqual(rows, [{ n: number }]);
    },
  };
};

const drizzleInserts: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(3));
  const call = dice.pick(["insert", "batch", "iterator"] as const);
  return {
    says: `Drizzle: ${call} of ${numbers.join()}, and what is there`,
    kind: "client",
    groups: [numbers],
    settles: true,
    hasSeveralTurns: true,
    async run(caller) {
      const db = drizzle(caller);
      const insert = db
        .insert(table)
        .values(numbers.map((n) => ({ n })))
        .returning();
      const select = db.select().from(table).where(inArray(table.n, numbers)).orderBy(table.n);
      const rows = numbers.map((n) => ({ n }));
      if (call === "batch") assert.deepEqual(await ofDriver(db.batch([insert, select])), [rows, rows]);
      else assert.deepEqual(await ofDriver(insert), rows);
      world.ledger.settle(numbers, "stored");
      const error = await endOf(
        (async () => {
          if (call === "iterator") {
            const seen = [];
            for await (const row of db.iterator(select)) seen.push(row);
            assert.deepEqual(seen, rows);
          }
          assert.deepEqual(await select, rows);
        })(),
      );
      // The error belongs to a query after the insert, so its facts do not concern the numbers.
      if (error !== undefined) throw quiet(causeOf(error));
    },
  };
};

/** Hides `hasNoEffect` and `severity`, which the session would apply to the numbers. */
function quiet(error: unknown): unknown {
  return Object.create(error as object, { hasNoEffect: { value: false }, severity: { value: undefined } });
}

const drizzleTransaction: Make = (dice, world) => {
  const numbers = world.ledger.take(2);
  const undone = world.ledger.take(1);
  const end = dice.pick(["well", "well", "own", "22012"] as const);
  const nests = dice.oneIn(2);
  const fails = FAILS[end];
  return {
    says: `Drizzle: transaction that ends ${end}${nests ? ", with a nested one that fails" : ""}`,
    kind: "transaction",
    groups: [numbers, undone],
    settles: true,
    ...(fails === undefined ? {} : { fails }),
    async run(caller, options) {
      world.ledger.settle(undone, "absent");
      await settled(world, numbers, (commits) =>
        drizzle(caller as pgz.Client).transaction(async (tx) => {
          for (const n of numbers) await tx.insert(table).values({ n });
          if (nests) {
            const inner = tx.transaction(async (inside) => {
              await inside.insert(table).values(undone.map((n) => ({ n })));
              throw new Own("of its own accord");
            });
            await refused(ofDriver(inner), "a nested transaction", "own");
          }
          const [found] = await tx.select().from(table).where(eq(table.n, numbers[0]!));
          assert.deepEqual(found, { n: numbers[0] });
          if (end === "own") throw new Own("of its own accord");
          if (end === "22012") await tx.execute(drizzled`select 1 / 0`);
          commits();
        }, options),
      );
    },
  };
};

const drizzleFails: Make = () => ({
  says: "Drizzle: 42P01 of a table that is not there",
  kind: "client",
  fails: "42P01",
  async run(caller) {
    const error = await endOf(drizzle(caller).execute(drizzled`select * from no_such_table`));
    if (codeOf(causeOf(error)) === "42P01") assert(error instanceof DrizzleQueryError, "an error of Drizzle's");
    if (error !== undefined) throw causeOf(error);
  },
});

/** Calls for a client, a pool or a lease. */
export const adapters: readonly Make[] = [
  ...[kyselySelects, kyselyInserts, kyselyTransaction, kyselyTransaction, kyselyStreams, kyselyFails],
  ...[drizzleSelects, drizzleInserts, drizzleTransaction, drizzleTransaction, drizzleFails],
];
