// Transactions: savepoints whose inner part fails, readers that stop inside, `last`, and use after the end.
//
// Knows what a transaction must do to the numbers that its calls write. tests/random draws transactions of many calls;
// these are the forms that such draws leave out.
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import type { Caller, Disturbed, World } from "../../random/plan.ts";
import { alwaysRefused, asClient, codeOf, endOf, mayBeRefused, refused, type Make } from "./call.ts";

class Own extends Error {
  readonly code = "own";
}

interface Fate {
  /** Numbers that are stored if the transaction commits. */
  readonly kept: readonly number[];
  /** Numbers that are never stored. */
  readonly undone: readonly number[];
}

type Options = Disturbed & Omit<pgz.TransactionOptions, "signal" | "timeout">;

/**
 * Runs `work` in a transaction, and settles its numbers in the ledger. `last`: the numbers are written by the last
 * statement.
 */
async function transacted(
  { ledger }: World,
  caller: Caller,
  { kept, undone }: Fate,
  options: Options,
  work: (tx: pgz.Transaction) => Promise<void>,
  last?: (tx: pgz.Transaction) => Promise<unknown>,
): Promise<void> {
  let returned = false;
  const whole = async (tx: pgz.Transaction) => {
    returned = false;
    await work(tx);
    returned = true;
    await last?.(tx);
  };
  const error = await endOf(asClient(caller).transaction(whole, options));
  if (error === undefined) {
    ledger.settle(kept, "stored");
    return ledger.settle(undone, "absent");
  }
  const { transaction: known } = error as { transaction?: string };
  const isUndone = !returned || known === "rolled back" || codeOf(error) === "TRANSACTION_ROLLED_BACK";
  if (isUndone) ledger.settle([...kept, ...undone], "absent");
  else if (known === "committed") ledger.settle(kept, "stored");
  throw error;
}

function insert({ sql, schema }: World, numbers: readonly number[]): pgz.Query {
  return sql`insert into ${sql.identifier(schema, "ledger")} select unnest(${numbers}::int4[])`;
}

/** Returns which of these numbers the transaction sees. */
async function seen(tx: pgz.Transaction, { sql, schema }: World, numbers: readonly number[]): Promise<number[]> {
  const query = sql`select n from ${sql.identifier(schema, "ledger")} where n = any(${numbers}::int4[]) order by n`;
  return (await tx.query<{ n: number }>(query)).rows.map(({ n }) => n);
}

/** An inner transaction fails. Its writes are undone, and the outer transaction continues. */
const innerFails: Make = (dice, world) => {
  const [first, second, undone, deeper] = [1, 1, 2, 1].map((count) => world.ledger.take(count)) as number[][];
  const how = dice.pick(["own", "22012", "failed before", "cap"] as const);
  const depth = dice.below(3);
  const isolation = dice.pick([undefined, "serializable", "repeatable read"] as const);
  const fate = { kept: [...first!, ...second!], undone: [...undone!, ...deeper!] };
  return {
    says: `transaction with a savepoint ${depth + 1} deep that ends by ${how}`,
    kind: "transaction",
    groups: [fate.kept, fate.undone],
    settles: true,
    async run(caller, options) {
      const fails = async (inner: pgz.Transaction): Promise<void> => {
        await inner.exec(insert(world, undone!));
        assert.deepEqual(await seen(inner, world, undone!), undone, "what an inner transaction sees");
        if (how === "own") throw new Own("of its own accord");
        if (how === "cap") await inner.query("select n from generate_series(1, 50) n", { maxRows: 3 });
        if (how === "failed before") {
          await refused(inner.query("select 1 / 0"), "a division", "22012");
          await refused(inner.query("select 1 as n"), "a query of a failed transaction", "25P02");
          throw new Own("of its own accord");
        }
        await inner.query("select 1 / 0");
      };
      const code = { own: "own", "22012": "22012", "failed before": "own", cap: "RESPONSE_TOO_LARGE" }[how];
      const nest = async (tx: pgz.Transaction, more: number): Promise<void> => {
        if (more === 0) return void (await refused(tx.transaction(fails), "an inner transaction", code));
        await tx.transaction(async (inner) => {
          await nest(inner, more - 1);
          // This is undone too, because the transaction around it fails below.
          if (more === depth && depth === 2) await inner.exec(insert(world, deeper!));
          if (more === depth && depth === 2) throw new Own("around it");
        });
      };
      await transacted(world, caller, fate, { ...options, isolation }, async (tx) => {
        await tx.exec(insert(world, first!));
        if (depth === 2) await refused(nest(tx, depth), "the transaction around it", "own");
        else await nest(tx, depth);
        await tx.exec(insert(world, second!));
        assert.deepEqual(await seen(tx, world, [...fate.kept, ...fate.undone]), fate.kept, "what is left of it");
      });
    },
  };
};

