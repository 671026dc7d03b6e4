// Listeners: a notification sent after `listen` has resolved is heard once and in order, except in a reported gap.
//
// Knows LISTEN of the public API. Must not know how a listener reconnects.
import type * as pgz from "../../../js/index.ts";
import { assert, AssertionError } from "../../integration/assert.ts";
import { pause, range } from "../../random/plan.ts";
import type { Disturbed, World } from "../../random/plan.ts";
import { asClient, codeOf, endOf, refused, type CallPlan, type Make } from "./call.ts";

/** Longer than a heartbeat and its deadline, after which a silent connection is replaced. */
const SILENCE = 45_000;
/** For the connect that follows. */
const AGAIN = 15_000;

/** Milliseconds before the first notification, and after each. */
interface Pace {
  readonly first?: number;
  readonly each?: number;
}

/** A listener with its reader. */
class Ear {
  readonly heard: number[] = [];
  /** The error that ended a connection, as a gap reports it. */
  #gap: pgz.PgzError | undefined;
  readonly #listener: pgz.Listener;
  readonly #read: Promise<unknown>;
  #wake = () => {};

  private constructor(listener: pgz.Listener, channel: string, pace: Pace) {
    this.#listener = listener;
    this.#read = endOf(this.#readAll(channel, pace));
  }

  static async at(client: pgz.Client, channel: string, { signal }: Disturbed, pace: Pace = {}): Promise<Ear> {
    let ear: Ear | undefined;
    const onReconnect = (error: pgz.PgzError) => ear?.lost(error);
    const listener = await client.listen(channel, { signal, onReconnect });
    return (ear = new Ear(listener, channel, pace));
  }

  lost(error: pgz.PgzError): void {
    this.#gap ??= error;
    this.#wake();
  }

  /** Ends the listening. Throws the error that its reader has met. */
  async close(): Promise<void> {
    await this.#listener.close();
    const error = await this.#read;
    if (error !== undefined) throw error;
    await this.#listener.close();
  }

