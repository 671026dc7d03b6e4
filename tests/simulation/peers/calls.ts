// The calls that ours, pg and postgres.js all have. Each is made from the dice before anything runs, and knows its
// right result and the numbers that it writes.
//
// Must not know drivers (contract.ts), or what disturbs a call (session.ts).
import { assert } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import type { Ledger } from "../../random/ledger.ts";
import type { Database, Disturbed, Queries, Row, Session } from "./contract.ts";
import { statement, type Statement } from "./statement.ts";

/** What the calls of one session share. */
export interface Shared {
  readonly ledger: Ledger;
  /** A number for rows that is never used again. */
  number: number;
}

export interface Call {
  readonly says: string;
  /** Throws an AssertionError if the result is wrong. */
  run(on: Session, how: Disturbed): Promise<void>;
  /** The code of the error with which the call ends when nothing disturbs it. */
  readonly fails?: string;
  /** Numbers that are stored as a whole or not at all. */
  readonly numbers?: readonly number[];
  /** The call itself has settled its numbers when it ends. */
  readonly settles?: boolean;
  /** The call borrows a connection of a pool by itself. */
  readonly borrows?: boolean;
}

type Make = (dice: Dice, shared: Shared) => Call;

const LARGE = 1_000_000;

const one: Make = (_, shared) => {
  const number = ++shared.number;
  return {
    says: `query of ${number}`,
    run: async (on, how) => assert.deepEqual(plain(await on.query(selectOf(number), how)), [{ n: number }]),
  };
};

const selectOf = (number: number): Statement => statement`select ${number}::int4 as n`;

const sleep: Make = (dice, shared) => {
  const number = ++shared.number;
  const ms = dice.below(12);
  return {
    says: `sleep of ${ms} ms, ${number}`,
    async run(on, how) {
      const query = statement`select ${number}::int4 as n, pg_sleep(${ms / 1000}::float8) as slept`;
      assert.deepEqual(numbersOf(await on.query(query, how)), [number]);
    },
  };
};

interface Series {
  readonly query: Statement;
  readonly numbers: readonly number[];
  readonly says: string;
}

function series(dice: Dice, shared: Shared, most: number): Series {
  const first = (shared.number += LARGE);
  const count = dice.oneIn(6) ? 0 : 1 + dice.below(most);
  const pad = dice.pick([0, 3, 900]);
  return {
    numbers: Array.from({ length: count }, (_, at) => first + at),
    query: statement`select n, repeat('x', ${pad}::int4) as pad
      from generate_series(${first}::int4, ${first + count - 1}::int4) n`,
    says: `${count} rows of ${pad} bytes`,
  };
}

const many: Make = (dice, shared) => {
  const { query, numbers, says } = series(dice, shared, 60);
  return {
    says: `query of ${says}`,
    run: async (on, how) => assert.deepEqual(numbersOf(await on.query(query, how)), numbers),
  };
};

const cursor: Make = (dice, shared) => {
  const { query, numbers, says } = series(dice, shared, 60);
  const size = 1 + dice.below(40);
  const leave = dice.oneIn(3) ? 1 + dice.below(30) : Infinity;
  return {
    says: `cursor by ${size} of ${says}${leave < Infinity ? `, left after ${leave}` : ""}`,
    async run(on, how) {
      const rows = numbersOf(await on.cursor(query, size, leave, how));
      assert(rows.length >= Math.min(leave, numbers.length), `${rows.length} rows of ${numbers.length}`);
      assert.deepEqual(rows, numbers.slice(0, rows.length));
    },
  };
};

const failure: Make = (dice) => {
  const query = dice.pick([
    statement`select 1 / 0 as n`,
    statement`select 10 / ${0}::int4 as n`,
    statement`select 10 / (50 - n) as n from generate_series(1, 60) n`,
  ]);
  return { says: `fails: ${query.text}`, fails: "22012", run: async (on, how) => void (await on.query(query, how)) };
};

