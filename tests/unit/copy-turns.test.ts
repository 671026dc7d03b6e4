// A COPY over a socket that never blocks (js/statement/copy.ts): every few milliseconds it yields to the event loop, so
// that errors and timers get their turns.
import { afterEach, beforeEach, expect, test } from "vitest";
import { FakeClock } from "../support/fake-clock.ts";
import { client, isPending, letIn, quiet, useMemoryServer, type Session } from "../support/memory-session.ts";
import { completeAndReady } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
const clock = new FakeClock();
beforeEach(() => void clock.install().reset());
// Before the client is closed, because these hooks run in reverse order.
afterEach(() => clock.uninstall());

const PIECES = 20;

/** A source whose pieces take `milliseconds` each. */
function* source(milliseconds: number) {
  const begin = clock.now;
  for (let piece = 1; piece <= PIECES; piece++) {
    clock.now = begin + piece * milliseconds;
    yield Buffer.alloc(64 << 10);
  }
}

async function bytesOf(session: Session): Promise<number> {
  let bytes = 0;
  for (let message = await session.message(); message!.name === "CopyData"; message = await session.message())
    bytes += message!.body.length;
  return bytes;
}

test.each([
  [0, 0],
  [2, 6],
  [5, 10],
  [6, 20],
])("with %i ms for each of twenty pieces the COPY yields %i times", async (milliseconds, turns) => {
  const call = client.copyFrom("copy t from stdin", source(milliseconds));
  const session = await letIn();
  await session.flight();
  session.send(wire.message("G", Buffer.of(0), wire.int16(0)));
  const sent = bytesOf(session);
  let count = 0;
  while (await isPending(sent)) {
    // The COPY continues with this turn, not before it.
    const [next = 0, ...others] = clock.timers;
    expect(others).toEqual([]);
    count++;
    await clock.advance(next, quiet);
  }
  expect(count).toBe(turns);
  expect(await sent).toBe(PIECES * (64 << 10));
  session.send(completeAndReady("COPY 1"));
  await call;
});
