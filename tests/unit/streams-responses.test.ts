// The Response around rows: its status and headers, gzip, and native bytes of the runtime as its body.
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { checkGzip, compressed } from "../../js/api/body.ts";
import { responseInit } from "../../js/api/streams.ts";
import { installRuntime, type Runtime } from "../../js/runtime/runtime.ts";
import { isPending, quiet } from "../support/memory-session.ts";

type Stream = ReadableStream<Uint8Array>;

/** Promises that the runtime was asked to keep alive. */
let kept: Promise<unknown>[];
const install = (traits: Partial<Runtime> = {}) =>
  installRuntime({ name: "here", background: (work) => void kept.push(work), ...traits } as Runtime);

beforeEach(() => {
  kept = [];
  install();
});
afterEach(() => void vi.unstubAllGlobals());

const bytes = (text: string) => new TextEncoder().encode(text);
const refused = (code: string, text: RegExp) =>
  expect.objectContaining({ name: "UsageError", code, message: expect.stringMatching(text) });

// -- status and headers -----------------------------------------------------------------------------------------------

test("a response has status 200 and the content type of the format", () => {
  const init = responseInit({}, "text/csv");
  expect([init.status, ...(init.headers as Headers)]).toEqual([200, ["content-type", "text/csv"]]);
  expect(init).not.toHaveProperty("encodeBody");
});

test("given headers are kept, and a given content type wins", () => {
  const given: [string, string][] = [
    ["cache-control", "no-store"],
    ["content-type", "text/plain"],
  ];
  for (const headers of [given, new Headers(given), Object.fromEntries(given)])
    expect([...(responseInit({ headers }, "text/csv").headers as Headers)]).toEqual(given);
});

test("a compressed body has the header content-encoding, and workerd is told that it is encoded", () => {
  const init = responseInit({ gzip: true }, "text/csv");
  expect((init.headers as Headers).get("content-encoding")).toBe("gzip");
  expect(init).toMatchObject({ encodeBody: "manual" });
  expect((responseInit({ gzip: false }, "text/csv").headers as Headers).has("content-encoding")).toBe(false);
});

test.each([200, 201, 206, 303, 404, 599])("status %d may have a body", (status) => {
  expect(responseInit({ status }, "text/csv").status).toBe(status);
});

test.each([100, 199, 204, 205, 304, 600, 200.5, NaN, "200", null])("status %s is refused", (status) => {
  expect(() => responseInit({ status: status as number }, "text/csv")).toThrow(refused("INVALID_OPTION", /"status"/));
});

test.each([[{ "a b": "c" }], [{ a: "b\nc" }], [5]])("headers that HTTP does not allow are refused: %o", (headers) => {
  const act = () => responseInit({ headers: headers as never }, "text/csv");
  expect(act).toThrow(refused("INVALID_OPTION", /"headers"/));
  expect(act).toThrow(expect.objectContaining({ cause: expect.any(TypeError) }));
});

// -- gzip ------------------------------------------------------------------------------------------------------------

test("gzip must be true or false", () => {
  for (const gzip of [true, false, undefined]) expect(() => checkGzip({ gzip })).not.toThrow();
  for (const gzip of [1, "yes", null])
    expect(() => checkGzip({ gzip: gzip as never })).toThrow(refused("INVALID_OPTION", /"gzip"/));
});

test("if the runtime cannot compress, only gzip: true is refused", () => {
  vi.stubGlobal("CompressionStream", undefined);
  expect(() => checkGzip({ gzip: true })).toThrow(refused("UNSUPPORTED_ON_RUNTIME", /^here has no CompressionStream/));
  expect(() => checkGzip({ gzip: false })).not.toThrow();
  expect(() => checkGzip({})).not.toThrow();
});

const unzipped = async (stream: Stream) =>
  gunzipSync(new Uint8Array(await new Response(stream as BodyInit).arrayBuffer())).toString();

/** A source that the test controls, and the reasons with which it was cancelled. */
function source() {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const left: unknown[] = [];
  const stream: Stream = new ReadableStream({
    start: (given) => void (controller = given),
    cancel: (reason) => void left.push(reason),
  });
  return { stream, controller, left };
}

test("rows are compressed by the platform, or by the runtime's replacement", async () => {
  const given = () => new Response("some rows").body!;
  expect(await unzipped(compressed(given()))).toBe("some rows");
  const own = new ReadableStream<Uint8Array>();
  const gzip = vi.fn(() => own);
  install({ gzip });
  const stream = given();
  expect(compressed(stream)).toBe(own);
  expect(gzip.mock.calls).toEqual([[stream]]);
  expect(kept).toEqual([]);
});

// -- native bytes of the runtime --------------------------------------------------------------------------------------

const channelOf = () => new TransformStream<Uint8Array, Uint8Array>();
/** Bytes that pass through a channel unchanged. */
function carried() {
  install({ gzip: (stream) => stream });
  const given = source();
  const channel = channelOf();
  const stream = compressed(given.stream, channel);
  expect(stream).toBe(channel.readable);
  expect(kept.length).toBe(1);
  return { ...given, reader: stream.getReader() };
}

test("a channel carries the compressed bytes to their end, which is kept alive", async () => {
  const channel = channelOf();
  const stream = compressed(new Response("some rows").body!, channel);
  expect(stream).toBe(channel.readable);
  expect(await isPending(kept[0]!)).toBe(true);
  expect(await unzipped(stream)).toBe("some rows");
  await kept[0];
  expect(kept.length).toBe(1);
});

test("each chunk arrives unchanged", async () => {
  const { controller, reader } = carried();
  for (const text of ["one", "two"]) {
    controller.enqueue(bytes(text));
    expect((await reader.read()).value).toEqual(bytes(text));
  }
  controller.close();
  expect((await reader.read()).done).toBe(true);
  await kept[0];
});

test("a source that fails makes the channel fail", async () => {
  const { controller, reader } = carried();
  const error = new Error("lost");
  controller.error(error);
  await expect(reader.read()).rejects.toBe(error);
  await kept[0];
});

test("a reader that cancels also cancels a silent source at once", async () => {
  const { left, reader } = carried();
  await reader.cancel("enough");
  await quiet();
  expect(left).toEqual(["enough"]);
  await kept[0];
});

test("a reader's cancel succeeds even if the source cannot be cancelled", async () => {
  install({ gzip: (stream) => stream });
  const stream: Stream = new ReadableStream({ cancel: () => Promise.reject(new Error("cannot")) });
  await compressed(stream, channelOf()).cancel("enough");
  await kept[0];
});
