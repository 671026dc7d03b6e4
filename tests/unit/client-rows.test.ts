// Rows between the server and their consumer, over sockets in memory: back-pressure, when rows are flushed, and which
// rows are out before an error.
import { expect, test } from "vitest";
import {
  begun,
  client,
  division,
  ended,
  fakeClock,
  int4,
  isPending,
  learn,
  letIn,
  newClient,
  openStream,
  quiet,
  rows,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test("a consumer that stops reading stops the reads of the socket", async () => {
  const { session, reader } = await openStream(20_000);
  for (let chunk = 1; chunk < 10; chunk++) session.send(rows(chunk * 20_000, (chunk + 1) * 20_000));
  await quiet();
  const { reads } = session.peer;
  expect(reads).toBeLessThan(8);
  session.send(ended(200_000));
  let text = "";
  for (let next; !(next = await reader.read()).done;) text += new TextDecoder().decode(next.value);
  expect(text.split("\n").length).toBe(200_001);
  expect(session.peer.reads).toBeGreaterThan(reads);
});

test("rows that grow when decoded wait for their consumer, a few megabytes at a time", async () => {
  const swelling = { name: "n", oid: 1700 };
  /** 1e131068: ten bytes of numeric, 131,069 digits. */
  const digits = 131_069,
    count = 200;
  const value = Buffer.concat([1, 32_767, 0, 0, 1].map((part) => wire.int16(part)));
  const opening = client.stream("select n");
  const session = await letIn();
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([swelling]),
    wire.readyForQuery(),
  );
  await session.flight();
  await quiet(); // the read that gets all of the data is pending
  const { reads } = session.peer;
  const all = Array.from({ length: count }, () => wire.dataRow([value]));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([swelling], [1]), ...all, ended(count));
  const reader = (await opening).getReader();
  await quiet();
  let bytes = 0;
  for (let next; !(next = await reader.read()).done; bytes += next.value.length)
    expect(next.value.length).toBeLessThan((4 << 20) + 2 * digits);
  expect(bytes).toBe(count * (digits + '{"n":}\n'.length));
  expect(session.peer.reads).toBe(reads);
  const next = client.query("select n");
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1]), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test("an error in the chunk of the first rows rejects before anything is written", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 3), division(), wire.readyForQuery());
  await expect(opening).rejects.toMatchObject({ code: "22012", committed: false });
});

test("an error after CommandComplete, for example of a deferred constraint, rejects too", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1), wire.commandComplete("SELECT 1"));
  await quiet();
  session.send(division(), wire.readyForQuery());
  await expect(query).rejects.toMatchObject({ code: "22012" });
});

test("an error after the first row errors the stream, after whole rows", async () => {
  const { session, reader } = await openStream(3);
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n{"n":1}\n{"n":2}\n');
  session.send(rows(3, 4), division(), wire.readyForQuery());
  await expect(reader.read()).rejects.toMatchObject({ code: "22012", committed: true });
});

test("the first rows do not wait for flushInterval, and later rows do", async () => {
  using clock = fakeClock();
  newClient({ flushInterval: 60_000 });
  const { session, reader } = await openStream(1);
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n');
  session.send(rows(1, 2));
  const later = reader.read();
  await clock.pass(59_999);
  expect(await isPending(later)).toBe(true);
  session.send(rows(2, 3), ended(3));
  expect(new TextDecoder().decode((await later).value)).toBe('{"n":1}\n{"n":2}\n');
  expect((await reader.read()).done).toBe(true);
});

test("rows that arrive slowly wait for flushInterval, not for flushBytes", async () => {
  using clock = fakeClock();
  newClient({ flushInterval: 100 });
  const { session, reader } = await openStream(1);
  await reader.read();
  session.send(rows(1, 2));
  const next = reader.read();
  await clock.pass(99);
  expect(await isPending(next)).toBe(true);
  await clock.pass(1);
  expect(await isPending(next)).toBe(false);
  expect(new TextDecoder().decode((await next).value)).toBe('{"n":1}\n');
  session.send(ended(2));
  expect((await reader.read()).done).toBe(true);
});

test("each chunk needs a few boundary calls, and bytes are copied only in and out", async () => {
  const { session, reader } = await openStream(1);
  await reader.read();
  const before = client.stats();
  const chunk = rows(0, 4000);
  for (let sent = 0; sent < 50; sent++) session.send(chunk);
  session.send(ended(200_001));
  let streamed = 0;
  for (let next; !(next = await reader.read()).done;) streamed += next.value.length;
  const after = client.stats();
  expect(after.receivedChunks - before.receivedChunks).toBe(51);
  expect(after.boundaryCalls - before.boundaryCalls).toBeLessThan(51 * 6);
  expect(after.copiedBytes - before.copiedBytes).toBe(after.receivedBytes - before.receivedBytes + streamed);
});