  /** Waits until this many were heard, or a gap was reported, or the listener has ended. */
  async until(count: number): Promise<void> {
    const over = this.#read.then(() => true);
    let isOver = false;
    void over.then(() => (isOver = true));
    for (const milliseconds of [SILENCE, AGAIN]) {
      let isLate = false;
      const timer = setTimeout(() => ((isLate = true), this.#wake()), milliseconds);
      while (this.heard.length < count && !this.#gap && !isLate && !isOver)
        await Promise.race([over, new Promise<void>((resolve) => (this.#wake = resolve))]);
      clearTimeout(timer);
    }
  }

  /**
   * Checks that numbers were heard in order, each once, and all of `sent` unless a gap was reported. Throws the error
   * that the gap was reported with: the session knows whether an event explains it.
   */
  check(sent: readonly number[]): void {
    const { heard } = this;
    const isAscending = heard.every((number, at) => at === 0 || number > heard[at - 1]!);
    assert(isAscending && heard.every((number) => sent.includes(number)), `heard ${heard.join()} of ${sent.join()}`);
    if (this.#gap) throw this.#gap;
    assert.deepEqual(heard, sent, "notifications without a gap");
  }

  async #readAll(channel: string, { first, each }: Pace): Promise<void> {
    if (first) await pause(first);
    for await (const notification of this.#listener) {
      assert.equal(notification.channel, channel);
      this.heard.push(Number(notification.payload));
      this.#wake();
      if (each) await pause(each);
    }
  }
}

type Way = "notify" | "exec" | "batch" | "transaction" | "rolled back";

/** Sends these numbers, and returns those that were sent for certain. */
async function send(
  client: pgz.Client,
  way: Way,
  channel: string,
  numbers: readonly number[],
  options: Disturbed,
  { sql }: World,
): Promise<readonly number[]> {
  const queries = numbers.map((number) => sql`select pg_notify(${channel}::text, ${String(number)}::text)`);
  if (way === "batch") await client.batch(queries, options);
  if (way === "exec") for (const query of queries) await client.exec(query, options);
  if (way === "notify") for (const number of numbers) await client.notify(channel, String(number), options);
  if (way === "transaction")
    await client.transaction(async (tx) => {
      for (const number of numbers) await tx.notify(channel, String(number));
    }, options);
  if (way !== "rolled back") return numbers;
  const own = new Error("of its own accord");
  const rolledBack = client.transaction(async (tx) => {
    for (const query of queries) await tx.exec(query);
    throw own;
  }, options);
  const error = await endOf(rolledBack);
  if (error !== own) throw error;
  return [];
}

/** Some numbers, sent in each of several ways. */
const hears: Make = (dice, world) => {
  const channel = `heard ${++world.number}`;
  const ways = Array.from({ length: 1 + dice.below(3) }, () => ({
    way: dice.pick(["notify", "exec", "batch", "transaction", "rolled back"] as const),
    count: 1 + dice.below(4),
  }));
  const waits = dice.oneIn(4) ? 1 + dice.below(20) : 0;
  return {
    says: `listens and hears ${ways.map(({ way, count }) => `${count} by ${way}`).join()}${waits ? ", slowly" : ""}`,
    kind: "client",
    isDirect: true,
    hasSeveralTurns: true,
    connections: 1,
    async run(caller, options) {
      const client = asClient(caller);
      const ear = await Ear.at(client, channel, options, { each: waits });
      const sent: number[] = [];
      let last = 0;
      try {
        for (const { way, count } of ways) {
          const numbers = range(last + 1, (last += count));
          sent.push(...(await send(client, way, channel, numbers, options, world)));
        }
        await ear.until(sent.length);
      } catch (error) {
        await endOf(ear.close());
        throw error;
      }
      await ear.close();
      ear.check(sent);
    },
  };
};

/** More than a listener buffers while it is not read: the server has to wait with the rest. */
const hearsMany: Make = (dice, world) => {
  const channel = `many ${++world.number}`;
  const count = dice.oneIn(4) ? 1_000 + dice.below(dice.pick([2, 900])) : 20 + dice.below(100);
  return {
    says: `listens and hears ${count} at once`,
    kind: "client",
    isDirect: true,
    connections: 1,
    async run(caller, options) {
      const client = asClient(caller);
      const ear = await Ear.at(client, channel, options, { first: 300 });
      const query = world.sql`select pg_notify(${channel}::text, n::text) from generate_series(1, ${count}::int4) n`;
      const error = await endOf(client.exec(query, options));
      if (error === undefined) await ear.until(count);
      const closed = await endOf(ear.close());
      if (error ?? closed) throw error ?? closed;
      ear.check(range(1, count));
    },
  };
};

/** The loop is left, or the listener is closed, or its signal aborts, while it waits for what never comes. */
const ends: Make = (dice, world) => {
  const channel = `ends ${++world.number}`;
  const how = dice.pick(["closed", "left", "aborted", "disposed"] as const);
  const waits = dice.below(30);
  return {
    says: `listens, and is ${how} after ${waits} ms`,
    kind: "client",
    isDirect: true,
    connections: 1,
    async run(caller, options) {
      const own = new AbortController();
      const signal = AbortSignal.any([own.signal, ...(options.signal ? [options.signal] : [])]);
      const listener = await asClient(caller).listen(channel, { signal });
      const iterator = listener[Symbol.asyncIterator]();
      const next = iterator.next();
      const settled = endOf(next);
      await pause(waits);
      if (how === "closed") await listener.close();
      if (how === "left") assert.equal((await iterator.return!()).done, true);
      if (how === "disposed") await listener[Symbol.asyncDispose]();
      if (how === "aborted") own.abort();
      const error = await settled;
      if (options.signal?.aborted) await listener.close();
      if (error !== undefined) {
        if (codeOf(error) !== "ABORTED" || !signal.aborted) throw error;
      } else {
        assert(how !== "aborted", "the abort was told");
        assert.equal((await next).done, true);
      }
      await alwaysEnds(iterator, signal.aborted);
    },
  };
};

/** The iterator stays at its end. */
async function alwaysEnds(iterator: AsyncIterator<unknown>, isAborted: boolean): Promise<void> {
  const error = await endOf(iterator.next());
  if (error !== undefined && !(isAborted && codeOf(error) === "ABORTED"))
    throw new AssertionError(`a listener that has ended: ${String(error)}`);
}

/** The call is over while the listener is still open, perhaps longer than its client lives. */
const staysOpen: Make = (dice, world): CallPlan => {
  const channel = `stays ${++world.number}`;
  const stays = dice.pick([10, 1_000, 60_000]);
  return {
    says: `listens for ${stays} ms on`,
    kind: "client",
    isDirect: true,
    connections: 1,
    async run(caller, { signal }) {
      const listener = await asClient(caller).listen(channel, { signal });
      setTimeout(() => void listener.close(), stays);
      void endOf(
        (async () => {
          for await (const notification of listener) void notification;
        })(),
      );
    },
  };
};

/** Options that are refused before anything is sent. */
const misused: Make = () => ({
  says: "listens with a wrong option",
  kind: "client",
  async run(caller) {
    const listen = (options: object) => asClient(caller).listen("misused", options);
    await refused(listen({ timeout: 1 }), "an option that listen has not", "UNKNOWN_OPTION");
  },
});

/** Calls for clients and pools: a lease has no `listen`. */
export const listeners: readonly Make[] = [hears, hears, hears, hearsMany, ends, ends, staysOpen, misused];
