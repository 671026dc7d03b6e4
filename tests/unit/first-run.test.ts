// The first run of a statement over sockets in memory: what its flight holds, and what each way of failing leads to.
import { beforeEach, expect, test } from "vitest";
import { checkFailed, checkPassed, firstRunOf, isOld, isPlain } from "../../js/session/first-run.ts";
import { sql } from "../../js/statement/sql.ts";
import { begun, client, ended, execution, int4, letIn, newClient, useMemoryServer } from "../support/memory-session.ts";
import type { Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

const firstFlight = ["Close", "Parse", "Parse", "Bind", "Execute", "Describe", "Bind", "Execute", "Sync"];
const described = ["Parse", "Describe", "Sync"];
const composite = { name: "c", oid: 99_999, size: -1 };
const mood = { name: "m", oid: 99_998, size: 4 };

/** With BEGIN or the like in front. */
const behindPrelude = ["Close", "Parse", "Bind", "Execute", ...firstFlight.slice(1)];

/** The answers up to the description, of a statement with these columns; `prelude`: the tag of what stands in front. */
function checked(columns = [int4], parameters: number[] = [], prelude?: string): Buffer {
  return Buffer.concat([
    wire.closeComplete(),
    ...(prelude ? [wire.parseComplete(), wire.bindComplete(), wire.commandComplete(prelude)] : []),
    wire.parseComplete(),
    wire.parseComplete(),
    wire.bindComplete(),
    wire.commandComplete("SELECT 0"),
    wire.parameterDescription(parameters),
    wire.rowDescription(columns),
  ]);
}

function texts(...values: (string | null)[]): Buffer {
  return Buffer.concat(values.map((value) => wire.dataRow([value === null ? null : Buffer.from(value)])));
}

/** What stands behind the rows. */
function over(count: number, status = "I"): Buffer {
  return Buffer.concat([wire.commandComplete(`SELECT ${count}`), wire.readyForQuery(status as "I")]);
}

function failed(code: string, message = "no"): Buffer {
  return Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: message }), wire.readyForQuery()]);
}

async function letInFirst(): Promise<Session> {
  const session = await letIn();
  expect(await session.flight()).toEqual(firstFlight);
  return session;
}

test("one flight, and from the second run on all is binary", async () => {
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

test("a check that fails for the type of a parameter says nothing of other statements", async () => {
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

test.each(["57014", "53200", "40001"])("a check that fails with %s is that error", async (code) => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete(), failed(code));
  await expect(first).rejects.toMatchObject({ name: "PostgresError", code });
});

test("a statement that cannot be parsed is not described once more", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), failed("42601"));
  await expect(first).rejects.toMatchObject({ code: "42601" });
  expect(client.stats().flights).toBe(2);
});

test("text that its parameter refuses: the encoder, which knows the type by now, says what is wrong", async () => {
  const first = client.query(sql`select ${70_000} as n`);
  const session = await letInFirst();
  session.send(checked([int4], [21]), failed("22003"));
  await expect(first).rejects.toMatchObject({ name: "UsageError", code: "PARAMETER_OUT_OF_RANGE" });
  expect(client.stats().flights).toBe(2);
});

test("text that its parameter refuses and the encoder takes runs in binary", async () => {
  const first = client.query(sql`select ${Infinity} as n, ${5} as m`);
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([701, 23]), wire.rowDescription([int4]));
  session.send(wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  await first;
});

test("an error behind BindComplete is the call's, and the statement does not run again", async () => {
  const first = client.query("select n");
  const session = await letInFirst();
  session.send(checked(), wire.bindComplete(), texts("1"), failed("22012"));
  await expect(first).rejects.toMatchObject({ code: "22012" });
  expect(client.stats().flights).toBe(2);
});

test("rows of an unknown type wait for the catalog; an enum does not", async () => {
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

test("a catalog that cannot be asked fails the call, whose statement has run", async () => {
  const call = client.query("select c");
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  // By itself a conflict, which is safe to try again.
  session.send(failed("40001"));
  await expect(call).rejects.toMatchObject({ code: "40001", retryable: false });
  const next = client.exec("select n");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), texts("1"), over(1));
  expect(await next).toMatchObject({ rowCount: 1 });
});

test("rows that are too many wait for another connection, whose failure is the call's", async () => {
  const many = (count: number) => Buffer.concat(Array(count).fill(texts(`(${"x".repeat(1000)})`)));
  const failing = client.query("select c");
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), many(300));
  const other = await letIn();
  expect(await other.flight()).toEqual(["Query"]);
  other.send(failed("40001"));
  await expect(failing).rejects.toMatchObject({ code: "40001", retryable: false });
  expect(await other.flight()).toEqual(["Terminate"]);
});

test("a pooler that has no server connection for it is not waited for longer than connecting may take", async () => {
  newClient({ firstRun: "text", connectTimeout: 100 });
  const call = client.query("select c");
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), ...Array(300).fill(texts(`(${"x".repeat(1000)})`)));
  const other = await letIn();
  expect(await other.flight()).toEqual(["Query"]);
  await expect(call).rejects.toMatchObject({ name: "TimeoutError", code: "CONNECT_TIMEOUT", retryable: false });
});

test("rows that wait are dropped with their call", async () => {
  const abort = new AbortController();
  const call = client.query("select c", { signal: abort.signal });
  const session = await letInFirst();
  session.send(checked([composite]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
});

test("a record is refused when its statement has run, and described first from then on", async () => {
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

test("BEGIN goes in front, and where the check fails once more in front of what is described", async () => {
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

test.each([[], [23, 23]])("a statement of other parameters than were bound is another statement", async (...types) => {
  const call = client.query(sql`select ${7}::int4 as n`);
  const session = await letInFirst();
  session.send(checked([int4], types), wire.bindComplete(), texts("7"), over(1));
  await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
});

test("a batch whose COMMIT rolls back has not happened, though each of its items went well", async () => {
  const call = client.batch(["select n", "select m"]);
  const session = await letIn();
  for (const _ of "12") expect(await session.flight()).toEqual(behindPrelude);
  expect(await session.flight()).toEqual(execution);
  for (const tag of ["BEGIN", "SAVEPOINT"]) {
    session.send(checked([int4], [], tag), wire.bindComplete(), texts("1"), over(1, "T"));
  }
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK", batch: { rolledBack: [0, 1] } });
});

test("FATAL in COMMIT, which a pooler may have said, leaves open whether it committed", async () => {
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

test("a lost connection in a first run leaves open whether it has run", async () => {
  const call = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete());
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
});

test("what may run first: plain statements that show no anonymous record", () => {
  const may = (text: string) => firstRunOf("s", text, []) !== undefined;
  for (const text of [
    "select 1",
    " -- c\n/* d */ SELECT 1",
    "insert into t values (1, 2), (3, 4) returning id",
    "with x as (select 1) select * from x",
    "select (select 1, 2), count(*) from t",
    "select f(a, b)",
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
    "select * from f() as r(a int) where x::record = y",
  ])
    expect(may(text), text).toBe(false);
  expect(isPlain("selection")).toBe(false);
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

test("two sessions that fail say it of their server, until one passes; a bounded number of servers is remembered", () => {
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

test("a server that reports an older version than the check wants is not asked", () => {
  expect(["8.2.23", "11.3", "9.3.duckdb", "H2"].map(isOld)).toEqual([true, true, true, true]);
  expect(["12.0", "15.18 (Debian 15.18-0)", "18beta1", "19rc1", undefined].map(isOld)).toEqual(Array(5).fill(false));
});