/** Calls on the outer transaction are refused while an inner one is open. */
const outerMeanwhile: Make = (_, world) => {
  const fate = { kept: world.ledger.take(1), undone: [] };
  return {
    says: "transaction whose outer part is called while an inner one is open",
    kind: "transaction",
    groups: [fate.kept],
    settles: true,
    async run(caller, options) {
      await transacted(world, caller, fate, options, (tx) =>
        tx.transaction(async (inner) => {
          await inner.exec(insert(world, fate.kept));
          await alwaysRefused(tx.query("select 1 as n"), "the outer transaction", "TRANSACTION_OPEN");
          await alwaysRefused(
            tx.transaction(() => {}),
            "a second inner one",
            "TRANSACTION_OPEN",
          );
          await alwaysRefused(inner.last("select 1 as n"), "last() of an inner one", "TRANSACTION_OPEN");
        }),
      );
    },
  };
};

const innersTogether: Make = (_, world) => {
  const fate = { kept: world.ledger.take(2), undone: world.ledger.take(1) };
  const [one, other] = fate.kept as [number, number];
  return {
    says: "transaction with one savepoint after the other, the second of which fails",
    kind: "transaction",
    groups: [fate.kept, fate.undone],
    settles: true,
    async run(caller, options) {
      await transacted(world, caller, fate, options, async (tx) => {
        await tx.transaction((inner) => inner.exec(insert(world, [one])));
        const failing = tx.transaction(async (inner) => {
          await Promise.all([inner.exec(insert(world, fate.undone)), inner.query("select 1 / 0")]);
        });
        await refused(failing, "an inner transaction", "22012");
        await tx.transaction((inner) => inner.exec(insert(world, [other])));
      });
    },
  };
};

/** In a savepoint rows are left early, which fails the savepoint. The outer transaction continues. */
const readerStops: Make = (dice, world) => {
  const fate = { kept: world.ledger.take(2), undone: world.ledger.take(1) };
  const [one, other] = fate.kept as [number, number];
  const call = dice.pick(["rows", "stream", "cursor", "copyTo"] as const);
  const count = 20 + dice.below(500);
  const leave = 1 + dice.below(20);
  return {
    says: `transaction in whose savepoint ${call} of ${count} rows is left after ${leave}`,
    kind: "transaction",
    groups: [fate.kept, fate.undone],
    settles: true,
    async run(caller, options) {
      await transacted(world, caller, fate, options, async (tx) => {
        await tx.exec(insert(world, [one]));
        const inner = tx.transaction(async (inside) => {
          await inside.exec(insert(world, fate.undone));
          await leaveEarly(inside, call, count, leave);
          throw new Own("of its own accord");
        });
        await refused(inner, "an inner transaction", "own");
        await tx.exec(insert(world, [other]));
      });
    },
  };
};

async function leaveEarly(tx: pgz.Transaction, call: string, count: number, leave: number): Promise<void> {
  const text = `select n from generate_series(1, ${count}) n`;
  let read = 0;
  if (call === "rows") for await (const row of tx.rows(text)) if (row && ++read >= leave) break;
  if (call === "cursor") for await (const rows of tx.cursor(text, 7)) if ((read += rows.length) >= leave) break;
  if (call !== "stream" && call !== "copyTo") return;
  const stream = call === "stream" ? await tx.stream(text) : await tx.copyTo(`copy (${text}) to stdout`);
  const reader = stream.getReader();
  if (leave % 2) await reader.read();
  await reader.cancel();
}

