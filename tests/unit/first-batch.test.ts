// An atomic batch of statements without descriptions (js/statement/first-batch.ts), over sockets in memory: one flight
// with BEGIN, a savepoint for each further item, and COMMIT; and what each failure in it means.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { CANCEL_DEADLINE } from "../../js/util/limits.ts";
import {
  answer,
  behindBegin,
  behindPrelude,
  described,
  firstRun,
  isDescribed,
  nextIsDescribed,
  outcome,
} from "../support/flights.ts";
import {
  acceptCancel,
  accepted,
  client,
  execution,
  fakeTimers,
  isPending,
  letIn,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  begun,
  boundRow,
  checked,
  completeAndReady,
  description,
  ended,
  errorAndReady,
  executed,
  executedWithoutRows,
  firstBegun,
  firstExecuted,
  firstItem,
  int4,
  ran,
  row,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

/** The answer to the first item, with one row. Later ones: `firstItem`. */
const first = (value: string) => firstItem(value, "BEGIN");
const skipped = () => errorAndReady("25P02", "E");

/** Accepts the next session, on which a batch of `count` items is sent, and answers it. */
async function sent(count: number, ...messages: Uint8Array[]): Promise<Session> {
  const session = await letIn();
  for (let at = 0; at < count; at++) await answer(session, behindPrelude);
  await answer(session, execution, ...messages);
  return session;
}

/** Sends a batch of two items, gives these answers, and returns what its error says. */
async function failure(...messages: Uint8Array[]): Promise<unknown> {
  const call = outcome(client.batch(["select a", "select b"]));
  await sent(2, ...messages);
  return call;
}

/** Returns a session on which "select a" is known. */
async function knowingA(): Promise<Session> {
  const learning = client.query("select a");
  const session = await firstRun(undefined, firstExecuted("1"));
  await learning;
  return session;
}

/** Sends a batch of three items whose second statement is known. */
async function behindKnown() {
  const session = await knowingA();
  const call = outcome(client.batch(["select b", "select a", "select c"]));
  await answer(session, behindPrelude);
  await answer(session, behindBegin);
  await answer(session, behindPrelude);
  await answer(session, execution);
  return { session, call };
}

// -- what is sent ----------------------------------------------------------------------------------------------------

test("BEGIN, a savepoint for each further item and COMMIT are one write, and make statements known", async () => {
  const call = client.batch(["select a", "select b", "select c"]);
  const session = await sent(3, first("1"), firstItem("2"), firstItem("3"), executedWithoutRows("COMMIT"));
  expect(await call).toMatchObject([1, 2, 3].map((n) => ({ rows: [{ n }], rowCount: 1, command: "SELECT" })));
  expect((await call)[0]!.fields).toMatchObject([{ name: "n", typeOid: 23 }]);
  const next = client.query("select b");
  await answer(session, execution, executed(4));
  expect((await next).rows).toEqual([{ n: 4 }]);
  // Known statements need no savepoint.
  const known = client.batch(["select a", "select b"]);
  expect((await session.flight()).filter((name) => name === "Execute")).toHaveLength(2);
  session.send(begun(), row(5), begun(), row(6), wire.readyForQuery());
  expect((await known).map((one) => one.rows)).toEqual([[{ n: 5 }], [{ n: 6 }]]);
});

test("the statements before the items are named by their places", async () => {
  const call = outcome(client.batch(["select a", "select b", "select c"]));
  const session = await letIn();
  const preludes: string[] = [];
  for (let message = await session.message(); preludes.length < 4; message = await session.message()) {
    const [, text] = message!.body.toString().split("\0");
    if (message!.name === "Parse" && /^(BEGIN|SAVEPOINT|COMMIT)/.test(text!)) preludes.push(text!);
  }
  expect(preludes).toEqual(["BEGIN", "SAVEPOINT pgz_1", "SAVEPOINT pgz_2", "COMMIT"]);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("counts need no rows, and as bytes each item has its own", async () => {
  const counted = client.batch(["select a", "select b"], { results: "count" });
  await sent(2, first("1"), firstItem("2"), executedWithoutRows("COMMIT"));
  expect(await counted).toEqual([1, 2].map(() => ({ command: "SELECT", rowCount: 1 })));
  await client.close();
  newClient(OPTIONS);
  const bytes = client.batch(["select a", "select b"], { results: "ndjson" });
  await sent(2, first("1"), firstItem("2"), executedWithoutRows("COMMIT"));
  const results = (await bytes) as { bytes: Uint8Array; fields: readonly { name: string }[] }[];
  expect(results.map((one) => new TextDecoder().decode(one.bytes))).toEqual(['{"n":1}\n', '{"n":2}\n']);
  expect(results.map(({ fields }) => fields.map(({ name }) => name))).toEqual([["n"], ["n"]]);
});

test("a statement that is known by then is bound without a Parse", async () => {
  const session = await knowingA();
  const call = client.batch(["select a", "select b"]);
  await answer(session, behindBegin);
  expect((await session.flight()).slice(-3)).toEqual(["Bind", "Execute", "Sync"]);
  await answer(session, execution, ran("BEGIN"), executed(2, 3, "T"), firstItem("3"), executedWithoutRows("COMMIT"));
  expect((await call).map((one) => one.rows)).toEqual([[{ n: 2 }], [{ n: 3 }]]);
});

test("an item without columns has no fields", async () => {
  const call = client.batch(["insert into t default values"], { results: "ndjson" });
  const [columns, none] = [wire.rowDescription([int4]), wire.noData()];
  const described = checked([int4], [], "BEGIN");
  expect(described.subarray(-columns.length)).toEqual(columns);
  const begins = [described.subarray(0, -columns.length), none, wire.bindComplete()];
  await sent(1, ...begins, completeAndReady("INSERT 0 1", "T"), executedWithoutRows("COMMIT"));
  expect(await call).toEqual([{ command: "INSERT", rowCount: 1, bytes: new Uint8Array(), fields: [] }]);
});

test("each known item keeps its own values", async () => {
  const known = (value: string) => sql`select ${value}::text`;
  const learning = client.query(known("zero"));
  const session = await firstRun(undefined, firstBegun([int4], [25]), textRows("1"), ended(1));
  await learning;
  const call = outcome(client.batch([known("one"), "select b", known("two")]));
  const binds: string[] = [];
  for (let syncs = 0; syncs < 4;) {
    const { name, body } = (await session.message())!;
    if (name === "Bind") binds.push(body.toString());
    if (name === "Sync") syncs++;
  }
  expect(binds.join().match(/zero|one|two/g)).toEqual(["one", "two"]);
  session.peer.end();
  await call;
});

test.each([25, 1])("a batch of %i items is not described first", async (count) => {
  const call = client.batch(Array.from({ length: count }, (_, n) => `select ${n}`));
  const later = Array.from({ length: count - 1 }, (_, n) => firstItem(`${n + 1}`));
  await sent(count, first("0"), ...later, executedWithoutRows("COMMIT"));
  expect((await call).map((one) => one.rows)).toEqual(Array.from({ length: count }, (_, n) => [{ n }]));
});

test.each([
  ["more than 25 items", Array.from({ length: 26 }, (_, n) => `select ${n}`), {}, {}],
  ["items that are not atomic", ["select a"], { atomic: false }, {}],
  ["caps", ["select a"], { maxRows: 5 }, {}],
  ["an item that cannot run first", ["select a", "create table t ()"], {}, {}],
  ["a value that cannot be sent", [sql`select ${1n}`, sql`select ${{ a: 1n }}`], {}, {}],
  ["the option to describe first", ["select a"], {}, { firstRun: "describe" }],
] as const)("with %s the statements are described first", async (_, queries, options, given) => {
  newClient({ ...OPTIONS, ...given });
  const call = outcome(client.batch(queries, options as object));
  const session = await letIn();
  await answer(session, described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("with a known COMMIT, behind which no savepoint can be, the statements are described first", async () => {
  const learning = client.query("commit");
  const session = await letIn();
  await answer(session, described, description([]));
  await answer(session, execution, executedWithoutRows("COMMIT"));
  await learning;
  const call = outcome(client.batch(["commit", "select a"]));
  await answer(session, described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("in a user's transaction items are described first", async () => {
  const call = client.transaction(async (tx) => {
    await tx.query("select a");
    return tx.batch(["select b"]);
  });
  const ended = outcome(call);
  const session = await letIn();
  await answer(session, behindPrelude, first("1"));
  await isDescribed(session, ended);
});

// -- failures --------------------------------------------------------------------------------------------------------

const committing = [wire.parseComplete(), wire.bindComplete(), wire.noData()];
const both = { index: undefined, rolledBack: [0, 1], skipped: [] };
const none = { index: undefined, rolledBack: [], skipped: [] };

test.each([
  [
    "a COMMIT that rolls back without a failed item is no single item's failure",
    [first("1"), firstItem("2"), executedWithoutRows("ROLLBACK")],
    { code: "TRANSACTION_ROLLED_BACK", batch: both, transaction: undefined },
  ],
  [
    "an error after COMMIT is no single item's failure, and all items are committed",
    [first("1"), firstItem("2"), ...committing, wire.commandComplete("COMMIT"), errorAndReady("53200")],
    { code: "53200", batch: none, transaction: "committed" },
  ],
  [
    "an item fails alone if the transaction is committed after its failure",
    [first("1"), firstBegun([int4], [], "SAVEPOINT"), errorAndReady("22012", "T"), executedWithoutRows("COMMIT")],
    { code: "22012", batch: { ...none, index: 1 }, transaction: "committed" },
  ],
  [
    "a BEGIN that is refused is the error, and no item runs outside of a transaction",
    [
      wire.closeComplete(),
      errorAndReady("25006"),
      wire.closeComplete(),
      errorAndReady("25P01"),
      executedWithoutRows("COMMIT"),
    ],
    { code: "25006", batch: { index: 0, rolledBack: [], skipped: [1] } },
  ],
])("%s", async (_, answers, facts) => {
  expect(await failure(...answers)).toMatchObject(facts);
  expect(client.stats().state).toBe("idle");
});

test("a check that fails rolls the whole batch back, and then all of it is described", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2, wire.closeComplete(), ran("BEGIN"), wire.parseComplete(), wire.parseComplete());
  session.send(
    wire.bindComplete(),
    errorAndReady("22P02", "E"),
    wire.closeComplete(),
    skipped(),
    executedWithoutRows("ROLLBACK"),
  );
  for (const _ of "12") {
    expect((await session.flight()).filter((name) => name !== "Close")).toEqual(described);
    session.send(description());
  }
  const begins = (await session.flight()).includes("Parse") ? [begun, row] : [boundRow];
  for (const n of [1, 2]) session.send(...begins.map((each) => each(n)));
  session.send(wire.readyForQuery());
  expect((await call).map((one) => one.rows)).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  await nextIsDescribed(session);
});

test.each([
  ["whose statement is lost", "26000", true],
  ["whose table is gone", "42P01", true],
  ["that another session cancelled", "57014", false],
])("a known item, %s, fails before Bind", async (_, code, isRepeated) => {
  const { session, call } = await behindKnown();
  session.send(
    firstItem("2", "BEGIN"),
    ran("SAVEPOINT"),
    errorAndReady(code, "E"),
    skipped(),
    executedWithoutRows("ROLLBACK"),
  );
  if (isRepeated) return isDescribed(session, call);
  expect(await call).toMatchObject({ code, batch: { index: 1, rolledBack: [0], skipped: [2] } });
});

test("a failure after Bind, or of a known item's BEGIN, is the batch's error", async () => {
  const { session, call } = await behindKnown();
  session.send(
    first("2"),
    ran("SAVEPOINT"),
    begun(),
    errorAndReady("42P01", "E"),
    skipped(),
    executedWithoutRows("ROLLBACK"),
  );
  expect(await call).toMatchObject({ code: "42P01", batch: { index: 1, rolledBack: [0], skipped: [2] } });
  const begins = outcome(client.batch(["select a", "select d"]));
  for (const _ of "123") await session.flight();
  session.send(errorAndReady("42501"), wire.closeComplete(), errorAndReady("25P01"), executedWithoutRows("COMMIT"));
  expect(await begins).toMatchObject({ code: "42501", batch: { index: 0, rolledBack: [], skipped: [1] } });
});

test("rows that cannot be read fail the batch, which is committed", async () => {
  const record = { name: "r", oid: 2249, size: -1 };
  const call = outcome(client.batch(["select a", "select r", "select c"]));
  await sent(3, first("1"), firstItem("(1)", "SAVEPOINT", [record]), firstItem("3"), executedWithoutRows("COMMIT"));
  expect(await call).toMatchObject({
    code: "RECORD_NEEDS_DESCRIBE",
    batch: { index: 1, rolledBack: [], skipped: [] },
    transaction: "committed",
  });
});

test("duplicate column names fail a batch of bytes, whose items are all cancelled in a bounded time", async () => {
  using clock = fakeTimers();
  const call = outcome(client.batch(["select a", "select b"], { results: "ndjson", duplicates: "error" }));
  const twice = checked([int4, int4], [], "BEGIN");
  const session = await sent(2, twice, wire.bindComplete(), wire.dataRow([null, null]));
  expect(await call).toMatchObject({ code: "DUPLICATE_COLUMN" });
  await acceptCancel();
  session.send(errorAndReady("57014", "E"));
  await quiet();
  expect(client.stats().state).toBe("busy");
  // The second item's cancel is never answered.
  await clock.pass(CANCEL_DEADLINE);
  expect(client.stats().state).toBe("lost");
});

test("a call that ends during its batch cancels it, and its transaction is rolled back", async () => {
  const abort = new AbortController();
  const call = outcome(client.batch(["select a", "select b"], { signal: abort.signal }));
  const session = await sent(2, first("1"));
  await quiet();
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  session.send(firstItem("2"), ...committing, errorAndReady("57014", "E"));
  // A cancel that is still in flight could hit the ROLLBACK.
  const rollback = session.flight();
  expect(await isPending(rollback)).toBe(true);
  cancel.peer.end();
  expect(await rollback).toEqual(["Query"]);
  session.send(completeAndReady("ROLLBACK"));
  await quiet();
  expect(client.stats().state).toBe("idle");
});

// Found by the simulator: the next call then ran in the failed transaction.
test("a batch whose COMMIT was cancelled is rolled back before the next call", async () => {
  const call = outcome(client.batch(["select a", "select b"]));
  const session = await sent(2, first("1"), firstItem("2"), ...committing, errorAndReady("57014", "E"));
  const next = client.exec("deallocate all");
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  expect(await call).toMatchObject({ code: "57014", batch: both });
  await answer(session, described);
  await client.close();
  await expect(next).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});
