// Transactions of a random session: calls one after the other or concurrently, nested transactions, and every outcome.
//
// Knows what a transaction must do to the numbers that its calls write. Must not know what disturbs it.
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import { callWhich } from "./calls.ts";
import type { Caller, Plan, World } from "./plan.ts";
import type { Dice } from "./dice.ts";

/** An error that the callback throws on purpose. */
class Own extends Error {
  readonly code = "own";
}

type Step = { calls: readonly Plan[] } | { inner: Body };

/** What a callback does, and its outcome: an error of a call, an error that it throws, or success. */
interface Body {
  steps: readonly Step[];
  ends: "well" | "own" | "error";
  /** Numbers that are stored if the callback succeeds. */
  numbers: readonly number[];
}

/** Calls inside a transaction must neither leave rows early nor fail, because each would fail the transaction. */
const goesWell = (plan: Plan) => plan.fails === undefined && !plan.leaves && plan.kind !== "client";

/** What the round allows in addition. */
type Fits = (plan: Plan) => boolean;

function body(dice: Dice, world: World, fits: Fits, depth = 0): Body {
  const { columns } = world;
  const steps = Array.from({ length: dice.below(4) }, (): Step => {
    if (depth < 3 && dice.oneIn(4)) return { inner: body(dice, world, fits, depth + 1) };
    if (dice.oneIn(3))
      return {
        calls: Array.from({ length: 2 + dice.below(3) }, () =>
          callWhich((plan) => fits(plan) && !plan.streams, dice, world),
        ),
      };
    return { calls: [callWhich(fits, dice, world)] };
  });
  const ends = dice.pick(["well", "well", "well", "own", "error"] as const);
  if (ends !== "well") world.columns = columns;
  const numbers = steps.flatMap((step) =>
    "inner" in step ? step.inner.numbers : step.calls.flatMap(({ groups = [] }) => groups.flat()),
  );
  return { steps, ends, numbers: ends === "well" ? numbers : [] };
}

const FAILURE = { well: undefined, own: "own", error: "22012" };

function says({ steps, ends }: Body, indent: string): string {
  const all = steps.flatMap((step) =>
    "inner" in step
      ? [`${indent}inside:`, says(step.inner, `${indent}  `)]
      : [`${indent}${step.calls.map((plan) => plan.says).join(" | ")}`],
  );
  return [...all, `${indent}ends ${ends}`].join("\n");
}

async function run({ steps, ends }: Body, tx: pgz.Transaction): Promise<void> {
  for (const step of steps) {
    if ("calls" in step) {
      await all(step.calls.map((plan) => plan.run(tx, {})));
      continue;
    }
    const { inner } = step;
    const code = await tx
      .transaction((nested) => run(inner, nested))
      .then(
        () => undefined,
        (error: { code?: string }) => {
          // A disturbance of the whole transaction disturbs this one too.
          if (error.code !== FAILURE[inner.ends]) throw error;
          return error.code;
        },
      );
    assert.equal(code, FAILURE[inner.ends], "the end of a transaction inside");
  }
  if (ends === "own") throw new Own("of its own accord");
  if (ends === "error") await tx.query("select 1 / 0");
}

/** Waits for all calls, also after a failure. Then throws the error that failed the transaction, not a later 25P02. */
async function all(calls: readonly Promise<void>[]): Promise<void> {
  const settled = await Promise.allSettled(calls);
  const errors = settled.flatMap((one) => (one.status === "rejected" ? [one.reason as { code?: string }] : []));
  if (errors.length) throw errors.find(({ code }) => code !== "25P02") ?? errors[0];
}

function written({ steps }: Body): number[] {
  return steps.flatMap((step) =>
    "inner" in step ? written(step.inner) : step.calls.flatMap(({ groups = [] }) => groups.flat()),
  );
}

export function transaction(dice: Dice, world: World, allowed: Fits): Plan {
  const whole = body(dice, world, (plan) => goesWell(plan) && allowed(plan));
  const last = whole.ends === "well" && dice.oneIn(4);
  const retry = dice.oneIn(3);
  const isolation = dice.pick([undefined, undefined, "repeatable read", "serializable"] as const);
  const lost = written(whole).filter((number) => !whole.numbers.includes(number));
  const fails = FAILURE[whole.ends];
  return {
    says: `transaction${isolation ? ` ${isolation}` : ""}${last ? " with last" : ""}:\n${says(whole, "        ")}`,
    kind: "transaction",
    groups: [whole.numbers, lost],
    settles: true,
    ...(fails === undefined ? {} : { fails }),
    async run(caller: Caller, options) {
      const { ledger, sql } = world;
      let returns = false;
      const work = async (tx: pgz.Transaction) => {
        await run(whole, tx);
        returns = true;
        if (last) await tx.last(sql`select 1 as one`);
      };
      try {
        await (caller as pgz.Client).transaction(work, { ...options, retry, isolation });
        ledger.settle(whole.numbers, "stored");
        ledger.settle(lost, "absent");
      } catch (error) {
        // COMMIT is only sent after the callback.
        const { transaction: known } = error as { transaction?: string };
        const numbers = [...whole.numbers, ...lost];
        if (!returns || known === "rolled back") ledger.settle(numbers, "absent");
        else if (known === "committed") ledger.settle(whole.numbers, "stored");
        throw error;
      }
    },
  };
}

/** A transaction in SQL, on the client itself. */
export function transactionInSql(dice: Dice, world: World): Plan {
  const { columns } = world;
  const calls = Array.from({ length: 1 + dice.below(3) }, () => callWhich(goesWell, dice, world));
  const end = dice.pick(["commit", "commit", "rollback"]);
  const numbers = calls.flatMap(({ groups = [] }) => groups.flat());
  if (end === "rollback") world.columns = columns;
  return {
    says: `begin in SQL | ${calls.map((plan) => plan.says).join(" | ")} | ${end}`,
    kind: "quiet",
    groups: [numbers],
    settles: true,
    async run(caller) {
      await caller.exec("begin");
      for (const plan of calls) await plan.run(caller, {});
      assert.equal((await caller.exec(end)).command, end.toUpperCase());
      world.ledger.settle(numbers, end === "commit" ? "stored" : "absent");
    },
  };
}