/** The callback returns while a stream is unread: either the stream was over, or everything is undone. */
const streamLeftOpen: Make = (dice, world) => {
  const fate = { kept: world.ledger.take(1), undone: [] };
  const count = 1 + dice.below(dice.pick([5, 600]));
  return {
    says: `transaction that returns over an open stream of ${count} rows`,
    kind: "transaction",
    groups: [fate.kept],
    settles: true,
    async run(caller, options) {
      const transaction = transacted(world, caller, fate, options, async (tx) => {
        await tx.exec(insert(world, fate.kept));
        await tx.stream(`select n, repeat('x', 900) as pad from generate_series(1, ${count}) n`);
      });
      if (!(await mayBeRefused(transaction, "STREAM_OPEN"))) world.ledger.settle(fate.kept, "absent");
    },
  };
};

/** Every call on a finished transaction is refused, and sends nothing. */
const usedAfterEnd: Make = (dice, world) => {
  const fate = { kept: world.ledger.take(1), undone: world.ledger.take(1) };
  const ends = dice.pick(["well", "own", "last"] as const);
  const fates = ends === "own" ? { kept: [], undone: [...fate.kept, ...fate.undone] } : fate;
  return {
    says: `transaction that is used behind its end, ${ends}`,
    kind: "transaction",
    groups: [fate.kept, fate.undone],
    settles: true,
    ...(ends === "own" ? { fails: "own" } : {}),
    async run(caller, options) {
      let kept: pgz.Transaction | undefined;
      const work = async (tx: pgz.Transaction) => {
        kept = tx;
        await tx.exec(insert(world, fate.kept));
        if (ends === "own") throw new Own("of its own accord");
      };
      const last = (tx: pgz.Transaction) => tx.last("select 1 as n");
      const error = await endOf(transacted(world, caller, fates, options, work, ends === "last" ? last : undefined));
      if (kept) await allRefused(kept, insert(world, fate.undone));
      if (error !== undefined) throw error;
    },
  };
};

async function allRefused(tx: pgz.Transaction, query: pgz.Query): Promise<void> {
  const copy = "copy ledger from stdin";
  const calls: Record<string, () => Promise<unknown>> = {
    query: () => tx.query(query),
    exec: () => tx.exec(query),
    json: () => tx.json(query),
    stream: () => tx.stream(query),
    rows: () => tx.rows(query)[Symbol.asyncIterator]().next(),
    cursor: () => tx.cursor(query, 1)[Symbol.asyncIterator]().next(),
    batch: () => tx.batch([query]),
    simple: () => tx.simple("select 1"),
    prepare: () => tx.prepare("select 1"),
    copyFrom: () => tx.copyFrom(copy, ["1\n"]),
    copyTo: () => tx.copyTo("copy ledger to stdout"),
    transaction: () => tx.transaction(() => {}),
    last: () => tx.last(query),
    notify: () => tx.notify("random", "x"),
  };
  for (const [name, call] of Object.entries(calls)) await alwaysRefused(call(), name, "TRANSACTION_FINISHED");
}

/** The last statement, whose COMMIT has been sent when the driver refuses something in its rows. */
const last: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(4));
  const how = dice.pick(["well", "well", "cap", "22012", "first"] as const);
  const fate = how === "22012" ? { kept: [], undone: numbers } : { kept: numbers, undone: [] };
  const fails = { well: undefined, first: undefined, cap: "RESPONSE_TOO_LARGE", "22012": "22012" }[how];
  return {
    says: `transaction with last() of ${numbers.length}, ${how}`,
    kind: "transaction",
    groups: [numbers],
    settles: true,
    ...(fails === undefined ? {} : { fails }),
    async run(caller, options) {
      const { sql } = world;
      const work = async (tx: pgz.Transaction) => {
        if (how === "22012") await tx.exec(insert(world, numbers));
      };
      const final = async (tx: pgz.Transaction) => {
        if (how === "22012") return tx.last("select 1 / 0");
        const query = sql`${insert(world, numbers)} returning n`;
        const result = tx.last(query, how === "cap" ? { maxBytes: 1 } : {});
        await alwaysRefused(tx.query("select 1"), "a call behind last()", "TRANSACTION_FINISHED");
        assert.equal((await result).rows.length, numbers.length);
        return result;
      };
      await transacted(world, caller, fate, options, work, final);
    },
  };
};

