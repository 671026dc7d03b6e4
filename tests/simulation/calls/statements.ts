// Prepared statements between aborts, long batches, and COPY whose source fails or waits.
//
// Knows these calls and the facts of their errors. Must not know what a connection has prepared.
import type * as pgz from "../../../js/index.ts";
import { assert, AssertionError } from "../../integration/assert.ts";
import { decode, pause, range } from "../../random/plan.ts";
import { asClient, codeOf, endOf, refused, type Make } from "./call.ts";

/** A statement runs again and again. Now and then a run is aborted at once, or a little later. */
const preparedAcrossAborts: Make = (dice, world) => {
  const text = `select $1::int4 as n, $2::text as t, ${dice.below(3)} as which`;
  const runs = Array.from({ length: 2 + dice.below(6) }, () => ({
    number: ++world.number,
    abort: dice.oneIn(3) ? dice.below(dice.pick([1, 3, 20])) : undefined,
    pad: dice.pick([3, 3, 5_000]),
  }));
  return {
    says: `prepared, run ${runs.length} times, ${runs.filter(({ abort }) => abort !== undefined).length} aborted`,
    kind: "client",
    hasSeveralTurns: true,
    async run(caller, options) {
      const statement = await caller.prepare<{ n: number; t: string }>(text, options);
      try {
        for (const { number, abort, pad } of runs) {
          const own = new AbortController();
          const timer = abort === undefined ? undefined : setTimeout(() => own.abort(), abort);
          const signal = AbortSignal.any([own.signal, ...(options.signal ? [options.signal] : [])]);
          const asked = statement.query([number, "x".repeat(pad)], { ...options, signal });
          const error = await endOf(asked);
          clearTimeout(timer);
          if (codeOf(error) === "ABORTED" && own.signal.aborted && !options.signal?.aborted) continue;
          if (error !== undefined) throw error;
          const { rows } = await asked;
          assert.deepEqual([rows.length, rows[0]!.n, rows[0]!.t.length], [1, number, pad]);
        }
      } finally {
        statement.close();
      }
    },
  };
};

/** More texts than a connection caches, each several times. */
const manyPrepared: Make = (dice, world) => {
  const texts = range(1, 2 + dice.below(6)).map((at) => `select $1::int4 as n, ${at} as which`);
  const runs = Array.from({ length: 4 + dice.below(12) }, () => ({ at: dice.below(texts.length), n: ++world.number }));
  return {
    says: `${texts.length} prepared statements, ${runs.length} runs in turn`,
    kind: "client",
    hasSeveralTurns: true,
    async run(caller, options) {
      const statements = await Promise.all(texts.map((text) => caller.prepare<{ n: number }>(text, options)));
      const ends = await Promise.all(
        runs
          .map(async ({ at, n }) => {
            const { rows } = await statements[at]!.query([n], options);
            assert.deepEqual(rows, [{ n, which: at + 1 }]);
          })
          .map(endOf),
      );
      for (const statement of statements) statement.close();
      await refused(
        Promise.resolve().then(() => statements[0]!.query([1])),
        "a closed statement",
        "INVALID_QUERY",
      );
      const error = ends.find((end) => end !== undefined);
      if (error !== undefined) throw error;
    },
  };
};

/** Thirty items, of which one may fail: the error reports which, and the outcome of the others. */
const longBatch: Make = (dice, world) => {
  const numbers = world.ledger.take(30);
  const failing = dice.oneIn(2) ? dice.below(30) : -1;
  const results = dice.pick(["rows", "count", "ndjson"] as const);
  const error = dice.pick(["22012", "22P02", "42P01"] as const);
  const wrong = { "22012": "select 1 / 0", "22P02": "select 'x'::int4", "42P01": "select * from no_such_table" }[error];
  return {
    says: `batch of 30 as ${results}${failing < 0 ? "" : `, ${failing} fails with ${error}`}`,
    groups: [numbers],
    ...(failing < 0 ? {} : { fails: error }),
    async run(caller, options) {
      const { sql, schema } = world;
      const table = sql.identifier(schema, "ledger");
      const queries = numbers.map((number, at) =>
        at === failing ? wrong : sql`insert into ${table} values (${number}::int4) returning n`,
      );
      const asked = caller.batch(queries, { ...options, results });
      const ended = await endOf(asked);
      if (ended !== undefined) {
        if (codeOf(ended) === error) checkFacts(ended, failing);
        throw ended;
      }
      (await asked).forEach((item, at) => {
        const { rowCount, rows, bytes } = item as { rowCount: number; rows?: unknown; bytes?: Uint8Array };
        assert.equal(rowCount, 1);
        if (results === "rows") assert.deepEqual(rows, [{ n: numbers[at] }]);
        if (results === "ndjson") assert.equal(decode(bytes!), `{"n":${numbers[at]}}\n`);
      });
    },
  };
};

