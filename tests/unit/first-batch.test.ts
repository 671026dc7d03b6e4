// An atomic batch of statements without descriptions (js/statement/first-batch.ts), over sockets in memory: one flight
// with BEGIN, a savepoint for each further item, and COMMIT; and what each failure in it means.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import type { PgzError } from "../../js/util/errors.ts";
import { CANCEL_DEADLINE } from "../../js/util/limits.ts";
import { behindPrelude, checked, described, firstFlight, over, texts } from "../support/first-runs.ts";
import {
  accepted,
  begun,
  client,
  execution,
  fakeClock,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

const error = (C: string, more = {}) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });
const failed = (C: string, status: "I" | "E" = "E") => Buffer.concat([error(C), wire.readyForQuery(status)]);
/** The answer to the first item, or to a later one, with one row. */
const first = (value: string) => item(value, "BEGIN");
const item = (value: string, prelude = "SAVEPOINT") =>
  Buffer.concat([checked([int4], [], prelude), wire.bindComplete(), texts(value), over(1, "T")]);
const skipped = () => failed("25P02");
const ending = (tag: string) =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.bindComplete(), wire.noData()],
    ...[wire.commandComplete(tag), wire.readyForQuery()],
  ]);

/** Accepts the next session, on which a batch of `count` items is sent. */
async function sent(count: number): Promise<Session> {
  const session = await letIn();
  for (let at = 0; at < count; at++) expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  return session;
}

const committed = () => [wire.commandComplete("COMMIT"), wire.readyForQuery()];
const savepoint = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("SAVEPOINT")];

/** Sends a batch of three items whose second statement is known. */
async function behindKnown() {
  const learning = client.query("select a");
  const session = await letIn();
  await session.flight();
  session.send(checked(), wire.bindComplete(), texts("1"), over(1));
  await learning;
  const call = outcome(client.batch(["select b", "select a", "select c"]));
  expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
  expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  return { session, call };
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "well",
    ({ code, batch, transaction }: PgzError) => ({ code, batch, transaction }),
  );

test("BEGIN, a savepoint for each further item and COMMIT are one write, and make statements known", async () => {
  const call = client.batch(["select a", "select b", "select c"]);
  const session = await sent(3);
  session.send(first("1"), item("2"), item("3"), ending("COMMIT"));
  expect(await call).toMatchObject([1, 2, 3].map((n) => ({ rows: [{ n }], rowCount: 1, command: "SELECT" })));
  expect((await call)[0]!.fields).toMatchObject([{ name: "n", typeOid: 23 }]);
  const next = client.query("select b");
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(4, 5), over(1));
  expect((await next).rows).toEqual([{ n: 4 }]);
});

test("the statements before the items are named by their places", async () => {
  const call = client.batch(["select a", "select b", "select c"]);
  const session = await letIn();
  const preludes: string[] = [];
  for (let message = await session.message(); preludes.length < 4; message = await session.message()) {
    const [, text] = message!.body.toString().split("\0");
    if (message!.name === "Parse" && /^(BEGIN|SAVEPOINT|COMMIT)/.test(text!)) preludes.push(text!);
  }
  expect(preludes).toEqual(["BEGIN", "SAVEPOINT pgz_1", "SAVEPOINT pgz_2", "COMMIT"]);
  session.peer.end();
  expect(await outcome(call)).toMatchObject({ code: "CONNECTION_LOST" });
});

test("counts need no rows, and as bytes each item has its own", async () => {
  const counted = client.batch(["select a", "select b"], { results: "count" });
  let session = await sent(2);
  session.send(first("1"), item("2"), ending("COMMIT"));
  expect(await counted).toEqual([
    { command: "SELECT", rowCount: 1 },
    { command: "SELECT", rowCount: 1 },
  ]);
  await client.close();
  newClient(OPTIONS);
  const bytes = client.batch(["select a", "select b"], { results: "ndjson" });
  session = await sent(2);
  session.send(first("1"), item("2"), ending("COMMIT"));
  const results = (await bytes) as { bytes: Uint8Array; fields: readonly { name: string }[] }[];
  expect(results.map((one) => new TextDecoder().decode(one.bytes))).toEqual(['{"n":1}\n', '{"n":2}\n']);
  expect(results.map(({ fields }) => fields.map(({ name }) => name))).toEqual([["n"], ["n"]]);
});

