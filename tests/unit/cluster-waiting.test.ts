// When a call of `reads.after()` waits in the server, and for how long; and how a call ends while it is on no server.
// The sessions only record what is sent: tests/cluster/waiting.test.ts has real servers.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { After } from "../../js/cluster/after.ts";
import { CallLimits } from "../../js/cluster/call-limits.ts";
import type { Session, SessionOf, Work } from "../../js/cluster/pool-queue.ts";
import { Memory, type Facts } from "../../js/cluster/memory.ts";
import { waitFor } from "../../js/cluster/questions.ts";
import type { Router } from "../../js/cluster/router.ts";
import type { Server } from "../../js/cluster/servers.ts";
import { learnVersion, Waiting } from "../../js/cluster/waiting.ts";
import { TimeoutError } from "../../js/util/errors.ts";

const position = { system: 7n, timeline: 1, lsn: 0x1_0000_0028n };

/** Returns a standby with at most `max` connections and a known position of `lsn`. */
function standby({ max = 4, lsn = 0n, ...known }: { max?: number; lsn?: bigint } & Partial<Facts> = {}): Server {
  const facts = new Memory().of("one");
  Object.assign(facts, { hasWaitFor: true, status: { isStandby: true, system: 7n, timeline: 1, lsn }, ...known });
  return { facts, pool: { stats: () => ({ max }) }, waiting: 0 } as unknown as Server;
}

/**
 * Returns a session of a server of this version. `error` is how WAIT ends, and `stopped` has the abandoned operations.
 */