const insert: Make = (dice, shared) => {
  const numbers = shared.ledger.take(1 + dice.below(3));
  return {
    says: `insert ${numbers.join()}`,
    numbers,
    run: async (on, how) => assert.deepEqual(numbersOf(await on.query(insertOf(numbers), how)), numbers),
  };
};

const insertOf = (numbers: readonly number[]): Statement =>
  statement`insert into ledger select unnest(${numbers}::int4[]) returning n`;

// -- transactions -----------------------------------------------------------------------------------------------------

/** An error that a transaction's callback throws on purpose. */
class Own extends Error {
  readonly code = "own";
}

const FAILURES = { well: undefined, own: "own", error: "22012" } as const;

export const transaction: Make = (dice, shared) => {
  const { ledger } = shared;
  const steps = Array.from({ length: 1 + dice.below(3) }, () => dice.pick([insert, insert, one, sleep])(dice, shared));
  const ends = dice.pick(["well", "well", "well", "own", "error"] as const);
  const numbers = steps.flatMap((step) => step.numbers ?? []);
  const fails = FAILURES[ends];
  return {
    says: `transaction: ${steps.map(({ says }) => says).join(" | ")}, ends ${ends}`,
    numbers,
    settles: true,
    ...(fails !== undefined && { fails }),
    async run(on, how) {
      let returns = false;
      const work = async (tx: Queries) => {
        for (const step of steps) await step.run(tx as Session, {});
        if (ends === "own") throw new Own("of its own accord");
        if (ends === "error") await tx.query(statement`select 1 / 0 as n`, {});
        returns = true;
      };
      try {
        await on.transaction(work, how);
        ledger.settle(numbers, ends === "well" ? "stored" : "absent");
      } catch (error) {
        // COMMIT is only sent after the callback.
        if (!returns) ledger.settle(numbers, "absent");
        throw error;
      }
    },
  };
};

// -- what a borrower leaves -------------------------------------------------------------------------------------------

/** A borrower has found a setting of another borrower. */
export class LeftBehind extends Error {}

const zone = async (on: Queries, how: Disturbed): Promise<unknown> =>
  whole(await on.query(statement`select current_setting('TimeZone') as zone`, how))[0]?.["zone"];

const set: Make = () => ({
  says: "borrows, and sets timezone",
  borrows: true,
  run: (on, how) =>
    borrowed(on as Database, async (lease) => {
      await lease.query(statement`set timezone = 'Asia/Tokyo'`, how);
      assert.equal(await zone(lease, {}), "Asia/Tokyo");
    }),
});

const look: Make = () => ({
  says: "borrows, and looks at timezone",
  borrows: true,
  run: (on, how) =>
    borrowed(on as Database, async (lease) => {
      const found = await zone(lease, how);
      if (found === "Asia/Tokyo") throw new LeftBehind("a borrower finds the timezone of the one before");
      assert.equal(found, "UTC");
    }),
});

async function borrowed(on: Database, work: (lease: Session) => Promise<void>): Promise<void> {
  const lease = await on.lease();
  try {
    await work(lease);
  } finally {
    await lease.release();
  }
}

// -- which one --------------------------------------------------------------------------------------------------------

const ALL: readonly Make[] = [one, one, sleep, many, many, cursor, failure, insert, insert, insert, set, look, look];

/** `borrows`: the caller may borrow. */
export function callOf(dice: Dice, shared: Shared, borrows: boolean): Call {
  for (;;) {
    const call = dice.pick(ALL)(dice, shared);
    if (borrows || !call.borrows) return call;
  }
}

// -- rows -------------------------------------------------------------------------------------------------------------

/** A result that has nothing where a row should be. */
export class Holes extends Error {}

function whole(rows: readonly (Row | undefined)[]): readonly Row[] {
  const holes = rows.filter((row) => row === undefined).length;
  if (holes) throw new Holes(`${holes} of ${rows.length} rows are undefined`);
  return rows as readonly Row[];
}

/** Rows of postgres.js and pg have more than their columns. */
const plain = (rows: readonly Row[]): Row[] => whole(rows).map((row) => ({ ...row }));

const numbersOf = (rows: readonly Row[]): unknown[] => whole(rows).map((row) => row["n"]);
