// A scope over sockets in memory: its settings are sent with each of its calls. What could outlive a call or end the
// settings is refused before anything is sent.
import { inspect } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { CITUS_CHECK } from "../../js/session/citus.ts";
import { scopeSettings } from "../../js/session/scope-settings.ts";
import { described } from "../support/flights.ts";
import { client, letIn, letInKnowing, newClient, texts, useMemoryServer } from "../support/memory-session.ts";
import {
  description,
  errorAndReady,
  errorResponse,
  executed,
  firstDescribed,
  int4,
  ran,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const settings = { "app.tenant": 7 };
const SET = `select where pg_catalog.set_config(E'app.tenant',E'7',true) is null or ${CITUS_CHECK}`;
const SCOPE_ON_CITUS = scopeSettings({ settings }).citusStatement;
const tenant = () => client.scope({ settings });

/** With a mark before it, the version of Citus is not a number. The check fails with this, in the server's language. */
const refusedByCitus = () => errorResponse("22P02", { S: "FEHLER", M: "ungültige Eingabe: »pgz_citus 12.1.12«" });

test("the first call recognizes Citus, and runs once with settings that reach its nodes", async () => {
  const session = await letInKnowing();
  const call = tenant().query("select n");
  expect(await texts(session)).toEqual([SET, "select n"]);
  session.send(refusedByCitus(), wire.readyForQuery());
  // The statement is described again, as after any refusal before it.
  const asked = await texts(session);
  if (asked.length === 1) {
    session.send(description());
  } else {
    expect(asked).toEqual([SCOPE_ON_CITUS, "select n"]);
    session.send(ran("DO"), wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]));
    session.send(wire.readyForQuery());
  }
  expect(await texts(session)).toEqual([SCOPE_ON_CITUS, "select n"]);
  session.send(ran("DO"), executed(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  const next = tenant().query("select n");
  expect(await texts(session)).toEqual([SCOPE_ON_CITUS, "select n"]);
  session.send(ran("DO"), executed(2));
  expect((await next).rows).toEqual([{ n: 2 }]);
});

test("a transaction needs a function, and refuses unknown options", async () => {
  const refused = { name: "UsageError", code: "INVALID_OPTION" };
  await expect(tenant().transaction(["select 1"] as never)).rejects.toMatchObject(refused);
  const misspelt = tenant().transaction(() => 1, { readonly: true } as never);
  await expect(misspelt).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
});

test("a COPY as a query, and a loop over what outlives its call, are refused before anything is sent", async () => {
  const scope = tenant();
  const calls = [() => scope.query("copy t from stdin"), async () => scope.rows("reset all")];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ name: "UsageError", code: "NOT_IN_SCOPE" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("a scope's calls are its client's: they are sent in order, counted, and ended with the client", async () => {
  const session = await letInKnowing();
  const scope = tenant();
  const calls = [client.query("select n"), scope.query("select n"), client.query("select n")];
  session.send(executed(1));
  session.send(ran("SELECT 0"), executed(2), executed(3));
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
  expect(await session.flight()).toContain("Execute");
  session.send(wire.closeComplete(), ran("SELECT 0"), ...firstDescribed());
  session.send(errorAndReady("22P02", "I", { M: 'invalid input: "pgz-edge: settings"' }));
  const runs = async (call: Promise<{ rows: unknown[] }>) => {
    await session.flight();
    session.send(ran("SELECT 0"), executed(1));
    expect((await call).rows).toEqual([{ n: 1 }]);
  };
  await runs(first);
  const second = scope.query("select m");
  expect((await session.flight()).slice(-3)).toEqual(described);
  session.send(ran("SELECT 0"), ...firstDescribed(), wire.readyForQuery());
  await runs(second);
});

test("a stream of a scope holds the client, and closes it with closeWhenDone", async () => {
  const session = await letInKnowing();
  const scope = tenant();
  const opening = scope.stream("select n", { closeWhenDone: true });
  expect(await texts(session)).toEqual([SET, "select n"]);
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  session.send(ran("SELECT 0"), executed(1));
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
