// The first run of a statement over sockets in memory: the contents of its flight, and what follows from each failure.
import { beforeEach, expect, test } from "vitest";
import { checkFailed, checkPassed, firstRunOf, isOld, isPipelinable } from "../../js/session/first-run.ts";
import { sql } from "../../js/statement/sql.ts";
import { behindPrelude, checked, described, failed, firstFlight, over, texts } from "../support/first-runs.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  int4,
  letIn,
  newClient,
  useMemoryServer,
} from "../support/memory-session.ts";
import type { Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

const composite = { name: "c", oid: 99_999, size: -1 };
const mood = { name: "m", oid: 99_998, size: 4 };

async function letInFirst(): Promise<Session> {
  const session = await letIn();
  expect(await session.flight()).toEqual(firstFlight);
  return session;
}

test("a first run takes one flight, and from the second run on all is binary", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(checked(), wire.bindComplete(), texts("7", null), over(2));
  expect(await first).toMatchObject({ rows: [{ n: 7 }, { n: null }], rowCount: 2, command: "SELECT" });
  const second = client.query("select n");
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), wire.dataRow([wire.int32(8)]), ended(1));
  expect((await second).rows).toEqual([{ n: 8 }]);
});

test("a session whose check fails describes this statement first, and all others from then on", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete(), failed("22P02", 'invalid input: "pgz-edge: settings"'));
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]));
  session.send(wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  expect((await first).rows).toEqual([]);
  const second = client.query("select m");
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  await second;
});

test("a check that fails because of a parameter's type has no effect on other statements", async () => {
  const first = client.query(sql`select ${1}::date`);
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete(), failed("22P02", 'invalid input: "pgz-edge: types"'));
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([1082]));
  session.send(wire.rowDescription([int4]), wire.readyForQuery());
  await expect(first).rejects.toMatchObject({ name: "UsageError", code: "INVALID_PARAMETER" });
  const second = client.query("select n");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), over(0));
  await second;
});

test.each(["57014", "53200", "40001"])("a check that fails with %s is the call's error", async (code) => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete(), failed(code));
  await expect(first).rejects.toMatchObject({ name: "PostgresError", code });
});

test("a statement that cannot be parsed is not described again", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), failed("42601"));
  await expect(first).rejects.toMatchObject({ code: "42601" });
  expect(client.stats().flights).toBe(2);
});

test("after a refused text the encoder, which then knows the type, reports what is wrong", async () => {
  const first = client.query(sql`select ${70_000} as n`);
  const session = await letInFirst();
  session.send(checked([int4], [21]), failed("22003"));
  await expect(first).rejects.toMatchObject({ name: "UsageError", code: "PARAMETER_OUT_OF_RANGE" });
  expect(client.stats().flights).toBe(2);
});

test("a value that has no text form for its type runs in binary after a description", async () => {
  const first = client.query(sql`select ${Infinity} as n, ${5} as m`);
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([701, 23]), wire.rowDescription([int4]));
  session.send(wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  await first;
});

test("an error after BindComplete is the call's error, and the statement does not run again", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(checked(), wire.bindComplete(), texts("1"), failed("22012"));
  await expect(first).rejects.toMatchObject({ code: "22012" });
  expect(client.stats().flights).toBe(2);
});

test("rows of an unknown type wait for the catalog, except for an enum", async () => {
  const enums = client.query("select m");
  const session = await letInFirst();
  session.send(checked([mood]), wire.bindComplete(), texts("sad"), over(1));
  expect((await enums).rows).toEqual([{ m: "sad" }]);

  const composites = client.query("select c");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked([composite]), wire.bindComplete(), texts("(1)", null), over(2));
  expect(await session.flight()).toEqual(["Query"]);
  const json = '[[99999,"c","pair",[23],["a"]]]';
  const answer = { name: "json_agg", oid: 114, size: -1 };
  session.send(wire.rowDescription([answer]), texts(json), wire.commandComplete("SELECT 1"), wire.readyForQuery());
  expect(await composites).toMatchObject({ rows: [{ c: { a: 1 } }, { c: null }], rowCount: 2 });
  const again = client.query("select c");
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([composite], [1]), ended(0));
  await again;
});

