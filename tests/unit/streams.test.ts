// Rows as bytes on their way to a user: when a call resolves with its stream, what ends the stream, and which side
// waits for the other.
import { beforeEach, expect, test } from "vitest";
import { feed } from "../../js/api/streams.ts";
import type { Operation } from "../../js/connection/operation.ts";
import type { Output } from "../../js/rows/form.ts";
import { AS_IT_IS } from "../../js/rows/output.ts";
import { Call } from "../../js/session/call.ts";
import type { Session } from "../../js/session/session.ts";
import { installRuntime, type ByteChannel, type Runtime } from "../../js/runtime/runtime.ts";
import { AbortError, PostgresError } from "../../js/util/errors.ts";
import { isPending, quiet } from "../support/memory-session.ts";

type Stream = ReadableStream<Uint8Array>;

/** Promises that the runtime was asked to keep alive. */
let kept: Promise<unknown>[];
beforeEach(() => {
  kept = [];
  installRuntime({ name: "node", background: (work: Promise<unknown>) => void kept.push(work) } as unknown as Runtime);
});

const bytes = (text: string) => new TextEncoder().encode(text);
const lost = () => new PostgresError({ code: "57P01", message: "terminating connection" });

/** A call that the test feeds: `sink` takes rows, `end` ends the statement, and `rest` gives what follows it. */
function fed(rest: Output["rest"] = () => undefined, channel?: ByteChannel) {
  const stats = { copiedBytes: 0 };
  const call = new Call<Stream>({ timeout: 0 });
  const session = { connection: { core: { stats } } } as unknown as Session;
  const { sink, ended } = feed(call, session, { ...AS_IT_IS, rest }, "prompt", channel);
  return { call, sink, stats, end: () => ended({} as Operation) };
}

test("a call has its stream at the first rows, and the stream has all rows until the end", async () => {
  const { call, sink, stats, end } = fed();
  expect(sink.delivery).toBe("prompt");
  expect(await isPending(call.promise)).toBe(true);
  sink.rows(bytes("one "));
  const stream = await call.promise;
  expect(call.finished).toBe(false);
  sink.rows(bytes("two"));
  end();
  expect(call.finished).toBe(true);
  expect(await new Response(stream).text()).toBe("one two");
  expect(stats.copiedBytes).toBe(7);
});

test("without rows a call has its stream at the end, with the bytes that follow the rows", async () => {
  for (const [rest, expected] of [
    [undefined, ""],
    [() => bytes("]"), "]"],
  ] as const) {
    const { call, end } = fed(rest);
    end();
    expect(call.finished).toBe(true);
    expect(await new Response(await call.promise).text()).toBe(expected);
  }
});

test("the bytes that follow the rows come after them", async () => {
  const { call, sink, end } = fed(() => bytes("]"));
  sink.rows(bytes("[1"));
  end();
  expect(await new Response(await call.promise).text()).toBe("[1]");
});

test("an output that comes at the end lets the statement be repeated: its rows are collected", () => {
  const session = { connection: { core: { stats: {} } } } as unknown as Session;
  const output: Output = { ...AS_IT_IS, comesAtEnd: true };
  const { sink } = feed(new Call<Stream>({ timeout: 0 }), session, output, "prompt");
  expect([sink.delivery, sink.full]).toEqual([undefined, undefined]);
});

test("a failure before the first row rejects the call, and a later failure errors its stream", async () => {
  const early = fed();
  const error = lost();
  early.call.fail(error);
  await expect(early.call.promise).rejects.toBe(error);
  const late = fed();
  late.sink.rows(bytes("one"));
  const reader = (await late.call.promise).getReader();
  await reader.read();
  late.call.fail(error);
  await expect(reader.read()).rejects.toBe(error);
});

test("a reader that cancels ends the call, with its reason", async () => {
  const { call, sink } = fed();
  const errors: unknown[] = [];
  call.holder = { onFailure: (error) => void errors.push(error) };
  sink.rows(bytes("one"));
  await (await call.promise).cancel("enough");
  expect(call.finished).toBe(true);
  expect(errors).toEqual([expect.objectContaining({ name: "AbortError", code: "ABORTED", cause: "enough" })]);
});

test("where a server aborts before it cancels, a reader that leaves sees no error, and one that stays sees it", async () => {
  installRuntime({ name: "deno", abortsBeforeCancel: true, background: () => {} } as unknown as Runtime);
  const aborted = async () => {
    const { call, sink, end } = fed();
    sink.rows(bytes("one"));
    const reader = (await call.promise).getReader();
    await reader.read();
    call.interrupt((facts) => new AbortError("left", facts));
    end();
    return reader;
  };
  const left = await aborted();
  await left.cancel();
  await expect(left.closed).resolves.toBeUndefined();
  const stays = await aborted();
  await expect(stays.read()).rejects.toMatchObject({ code: "ABORTED", cause: "left" });
  // Any other error is no answer to a reader that leaves.
  const { call, sink } = fed();
  sink.rows(bytes("one"));
  const reader = (await call.promise).getReader();
  call.fail(lost());
  expect(await isPending(reader.closed.catch(() => {}))).toBe(false);
  await expect(reader.closed).rejects.toMatchObject({ code: "57P01" });
});

test("a writer waits for the reader, and the call reports unread rows", async () => {
  const { call, sink } = fed();
  expect([sink.full!(), call.isUnread()]).toEqual([undefined, false]);
  sink.rows(bytes("one"));
  expect(call.isUnread()).toBe(true);
  const room = sink.full!()!;
  expect(await isPending(room)).toBe(true);
  await (await call.promise).getReader().read();
  await room;
  expect([sink.full!(), call.isUnread()]).toEqual([undefined, false]);
});

test("a channel of the runtime carries the rows, and its end is kept alive", async () => {
  const channel = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 4 });
  const { call, sink, stats, end } = fed(() => bytes("]"), channel);
  sink.rows(bytes("[1"));
  const stream = await call.promise;
  expect(stream).toBe(channel.readable);
  end();
  expect(kept.length).toBe(1);
  expect(await new Response(stream).text()).toBe("[1]");
  await Promise.all(kept);
  await quiet();
  // The channel copies without the driver.
  expect(stats.copiedBytes).toBe(0);
});
