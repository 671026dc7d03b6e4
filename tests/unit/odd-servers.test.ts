// Servers that answer oddly, over sockets in memory: the connection may fail, but neither the instance nor other
// clients.
import { expect, test } from "vitest";
import { learned } from "../support/memory-calls.ts";
import {
  accepted,
  client,
  execution,
  failure,
  fakeTimers,
  letIn,
  logIn,
  otherClient,
  useMemoryServer,
} from "../support/memory-session.ts";
import { description, ended, errorAndReady, executed, shutdown } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const own = { name: "n", oid: 16_400, size: -1 };

test.each([
  "",
  "null",
  "{}",
  "7",
  "[null]",
  "[[16400]]",
  '[[16400,"c","r",null,null]]',
  '[[16400,"c","r",[23],7]]',
  '[[16400,"c","r",7,["a"]]]',
  "broken{",
])("a catalog that answers %j leaves its types text and its instance intact", async (answer) => {
  const other = otherClient();
  const waiting = other.exec("select");
  const others = await letIn();
  await others.flight();
  const query = client.query("select n");
  const session = await letIn();
  await session.flight();
  session.send(description([own]));
  expect(await session.flight()).toEqual(["Query"]);
  const found = answer ? [wire.dataRow([Buffer.from(answer)])] : [];
  session.send(wire.rowDescription([{ name: "j", oid: 114 }]), ...found, ended(1));
  let flight = await session.flight();
  // A type that the catalog does not have may have been dropped since.
  if (!flight.includes("Bind")) {
    session.send(description([own]));
    flight = await session.flight();
  }
  expect(flight).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([own], [0]));
  session.send(wire.dataRow([Buffer.from("x")]), ended(1));
  expect((await query).rows).toEqual([{ n: "x" }]);
  others.send(errorAndReady("42601", "I", { M: "whole" }));
  await expect(waiting).rejects.toMatchObject({ code: "42601" });
  await other.close();
});

test("a server that shuts down right after its catalog's answer is a lost connection", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await session.flight();
  session.send(description([own]));
  await session.flight();
  const answer = wire.dataRow([Buffer.from('[[16400,"d","own",[23],[]]]')]);
  session.send(wire.rowDescription([{ name: "j", oid: 114 }]), answer, ended(1), shutdown());
  await expect(query).rejects.toMatchObject({ name: "PostgresError", code: "57P01" });
});

test("of made-up settings that a server reports, a hundred are kept", async () => {
  const query = client.query("select n");
  const session = await accepted();
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("TimeZone", "UTC"));
  for (let made = 0; made < 1_000; made++) session.send(wire.parameterStatus(`made.${made}`, "up"));
  session.send(wire.parameterStatus("TimeZone", "CET"), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  await learned(session, query);
  const kept = ["TimeZone", "made.98", "made.99"].map((name) => client.parameterStatus(name));
  expect(kept).toEqual(["CET", "up", undefined]);
});

test("a server that never answers LISTEN is given up", async () => {
  using clock = fakeTimers();
  const listening = failure(client.listen("c"));
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  await clock.pass(11_000);
  expect(await listening).toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST" });
});

test("a pooled session with a genuine process id gets no names once another session was recognized", async () => {
  const options = { database: "pooled" };
  const first = otherClient(options);
  const seen = first.query("select n");
  const session = await logIn(accepted(), {}, 1 << 30);
  await learned(session, seen);
  const second = otherClient(options);
  let genuine;
  for (let run = 0; run < 3; run++) {
    const query = second.query("select n");
    genuine ??= await letIn();
    expect(await genuine.flight()).toEqual(execution);
    genuine.send(executed());
    await query;
  }
  await Promise.all([first.close(), second.close()]);
});
