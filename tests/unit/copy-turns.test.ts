// A COPY over a socket that takes everything at once (js/statement/copy.ts): errors and timers have their turn, too.
import { expect, test, vi } from "vitest";
import { client, letIn, newClient, useMemoryServer } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const copyInResponse = () => wire.message("G", Buffer.of(0), wire.int16(0));
const complete = (tag: string) => Buffer.concat([wire.commandComplete(tag), wire.readyForQuery()]);

test("a socket that takes everything at once lets timers have their turn every few milliseconds", async () => {
  const pieces = 20;
  const turns = async (millisecondsEach: number): Promise<number> => {
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
    let count = 0;
    let isOver = false;
    const turn = () => {
      count++;
      if (!isOver) setTimeout(turn);
    };
    function* source() {
      for (let piece = 0; piece < pieces; piece++) {
        now += millisecondsEach;
        yield Buffer.alloc(64 << 10);
      }
    }
    const call = client.copyFrom("copy t from stdin", source());
    const session = await letIn();
    await session.flight();
    setTimeout(turn);
    session.send(copyInResponse());
    let bytes = 0;
    for (let message = await session.message(); message!.name === "CopyData"; message = await session.message())
      bytes += message!.body.length;
    isOver = true;
    expect(bytes).toBe(pieces * (64 << 10));
    session.send(complete("COPY 1"));
    await call;
    clock.mockRestore();
    await client.close();
    newClient();
    return count;
  };
  expect(await turns(6)).toBeGreaterThanOrEqual(pieces - 1);
  const few = await turns(2);
  expect(few).toBeGreaterThanOrEqual(pieces / 4);
  expect(few).toBeLessThan(pieces / 2);
  expect(await turns(0)).toBeLessThanOrEqual(1);
});