test("a statement that is known by then is bound without a Parse", async () => {
  const learning = client.query("select a");
  const session = await letIn();
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), texts("1"), over(1));
  await learning;
  const call = client.batch(["select a", "select b"]);
  const bound = await session.flight();
  expect(bound).toEqual(["Parse", "Bind", "Execute", ...execution]);
  const second = await session.flight();
  expect(second.slice(-3)).toEqual(["Bind", "Execute", "Sync"]);
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"), begun(), rows(2, 3));
  session.send(over(1, "T"), item("3"), ending("COMMIT"));
  expect((await call).map((one) => one.rows)).toEqual([[{ n: 2 }], [{ n: 3 }]]);
});

test("an item without columns has no fields", async () => {
  const call = client.batch(["insert into t default values"], { results: "ndjson" });
  const session = await sent(1);
  const [columns, none] = [wire.rowDescription([int4]), wire.noData()];
  const answer = checked([int4], [], "BEGIN");
  expect(answer.subarray(-columns.length)).toEqual(columns);
  session.send(answer.subarray(0, -columns.length), none, wire.bindComplete());
  session.send(wire.commandComplete("INSERT 0 1"), wire.readyForQuery("T"), ending("COMMIT"));
  expect(await call).toEqual([{ command: "INSERT", rowCount: 1, bytes: new Uint8Array(), fields: [] }]);
});

test("each known item keeps its own values", async () => {
  const known = (value: string) => sql`select ${value}::text`;
  const learning = client.query(known("zero"));
  const session = await letIn();
  await session.flight();
  session.send(checked([int4], [25]), wire.bindComplete(), texts("1"), over(1));
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

test.each([
  ["more than 25 items", Array.from({ length: 26 }, (_, n) => `select ${n}`), {}],
  ["items that are not atomic", ["select a"], { atomic: false }],
  ["caps", ["select a"], { maxRows: 5 }],
])("%s are described first", async (_, queries, options) => {
  const call = client.batch(queries, options as { atomic: true });
  const ended = outcome(call);
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await ended).toMatchObject({ code: "CONNECTION_LOST" });
});

test("a batch of 25 items is not described first, nor is a batch of one", async () => {
  for (const count of [25, 1]) {
    const call = client.batch(Array.from({ length: count }, (_, n) => `select ${n}`));
    const session = await sent(count);
    session.send(first("0"), ...Array.from({ length: count - 1 }, (_, n) => item(`${n + 1}`)), ending("COMMIT"));
    expect((await call).map((one) => one.rows)).toEqual(Array.from({ length: count }, (_, n) => [{ n }]));
    await client.close();
    newClient(OPTIONS);
  }
});

test("a batch of known statements has no savepoint, and one item that cannot run first affects all", async () => {
  const learning = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(first("1"), item("2"), ending("COMMIT"));
  await learning;
  const known = client.batch(["select a", "select b"]);
  const flight = await session.flight();
  expect(flight.filter((name) => name === "Execute")).toHaveLength(2);
  const bound = [wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1])];
  for (const n of [3, 4]) session.send(...bound, rows(n, n + 1), wire.commandComplete("SELECT 1"));
  session.send(wire.readyForQuery());
  expect((await known).map((one) => one.rows)).toEqual([[{ n: 3 }], [{ n: 4 }]]);
  const call = outcome(client.batch(["select c", "create table t ()"]));
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("in a user's transaction, and by option, items are described first", async () => {
  const call = client.transaction(async (tx) => {
    await tx.query("select a");
    return tx.batch(["select b"]);
  });
  const ended = outcome(call);
  const session = await letIn();
  expect(await session.flight()).toEqual(behindPrelude);
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await ended).toMatchObject({ code: "CONNECTION_LOST" });
  newClient({ firstRun: "describe" });
  const other = outcome(client.batch(["select a"]));
  const next = await letIn();
  expect(await next.flight()).toEqual(described);
  next.peer.end();
  await other;
});

