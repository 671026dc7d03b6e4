// How the first run of a statement is carried out (js/statement/execute.ts), over sockets in memory: what may be
// pipelined after it, and the type look-up before its second flight.
import { beforeEach, expect, test, vi } from "vitest";
import { Call } from "../../js/session/call.ts";
import { sql } from "../../js/statement/sql.ts";
import {
  answer,
  behindPrelude,
  described,
  firstFlight,
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
} from "../support/memory-session.ts";
import {
  completeAndReady,
  description,
  ended,
  errorAndReady,
  executed,
  firstBegun,
  firstExecuted,
  firstItem,
  int4,
  missesTypes,
  ran,
  says,
  textRows,
} from "../support/server-messages.ts";
import { answerWrite } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
beforeEach(() => newClient({ firstRun: "text", prepare: "unnamed" }));

const mood = { name: "m", oid: 20_001, size: -1 };
const pair = { name: "c", oid: 20_002, size: -1 };
const [MOOD, NAMES] = ['[[20001,"e","mood",[0],[]]]', '{"mood":20001}'];
const PAIR = '[[20002,"c","pair",[23],["a"]]]';
const types = { mood: (text: string) => text.toUpperCase() };

/** The answer to a first run with one row of this column. */
const wholeOf = (column: typeof int4, value: string) =>
  Buffer.concat([firstBegun([column]), textRows(value), ended(1)]);

/** The answers to a first run whose check misses this type. In a transaction: BEGIN has run. */
const misses = (oid: number, isBegun = false) => [
  ...[wire.closeComplete(), ...(isBegun ? [ran("BEGIN")] : []), missesTypes([oid], isBegun ? "E" : "I")],
];

// -- pipelining ------------------------------------------------------------------------------------------------------

test("first runs are pipelined, and each reports the length of its text and values", async () => {
  const said = vi.spyOn(Call.prototype, "sent");
  try {
    const calls = [client.query(sql`select ${"abc"}`), client.query("select n")];
    const session = await firstRun();
    await firstRun(session);
    // The values take a count of formats, a count of values, and the length of each.
    expect(said.mock.calls).toEqual([["select $1".length + 2 + 2 + 4 + 3], ["select n".length + 2 + 2]]);
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
  session.send(firstItem("1", "BEGIN"));
  expect(await second).toEqual(described);
  session.send(errorAndReady("42P01", "E"));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  expect(await transaction).toMatchObject({ code: "42P01" });
});

// -- type look-ups before the statement ------------------------------------------------------------------------------

test.each([
  ["types", mood, MOOD, "sad", "sad"],
  // No further look-up is needed for its rows.
  ["a composite", pair, PAIR, "(1)", { a: 1 }],
])(
  "%s that the check misses are looked up before a second flight, in one write with it",
  async (_, column, definition, text, value) => {
    const call = client.query("select m");
    const session = await firstRun(undefined, ...misses(column.oid));
    await answerWrite(session, ["Query", ...firstFlight], says(definition), wholeOf(column, text));
    expect((await call).rows).toEqual([{ [column.name]: value }]);
    await nextRunsFirst(session);
  },
);

test("if the look-up before the run fails, it is repeated after the run, whose rows have waited", async () => {
  const call = client.query("select c");
  const session = await firstRun(undefined, ...misses(20_002));
  await answerWrite(session, ["Query", ...firstFlight], errorAndReady("55P03"), wholeOf(pair, "(1)"));
  await answer(session, ["Query"], says(PAIR));
  expect((await call).rows).toEqual([{ c: { a: 1 } }]);
});

test("a transaction that began with the first run is rolled back and begins again after the look-up", async () => {
  const transaction = client.transaction((tx) => tx.query("select m"));
  const session = await letIn();
  await answer(session, behindPrelude, ...misses(20_001, true));
  await answerWrite(session, ["Query"], completeAndReady("ROLLBACK"));
  await answerWrite(session, ["Query", ...behindPrelude], says(MOOD), firstItem("sad", "BEGIN", [mood]));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  expect((await transaction).rows).toEqual([{ m: "sad" }]);
});

test("the names in `types` are looked up after the missing types, and the statement follows both answers", async () => {
  const call = client.query("select m", { types });
  const session = await letIn();
  await answer(session, ["Query"], says(NAMES));
  await firstRun(session, ...misses(20_001));
  await answerWrite(session, ["Query"], says(MOOD));
  await answerWrite(session, ["Query"], says(NAMES));
  await firstRun(session, wholeOf(mood, "sad"));
  expect((await call).rows).toEqual([{ m: "SAD" }]);
});

test("if first runs were given up meanwhile, the statement is described after the type look-up", async () => {
  const calls = [client.query("select m"), client.query("select n")];
  const session = await firstRun();
  const checks = [wire.closeComplete(), wire.parseComplete(), wire.parseComplete(), wire.bindComplete()];
  const settings = errorAndReady("22P02", "I", { M: 'invalid input syntax for type integer: "pgz-edge: settings"' });
  await firstRun(session, ...misses(20_001), ...checks, settings);
  const answers = new Map([
    ["Query", says(MOOD)],
    [described.join(), description()],
    [execution.join(), executed(5)],
  ]);
  for (const _ of "12345") session.send(answers.get((await session.flight()).join())!);
  expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 5 }], [{ n: 5 }]]);
});

// -- calls that end during a look-up ---------------------------------------------------------------------------------

test("a call that ends during the type look-up is over, and its statement does not run again", async () => {
  const abort = new AbortController();
  const call = outcome(client.query("select m", { types, signal: abort.signal }));
  const session = await letIn();
  await answer(session, ["Query"], says(NAMES));
  await firstRun(session, ...misses(20_001));
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
  await answer(session, behindPrelude, ...misses(20_001, true));
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
