// Rows between the server and their consumer, over sockets in memory: back-pressure, when rows are flushed, and which
// rows are out before an error.
import { expect, test } from "vitest";
import {
  client,
  fakeTimers,
  isPending,
  learn,
  letIn,
  newClient,
  openStream,
  quiet,
  useMemoryServer,
} from "../support/memory-session.ts";
import { begun, division, ended, executed, rows } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

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
  session.send(executed(7));
  expect((await next).rows).toEqual([{ n: 7 }]);
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

test("rows that arrive slowly wait for flushInterval, not for flushBytes", async () => {
  using clock = fakeTimers();
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