function checkFacts(error: unknown, failing: number): void {
  const { batch } = error as { batch?: { index?: number; rolledBack: number[]; skipped: number[] } };
  if (!batch) throw new AssertionError("an error of a batch does not say which item failed");
  // If a statement cannot even be described, no item has run.
  const rolledBack = batch.rolledBack.length ? range(0, failing - 1) : [];
  const skipped = range(0, 29).filter((at) => at !== failing && !rolledBack.includes(at));
  assert.deepEqual(
    [batch.index, batch.rolledBack, batch.skipped],
    [failing, rolledBack, skipped],
    "what the error says of the items",
  );
}

/** An item whose value does not fit its type: the error has its index, and no item has run. */
const wrongItem: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(6));
  const at = dice.below(numbers.length);
  const atomic = dice.oneIn(2);
  const [wrong, code] = dice.pick([
    ["x", "INVALID_PARAMETER"],
    [{}, "INVALID_PARAMETER"],
    [2 ** 40, "PARAMETER_OUT_OF_RANGE"],
  ] as const);
  const isKnown = dice.oneIn(2);
  return {
    says: `batch of ${numbers.length}${atomic ? "" : ", not atomic"}, the value of item ${at} is ${JSON.stringify(wrong)}`,
    kind: "client",
    groups: [numbers],
    settles: true,
    fails: code,
    hasSeveralTurns: isKnown,
    async run(caller, options) {
      const { ledger, schema } = world;
      const text = `insert into ${schema}.ledger values ($1)`;
      if (isKnown) await caller.describe(text, options);
      const queries = numbers.map((number, index) => ({ text, values: [index === at ? wrong : number] }));
      const given = { ...options, atomic: atomic as false };
      const error = await endOf(asClient(caller).batch(queries, given));
      ledger.settle(numbers, "absent");
      if (codeOf(error) === code)
        assert.equal((error as { batch?: { index?: number } }).batch?.index, at, "the item it names");
      if (error !== undefined) throw error;
    },
  };
};

class SourceError extends Error {}

/**
 * A source that throws before its first piece, in the middle or after its last piece; also a source that throws
 * nothing.
 */
const sourceThrows: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(20));
  const at = dice.below(numbers.length + 1);
  const byRows = dice.oneIn(2);
  const isProgress = !byRows && dice.oneIn(4);
  const thrower = isProgress ? "whose onProgress" : `whose source at ${at}`;
  return {
    says: `copyFrom${byRows ? "Rows" : ""} of ${numbers.length}, ${thrower} throws`,
    groups: [numbers],
    fails: "COPY_SOURCE_FAILED",
    async run(caller, options) {
      const { sql, schema } = world;
      const thrown = new SourceError("the source ends");
      async function* source<Piece>(make: (number: number) => Piece): AsyncGenerator<Piece> {
        for (const [index, number] of numbers.entries()) {
          if (index === at && !isProgress) throw thrown;
          if (index % 5 === 4) await pause(1);
          yield make(number);
        }
        if (at === numbers.length && !isProgress) throw thrown;
      }
      const onProgress = () => {
        if (isProgress) throw thrown;
      };
      const given = { ...options, onProgress };
      const copying = byRows
        ? caller.copyFromRows(
            sql.identifier(schema, "ledger"),
            ["n"],
            source((number) => [number]),
            given,
          )
        : caller.copyFrom(
            `copy ${schema}.ledger (n) from stdin`,
            source((number) => `${number}\n`),
            given,
          );
      const error = await endOf(copying);
      if (codeOf(error) === "COPY_SOURCE_FAILED") assert.equal((error as Error).cause, thrown, "its cause");
      if (error !== undefined) throw error;
    },
  };
};