test("a value that cannot be sent is reported by the described batch", async () => {
  const call = outcome(client.batch([sql`select ${1n}`, sql`select ${{ a: 1n }}`]));
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await call).not.toBe("well");
});

// -- failures --------------------------------------------------------------------------------------------------------

test("an item that fails rolls back the earlier ones, and the later ones have not run", async () => {
  const call = client.batch(["select a", "select b", "select c"]);
  const session = await sent(3);
  session.send(first("1"), checked([int4], [], "SAVEPOINT"), wire.bindComplete(), failed("22012"));
  session.send(skipped(), ending("ROLLBACK"));
  expect(await outcome(call)).toEqual({
    code: "22012",
    batch: { index: 1, rolledBack: [0], skipped: [2] },
    transaction: undefined,
  });
  expect(client.stats().state).toBe("idle");
});

test("a failed COMMIT is no single item's failure", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(first("1"), item("2"), wire.parseComplete(), wire.bindComplete(), wire.noData(), failed("23503", "I"));
  expect(await outcome(call)).toEqual({
    code: "23503",
    batch: { index: undefined, rolledBack: [0, 1], skipped: [] },
    transaction: undefined,
  });
});

test("a COMMIT that rolls back without a failed item is no single item's failure", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(first("1"), item("2"), ending("ROLLBACK"));
  expect(await outcome(call)).toMatchObject({
    code: "TRANSACTION_ROLLED_BACK",
    batch: { index: undefined, rolledBack: [0, 1], skipped: [] },
  });
});

test("an item fails alone if the transaction is committed after its failure", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(first("1"), checked([int4], [], "SAVEPOINT"), wire.bindComplete(), error("22012"));
  session.send(wire.readyForQuery("T"), ending("COMMIT"));
  expect(await outcome(call)).toEqual({
    code: "22012",
    batch: { index: 1, rolledBack: [], skipped: [] },
    transaction: "committed",
  });
});

test("an error after COMMIT is no single item's failure, and all items are committed", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(first("1"), item("2"), wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(wire.commandComplete("COMMIT"), failed("53200", "I"));
  expect(await outcome(call)).toEqual({
    code: "53200",
    batch: { index: undefined, rolledBack: [], skipped: [] },
    transaction: "committed",
  });
});

test("after an item that commits by itself, a later failure does not make the batch run again", async () => {
  const learning = client.query("commit");
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData(), ...committed());
  await learning;
  const call = client.batch(["commit", "select a"]);
  for (const _ of "123") await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData(), ...committed());
  session.send(wire.closeComplete(), failed("25P01", "I"), ending("COMMIT"));
  expect(await outcome(call)).toMatchObject({ code: "25P01", transaction: "committed" });
});

test("a BEGIN that is refused is the error, and no item runs outside of a transaction", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(
    wire.closeComplete(),
    failed("25006", "I"),
    wire.closeComplete(),
    failed("25P01", "I"),
    ending("COMMIT"),
  );
  expect(await outcome(call)).toMatchObject({ code: "25006", batch: { index: 0, rolledBack: [], skipped: [1] } });
});