test("a catalog that cannot be read fails the call, whose statement has run", async () => {
  const call = client.query("select c");
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  // Alone this would be a conflict, which is safe to retry.
  session.send(failed("40001"));
  await expect(call).rejects.toMatchObject({ code: "40001", retryable: false });
  const next = client.exec("select n");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), texts("1"), over(1));
  expect(await next).toMatchObject({ rowCount: 1 });
});

/** A failed check, which names these types of the statement's columns. */
function unknownTypes(types: string, prelude?: string): Buffer {
  const before = checked([int4], [], prelude);
  const description = Buffer.concat([wire.parameterDescription([]), wire.rowDescription([int4])]).length;
  const bound = Buffer.concat([wire.bindComplete(), wire.commandComplete("SELECT 0")]).length;
  const message = `invalid input syntax for type integer: "pgz-edge: columns {${types}}"`;
  return Buffer.concat([
    before.subarray(0, before.length - description - bound),
    wire.bindComplete(),
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: "22P02", M: message }),
    wire.readyForQuery(prelude ? "E" : "I"),
  ]);
}

function catalogSays(json: string): Buffer {
  const answer = { name: "json_agg", oid: 114, size: -1 };
  return Buffer.concat([
    wire.rowDescription([answer]),
    texts(json),
    wire.commandComplete("SELECT 1"),
    wire.readyForQuery(),
  ]);
}

test("types that the check names are looked up before a second run, whose rows do not wait", async () => {
  const call = client.rows("select c");
  const rows = call[Symbol.asyncIterator]();
  const first = rows.next();
  const session = await letInFirst();
  session.send(unknownTypes("99999,23"));
  // Both are sent before any answer.
  expect(await session.flight()).toEqual(["Query"]);
  expect(await session.flight()).toEqual(firstFlight);
  session.send(
    catalogSays('[[99999,"c","pair",[23],["a"]]]'),
    checked([composite]),
    wire.bindComplete(),
    texts("(1)", "(2)"),
  );
  expect(await first).toMatchObject({ value: { c: { a: 1 } } });
  session.send(over(2));
  expect(await rows.next()).toMatchObject({ value: { c: { a: 2 } } });
  expect((await rows.next()).done).toBe(true);
});

test("a second run whose check names types again is described", async () => {
  const call = client.query("select c");
  const session = await letInFirst();
  session.send(unknownTypes("99999"));
  expect(await session.flight()).toEqual(["Query"]);
  expect(await session.flight()).toEqual(firstFlight);
  session.send(catalogSays("null"), unknownTypes("99997"));
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  expect((await call).rows).toEqual([]);
});

test("if the look-up before the run fails, it is repeated after the run, whose rows have waited", async () => {
  const call = client.query("select c");
  const session = await letInFirst();
  session.send(unknownTypes("99999"));
  expect(await session.flight()).toEqual(["Query"]);
  expect(await session.flight()).toEqual(firstFlight);
  session.send(failed("55P03"), checked([composite]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(catalogSays('[[99999,"c","pair",[23],["a"]]]'));
  expect((await call).rows).toEqual([{ c: { a: 1 } }]);
});

test("a batch whose check names types is rolled back, and runs again after the type look-up", async () => {
  const call = client.batch(["select n", "select c"]);
  const session = await letIn();
  for (const _ of "12") expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  const ending = [wire.parseComplete(), wire.bindComplete(), wire.noData()];
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  session.send(unknownTypes("99999", "SAVEPOINT"), ...ending, wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Query"]);
  // The first statement is known by now.
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
  expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  session.send(catalogSays('[[99999,"c","pair",[23],["a"]]]'));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(begun(), wire.dataRow([wire.int32(1)]), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  session.send(checked([composite], [], "SAVEPOINT"), wire.bindComplete(), texts("(7)"), over(1, "T"));
  session.send(...ending, wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ c: { a: 7 } }]]);
});

test("rows that are too many to hold fail their call, and the next one is described first", async () => {
  const row = texts(`(${"x".repeat(65_000)})`);
  const failing = client.query("select c");
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), ...Array(66).fill(row));
  await expect(failing).rejects.toMatchObject({ name: "UsageError", code: "TYPES_NEED_DESCRIBE", retryable: false });
  // The only other connection is that of its CancelRequest.
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
  session.send(failed("57014"));
  const again = client.query("select c");
  expect(await session.flight()).toEqual(described);
  session.send(failed("42601"));
  await expect(again).rejects.toMatchObject({ code: "42601" });
});

