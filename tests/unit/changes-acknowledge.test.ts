// Transactions that a stream of changes has yielded, over sockets in memory: none comes twice, and an acknowledgement
// holds nothing up and counts only while the stream is read. What is no transaction is refused.
import { describe, expect, test } from "vitest";
import { changes } from "../../js/changes.ts";
import type { AnyChange } from "../../js/changes/kinds.ts";
import { ProtocolError } from "../../js/index.ts";
import {
  another,
  answersToStart,
  copyBoth,
  data,
  first as opened,
  options,
  position,
  read,
  insertedRow,
  transaction,
} from "../support/memory-changes.ts";
import { client, fakeTimers, install, letIn, server, useMemoryServer } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test.each([false, true])("a commit that was yielded does not come again, acknowledged: %s", async (isAcknowledged) => {
  using clock = fakeTimers();
  const next = read();
  const kinds: string[] = [];
  const noted = async () => {
    const change = await next();
    kinds.push(change.kind);
    return change;
  };
  const begin = noted();
  const first = await letIn();
  await answersToStart(first);
  first.send(copyBoth, ...transaction());
  await begin;
  for (let change; change?.kind !== "commit";) {
    change = await noted();
    if (change.kind === "commit" && isAcknowledged) await change.acknowledge();
  }
  first.peer.end();
  const again = noted();
  const second = await another(clock);
  await answersToStart(second);
  // Whatever the slot says: an acknowledgement may have been lost on its way.
  second.send(copyBoth, ...transaction(), data("B", position(64), position(0), wire.int32(8)), insertedRow);
  expect(await again).toMatchObject({ kind: "begin", xid: 8 });
  expect(kinds).toEqual(["begin", "schema", "insert", "commit", "begin"]);
});

const writes: Record<string, () => Promise<void>> = {
  // The workerd for Node 20, if the server closes the connection at that moment.
  "never settles": () => new Promise<void>(() => {}),
  fails: () => Promise.reject(new Error("broken pipe")),
};

test.each(Object.keys(writes))("an acknowledgement whose write %s holds nothing up, and loses nothing", async (how) => {
  using clock = fakeTimers();
  let breaks = false;
  let sockets = 0;
  install(async (target) => {
    const socket = await server.connect(target);
    const isFirst = sockets++ === 0;
    return { ...socket, write: (bytes) => (isFirst && breaks ? writes[how]!() : socket.write(bytes)) };
  });
  const next = read();
  const begin = next();
  const first = await letIn();
  await answersToStart(first);
  first.send(copyBoth, ...transaction());
  await begin;
  breaks = true;
  for (let change; change?.kind !== "commit";) {
    change = await next();
    if (change.kind === "commit") await change.acknowledge();
  }
  // However long the consumer takes, it gets what has arrived.
  first.send(data("B", position(80), position(0), wire.int32(8)), insertedRow);
  first.peer.end();
  await clock.pass(60_000);
  expect(await next()).toMatchObject({ kind: "begin", xid: 8 });
  expect(await next()).toMatchObject({ kind: "insert" });
  const again = next();
  const second = await another(clock);
  expect(await answersToStart(second)).toContain(" 0/40 ");
  second.send(copyBoth, data("B", position(80), position(0), wire.int32(8)), insertedRow);
  expect(await again).toMatchObject({ kind: "begin", xid: 8 });
});

test.each([
  ["a row outside a transaction", [insertedRow]],
  ["a part of a transaction, unasked", [data("S", wire.int32(7), Buffer.of(1))]],
  ["the end of a part that has not begun", [data("E")]],
  ["a commit without its beginning", transaction().slice(-1)],
])("%s is a violation of the protocol", async (_, sent) => {
  const { next } = opened();
  const session = await letIn();
  await answersToStart(session);
  session.send(copyBoth, ...sent);
  session.peer.end();
  const error = await next.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ProtocolError);
  expect(error).toMatchObject({ code: "UNEXPECTED_MESSAGE" });
});

type Acknowledge = () => Promise<void>;

/** Reads up to a commit. Returns its `acknowledge`, and the end of the reading. */
const readers: Record<
  string,
  () => Promise<{ acknowledge: Acknowledge; leave: () => Promise<unknown>; next: () => Promise<unknown> }>
> = {
  async changes() {
    const iterator = changes(client, options)[Symbol.asyncIterator]();
    for (;;) {
      const { value: change } = (await iterator.next()) as { value: AnyChange };
      if (change.kind !== "commit") continue;
      return { acknowledge: change.acknowledge, leave: () => iterator.return!(), next: () => iterator.next() };
    }
  },
  async transactions() {
    const iterator = changes(client, options).transactions();
    const { value } = await iterator.next();
    return { acknowledge: value!.acknowledge, leave: () => iterator.return(), next: () => iterator.next() };
  },
};

describe.each(Object.keys(readers))("an acknowledgement in the loop of %s", (name) => {
  async function read() {
    const reading = readers[name]!();
    const session = await letIn();
    await answersToStart(session);
    session.send(copyBoth, ...transaction());
    return { session, ...(await reading) };
  }

  test("is refused after the loop was left", async () => {
    const { session, acknowledge, leave } = await read();
    const leaving = leave();
    await session.flight();
    session.peer.end();
    await leaving;
    await expect(acknowledge()).rejects.toMatchObject({
      name: "UsageError",
      code: "CHANGES_OVER",
      message: expect.stringContaining('from: "7-1-1s"'),
      cause: { code: "ABORTED" },
    });
  });

  test("is not refused if it was made before that", async () => {
    const { session, acknowledge, leave } = await read();
    void acknowledge();
    const leaving = leave();
    const sent: string[] = [];
    while (sent.at(-1) !== "Terminate") sent.push(...(await session.flight()));
    expect(sent).toContain("CopyData");
    session.peer.end();
    await leaving;
    await acknowledge();
  });

  test("is refused after the stream has failed, with its error", async () => {
    const { session, acknowledge, next } = await read();
    const failing = next();
    session.send(insertedRow);
    await session.flight();
    session.peer.end();
    await expect(failing).rejects.toMatchObject({ code: "UNEXPECTED_MESSAGE" });
    await expect(acknowledge()).rejects.toMatchObject({ code: "CHANGES_OVER", cause: { code: "UNEXPECTED_MESSAGE" } });
  });
});