test("a check that fails rolls the whole batch back, and then all of it is described", async () => {
  const call = client.batch(["select a", "select b"]);
  const session = await sent(2);
  session.send(wire.closeComplete(), wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(wire.parseComplete(), wire.parseComplete(), wire.bindComplete(), failed("22P02"));
  session.send(wire.closeComplete(), skipped(), ending("ROLLBACK"));
  for (const _ of "12") {
    expect((await session.flight()).filter((name) => name !== "Close")).toEqual(described);
    session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]));
    session.send(wire.readyForQuery());
  }
  const parsed = (await session.flight()).includes("Parse") ? [wire.parseComplete()] : [];
  const begins = [...parsed, wire.bindComplete(), wire.rowDescription([int4], [1])];
  for (const n of [1, 2]) session.send(...begins, rows(n, n + 1), wire.commandComplete("SELECT 1"));
  session.send(wire.readyForQuery());
  expect((await call).map((one) => one.rows)).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  // The next call is described as well.
  const next = outcome(client.query("select c"));
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  await next;
});

test.each([
  ["whose statement is lost", "26000", true],
  ["whose table is gone", "42P01", true],
  ["that another session cancelled", "57014", false],
])("a known item, %s, fails before Bind", async (_, code, isDescribed) => {
  const { session, call } = await behindKnown();
  session.send(first("2"), ...savepoint, failed(code), skipped(), ending("ROLLBACK"));
  if (!isDescribed) {
    expect(await call).toMatchObject({ code, batch: { index: 1, rolledBack: [0], skipped: [2] } });
    return;
  }
  expect((await session.flight()).filter((name) => name !== "Close")).toEqual(described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("a failure after Bind, or of a known item before Bind, is the batch's error", async () => {
  const { session, call } = await behindKnown();
  const bound = [wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1])];
  session.send(first("2"), ...savepoint, ...bound, failed("42P01"), skipped(), ending("ROLLBACK"));
  expect(await call).toMatchObject({ code: "42P01", batch: { index: 1, rolledBack: [0], skipped: [2] } });
  const begins = client.batch(["select a", "select d"]);
  for (const _ of "123") await session.flight();
  session.send(failed("42501", "I"), wire.closeComplete(), failed("25P01", "I"), ending("COMMIT"));
  expect(await outcome(begins)).toMatchObject({ code: "42501", batch: { index: 0, rolledBack: [], skipped: [1] } });
});

test("rows that cannot be read fail the batch, which is committed", async () => {
  const record = { name: "r", oid: 2249, size: -1 };
  const call = client.batch(["select a", "select r", "select c"]);
  const session = await sent(3);
  session.send(first("1"), checked([record], [], "SAVEPOINT"), wire.bindComplete(), texts("(1)"), over(1, "T"));
  session.send(item("3"), ending("COMMIT"));
  expect(await outcome(call)).toEqual({
    code: "RECORD_NEEDS_DESCRIBE",
    batch: { index: 1, rolledBack: [], skipped: [] },
    transaction: "committed",
  });
});

test("duplicate column names fail a batch of bytes, whose items are all cancelled in a bounded time", async () => {
  using clock = fakeClock();
  const call = outcome(client.batch(["select a", "select b"], { results: "ndjson", duplicates: "error" }));
  const session = await sent(2);
  session.send(checked([int4, int4], [], "BEGIN"), wire.bindComplete(), wire.dataRow([null, null]));
  expect(await call).toMatchObject({ code: "DUPLICATE_COLUMN" });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  await quiet();
  expect(client.stats().state).toBe("busy");
  // The second item's cancel is never answered.
  await clock.pass(CANCEL_DEADLINE);
  expect(client.stats().state).toBe("lost");
});

test("a call that ends during its batch cancels it, and its transaction is rolled back", async () => {
  const abort = new AbortController();
  const call = outcome(client.batch(["select a", "select b"], { signal: abort.signal }));
  const session = await sent(2);
  session.send(first("1"));
  await quiet();
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  session.send(checked([int4], [], "SAVEPOINT"), wire.bindComplete(), texts("2"), over(1, "T"));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData(), failed("57014", "E"));
  // A cancel that is still in flight could hit the ROLLBACK.
  const ending = session.flight();
  expect(await isPending(ending)).toBe(true);
  cancel.peer.end();
  expect(await ending).toEqual(["Query"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await quiet();
  expect(client.stats().state).toBe("idle");
});
