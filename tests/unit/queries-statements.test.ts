// Calls of queries.ts that take several statements, or prepare and describe one, over sockets in memory. Also how the
// option cache changes a text before it is sent, and what each kind of call refuses.
import { beforeEach, expect, test, vi } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { answer, described, inFront } from "../support/flights.ts";
import {
  client,
  execution,
  failure,
  isPending,
  letInKnowing,
  newClient,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import {
  begun,
  completeAndReady,
  description,
  division,
  ended,
  errorAndReady,
  rows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const fields = [expect.objectContaining({ name: "n", typeOid: 23 })];

/** The answer to an item of a batch. */
const item = (from: number, to: number) =>
  Buffer.concat([begun(), rows(from, to), wire.commandComplete(`SELECT ${to - from}`)]);

// -- batch ------------------------------------------------------------------------------------------------------------

test.each([
  [undefined, { rows: [{ n: 1 }], rowCount: 1, command: "SELECT", fields }],
  ["rows", { rows: [{ n: 1 }], rowCount: 1, command: "SELECT", fields }],
  ["count", { rowCount: 1, command: "SELECT" }],
  ["ndjson", { bytes: new TextEncoder().encode('{"n":1}\n'), rowCount: 1, command: "SELECT", fields }],
] as const)("a batch gives results as asked for: %s", async (results, expected) => {
  const session = await letInKnowing();
  for (const atomic of [true, false]) {
    const call = client.batch(["select n"], { results, atomic } as { atomic: false });
    const isDescribed = (await session.flight()).includes("Describe");
    expect(isDescribed).toBe(results !== "count");
    const row = [rows(1, 2), wire.commandComplete("SELECT 1")];
    session.send(...(isDescribed ? [begun()] : [wire.parseComplete(), wire.bindComplete()]), ...row);
    session.send(wire.readyForQuery());
    expect(await call).toStrictEqual(atomic ? [expected] : [{ status: "fulfilled", value: expected }]);
  }
});

test("a batch returns rows as rowMode says, and an exceeded limit is an error", async () => {
  newClient({ prepare: "unnamed", onLimit: "truncate" });
  const session = await letInKnowing();
  const call = client.batch(["select n"], { rowMode: "array", maxRows: 2 });
  await session.flight();
  session.send(item(1, 3), wire.readyForQuery());
  expect((await call)[0]!.rows).toEqual([[1], [2]]);
  for (const results of ["rows", "ndjson"] as const) {
    const more = failure(client.batch(["select n"], { maxRows: 1, results } as never));
    await session.flight();
    session.send(item(1, 3), wire.readyForQuery());
    expect(await more, results).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
  }
});

test("a batch without statements sends nothing, but its options are checked", async () => {
  expect(await client.batch([])).toEqual([]);
  await expect(client.batch([], { results: "none" as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.batch([], { rowMode: 1 as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.batch([], { atomic: 1 as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.batch([], null as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.batch("select 1" as never)).rejects.toMatchObject({ code: "INVALID_QUERY" });
  await expect(client.batch(["select 1", 5 as never])).rejects.toMatchObject({ name: "UsageError" });
  for (const queries of [["copy t from stdin"], ["select 1", "copy t to stdout"]])
    await expect(client.batch(queries)).rejects.toMatchObject({ code: "COPY_NEEDS_COPY_CALL" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("the error of an item has its own statement, in a batch of either kind", async () => {
  const onQueryStart = vi.fn();
  newClient({ prepare: "unnamed", observer: { onQueryStart } });
  const session = await letInKnowing();
  const queries = [sql`select n`, "select n"];
  const alone = client.batch(queries, { atomic: false });
  expect(onQueryStart.mock.calls.at(-1)).toEqual([
    expect.objectContaining({ kind: "batch", text: "/* batch of 2 */ select n" }),
  ]);
  await session.flight();
  session.send(item(1, 2), wire.readyForQuery(), wire.parseComplete(), wire.bindComplete(), division());
  session.send(wire.readyForQuery());
  async function awaitedHere() {
    return await alone;
  }
  const [first, second] = await awaitedHere();
  expect(first).toMatchObject({ status: "fulfilled" });
  expect(second).toMatchObject({ status: "rejected", reason: { code: "22012", query: "select n" } });
  expect((second as PromiseRejectedResult).reason).toMatchObject({ stack: expect.stringContaining("awaitedHere") });
  const atomic = failure(client.batch(queries));
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), division(), wire.readyForQuery());
  expect(await atomic).toMatchObject({ code: "22012", query: "select n", batch: { index: 0 } });
});

// -- prepare and describe ---------------------------------------------------------------------------------------------

test.each([
  ["26000", true],
  ["42P05", true],
  ["42P01", false],
])("prepare that fails with %s is repeated once: %s; never inside a transaction", async (code, isStale) => {
  newClient({ prepare: "named" });
  const session = await letInKnowing();
  const call = failure(client.prepare("select m"));
  for (const _ of isStale ? "12" : "1") {
    await session.flight();
    session.send(errorAndReady(code));
  }
  expect(await call).toMatchObject({ code, query: "select m" });
  const begin = client.simple("begin");
  await answer(session, ["Query"], completeAndReady("BEGIN", "T"));
  await begin;
  const inside = failure(client.prepare("select m"));
  await session.flight();
  session.send(errorAndReady(code, "E"));
  expect(await inside).toMatchObject({ code });
});

test("prepare that succeeds at its second attempt returns the statement", async () => {
  newClient({ prepare: "named" });
  const session = await letInKnowing();
  const call = client.prepare("select m");
  await answer(session, described, errorAndReady("42P05"));
  const again = await session.flight();
  session.send(...inFront(again.filter((name) => name === "Close")), description());
  expect(await call).toMatchObject({ parameterTypes: [], fields });
});

test("prepare takes no values, and a prepare that is aborted returns no statement", async () => {
  await expect(client.prepare(sql`select ${1}`)).rejects.toMatchObject({ code: "INVALID_QUERY" });
  await expect(client.prepare("select 1", 5 as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  expect(client.stats().state).toBe("new");
  const session = await letInKnowing();
  const stop = new AbortController();
  const call = failure(client.prepare("select m", { signal: stop.signal }));
  await session.flight();
  stop.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
});

test("describe returns types and columns, needs no round trip if cached, and is pipelined", async () => {
  const session = await letInKnowing();
  const calls = [client.describe("select a where b = $1"), client.describe("select c")];
  await answer(session, described);
  await answer(session, described, description(undefined, [25]), description());
  expect(await calls[0]).toStrictEqual({ parameterTypes: [25], fields });
  expect(await calls[1]).toStrictEqual({ parameterTypes: [], fields });
  expect(await client.describe("select c")).toStrictEqual({ parameterTypes: [], fields });
  await expect(client.describe("select 1", 5 as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  expect(await isPending(session.flight())).toBe(true);
});

test("a description that is aborted returns nothing", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const call = failure(client.describe("select m", { signal: stop.signal }));
  await session.flight();
  stop.abort("enough");
  expect(await call).toMatchObject({ code: "ABORTED", cause: "enough" });
});

// -- what is sent -----------------------------------------------------------------------------------------------------

const UNCACHED = "\n/* cache: false, by now() */";

test.each([
  ["memory", {}, false, "select m"],
  ["memory", { cache: true }, false, "select m"],
  ["memory", { cache: false }, false, `select m${UNCACHED}`],
  ["a.hyperdrive.local", {}, false, "select m"],
  // Its cache knows no tenants.
  ["memory", {}, true, "select m"],
  ["a.hyperdrive.local", {}, true, `select m${UNCACHED}`],
  ["a.hyperdrive.local", { cache: true }, true, "select m"],
] as const)(
  "on %s, with options %o, in a scope (%s) or not, a query is sent as %j",
  async (host, options, isScoped, expected) => {
    newClient({ prepare: "unnamed", host });
    const session = await letInKnowing();
    const owner = isScoped ? client.scope({ settings: { "app.tenant": 7 } }) : client;
    for (const make of [() => owner.query("select m", options), () => owner.json("select m", options)]) {
      const call = make();
      expect((await texts(session)).at(-1)).toBe(expected);
      session.send(errorAndReady("42P01"));
      await expect(call).rejects.toMatchObject({ code: "42P01" });
    }
  },
);

// -- every kind of call ----------------------------------------------------------------------------------------------

test("in a scope each call refuses what could end or outlive its settings, before anything is sent", async () => {
  const scope = client.scope({ settings: { "a.b": 1 } });
  const calls: (() => unknown)[] = [
    () => scope.query("begin"),
    () => scope.exec("begin"),
    () => scope.rows("begin"),
    () => scope.json("begin"),
    () => scope.stream("begin"),
    () => scope.cursor("begin", 1),
    () => scope.batch(["select 1", "begin"]),
    () => scope.prepare("begin"),
    () => scope.describe("begin"),
    () => scope.simple("select 1"),
  ];
  for (const call of calls)
    await expect((async () => await call())()).rejects.toMatchObject({ name: "UsageError", code: "NOT_IN_SCOPE" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("each call refuses invalid options, with an error of the driver", async () => {
  for (const call of [
    () => client.json("select 1", null as never),
    () => client.prepare("select 1", null as never),
    () => client.describe("select 1", null as never),
    () => client.simple("select 1", null as never),
    async () => client.cursor("select 1", 1, null as never),
    () => client.notify("jobs", "x", { timeout: -1 }),
  ])
    await expect(call()).rejects.toMatchObject({ name: "UsageError", code: "INVALID_OPTION" });
});

test("the error of a failed description has the text of the statement", async () => {
  const session = await letInKnowing();
  const call = failure(client.describe("select m"));
  await answer(session, described, errorAndReady("42703"));
  expect(await call).toMatchObject({ code: "42703", query: "select m" });
});

test("NDJSON of a batch follows the option columnNames", async () => {
  const session = await letInKnowing();
  const call = client.batch(["select a_b"], { results: "ndjson", columnNames: "camelCase" });
  const column = { name: "a_b", oid: 23, size: 4 };
  await answer(session, described, description([column]));
  await answer(session, execution, wire.parseComplete(), wire.bindComplete(), wire.rowDescription([column], [1]));
  session.send(rows(1, 2), ended(1));
  expect(new TextDecoder().decode((await call)[0]!.bytes)).toBe('{"aB":1}\n');
});
