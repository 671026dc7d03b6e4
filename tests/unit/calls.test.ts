// Rows as bytes over sockets in memory: json, stream and respond. What they return, what a refused call closes, and
// what a second attempt keeps of the first.
import { gunzipSync } from "node:zlib";
import { beforeEach, expect, test } from "vitest";
import { installRuntime, runtime, type ByteChannel } from "../../js/sockets/runtime.ts";
import { sql } from "../../js/statement/sql.ts";
import {
  begun,
  client,
  division,
  ended,
  fakeClock,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  quiet,
  rows,
  shutdown,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed", flushInterval: 0 }));

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const refused = { name: "UsageError", code: "INVALID_OPTION" };

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
  await session.flight();
  session.send(begun(), ended(0));
  expect(text(await call)).toBe("[]");
});

test("json that runs a second time has only the rows of the last run", async () => {
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  using clock = fakeClock();
  const call = client.json("select n");
  await session.flight();
  const conflict = wire.errorResponse({ S: "ERROR", V: "ERROR", C: "40001", M: "could not serialize access" });
  session.send(begun(), rows(1, 2), conflict, wire.readyForQuery());
  await clock.pass(1_000);
  await session.flight();
  session.send(begun(), rows(7, 8), ended(1));
  expect(text(await call)).toBe('[{"n":7}]');
});

test("json is pipelined: a later call is sent before json is answered", async () => {
  const session = await letInKnowing();
  const calls = [client.json("select n"), client.json("select n")];
  await session.flight();
  expect(await isPending(session.flight())).toBe(false);
  session.send(begun(), rows(1, 2), ended(1), begun(), rows(2, 3), ended(1));
  expect((await Promise.all(calls)).map(text)).toEqual(['[{"n":1}]', '[{"n":2}]']);
});

test("invalid arguments reject the call, and nothing is sent", async () => {
  const calls = [
    () => client.json(5 as never),
    () => client.json("select 1", { format: "yaml" as never }),
    () => client.json("select 1", 5 as never),
    () => client.stream("select 1", 5 as never),
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

test("a stream has the rows in its format, compressed on request", async () => {
  const session = await letInKnowing();
  for (const gzip of [false, true]) {
    const call = client.stream("select n", { format: "json", gzip });
    await session.flight();
    session.send(begun(), rows(1, 3), ended(2));
    const bytes = new Uint8Array(await new Response(await call).arrayBuffer());
    expect(text(gzip ? gunzipSync(bytes) : bytes)).toBe('[{"n":1},{"n":2}]');
  }
});

test("a response has the content type of its format, its own headers and status, and the rows", async () => {
  const session = await letInKnowing();
  for (const gzip of [false, true]) {
    const call = client.respond("select n", { status: 201, headers: { "x-mine": "1" }, gzip });
    await session.flight();
    session.send(begun(), rows(1, 2), ended(1));
    const response = await call;
    expect([response.status, response.headers.get("x-mine")]).toEqual([201, "1"]);
    expect(response.headers.get("content-type")).toMatch(/ndjson/);
    expect(response.headers.get("content-encoding")).toBe(gzip ? "gzip" : null);
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(text(gzip ? gunzipSync(bytes) : bytes)).toBe('{"n":1}\n');
  }
});

test.each([false, true])(
  "a response's body is a native stream of the runtime, and a stream of rows is not (gzip: %s)",
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
    await session.flight();
    session.send(begun(), rows(1, 2), ended(1));
    await new Response(await streaming).arrayBuffer();
    expect(made.length).toBe(0);
    const responding = client.respond("select n", { gzip });
    await session.flight();
    session.send(begun(), rows(1, 2), ended(1));
    const bytes = new Uint8Array(await (await responding).arrayBuffer());
    expect(text(gzip ? gunzipSync(bytes) : bytes)).toBe('{"n":1}\n');
    expect(made.length).toBe(1);
  },
);

test("a response comes whole from the next session if the first ended before the statement began", async () => {
  const session = await letInKnowing();
  const call = client.respond("select n", { format: "json" });
  await session.flight();
  session.send(shutdown());
  const next = await letIn();
  await next.flight();
  next.send(begun(), rows(4, 5), ended(1));
  expect(await (await call).text()).toBe('[{"n":4}]');
});

test("rows of a compressed stream are sent in blocks, and uncompressed rows as soon as they arrive", async () => {
  newClient({ prepare: "unnamed", flushInterval: 60_000, flushBytes: 1 << 20 });
  const session = await letInKnowing();
  const prompt = client.stream("select n");
  await session.flight();
  session.send(begun(), rows(1, 2));
  expect(await isPending(prompt)).toBe(false);
  session.send(ended(1));
  await new Response(await prompt).text();
  const compressed = client.stream("select n", { gzip: true });
  await session.flight();
  session.send(begun(), rows(1, 2));
  expect(await isPending(compressed)).toBe(true);
  session.send(ended(1));
  expect(gunzipSync(new Uint8Array(await new Response(await compressed).arrayBuffer())).length).toBe(8);
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

test("a refused call without closeWhenDone leaves the client open", async () => {
  await expect(client.stream("select n", { format: "yaml" as never })).rejects.toMatchObject(refused);
  await expect(client.respond("select n", { status: 204 })).rejects.toMatchObject(refused);
  await expect(client.stream("select n", null as never)).rejects.toMatchObject({ name: "UsageError" });
  expect(client.stats().state).toBe("new");
});

test("a call that is refused because of an open stream leaves the client to that stream", async () => {
  const session = await letInKnowing();
  const opening = client.stream("select n");
  await expect(client.stream("select n", closing)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await expect(client.respond("select n", closing)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  expect(await new Response(await opening).text()).toBe('{"n":1}\n');
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
  await (body instanceof Response ? body : new Response(body)).text();
  expect(await session.flight()).toEqual(["Terminate"]);
});

test("an error of an open stream shows where the stream was requested", async () => {
  const session = await letInKnowing();
  async function askedHere() {
    return await client.stream("select n");
  }
  const call = askedHere();
  await session.flight();
  session.send(begun(), rows(1, 2));
  const reader = (await call).getReader();
  await reader.read();
  session.send(division(), wire.readyForQuery());
  const error = await reader.read().catch((reason: unknown) => reason as Error);
  expect(error).toMatchObject({ code: "22012", query: "select n" });
  expect((error as Error).stack).toContain("askedHere");
});

test("json, stream and respond all send the values of a query", async () => {
  const session = await letInKnowing();
  for (const how of ["json", "stream", "respond"] as const) {
    const call = client[how](sql`select ${"seven"}::text`);
    for (let first = true; ; first = false) {
      const names: string[] = [];
      let body = "";
      for (let message; (message = (await session.message())!).name !== "Sync";) {
        names.push(message.name);
        if (message.name === "Bind") body = message.body.toString();
      }
      if (names.includes("Bind")) {
        expect(body).toContain("seven");
        break;
      }
      expect(first).toBe(true);
      session.send(wire.parseComplete(), wire.parameterDescription([25]));
      session.send(wire.rowDescription([{ name: "n", oid: 23, size: 4 }]), wire.readyForQuery());
    }
    session.send(begun(), rows(1, 2), ended(1));
    const result = await call;
    if (result instanceof Response) await result.text();
    else if (result instanceof ReadableStream) await new Response(result).text();
  }
});