/** A source, or its progress callback, that waits forever: the call's timeout ends it, and the source is closed. */
const sourceWaits: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(10));
  const timeout = 1 + dice.below(200);
  const who = dice.pick(["source", "onProgress"] as const);
  return {
    says: `copyFrom of ${numbers.length} whose ${who} waits for good, timeout ${timeout}`,
    groups: [numbers],
    kind: "client",
    settles: true,
    fails: "QUERY_TIMEOUT",
    async run(caller, options) {
      const { ledger, schema } = world;
      let isLeft = false;
      let reads = 0;
      const source = {
        [Symbol.asyncIterator]: () => ({
          next: (): Promise<IteratorResult<string>> =>
            reads++ < numbers.length
              ? Promise.resolve({ done: false, value: `${numbers[reads - 1]}\n` })
              : new Promise<never>(() => {}),
          return: () => ((isLeft = true), Promise.resolve({ done: true as const, value: undefined })),
        }),
      };
      const longest = Math.min(timeout, options.timeout ?? timeout);
      const text = `copy ${schema}.ledger (n) from stdin`;
      const never = () => new Promise<never>(() => {});
      const copying =
        who === "source"
          ? caller.copyFrom(text, source, { ...options, timeout: longest })
          : caller.copyFrom(text, `${numbers.join("\n")}\n`, { ...options, timeout: longest, onProgress: never });
      const error = await endOf(copying);
      // CopyDone was never sent.
      ledger.settle(numbers, "absent");
      // The source is closed after the call.
      await pause(1);
      assert(isLeft || !reads, "the source was not told that the call is over");
      if (error !== undefined) throw error;
    },
  };
};

/** A row that its column cannot hold: the error contains the row's number. */
const wrongRow: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(20));
  const at = dice.below(numbers.length + 1);
  return {
    says: `copyFromRows of ${numbers.length}, row ${at} is wrong`,
    groups: [numbers],
    fails: "INVALID_PARAMETER",
    async run(caller, options) {
      const { sql, schema } = world;
      const rows: unknown[][] = numbers.map((number) => [number]);
      rows.splice(at, 0, ["x"]);
      const error = await endOf(caller.copyFromRows(sql.identifier(schema, "ledger"), ["n"], rows as never, options));
      if (codeOf(error) === "INVALID_PARAMETER") assert.equal((error as { row?: number }).row, at, "its row");
      if (error !== undefined) throw error;
    },
  };
};

/** Options that are refused before anything is sent. */
const misused: Make = (dice) => {
  const [code, call] = dice.pick([
    ["INVALID_QUERY", (caller: pgz.Client) => caller.query("select $1", [])],
    ["COPY_NEEDS_COPY_CALL", (caller: pgz.Client) => caller.copyFrom("select 1", ["x"])],
    ["UNKNOWN_OPTION", (caller: pgz.Client) => caller.query("select 1", { maxRow: 1 } as object)],
    ["INVALID_OPTION", (caller: pgz.Client) => caller.query("select 1", { maxRows: -1 })],
    ["INVALID_PARAMETER", (caller: pgz.Client) => caller.query("select $1::text as t", [undefined])],
    ["COPY_NEEDS_COPY_CALL", (caller: pgz.Client) => caller.query("copy ledger to stdout")],
  ] as const);
  return {
    says: `a call that is refused with ${code}`,
    async run(caller) {
      await refused(
        Promise.resolve().then(() => call(caller as pgz.Client) as Promise<unknown>),
        "what is wrong with it",
        code,
      );
    },
  };
};

/** Calls for any caller. */
export const statements: readonly Make[] = [
  ...[preparedAcrossAborts, preparedAcrossAborts, manyPrepared, longBatch, longBatch, wrongItem],
  ...[sourceThrows, sourceThrows, sourceWaits, wrongRow, misused],
];