test("waiting rows are dropped with their call", async () => {
  const abort = new AbortController();
  const call = client.query("select c", { signal: abort.signal });
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
});

test("a record is refused once its statement has run, and is described first from then on", async () => {
  const record = { name: "r", oid: 2249, size: -1 };
  const call = client.query("select r");
  const session = await letInFirst();
  session.send(checked([record]), wire.bindComplete(), texts("(1,x)"), over(1));
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "RECORD_NEEDS_DESCRIBE", retryable: false });
  const again = client.query("select r");
  expect(await session.flight()).toEqual(described);
  session.send(failed("42601"));
  await expect(again).rejects.toMatchObject({ code: "42601" });
});

test("BEGIN is sent before the statement, and again before the description if the check fails", async () => {
  const sent: string[][] = [];
  const transaction = client.transaction(async (tx) => void (await tx.exec("delete from t")));
  const session = await letIn();
  sent.push(await session.flight());
  session.send(
    wire.closeComplete(),
    wire.parseComplete(),
    wire.bindComplete(),
    wire.commandComplete("BEGIN"),
    wire.parseComplete(),
  );
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42704", M: "no such setting" }));
  session.send(wire.readyForQuery("E"));
  sent.push(await session.flight());
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  sent.push(await session.flight());
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData());
  session.send(wire.readyForQuery());
  sent.push(await session.flight());
  const prelude = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  session.send(...prelude, wire.parseComplete(), wire.bindComplete(), wire.noData(), wire.commandComplete("DELETE 1"));
  session.send(wire.readyForQuery("T"));
  sent.push(await session.flight());
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  await transaction;
  expect(sent).toEqual([behindPrelude, ["Query"], described, ["Parse", "Bind", "Execute", ...execution], ["Query"]]);
});

test.each([[], [23, 23]])(
  "a statement with other parameters than the bound ones is another statement",
  async (...types) => {
    const call = client.query(sql`select ${7}::int4 as n`);
    const session = await letInFirst();
    session.send(checked([int4], types), wire.bindComplete(), texts("7"), over(1));
    await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  },
);

test("a batch whose COMMIT rolls back has not happened, even if each item succeeded", async () => {
  const call = client.batch(["select n", "select m"]);
  const session = await letIn();
  for (const _ of "12") expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  session.send(checked([int4], [], "SAVEPOINT"), wire.bindComplete(), texts("1"), over(1, "T"));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK", batch: { rolledBack: [0, 1] } });
});

// Found by the simulator: the next call then ran in the failed transaction.
test("a batch whose COMMIT was cancelled is rolled back before the next call", async () => {
  const call = client.batch(["select n", "select m"]);
  const session = await letIn();
  for (const _ of "12") expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  session.send(checked([int4], [], "SAVEPOINT"), wire.bindComplete(), texts("1"), over(1, "T"));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceling statement due to user request" }),
  );
  session.send(wire.readyForQuery("E"));
  const next = client.exec("deallocate all");
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "57014", batch: { rolledBack: [0, 1] } });
  expect(await session.flight()).toEqual(described);
  await client.close();
  await expect(next).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});

test("a FATAL error during COMMIT, which a pooler may have sent, leaves open whether it committed", async () => {
  const transaction = client.transaction(async (tx) => {
    await tx.exec("delete from t");
    await tx.last("delete from u");
  });
  const session = await letIn();
  await session.flight();
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), over(0, "T"));
  expect(await session.flight()).toEqual(described);
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([int4]),
    wire.readyForQuery("T"),
  );
  expect(await session.flight()).toEqual(execution);
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), wire.commandComplete("SELECT 0"), wire.readyForQuery("T"));
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "08P01", M: "server conn crashed?" }));
  await expect(transaction).rejects.toMatchObject({ code: "08P01", transaction: "unknown", retryable: false });
});

