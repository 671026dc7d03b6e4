// Servers that answer oddly, over sockets in memory: the connection may fail, but neither the instance nor other
// clients.
import { expect, test, vi } from "vitest";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  learn,
  letIn,
  otherClient,
  rows,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

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
  const own = { name: "n", oid: 16_400 };
  const described = [wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([own])];
  session.send(...described, wire.readyForQuery());
  expect(await session.flight()).toEqual(["Query"]);
  const found = answer ? [wire.dataRow([Buffer.from(answer)])] : [];
  session.send(wire.rowDescription([{ name: "j", oid: 114 }]), ...found, ended(1));
  let flight = await session.flight();
  // A type that the catalog does not have may have been dropped since.
  if (!flight.includes("Bind")) {
    session.send(...described, wire.readyForQuery());
    flight = await session.flight();
  }
  expect(flight).toEqual(execution);
  session.send(
    wire.parseComplete(),
    wire.bindComplete(),
    wire.rowDescription([own], [0]),
    wire.dataRow([Buffer.from("x")]),
    ended(1),
  );
  expect((await query).rows).toEqual([{ n: "x" }]);
  others.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42601", M: "whole" }), wire.readyForQuery());
  await expect(waiting).rejects.toMatchObject({ code: "42601" });
  await other.close();
});

test("a server that shuts down right after its catalog's answer is a lost connection", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([{ name: "n", oid: 16_400 }]),
    wire.readyForQuery(),
  );
  await session.flight();
  const answer = wire.dataRow([Buffer.from('[[16400,"d","own",[23],[]]]')]);
  session.send(
    wire.rowDescription([{ name: "j", oid: 114 }]),
    answer,
    ended(1),
    wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P01", M: "going" }),
  );
  await expect(query).rejects.toMatchObject({ name: "PostgresError", code: "57P01" });
});

test("of made-up settings that a server reports, a hundred are kept", async () => {
  const query = client.query("select n");
  const session = await accepted();
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("TimeZone", "UTC"));
  for (let made = 0; made < 1_000; made++) session.send(wire.parameterStatus(`made.${made}`, "up"));
  session.send(wire.parameterStatus("TimeZone", "CET"), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  await learn(session);
  session.send(begun(), rows(0, 1), ended(1));
  await query;
  expect(["TimeZone", "made.98", "made.99"].map((name) => client.parameterStatus(name))).toEqual([
    "CET",
    "up",
    undefined,
  ]);
});

test("a server that never answers LISTEN is given up", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const listening = client.listen("c").catch((error: unknown) => error);
    const session = await letIn();
    expect(await session.flight()).toEqual(["Query"]);
    await vi.advanceTimersByTimeAsync(11_000);
    expect(await listening).toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST" });
  } finally {
    vi.useRealTimers();
  }
});

test("a pooled session with a genuine process id gets no names once another session was recognized", async () => {
  const options = { database: "pooled" };
  const first = otherClient(options);
  const seen = first.query("select n");
  const session = await accepted();
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.backendKeyData(1 << 30, wire.int32(9)), wire.readyForQuery());
  await learn(session);
  session.send(begun(), ended(0));
  await seen;
  const second = otherClient(options);
  let genuine;
  for (let run = 0; run < 3; run++) {
    const query = second.query("select n");
    genuine ??= await letIn();
    expect(await genuine.flight()).toEqual(execution);
    genuine.send(begun(), ended(0));
    await query;
  }
  await Promise.all([first.close(), second.close()]);
});