function sessionOf(version: string | undefined, error?: { code: string }) {
  const sent: string[] = [];
  const stopped: unknown[] = [];
  let isOver = () => {};
  const operation = { error, done: Promise.resolve(), whenOver: (listener: () => void) => void (isOver = listener) };
  const connection = {
    parameters: new Map(version === undefined ? [] : [["server_version", version]]),
    operate: (command: (handle: unknown) => void) => {
      command({ simple_query: (text: string) => void sent.push(text) });
      return operation;
    },
    abandon: (one: unknown) => void stopped.push(one),
  };
  return { session: { connection } as unknown as Session, sent, stopped, operation, end: () => isOver() };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const after = (milliseconds: number) => performance.now() + milliseconds;
const soon = () => after(1_000);
const ignored = () => {};

describe("a wait in the server", () => {
  test.each([
    ["19.1", true],
    ["19rc1 (Debian 19~rc1-1)", true],
    ["20devel", true],
    ["18.4", false],
    ["9.6.24", false],
    ["something", false],
    [undefined, undefined],
  ])("is possible on version %s: %s", (version, expected) => {
    const server = standby({ hasWaitFor: undefined });
    learnVersion(server, sessionOf(version).session);
    expect(server.facts.hasWaitFor).toBe(expected);
  });

  test("begins if the server has the statement and seems to be behind, and time is left", () => {
    expect(Waiting.begin(standby(), position, soon(), false)).toBeDefined();
    expect(Waiting.begin(standby({ hasWaitFor: undefined }), position, soon(), true)).toBeUndefined();
    expect(Waiting.begin(standby({ hasWaitFor: false }), position, soon(), true)).toBeUndefined();
    expect(Waiting.begin(standby(), position, after(0), false)).toBeUndefined();
    const there = standby({ lsn: position.lsn });
    expect(Waiting.begin(there, position, soon(), false)).toBeUndefined();
    // The standby itself has said that it is behind.
    expect(Waiting.begin(there, position, soon(), true)).toBeDefined();
  });

  test("begins only while half of the connections do not wait", () => {
    const server = standby({ max: 5 });
    const [first] = [1, 2].map(() => Waiting.begin(server, position, soon(), false));
    expect(Waiting.begin(server, position, soon(), false)).toBeUndefined();
    first!.end();
    expect(Waiting.begin(server, position, soon(), false)).toBeDefined();
    expect(Waiting.begin(standby({ max: 1 }), position, soon(), false)).toBeUndefined();
  });

  test("lasts for the time left once there is a connection, and is never sent with 0, which is for ever", () => {
    const server = standby();
    const waiting = Waiting.begin(server, position, soon(), false)!;
    const texts = [0, 400, 599.5, 0.5, 1].map((milliseconds) => {
      vi.advanceTimersByTime(milliseconds);
      const { session, sent } = sessionOf("19.0");
      waiting.send(session, ignored);
      return sent;
    });
    const wait = (milliseconds: number) => [`wait for lsn '1/28' with (timeout ${milliseconds}, no_throw)`];
    expect(texts).toEqual([wait(1_000), wait(600), wait(1), [], []]);
    expect(waitFor(position, 7)).toBe(wait(7)[0]);
  });

  test("ends when its call is over", () => {
    const { session, stopped, operation } = sessionOf("19.0");
    let callIsOver = () => {};
    Waiting.begin(standby(), position, soon(), false)!.send(session, (listener) => (callIsOver = listener));
    expect(stopped).toEqual([]);
    callIsOver();
    expect(stopped).toEqual([operation]);
  });

  test("of a transaction ends with it, also where a free connection is there before the pool has returned", async () => {
    const { session, sent, stopped } = sessionOf("19.0");
    const server = standby({ isReadCommitted: false });
    const pool = {
      ...{ ...server.pool, config: { timeout: 0 }, counters: {} },
      async runTransaction(work: Work<number>, _: object, own: SessionOf) {
        await own(session);
        expect(stopped).toEqual([]);
        return work(undefined as never);
      },
    };
    const servers = { memory: { timeline: 1, reached() {} }, list: [{ pool }] };
    const choose = () => ({ is: "standby", server: Object.assign(server, { pool }) });
    const router = { servers, choose, config: { wait: 1_000 }, recordStandby() {} } as unknown as Router;
    const after = new After(router, { refused: () => undefined, close: async () => {} }, position);
    expect(await after.transaction(() => 7)).toBe(7);
    expect([sent.length, stopped.length, server.waiting]).toEqual([2, 1, 0]);
    expect(sent[0]).toBe(waitFor(position, 1_000));
  });

  test.each([
    ["42601", false],
    ["0A000", false],
    ["55000", false],
    ["57014", true],
    ["40001", true],
  ])("that fails with %s may be tried again: %s", (code, expected) => {
    const server = standby();
    const { session, end } = sessionOf("19.0", { code });
    Waiting.begin(server, position, soon(), false)!.send(session, ignored);
    end();
    expect(server.facts.hasWaitFor).toBe(expected);
  });
});

describe("a call between two attempts", () => {
  const settled = (promise: Promise<unknown>) =>
    promise.then(
      () => "over",
      ({ code, message, retryable, hasNoEffect, cause }: TimeoutError) => ({
        code,
        message,
        retryable,
        hasNoEffect,
        cause,
      }),
    );

  test("waits as long as it was told to", async () => {
    const pause = settled(new CallLimits([undefined]).pause(50));
    await vi.advanceTimersByTimeAsync(50);
    expect(await pause).toBe("over");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("ends when its signal aborts, and leaves no timer", async () => {
    const abort = new AbortController();
    const limits = new CallLimits([undefined, abort.signal]);
    const pause = settled(limits.pause(50));
    abort.abort("why");
    expect(await pause).toMatchObject({ code: "ABORTED", hasNoEffect: true, cause: "why" });
    expect(await settled(limits.pause(50))).toMatchObject({ code: "ABORTED" });
    expect(vi.getTimerCount()).toBe(0);
  });

  test("ends while it waits for an answer about the servers", async () => {
    const never = new Promise<never>(() => {});
    const abort = new AbortController();
    const aborted = settled(new CallLimits([abort.signal]).wait(never));
    abort.abort("why");
    expect(await aborted).toMatchObject({ code: "ABORTED", hasNoEffect: true, cause: "why" });
    const late = settled(new CallLimits([], 100).wait(never));
    await vi.advanceTimersByTimeAsync(100);
    expect(await late).toMatchObject({ code: "QUERY_TIMEOUT", retryable: true });
    expect(await new CallLimits([abort.signal], 100).wait(Promise.resolve(7)).catch(({ code }) => code)).toBe(
      "ABORTED",
    );
    expect(await new CallLimits([], 100).wait(Promise.resolve(7))).toBe(7);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("each attempt has the options of the call, also inherited ones", async () => {
    const { signal } = new AbortController();
    const options = Object.create({ signal, timeout: 100 }) as { signal: AbortSignal; timeout: number };
    const limits = new CallLimits([signal], 100);
    const attempts: (typeof options)[] = [];
    for (let times = 0; times < 2; times++) await limits.attempt(options, async (given) => void attempts.push(given));
    expect(attempts.map((given) => given.signal)).toEqual([signal, signal]);
  });

  test("ends when its timeout is over, and gives each attempt what is left of it", async () => {
    const limits = new CallLimits([], 100);
    const given: unknown[] = [];
    const attempt = () => limits.attempt({ timeout: 100 }, async ({ timeout }) => void given.push(timeout));
    await attempt();
    for (const milliseconds of [40, 59]) {
      const pause = limits.pause(milliseconds);
      await vi.advanceTimersByTimeAsync(milliseconds);
      await pause;
      await attempt();
    }
    expect(given).toEqual([100, 60, 1]);
    const pause = settled(limits.pause(50));
    await vi.advanceTimersByTimeAsync(1);
    const message = "The call took longer than 100 ms (timeout).";
    expect(await pause).toMatchObject({ code: "QUERY_TIMEOUT", message, retryable: true });
    const late = limits.attempt({}, () => Promise.reject(new TimeoutError("QUERY_TIMEOUT", "longer than 1 ms")));
    expect(await settled(late)).toMatchObject({ code: "QUERY_TIMEOUT", message, retryable: false });
  });
});
