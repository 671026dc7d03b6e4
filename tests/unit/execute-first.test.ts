// How the first run of a statement is carried out (js/statement/execute.ts), over sockets in memory: what may be
// pipelined after it, and how its statement runs if its check has failed.
import { beforeEach, expect, test, vi } from "vitest";
import { Call } from "../../js/session/call.ts";
import { sql } from "../../js/statement/sql.ts";
import {
  answer,
  behindBegin,
  behindPrelude,
  described,
  firstRun,
  nextIsDescribed,
  nextRunsFirst,
  outcome,
} from "../support/flights.ts";
import {
  acceptCancel,
  client,
  execution,
  isPending,
  letIn,
  newClient,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  completeAndReady,
  description,
  ended,
  errorAndReady,
  executed,
  firstBegun,
  firstDescribed,
  firstExecuted,
  firstInTransaction,
  int4,
  missesTypes,
  ran,
  says,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
beforeEach(() => newClient({ firstRun: "text", prepare: "unnamed" }));

const mood = { name: "m", oid: 20_001, size: -1 };
const pair = { name: "c", oid: 20_002, size: -1 };
const [MOOD, NAMES] = ['[[20001,"e","mood",[0],[]]]', '{"mood":20001}'];
const PAIR = '[[20002,"c","pair",[23],["a"]]]';
const types = { mood: (text: string) => text.toUpperCase() };

/** The answers to a first run whose check misses this column's type. In a transaction: BEGIN has run. */
const misses = (column: typeof int4, isBegun = false) => [
  ...[wire.closeComplete(), ...(isBegun ? [ran("BEGIN")] : []), missesTypes([column], isBegun ? "E" : "I")],
];

/** The answer to an execution with one row of this column, in binary. */
const executedIn = (column: typeof int4, value: Buffer, status: "I" | "T" = "I") =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.bindComplete(), wire.rowDescription([column], [1])],
    ...[wire.dataRow([value]), ended(1, status)],
  ]);
const SAD = Buffer.from("sad");

// -- pipelining ------------------------------------------------------------------------------------------------------

test("first runs are pipelined, and each reports what it is, and the length of its text and values", async () => {
  const said = vi.spyOn(Call.prototype, "sent");
  try {
    const calls = [client.query(sql`select ${"abc"}`), client.query("select n")];
    const session = await firstRun();
    await firstRun(session);
    // The values take a count of formats, a count of values, and the length of each.
    expect(said.mock.calls).toEqual([
      ["select $1".length + 2 + 2 + 4 + 3, true],
      ["select n".length + 2 + 2, true],
    ]);
    session.send(firstBegun([int4], [25]), textRows("1"), ended(1), firstExecuted("2"));
    expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  } finally {
    said.mockRestore();
  }
});

test("no call is sent after a first run with BEGIN, because it could run outside of the transaction", async () => {
  const transaction = outcome(client.transaction((tx) => Promise.all([tx.query("select n"), tx.query("select k")])));
  const session = await letIn();
  await answer(session, behindPrelude);
  const second = session.flight();
  expect(await isPending(second)).toBe(true);
  session.send(firstInTransaction("1"));
  expect(await second).toEqual(described);
  session.send(errorAndReady("42P01", "E"));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  expect(await transaction).toMatchObject({ code: "42P01" });
});

// -- after a failed check --------------------------------------------------------------------------------------------

test.each([
  ["types, once", mood, MOOD, SAD, "sad", false],
  // It may have other attributes by now.
  ["a composite, each time", pair, PAIR, Buffer.concat([1, 23, 4, 7].map(wire.int32)), { a: 7 }, true],
] as const)("what the check misses is looked up, and the statement runs as described: %s", async (...given) => {
  const [, column, definition, bytes, value, isAgain] = given;
  let session: Session | undefined;
  for (const isKnown of [false, true]) {
    const call = client.query(`select m, ${String(isKnown)}`);
    session = await firstRun(session, ...misses(column));
    if (isAgain || !isKnown) await answer(session, ["Query"], says(definition));
    await answer(session, execution, executedIn(column, bytes));
    expect((await call).rows).toEqual([{ [column.name]: value }]);
  }
  await nextRunsFirst(session!);
});

test("if the look-up fails, the statement does not run", async () => {
  const call = outcome(client.query("select c"));
  const session = await firstRun(undefined, ...misses(pair));
  await answer(session, ["Query"], errorAndReady("55P03"));
  expect(await call).toMatchObject({ code: "55P03" });
  await nextRunsFirst(session);
});

test("a transaction that began with the first run is rolled back and begins again after the look-up", async () => {
  const transaction = client.transaction((tx) => tx.query("select m"));
  const session = await letIn();
  await answer(session, behindPrelude, ...misses(mood, true));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  await answer(session, ["Query"], says(MOOD));
  await answer(session, behindBegin, ran("BEGIN"), executedIn(mood, SAD, "T"));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  expect((await transaction).rows).toEqual([{ m: "sad" }]);
});

test("the names of parsers in `types` are looked up again after the types, because they may mean others", async () => {
  const call = client.query("select m", { types });
  const session = await letIn();
  await answer(session, ["Query"], says(NAMES));
  await firstRun(session, ...misses(mood));
  await answer(session, ["Query"], says(MOOD));
  await answer(session, ["Query"], says(NAMES));
  await answer(session, execution, executedIn(mood, SAD));
  expect((await call).rows).toEqual([{ m: "SAD" }]);
});

test("after a check that fails for settings, statements of the session are described", async () => {
  const calls = [client.query("select m"), client.query("select n")];
  const session = await firstRun();
  const checks = [wire.closeComplete(), ...firstDescribed(), wire.parseComplete(), wire.bindComplete()];
  const settings = errorAndReady("22P02", "I", { M: 'invalid input syntax for type integer: "pgz-edge: settings"' });
  await firstRun(session, ...checks, settings, ...checks, settings);
  for (const _ of calls) await answer(session, execution, executed(5));
  expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 5 }], [{ n: 5 }]]);
  await nextIsDescribed(session);
});

// -- calls that end during a look-up ---------------------------------------------------------------------------------

test("a call that ends during the type look-up is over, and its statement does not run again", async () => {
  const abort = new AbortController();
  const call = outcome(client.query("select m", { types, signal: abort.signal }));
  const session = await letIn();
  await answer(session, ["Query"], says(NAMES));
  await firstRun(session, ...misses(mood));
  await answer(session, ["Query"]);
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  await acceptCancel();
  session.send(errorAndReady("57014"));
  await nextRunsFirst(session);
});

test("a call that ends while its transaction is rolled back looks nothing up", async () => {
  const abort = new AbortController();
  const transaction = outcome(client.transaction((tx) => tx.query("select m", { signal: abort.signal })));
  const session = await letIn();
  await answer(session, behindPrelude, ...misses(mood, true));
  await answer(session, ["Query"]);
  abort.abort();
  session.send(completeAndReady("ROLLBACK"));
  expect(await transaction).toMatchObject({ code: "ABORTED" });
  await nextRunsFirst(session);
});

// -- descriptions ----------------------------------------------------------------------------------------------------

test("a value that does not fit the server's description rejects the call, and nothing stays in flight", async () => {
  newClient({ firstRun: "describe", prepare: "unnamed" });
  const call = outcome(client.query(sql`select ${"x"}`));
  const session = await letIn();
  await answer(session, described, description([int4], [23]));
  expect(await call).toMatchObject({ code: "INVALID_PARAMETER" });
  await nextIsDescribed(session);
});
