// A scope over sockets in memory: its settings are sent with each of its calls. What could outlive a call or end the
// settings is refused before anything is sent.
import { inspect } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { CITUS_CHECK } from "../../js/session/citus.ts";
import { scopeSettings } from "../../js/session/scope-settings.ts";
import { described, failed } from "../support/first-runs.ts";
import {
  begun,
  client,
  ended,
  int4,
  letIn,
  letInKnowing,
  newClient,
  rows,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const settings = { "app.tenant": 7 };
const SET = `select where pg_catalog.set_config(E'app.tenant',E'7',true) is null or ${CITUS_CHECK}`;
const SCOPE_ON_CITUS = scopeSettings({ settings }).citusStatement;
/** The answers to a statement before another one, with its command tag. */
const inFront = (tag: string) => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete(tag)]);
const tenant = () => client.scope({ settings });

const inTransaction = () => [wire.commandComplete("SELECT 1"), wire.readyForQuery("T")];

test("the settings are sent before each call of the scope, and before no call of the client", async () => {
  const session = await letInKnowing();
  const scope = tenant();
  for (const [calls, expected] of [
    [scope, [SET, "select n"]],
    [client, ["select n"]],
    [scope, [SET, "select n"]],
  ] as const) {
    const call = calls.query("select n");
    expect(await texts(session)).toEqual(expected);
    if (calls === scope) session.send(inFront("SELECT 0"));
    session.send(begun(), rows(1, 2), ended(1));
    expect((await call).rows).toEqual([{ n: 1 }]);
  }
  expect(client.stats().queries).toBe(4);
});

/** With a mark before it, the version of Citus is not a number. The check fails with this, in the server's language. */
const refusedByCitus = () =>
  wire.errorResponse({ S: "FEHLER", V: "ERROR", C: "22P02", M: "ungültige Eingabe: »pgz_citus 12.1.12«" });

test("the first call recognizes Citus, and runs once with settings that reach its nodes", async () => {
  const session = await letInKnowing();
  const call = tenant().query("select n");
  expect(await texts(session)).toEqual([SET, "select n"]);
  session.send(refusedByCitus(), wire.readyForQuery());
  // The statement is described again, as after any refusal before it.
  const asked = await texts(session);
  if (asked.length === 1) {
    session.send(
      wire.parseComplete(),
      wire.parameterDescription([]),
      wire.rowDescription([int4]),
      wire.readyForQuery(),
    );
  } else {
    expect(asked).toEqual([SCOPE_ON_CITUS, "select n"]);
    session.send(inFront("DO"), wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]));
    session.send(wire.readyForQuery());
  }
  expect(await texts(session)).toEqual([SCOPE_ON_CITUS, "select n"]);
  session.send(inFront("DO"), begun(), rows(1, 2), ended(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  const next = tenant().query("select n");
  expect(await texts(session)).toEqual([SCOPE_ON_CITUS, "select n"]);
  session.send(inFront("DO"), begun(), rows(2, 3), ended(1));
  expect((await next).rows).toEqual([{ n: 2 }]);
});

test("in a transaction the settings are sent once, after BEGIN", async () => {
  const session = await letInKnowing();
  const call = tenant().transaction(
    async (tx) => {
      await expect(tx.simple("select 1")).rejects.toMatchObject({ code: "NOT_IN_SCOPE" });
      await tx.query("select n");
      return (await tx.query("select n")).rows;
    },
    { readOnly: true },
  );
  expect(await texts(session)).toEqual(["BEGIN READ ONLY", SET, "select n"]);
  session.send(inFront("BEGIN"), inFront("SELECT 0"), begun(), rows(1, 2), ...inTransaction());
  expect(await texts(session)).toEqual(["select n"]);
  session.send(begun(), rows(2, 3), ...inTransaction());
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect(await call).toEqual([{ n: 2 }]);
});

test("a transaction needs a function, and refuses unknown options", async () => {
  const refused = { name: "UsageError", code: "INVALID_OPTION" };
  await expect(tenant().transaction(["select 1"] as never)).rejects.toMatchObject(refused);
  const misspelt = tenant().transaction(() => 1, { readonly: true } as never);
  await expect(misspelt).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
});

