// Rows as bytes over sockets in memory: json, stream and respond. What they return, what a refused call closes, and
// what a second attempt keeps of the first.
import { gunzipSync } from "node:zlib";
import { beforeEach, expect, test } from "vitest";
import { installRuntime, runtime, type ByteChannel } from "../../js/runtime/runtime.ts";
import { sql } from "../../js/statement/sql.ts";
import { runs, streamed } from "../support/memory-calls.ts";
import {
  client,
  failure,
  fakeTimers,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  quiet,
  useMemoryServer,
} from "../support/memory-session.ts";
import {
  begun,
  description,
  division,
  ended,
  errorAndReady,
  executed,
  rows,
  shutdown,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed", flushInterval: 0 }));

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** All bytes of a result of `client`, decompressed if `gzip`. */
async function read(result: Uint8Array | ReadableStream | Response, gzip = false): Promise<string> {
  const body = result instanceof Response ? result : new Response(result as ReadableStream);
  const bytes = new Uint8Array(await body.arrayBuffer());
  return text(gzip ? gunzipSync(bytes) : bytes);
}

// -- json -------------------------------------------------------------------------------------------------------------

test.each([
  [undefined, '[{"n":1},{"n":2}]'],
  ["ndjson", '{"n":1}\n{"n":2}\n'],
  ["csv", "n\r\n1\r\n2\r\n"],
] as const)("json gives all rows in one piece, in format %s", async (format, expected) => {
  const session = await letInKnowing();
  const call = client.json("select n", format && { format });
  await session.flight();
  session.send(begun(), rows(1, 2));
  await quiet();
  session.send(rows(2, 3), ended(2));
  expect(text(await call)).toBe(expected);
});

test("json without rows is an empty array", async () => {
  const session = await letInKnowing();
  const call = client.json("select n");
  await runs(session, 0, 0);
  expect(text(await call)).toBe("[]");
});

test("json that runs a second time has only the rows of the last run", async () => {
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  using clock = fakeTimers();
  const call = client.json("select n");
  await session.flight();
  session.send(begun(), rows(1, 2), errorAndReady("40001"));
  await clock.pass(1_000);
  await runs(session);
  expect(text(await call)).toBe('[{"n":7}]');
});

test("json is pipelined: a later call is sent before json is answered", async () => {
  const session = await letInKnowing();
  const calls = [client.json("select n"), client.json("select n")];
  await session.flight();
  expect(await isPending(session.flight())).toBe(false);
  session.send(executed(1), executed(2));
  expect((await Promise.all(calls)).map(text)).toEqual(['[{"n":1}]', '[{"n":2}]']);
});

test("invalid arguments reject the call, nothing is sent, and the client stays open", async () => {
  const calls = [
    () => client.json(5 as never),
    () => client.json("select 1", { format: "yaml" as never }),
    () => client.json("select 1", 5 as never),
    () => client.stream("select 1", 5 as never),
    () => client.stream("select 1", null as never),
    () => client.stream("select 1", { format: "yaml" as never }),
    () => client.stream("select 1", { gzip: 1 as never }),
    () => client.respond("select 1", null as never),
    () => client.respond("select 1", { status: 204 }),
    () => client.respond("select 1", { headers: { "a b": "c" } }),
    () => client.respond("select 1", { gzip: "yes" as never }),
  ];
  for (const call of calls) await expect(call()).rejects.toMatchObject({ name: "UsageError" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

// -- stream and respond -----------------------------------------------------------------------------------------------

test.each([false, true])("a stream has the rows in its format, compressed: %s", async (gzip) => {
  const session = await letInKnowing();
  const call = client.stream("select n", { format: "json", gzip });
  await runs(session, 1, 3);
  expect(await read(await call, gzip)).toBe('[{"n":1},{"n":2}]');
});

test.each([false, true])(
  "a response has its content type, its own headers and status, and a native stream of rows, compressed: %s",
  async (gzip) => {
    const made: ByteChannel[] = [];
    const responseBody = () => {
      const channel = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 9 });
      made.push(channel);
      return channel;
    };
    installRuntime({ ...runtime(), responseBody });
    const session = await letInKnowing();
    const streaming = client.stream("select n", { gzip });
    await runs(session);
    await read(await streaming);
    expect(made.length).toBe(0);
    const call = client.respond("select n", { status: 201, headers: { "x-mine": "1" }, gzip });
    await runs(session);
    const response = await call;
    expect([response.status, response.headers.get("x-mine")]).toEqual([201, "1"]);
    expect(response.headers.get("content-type")).toMatch(/ndjson/);
    expect(response.headers.get("content-encoding")).toBe(gzip ? "gzip" : null);
    expect(await read(response, gzip)).toBe('{"n":7}\n');
    expect(made.length).toBe(1);
  },
);

test("a response comes whole from the next session if the first ended before the statement began", async () => {
  const session = await letInKnowing();
  const call = client.respond("select n", { format: "json" });
  await session.flight();
  session.send(shutdown());
  await runs(await letIn(), 4);
  expect(await (await call).text()).toBe('[{"n":4}]');
});

test("rows of a compressed stream are sent in blocks, and uncompressed rows as soon as they arrive", async () => {
  newClient({ prepare: "unnamed", flushInterval: 60_000, flushBytes: 1 << 20 });
  const session = await letInKnowing();
  for (const gzip of [false, true]) {
    const call = client.stream("select n", { gzip });
    await session.flight();
    session.send(begun(), rows(1, 2));
    expect(await isPending(call)).toBe(gzip);
    session.send(ended(1));
    expect(await read(await call, gzip)).toBe('{"n":1}\n');
  }
});

// -- closeWhenDone ----------------------------------------------------------------------------------------------------

const closing = { closeWhenDone: true } as const;

test.each([
  ["stream", "a wrong option", () => client.stream("select n", { ...closing, format: "yaml" as never })],
  ["stream", "no query", () => client.stream(5 as never, closing)],
  ["respond", "a status without a body", () => client.respond("select n", { ...closing, status: 204 })],
])("%s that is refused for %s closes a client with closeWhenDone", async (_, __, call) => {
  await expect(call()).rejects.toMatchObject({ name: "UsageError" });
  expect(client.stats().state).toBe("closed");
});

test("a call that is refused because of an open stream leaves the client to that stream", async () => {
  const session = await letInKnowing();
  const opening = client.stream("select n");
  await expect(client.stream("select n", closing)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await expect(client.respond("select n", closing)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await runs(session);
  expect(await read(await opening)).toBe('{"n":7}\n');
  expect(client.stats().state).toBe("idle");
});

test.each(["stream", "respond"] as const)("%s closes the client once it has been read", async (how) => {
  const session = await letInKnowing();
  const call = client[how]("select n", closing);
  await session.flight();
  session.send(begun(), rows(1, 2));
  const body = await call;
  expect(client.stats().state).toBe("busy");
  session.send(ended(1));
  await read(body);
  expect(await session.flight()).toEqual(["Terminate"]);
  await expect(client.query("select n")).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});

test("an error of an open stream shows where the stream was requested", async () => {
  const session = await letInKnowing();
  async function askedHere() {
    return await streamed(session);
  }
  const reader = (await askedHere()).getReader();
  await reader.read();
  session.send(division(), wire.readyForQuery());
  const stack = expect.stringContaining("askedHere");
  expect(await failure(reader.read())).toMatchObject({ code: "22012", query: "select n", stack });
});

test.each(["json", "stream", "respond"] as const)("%s sends the values of a query", async (how) => {
  const session = await letInKnowing();
  const call = client[how](sql`select ${"seven"}::text`);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(description(undefined, [25]));
  let bind = "";
  for (let message; (message = (await session.message())!).name !== "Sync";)
    if (message.name === "Bind") bind = message.body.toString();
  expect(bind).toContain("seven");
  session.send(executed());
  await read(await call);
});
