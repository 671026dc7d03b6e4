// The check before a first run as a statement of its connection, over sockets in memory: when it has a name, what it
// asks of which server, and what follows if its name is lost.
import { beforeEach, expect, test } from "vitest";
import {
  checked,
  checkedLater,
  described,
  failed,
  firstFlight,
  laterFlight,
  over,
  texts,
} from "../support/first-runs.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  int4,
  newClient,
  useMemoryServer,
} from "../support/memory-session.ts";
import type { Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

/** Accepts the next session as a server that reports this version, as PostgreSQL does. */
async function letInBy(version: string, processId = 7): Promise<Session> {
  const session = await accepted();
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.parameterStatus("server_version", version));
  session.send(wire.backendKeyData(processId, wire.int32(9)), wire.readyForQuery());
  return session;
}

/** A session on which the second first run has prepared the check. */
async function runFirst(): Promise<Session> {
  const calls = [client.query("select n"), client.query("select k")];
  const session = await letInBy("18.1");
  for (const call of calls) {
    expect(await session.flight()).toEqual(firstFlight);
    session.send(checked(), wire.bindComplete(), texts("7"), over(1));
    await call;
  }
  return session;
}

test("the check is prepared once, and again after its name was lost", async () => {
  const session = await runFirst();
  for (const text of ["select m", "select o"]) {
    const call = client.query(text);
    expect(await session.flight()).toEqual(laterFlight);
    session.send(checkedLater(), wire.bindComplete(), texts("7"), over(1));
    expect((await call).rows).toEqual([{ n: 7 }]);
  }
  const discards = client.exec("discard all");
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(wire.commandComplete("DISCARD ALL"), wire.readyForQuery());
  await discards;
  // The name is closed too, because servers accept Close of a missing name.
  for (const flight of [["Close", ...firstFlight], firstFlight, laterFlight]) {
    const call = client.query(`select ${flight.length} as p`);
    expect(await session.flight()).toEqual(flight);
    if (flight.length > firstFlight.length) session.send(wire.closeComplete());
    session.send((flight === laterFlight ? checkedLater : checked)(), wire.bindComplete(), texts("7"), over(1));
    expect((await call).rows).toEqual([{ n: 7 }]);
  }
});

test("a check that the server has lost leads to a description, and later checks have no name", async () => {
  const session = await runFirst();
  const lost = client.query("select m");
  expect(await session.flight()).toEqual(laterFlight);
  session.send(wire.closeComplete(), wire.parseComplete(), failed("26000", "prepared statement does not exist"));
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  await lost;
  // A pooler may be the reason, so from now on the check has no name here.
  for (const text of ["select o", "select p"]) {
    const call = client.query(text);
    expect(await session.flight()).toEqual(firstFlight);
    session.send(checked(), wire.bindComplete(), texts("7"), over(1));
    expect((await call).rows).toEqual([{ n: 7 }]);
  }
});

test("after a pipelined statement with a syntax error the check is prepared again", async () => {
  const before = client.query("select n");
  const session = await letInBy("18.1");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  await before;
  const calls = ["select from from", "select m"].map((text) => client.query(text));
  expect(await session.flight()).toEqual(firstFlight);
  expect(await session.flight()).toEqual(laterFlight);
  session.send(wire.closeComplete(), failed("42601", "syntax error"));
  session.send(wire.closeComplete(), wire.parseComplete(), failed("26000", "prepared statement does not exist"));
  await expect(calls[0]).rejects.toMatchObject({ code: "42601" });
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), ended(0));
  await calls[1];
  for (const [at, flight] of [firstFlight, firstFlight, laterFlight].entries()) {
    const call = client.query(`select ${at}`);
    expect(await session.flight()).toEqual(flight);
    session.send((flight === firstFlight ? checked : checkedLater)(), wire.bindComplete(), texts("7"), over(1));
    await call;
  }
});

test.each([
  ["prepare: unnamed", { prepare: "unnamed" }, [firstFlight, firstFlight, firstFlight]],
  ["no place for a name", { statementCacheSize: 0 }, [firstFlight, firstFlight, firstFlight]],
  ["prepare: named", { prepare: "named" }, [firstFlight, laterFlight, laterFlight]],
] as const)("the check is named as statements are: %s", async (_, options, expected) => {
  newClient({ firstRun: "text", ...options });
  const calls = expected.map((_, at) => client.query(`select ${at} as n`));
  const session = await letInBy("18.1");
  for (const [at, flight] of expected.entries()) {
    expect(await session.flight()).toEqual(flight);
    session.send((flight === firstFlight ? checked : checkedLater)(), wire.bindComplete(), texts("7"), over(1));
    expect((await calls[at]!).rows).toEqual([{ n: 7 }]);
  }
});

test("a transaction that begins with a lost check begins again, with a description", async () => {
  const session = await runFirst();
  const transaction = client.transaction((tx) => tx.query("select m"));
  expect(await session.flight()).toEqual(["Close", "Parse", "Bind", "Execute", ...laterFlight.slice(1)]);
  const lost = wire.errorResponse({ S: "ERROR", V: "ERROR", C: "26000", M: "prepared statement does not exist" });
  const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  session.send(wire.closeComplete(), ...begins, wire.parseComplete(), lost, wire.readyForQuery("E"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
  session.send(...begins, begun(), wire.dataRow([wire.int32(7)]), over(1, "T"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await transaction).rows).toEqual([{ n: 7 }]);
});

test("an atomic batch whose check is lost is rolled back and described", async () => {
  const session = await runFirst();
  const call = client.batch(["select m", "select o"]);
  const flight = ["Close", "Parse", "Bind", "Execute", ...laterFlight.slice(1)];
  for (const _ of "12") expect(await session.flight()).toEqual(flight);
  expect(await session.flight()).toEqual(execution);
  const refused = (C: string) => [wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery("E")];
  session.send(wire.closeComplete(), wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(wire.parseComplete(), ...refused("26000"));
  session.send(wire.closeComplete(), ...refused("25P02"));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData());
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  for (const _ of "12") {
    expect(await session.flight()).toEqual(described);
    session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]));
    session.send(wire.readyForQuery());
  }
  await session.flight();
  for (const _ of "12") {
    session.send(begun(), wire.dataRow([wire.int32(5)]), wire.commandComplete("SELECT 1"));
  }
  session.send(wire.readyForQuery());
  expect((await call).map((result) => result.rows)).toEqual([[{ n: 5 }], [{ n: 5 }]]);
});

test("behind a pooler the check has no name", async () => {
  const first = client.query("select n");
  const session = await letInBy("18.1", 2 ** 31 - 1);
  for (const call of [first, client.query("select m"), client.query("select o")]) {
    expect(await session.flight()).toEqual(firstFlight);
    session.send(checked(), wire.bindComplete(), texts("7"), over(1));
    await call;
  }
});

test.each([
  ["15.14 (Debian 15.14-0+deb12u1)", false],
  ["16.4", true],
  ["18beta1", true],
])("a server of version %s reports the types of columns: %s", async (version, tells) => {
  const first = client.query("select n");
  const session = await letInBy(version);
  const parsed = [];
  for (let message = await session.message(); message!.name !== "Sync"; message = await session.message())
    if (message!.name === "Parse") parsed.push(message!.body.toString());
  expect([parsed[1]!.includes("result_types"), parsed[1]!.includes("server_version_num")]).toEqual([tells, false]);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  await first;
});