test("a connection that is lost during a first run leaves open whether it has run", async () => {
  const call = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete());
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
});

test("plain statements that return no anonymous record may run first", () => {
  const may = (text: string) => firstRunOf("s", text, []) !== undefined;
  for (const text of [
    "select 1",
    " -- c\n/* d */ SELECT 1",
    "insert into t values (1, 2), (3, 4) returning id",
    "with x as (select 1) select * from x",
    "select (select 1, 2), count(*) from t",
    "select f(a, b)",
    "select 'set_config', $$pg_settings$$ -- set_config",
  ])
    expect(may(text), text).toBe(true);
  for (const text of [
    "begin isolation level serializable",
    "vacuum t",
    "call p()",
    "set datestyle to german",
    "select row(1, 2)",
    "select (1, 2)",
    "insert into t values (1) returning (id, n)",
    "select pg_catalog.Set_Config('extra_float_digits', '-5', false), f from t",
    `select U&"set\\005fconfig"('DateStyle', 'German', false), now()`,
    "with s as (update pg_settings set setting = '-5' where name = 'extra_float_digits') select f from t",
    "select * from f() as r(a int) where x::record = y",
  ])
    expect(may(text), text).toBe(false);
  expect(isPipelinable("selection")).toBe(false);
});

test("a statement with very many numbers, or a very long one, is described first", () => {
  const numbers = (count: number) => firstRunOf("s", "select 1", Array(count).fill(7));
  expect(numbers(200)!.check.sql.length).toBeLessThan(2_000);
  expect(numbers(201)).toBeUndefined();
  expect(firstRunOf("s", "select 1", Array(65_536).fill("text"))).toBeUndefined();
  const long = `select 1 -- ${"x".repeat(1 << 14)}`;
  expect(firstRunOf("s", long, [7])).toBeUndefined();
  expect(firstRunOf("s", long, ["seven"])).toBeDefined();
});

test("the check grows by at most 480 bytes for the types of columns, even if many are known", () => {
  // The size of the check that looks at settings alone, plus 480.
  const most = 352 + 480;
  const columns = (count: number) => ({ known: Array.from({ length: count }, (_, at) => 4_000_000_000 + at) });
  const lengthOf = (server: string, count: number) =>
    firstRunOf(server, "select 1", [], { ...columns(count), askedTypes: [], anySize: false })!.check.sql.length;
  expect(lengthOf("of sizes", 0)).toBeLessThanOrEqual(most);
  expect(lengthOf("of sizes", 100)).toBeLessThanOrEqual(most);
  checkPassed("of sizes");
  expect(lengthOf("of sizes", 100)).toBeLessThanOrEqual(most);
  expect(lengthOf("of sizes", 100)).toBeGreaterThan(lengthOf("of sizes", 0));
  expect(firstRunOf("of sizes", "select 1", [])!.check.sql.length).toBeLessThan(352);
});

test("two failed sessions mark their server until one passes, for a bounded number of servers", () => {
  checkFailed("s");
  expect(firstRunOf("s", "select 1", [])).toBeDefined();
  checkFailed("s");
  expect(firstRunOf("s", "select 1", [])).toBeUndefined();
  checkPassed("s");
  expect(firstRunOf("s", "select 1", [])).toBeDefined();
  for (let server = 0; server < 20_000; server++) for (const _ of "12") checkFailed(`s${server}`);
  expect(firstRunOf("s19999", "select 1", [])).toBeUndefined();
  expect(firstRunOf("s0", "select 1", [])).toBeDefined();
});

test("a server that reports a version older than the check needs is not asked", () => {
  expect(["8.2.23", "11.3", "9.3.duckdb", "H2"].map(isOld)).toEqual([true, true, true, true]);
  expect(["12.0", "15.18 (Debian 15.18-0)", "18beta1", "19rc1", undefined].map(isOld)).toEqual(Array(5).fill(false));
});