test.each(["SELECT 1", "BEGIN"])("after %s in SQL, a scope runs only if no transaction is open", async (tag) => {
  const session = await letInKnowing();
  const status = tag === "BEGIN" ? "T" : "I";
  const before = client.simple(tag === "BEGIN" ? "begin" : "select 1");
  await texts(session);
  session.send(wire.commandComplete(tag), wire.readyForQuery(status));
  await before;
  const call = tenant().query("select n");
  const transaction = tenant().transaction(() => 1);
  if (tag === "BEGIN") {
    for (const one of [call, transaction])
      await expect(one).rejects.toMatchObject({ name: "UsageError", code: "TRANSACTION_OPEN" });
    return;
  }
  expect(await texts(session)).toEqual([SET, "select n"]);
  session.send(inFront("SELECT 0"), begun(), rows(1, 2), ended(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  expect(await transaction).toBe(1);
});

test("calls that could end, outlive or ignore the settings are refused before anything is sent", async () => {
  const scope = tenant();
  const copy = "copy t from stdin";
  const calls: (() => Promise<unknown>)[] = [
    () => scope.query("begin"),
    () => scope.exec("set work_mem = 1"),
    () => scope.batch(["select 1", "commit"]),
    () => scope.simple("select 1"),
    () => scope.copyFrom(copy, ["x"]),
    () => scope.copyFromRows("t", ["a"], [[1]]),
    () => scope.copyTo("copy t to stdout"),
    () => scope.query(copy),
    async () => scope.copyToRows("select 1"),
    async () => scope.rows("reset all"),
  ];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ name: "UsageError", code: "NOT_IN_SCOPE" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("a scope without settings and role is refused", () => {
  for (const options of [{}, { settings: {} }, undefined])
    expect(() => client.scope(options as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
});

test("a scope's calls are its client's: they are sent in order, counted, and ended with the client", async () => {
  const session = await letInKnowing();
  const scope = tenant();
  const calls = [client.query("select n"), scope.query("select n"), client.query("select n")];
  session.send(begun(), rows(1, 2), ended(1));
  session.send(inFront("SELECT 0"), begun(), rows(2, 3), ended(1), begun(), rows(3, 4), ended(1));
  expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
  expect(client.stats()).toMatchObject({ queries: 4, rows: 4 });
  await client.close();
  await expect(scope.query("select n")).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
  await expect(scope.transaction(() => 1)).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});

test("a scope whose settings allow no first run as text describes its statements from then on", async () => {
  newClient({ prepare: "unnamed", firstRun: "text" });
  const scope = tenant();
  const first = scope.query("select n");
  const session = await letIn();
  const learnAndRun = async () => {
    session.send(inFront("SELECT 0"), wire.parseComplete(), wire.parameterDescription([]));
    session.send(wire.rowDescription([int4]), wire.readyForQuery());
    await session.flight();
    session.send(inFront("SELECT 0"), begun(), rows(1, 2), ended(1));
  };
  expect(await session.flight()).toContain("Execute");
  session.send(wire.closeComplete(), inFront("SELECT 0"), wire.parseComplete());
  session.send(failed("22P02", 'invalid input: "pgz-edge: settings"'));
  for (const [text, call] of [
    ["select n", first],
    ["select m", undefined],
  ] as const) {
    const running = call ?? scope.query(text);
    expect((await session.flight()).slice(-3)).toEqual(described);
    await learnAndRun();
    expect((await running).rows).toEqual([{ n: 1 }]);
  }
});

test("a stream of a scope holds the client, and closes it with closeWhenDone", async () => {
  const session = await letInKnowing();
  const scope = tenant();
  const opening = scope.stream("select n", { closeWhenDone: true });
  expect(await texts(session)).toEqual([SET, "select n"]);
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  session.send(inFront("SELECT 0"), begun(), rows(1, 2), ended(1));
  expect(await new Response(await opening).text()).toBe('{"n":1}\n');
  expect(await session.flight()).toEqual(["Terminate"]);
  await expect(client.query("select n")).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});

test("a refused stream with closeWhenDone closes the client too", async () => {
  await expect(tenant().stream("begin", { closeWhenDone: true })).rejects.toMatchObject({ code: "NOT_IN_SCOPE" });
  expect(client.stats().state).toBe("closed");
});

test("a scope is printed with its server, database and user", () => {
  const shown = inspect(tenant(), { breakLength: Infinity });
  expect(shown).toMatch(/^Scope \{ host: 'memory', port: 5432, database: 'd\d+', user: 'u' \}$/);
});