/** The callback swallows a statement's error, so COMMIT rolls back and reports it. */
const swallowed: Make = (dice, world) => {
  const fate = { kept: world.ledger.take(1), undone: [] };
  const isReadOnly = dice.oneIn(2);
  return {
    says: `transaction that swallows ${isReadOnly ? "25006 of a write while it is read-only" : "22012"}`,
    kind: "transaction",
    groups: [fate.kept],
    settles: true,
    fails: "TRANSACTION_ROLLED_BACK",
    async run(caller, options) {
      await transacted(world, caller, fate, { ...options, readOnly: isReadOnly }, async (tx) => {
        if (isReadOnly) return void (await refused(tx.exec(insert(world, fate.kept)), "a write", "25006"));
        await tx.exec(insert(world, fate.kept));
        await refused(tx.query("select 1 / 0"), "a division", "22012");
      });
    },
  };
};

/** A transaction that SQL ends without the driver's knowledge. */
const endedBySql: Make = (dice, world) => {
  const numbers = world.ledger.take(1);
  const end = dice.pick(["commit", "rollback"] as const);
  return {
    says: `transaction that is ended by ${end} in SQL`,
    kind: "transaction",
    groups: [numbers],
    settles: true,
    fails: "TRANSACTION_FINISHED",
    async run(caller, options) {
      let isSent = false;
      const work = async (tx: pgz.Transaction) => {
        await tx.exec(insert(world, numbers));
        isSent = true;
        await tx.exec(end);
        world.ledger.settle(numbers, end === "commit" ? "stored" : "absent");
        isSent = false;
        await tx.query("select 1 as n");
      };
      const error = await endOf(asClient(caller).transaction(work, options));
      if (isSent && end === "rollback") world.ledger.settle(numbers, "absent");
      if (error !== undefined) throw error;
    },
  };
};

/** BEGIN has the requested isolation, access mode and deferrable mode. */
const asAsked: Make = (dice) => {
  const asked = {
    isolation: dice.pick(["read uncommitted", "read committed", "repeatable read", "serializable"] as const),
    readOnly: dice.oneIn(2),
    deferrable: dice.oneIn(2),
  };
  const names = ["transaction_isolation", "transaction_read_only", "transaction_deferrable"];
  const text = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join()}`;
  return {
    says: `transaction with ${JSON.stringify(asked)}`,
    kind: "transaction",
    async run(caller, options) {
      await asClient(caller).transaction(
        async (tx) => {
          const { rows } = await tx.query<Record<string, string>>(text);
          const flags = [asked.readOnly, asked.deferrable].map((is) => (is ? "on" : "off"));
          assert.deepEqual(Object.values(rows[0]!), [asked.isolation, ...flags], "what it was begun with");
        },
        { ...options, ...asked },
      );
    },
  };
};

/** A callback waits for the client's next transaction, which waits for the callback: the next transaction gives way. */
const waitsForItself: Make = (_, world) => {
  const number = ++world.number;
  return {
    says: "transaction of a client inside another's callback",
    kind: "transaction",
    async run(caller, options) {
      const client = asClient(caller);
      let inner: Promise<unknown> | undefined;
      const outer = client.transaction(async (tx) => {
        inner = client.transaction((other) => other.query("select 1 as n"), { signal: options.signal });
        await refused(inner, "the inner one", "TRANSACTION_OPEN");
        const { rows } = await tx.query(world.sql`select ${number}::int4 as n`);
        assert.deepEqual(rows, [{ n: number }]);
      }, options);
      const error = await endOf(outer);
      // If the outer transaction ended early, the inner one runs now.
      if (inner) await endOf(inner);
      if (error !== undefined) throw error;
    },
  };
};

/** Calls for a client: in a pool the next transaction has its own connection. */
export const nestedOfClients: readonly Make[] = [waitsForItself];

/** Calls for every caller that can begin a transaction. */
export const nested: readonly Make[] = [
  ...[innerFails, innerFails, outerMeanwhile, innersTogether, readerStops, readerStops, streamLeftOpen],
  ...[usedAfterEnd, last, last, swallowed, endedBySql, asAsked],
];
