// Readers that pause, stop, leave early or make two requests at once.
//
// Knows streams, loops and cursors of the public API. Must not know how rows are held back.
import { assert } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import { checkAll, decode, lines, pause, series, type Caller, type Disturbed, type Series } from "../../random/plan.ts";
import { alwaysRefused, mayBeRefused, type CallWorld, type Make } from "./call.ts";

type Bytes = "stream" | "respond" | "copyTo";

async function bytesOf(caller: Caller, call: Bytes, some: Series, options: Disturbed) {
  if (call === "stream") return await caller.stream(some.query, options);
  if (call === "respond") return (await caller.respond(some.query, options)).body!;
  return await caller.copyTo(`copy (select row_to_json(t) from (${some.plain}) t) to stdout`, options);
}

const pick = (dice: Dice) => dice.pick(["stream", "respond", "copyTo"] as const);

/** Continues to read after a pause, perhaps so long that a buffer fills. */
const readsLate: Make = (dice, world) => {
  const some = series(dice, world, 600);
  const call = pick(dice);
  const waits = dice.pick([1, 100, 1_000]);
  return {
    says: `${call} of ${some.says}, read on after ${waits} ms`,
    streams: true,
    async run(caller, options) {
      const reader = (await bytesOf(caller, call, some, options)).getReader();
      let seen = "";
      for (let isFirst = true; ; isFirst = false) {
        const { done, value } = await reader.read();
        if (done) break;
        seen += decode(value);
        if (isFirst) await pause(waits);
      }
      checkAll(lines(seen), some);
    },
  };
};

/** Reads a little, or nothing, and then never again: the stream holds its connection until its call's timeout. */
const stopsForGood: Make = (dice, world) => {
  const some = series(dice, world, 600);
  const call = pick(dice);
  const reads = dice.below(3);
  return {
    says: `${call} of ${some.says}, of which nobody reads more than ${reads} pieces`,
    kind: "client",
    streams: true,
    causes: ["ACQUIRE_TIMEOUT", "QUERY_TIMEOUT"],
    async run(caller, options) {
      const stream = await bytesOf(caller, call, some, options);
      const reader = stream.getReader();
      for (let at = 0; at < reads; at++) if ((await reader.read()).done) return;
    },
  };
};

/** Cancels at once, in the middle, or while a read waits, and then once more. */
const cancels: Make = (dice, world) => {
  const some = series(dice, world, 600);
  const call = pick(dice);
  const reads = dice.below(3);
  const waits = dice.oneIn(3);
  return {
    says: `${call} of ${some.says}, cancelled behind ${reads} pieces${waits ? ", under a read" : ""}`,
    streams: true,
    leaves: true,
    async run(caller, options) {
      const reader = (await bytesOf(caller, call, some, options)).getReader();
      for (let at = 0; at < reads; at++) if ((await reader.read()).done) break;
      const under = waits ? reader.read() : undefined;
      await Promise.all([reader.cancel("enough"), under]);
      await reader.cancel("enough");
    },
  };
};

/** Two branches of one stream, of which one is left. */
const tees: Make = (dice, world) => {
  const some = series(dice, world, 100);
  return {
    says: `stream of ${some.says}, teed`,
    streams: true,
    async run(caller, options) {
      const [one, other] = (await caller.stream(some.query, options)).tee();
      const cancelled = other.cancel();
      const text = await new Response(one as unknown as BodyInit).text();
      await cancelled;
      checkAll(lines(text), some);
    },
  };
};

/** Calls `next` several times at once, and `return` after the end. */
const asksTogether: Make = (dice, world) => {
  const some = series(dice, world, 60);
  const call = dice.pick(["rows", "cursor"] as const);
  const most = 2 + dice.below(4);
  return {
    says: `${call} of ${some.says}, ${most} nexts at once`,
    streams: true,
    async run(caller, options) {
      const iterator: AsyncIterator<unknown> =
        call === "rows"
          ? caller.rows(some.query, options)[Symbol.asyncIterator]()
          : caller.cursor(some.query, 7, options)[Symbol.asyncIterator]();
      const seen: unknown[] = [];
      for (let isOver = false; !isOver;) {
        const settled = await Promise.allSettled(Array.from({ length: most }, () => iterator.next()));
        for (const step of settled) {
          if (step.status === "rejected") throw step.reason;
          if (step.value.done) isOver = true;
          else if (call === "rows") seen.push(step.value.value);
          else seen.push(...(step.value.value as unknown[]));
        }
      }
      await iterator.return?.();
      await iterator.return?.();
      assert.equal((await iterator.next()).done, true);
      checkAll(seen, some);
    },
  };
};

/** Leaves in the middle by `return` or `throw`, or before the first row. */
const leavesLoop: Make = (dice, world) => {
  const some = series(dice, world, 200);
  const call = dice.pick(["rows", "cursor"] as const);
  const reads = dice.below(4);
  const how = dice.pick(["return", "throw"] as const);
  const pauses = dice.oneIn(3);
  return {
    says: `${call} of ${some.says}, left by ${how} behind ${reads}${pauses ? ", slowly" : ""}`,
    streams: true,
    leaves: true,
    async run(caller, options) {
      const iterator = (call === "rows" ? caller.rows(some.query, options) : caller.cursor(some.query, 3, options))[
        Symbol.asyncIterator
      ]() as AsyncIterator<unknown>;
      for (let at = 0; at < reads; at++) {
        if ((await iterator.next()).done) break;
        if (pauses) await pause(10);
      }
      if (how === "return" || !iterator.throw) await iterator.return!();
      else await mayBeRefused(iterator.throw(Object.assign(new Error("a loop's own"), { code: "own" })), "own");
      assert.equal((await iterator.next()).done, true);
    },
  };
};

/** Headers and status, and a status that no Response can have. */
const responds: Make = (dice, world: CallWorld) => {
  const some = series(dice, world, 100);
  const isWrong = dice.oneIn(4);
  return {
    says: isWrong ? "respond with a wrong status" : `respond with ${some.says} and headers`,
    streams: true,
    async run(caller, options) {
      if (isWrong)
        return alwaysRefused(caller.respond(some.query, { ...options, status: 204 }), "status", "INVALID_OPTION");
      const response = await caller.respond(some.query, { ...options, status: 201, headers: { "x-is": "there" } });
      const text = await response.text();
      const { status, headers } = response;
      assert.deepEqual([status, headers.get("x-is")], [201, "there"]);
      checkAll(lines(text), some);
    },
  };
};

/** Calls for any caller. */
export const streams: readonly Make[] = [
  ...[readsLate, readsLate, cancels, cancels, tees, asksTogether, leavesLoop, leavesLoop, responds],
];

/** Calls for pools: a client would have no other connection meanwhile. */
export const streamsOfPools: readonly Make[] = [stopsForGood];
