// Calls of queries.ts that take several statements, or prepare and describe one, over sockets in memory. Also how each
// call changes a text and its values before they are sent.
import { beforeEach, expect, test, vi } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { failed } from "../support/first-runs.ts";
import {
  begun,
  client,
  division,
  ended,
  int4,
  isPending,
  letInKnowing,
  newClient,
  rows,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const errorOf = (call: Promise<unknown>) => call.catch((error: unknown) => error);
const fields = [expect.objectContaining({ name: "n", typeOid: 23 })];
const describing = ["Parse", "Describe", "Sync"];
const described = (parameters: number[] = []) =>
  Buffer.concat([
    wire.parseComplete(),
    wire.parameterDescription(parameters),
    wire.rowDescription([int4]),
    wire.readyForQuery(),
  ]);

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
    const more = errorOf(client.batch(["select n"], { maxRows: 1, results } as never));
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
  const atomic = errorOf(client.batch(queries));
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), division(), wire.readyForQuery());
  expect(await atomic).toMatchObject({ code: "22012", query: "select n", batch: { index: 0 } });
});

// -- prepare and describe ---------------------------------------------------------------------------------------------

const withNames = () => newClient({ prepare: "named" });

test("prepare names a statement, returns its description, and drops the name on close", async () => {
  withNames();
  const session = await letInKnowing();
  const call = client.prepare<{ n: number }>("select n from t where id = $1");
  const parse = (await session.message())!;
  const [name, text] = parse.body.toString().split("\0");
  expect([parse.name, text]).toEqual(["Parse", "select n from t where id = $1"]);
  expect(name).not.toBe("");
  await session.flight();
  session.send(described([23]));
  const statement = await call;
  expect(statement).toMatchObject({ text: "select n from t where id = $1", parameterTypes: [23], fields });
  const running = statement.query([7]);
  expect(await session.flight()).toEqual(["Bind", "Describe", "Execute", "Sync"]);
  session.send(wire.bindComplete(), wire.rowDescription([int4], [1]), rows(4, 5), ended(1));
  expect((await running).rows).toEqual([{ n: 4 }]);
  statement.close();
  const next = client.query("select n");
  const close = (await session.message())!;
  expect([close.name, close.body.toString()]).toEqual(["Close", `S${name}\0`]);
  await session.flight();
  session.send(wire.closeComplete(), wire.bindComplete(), wire.rowDescription([int4], [1]), rows(1, 2), ended(1));
  await next;
});

test.each([
  ["26000", true],
  ["42P05", true],
  ["42P01", false],
])("prepare that fails with %s is repeated once: %s; never inside a transaction", async (code, isStale) => {
  withNames();
  const session = await letInKnowing();
  const call = errorOf(client.prepare("select m"));
  await session.flight();
  session.send(failed(code));
  if (isStale) {
    await session.flight();
    session.send(failed(code));
  }
  expect(await call).toMatchObject({ code, query: "select m" });
  const begin = client.simple("begin");
  await session.flight();
  session.send(wire.commandComplete("BEGIN"), wire.readyForQuery("T"));
  await begin;
  const inside = errorOf(client.prepare("select m"));
  await session.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: "no" }), wire.readyForQuery("E"));
  expect(await inside).toMatchObject({ code });
});

test("prepare that succeeds at its second attempt returns the statement", async () => {
  withNames();
  const session = await letInKnowing();
  const call = client.prepare("select m");
  await session.flight();
  session.send(failed("42P05"));
  const again = await session.flight();
  session.send(...(again.includes("Close") ? [wire.closeComplete()] : []), described());
  expect(await call).toMatchObject({ parameterTypes: [], fields });
});

test("prepare takes no values, and a prepare that is aborted returns no statement", async () => {
  await expect(client.prepare(sql`select ${1}`)).rejects.toMatchObject({ code: "INVALID_QUERY" });
  await expect(client.prepare("select 1", 5 as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  expect(client.stats().state).toBe("new");
  const session = await letInKnowing();
  const stop = new AbortController();
  const call = errorOf(client.prepare("select m", { signal: stop.signal }));
  await session.flight();
  stop.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
});

test("describe returns types and columns, needs no round trip if cached, and is pipelined", async () => {
  const session = await letInKnowing();
  const calls = [client.describe("select a where b = $1"), client.describe("select c")];
  expect([await session.flight(), await session.flight()]).toEqual([describing, describing]);
  session.send(described([25]), described());
  expect(await calls[0]).toStrictEqual({ parameterTypes: [25], fields });
  expect(await calls[1]).toStrictEqual({ parameterTypes: [], fields });
  expect(await client.describe("select c")).toStrictEqual({ parameterTypes: [], fields });
  await expect(client.describe("select 1", 5 as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  expect(await isPending(session.flight())).toBe(true);
});

test("a description that is aborted returns nothing", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const call = errorOf(client.describe("select m", { signal: stop.signal }));
  await session.flight();
  stop.abort("enough");
  expect(await call).toMatchObject({ code: "ABORTED", cause: "enough" });
});

// -- what is sent -----------------------------------------------------------------------------------------------------

/** The values of the next Bind, after the statement was described with parameters of these types. */
async function bound(session: Session, types: number[]): Promise<string> {
  expect(await session.flight()).toEqual(describing);
  session.send(described(types));
  let values = "";
  for (let message; (message = (await session.message())!).name !== "Sync";)
    if (message.name === "Bind") values = message.body.toString();
  session.send(begun(), rows(1, 2), ended(1));
  return values;
}

test("notify sends channel and payload as values, and an empty payload by default", async () => {
  const session = await letInKnowing();
  const call = client.notify("jobs", "seven");
  const sent = await bound(session, [25, 25]);
  expect(sent).toContain("jobs");
  expect(sent).toContain("seven");
  await call;
  const silent = client.notify("jobs");
  const flight: { name: string; body: Buffer }[] = [];
  for (let message; (message = (await session.message())!).name !== "Sync";) flight.push(message);
  const bind = flight.find(({ name }) => name === "Bind")!.body;
  // Two values: the channel, and an empty one. After them come the formats of the results.
  expect(bind.toString("latin1")).toContain(`\0\x02\0\0\0\x04jobs\0\0\0\0`);
  session.send(begun(), rows(1, 2), ended(1));
  await silent;
  await expect(client.notify("jobs", "x", { timeout: -1 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

test.each([
  ["query", () => client.query(sql`select ${new Map()}`)],
  ["exec", () => client.exec(sql`select ${new Map()}`)],
  ["batch", () => client.batch([sql`select ${new Map()}`])],
  ["json", () => client.json(sql`select ${new Map()}`)],
] as const)("values of %s go as option serialize says", async (_, make) => {
  newClient({ prepare: "unnamed", serialize: (value: unknown) => (value instanceof Map ? "a map" : value) as never });
  const session = await letInKnowing();
  const call = make();
  expect(await bound(session, [25])).toContain("a map");
  await call;
});

const UNCACHED = "\n/* cache: false, by now() */";

test.each([
  ["memory", {}, "select m"],
  ["memory", { cache: true }, "select m"],
  ["memory", { cache: false }, `select m${UNCACHED}`],
  ["a.hyperdrive.local", {}, "select m"],
] as const)("on %s, with options %o, a query is sent as %j", async (host, options, expected) => {
  newClient({ prepare: "unnamed", host });
  const session = await letInKnowing();
  for (const make of [() => client.query("select m", options), () => client.json("select m", options)]) {
    const call = make();
    expect((await texts(session)).at(-1)).toBe(expected);
    session.send(failed("42P01"));
    await expect(call).rejects.toMatchObject({ code: "42P01" });
  }
});

test.each([
  ["memory", {}, "select m"],
  ["a.hyperdrive.local", {}, `select m${UNCACHED}`],
  ["a.hyperdrive.local", { cache: true }, "select m"],
] as const)("in a scope on %s, with options %o, as %j: its cache knows no tenants", async (host, options, expected) => {
  newClient({ prepare: "unnamed", host });
  const session = await letInKnowing();
  const scope = client.scope({ settings: { "app.tenant": 7 } });
  for (const make of [() => scope.query("select m", options), () => scope.json("select m", options)]) {
    const call = make();
    expect((await texts(session)).at(-1)).toBe(expected);
    session.send(failed("42P01"));
    await expect(call).rejects.toMatchObject({ code: "42P01" });
  }
});
