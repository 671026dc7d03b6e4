// Calls that make their own client or pool, to end it in a way that would end the session's too early.
//
// Knows how clients and pools end. Needs the session's options.
import type * as pgz from "../../../js/index.ts";
import { driver } from "../driver.ts";
import { assert } from "../../integration/assert.ts";
import { checkAll, lines, pause, range, readLines, series, type Disturbed } from "../../random/plan.ts";
import { sharing } from "./sharing.ts";
import {
  alwaysRefused,
  CLOSE,
  codeOf,
  endOf,
  inTime,
  mayBeRefused,
  optionsOf,
  refused,
  with_,
  type Make,
} from "./call.ts";

/** The client closes itself when its stream is over. */
const closesWhenDone: Make = (dice, world) => {
  const some = series(dice, world, 100);
  const ends = dice.pick(["read", "cancelled", "fails", "refused"] as const);
  const call = dice.pick(["stream", "respond"] as const);
  return {
    says: `${call} with closeWhenDone on a client of its own, ${ends}`,
    kind: "client",
    connections: 1,
    async run(_, options) {
      const client = driver.createClient(optionsOf(world));
      await with_(client, async () => {
        const given = { ...options, closeWhenDone: true };
        const query = ends === "fails" ? "select 10 / (40 - n) as n from generate_series(1, 60) n" : some.query;
        const asked = call === "stream" ? client.stream(query, given) : client.respond(query, given);
        if (ends === "refused") {
          await refused(
            client.stream(some.query, { ...given, maxRows: -1 }),
            "an option",
            "INVALID_OPTION",
            "CLIENT_CLOSED",
          );
        }
        const error = await endOf(read(asked, ends, some));
        if (error !== undefined && !(ends === "refused" && codeOf(error) === "CLIENT_CLOSED")) throw error;
        // A stream that was left is over when the server has said so, or has been silent for 2 s.
        for (let waits = 0; client.stats().state !== "closed" && waits < CLOSE; waits += 50) await pause(50);
        await alwaysRefused(client.query("select 1 as n"), "a client that has closed itself", "CLIENT_CLOSED");
      });
    },
  };
};

async function read(
  asked: Promise<ReadableStream<Uint8Array> | Response>,
  ends: string,
  some: Parameters<typeof checkAll>[1],
): Promise<void> {
  if (ends === "fails") return void (await refused(readAll(asked), "a division", "22012"));
  const answer = await asked;
  const stream = answer instanceof Response ? answer.body! : answer;
  if (ends === "cancelled") return stream.cancel();
  checkAll(await readLines(stream), some);
}

async function readAll(asked: Promise<ReadableStream<Uint8Array> | Response>): Promise<void> {
  const answer = await asked;
  await readLines(answer instanceof Response ? answer.body! : answer);
}

/** A stream outlives `close()`: it is read to its end, or is ended when it makes no progress. */
const outlives: Make = (dice, world) => {
  const some = series(dice, world, 600);
  const kind = dice.pick(["client", "pool"] as const);
  const reads = dice.pick(["to its end", "nothing", "a little"] as const);
  const closeTimeout = dice.pick([200, 800]);
  const waits = dice.pick([0, 100, 1_500]);
  return {
    says: `stream of ${some.says} under the close of its ${kind}, which reads ${reads} after ${waits} ms`,
    kind: "client",
    connections: 1,
    async run(_, options) {
      const given = { ...optionsOf(world), closeTimeout };
      const own = kind === "client" ? driver.createClient(given) : driver.createPool({ ...given, max: 1 });
      await with_(own, async () => {
        const reader = (await own.stream(some.query, options)).getReader();
        const first = reads === "a little" ? await reader.read() : undefined;
        await inTime(own.close(), CLOSE, "close() under a stream");
        await pause(waits);
        if (reads === "nothing") return;
        let seen = first?.done === false ? text(first.value) : "";
        const reading = (async () => {
          for (let step; !(step = await reader.read()).done;) seen += text(step.value);
        })();
        // The stream may have made no progress for too long.
        const isWhole = await mayBeRefused(reading, ...(waits >= closeTimeout ? ["CLIENT_CLOSED", "POOL_CLOSED"] : []));
        if (isWhole && first?.done !== true) checkAll(lines(seen), some);
      });
    },
  };
};

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/**
 * No progress during a `close()`, since the reader does not read or the server is silent: `close()` ends the stream.
 */
const standsStill: Make = (dice, world) => {
  const kind = dice.pick(["client", "pool"] as const);
  const who = dice.pick(["reader", "server"] as const);
  const closeTimeout = dice.pick([200, 1_000]);
  return {
    says: `stream whose ${who} stands still under the close of its ${kind}`,
    kind: "client",
    connections: 1,
    async run(_, { signal }) {
      const given = { ...optionsOf(world), closeTimeout };
      // With a `timeout`, the timeout would end the call on a silent server.
      if (who === "server") given.timeout = 0;
      const own = kind === "client" ? driver.createClient(given) : driver.createPool({ ...given, max: 1 });
      await with_(own, async () => {
        const many = world.sql`select n, repeat('x', ${1_000}::int4) as pad from generate_series(1, ${500}::int4) n`;
        const query = who === "reader" ? many : world.sql`select pg_sleep(${100}::float8) as slept`;
        const asked = own.stream(query, { signal });
        if (who === "reader") await takesOne(asked);
        else await Promise.race([endOf(asked), pause(50)]);
        await inTime(own.close(), CLOSE, "close() under a stream");
        // The pause is split into steps, because a frozen process later continues with its current step.
        if (who === "reader") for (let step = 0; step < 40; step++) await pause(closeTimeout / 20);
        const reading = inTime(asked.then(readToEnd), CLOSE, "a stream that stands still");
        await refused(reading, "it", "CLIENT_CLOSED", "POOL_CLOSED");
      });
    },
  };
};

async function takesOne(asked: Promise<ReadableStream<Uint8Array>>): Promise<void> {
  const reader = (await asked).getReader();
  await reader.read();
  reader.releaseLock();
}

async function readToEnd(stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  while (!(await reader.read()).done);
}

/** A lease is out while its pool closes: its calls get the time that `close` allows. */
const leaseUnderClose: Make = (dice, world) => {
  const timeout = dice.pick([0, 10, 300]);
  const runs = dice.pick(["nothing", "a call", "a transaction", "a long call"] as const);
  const isReleased = dice.oneIn(2);
  const numbers = world.ledger.take(1);
  return {
    says: `a lease that runs ${runs} while its pool closes within ${timeout} ms`,
    kind: "client",
    groups: [numbers],
    settles: true,
    connections: 2,
    async run(_, { signal }: Disturbed) {
      const { ledger, sql, schema } = world;
      const insert = sql`insert into ${sql.identifier(schema, "ledger")} select unnest(${numbers}::int4[])`;
      const pool = driver.createPool({ ...optionsOf(world), max: 2 });
      await with_(pool, async () => {
        const lease = await pool.acquire({ signal });
        const work = async () => {
          if (runs === "a call") await lease.exec(insert);
          if (runs === "a long call") await lease.exec(sql`select pg_sleep(${0.2}::float8)`);
          if (runs === "a transaction") await lease.transaction((tx) => tx.exec(insert));
        };
        const working = endOf(work());
        const closing = inTime(pool.close({ timeout }), timeout + CLOSE, "close()");
        await alwaysRefused(pool.query("select 1 as n"), "a pool that is closed", "POOL_CLOSED");
        await alwaysRefused(pool.acquire(), "a pool that is closed", "POOL_CLOSED");
        const error = await working;
        const writes = runs === "a call" || runs === "a transaction";
        if (error === undefined) ledger.settle(numbers, writes ? "stored" : "absent");
        if (isReleased) await lease.release();
        await closing;
        await lease.release();
        await alwaysRefused(lease.query("select 1 as n"), "a lease that was released", "LEASE_RELEASED");
        await pool.close();
        const { state, total } = pool.stats();
        assert.deepEqual([state, total], ["closed", 0], "a pool that is closed");
        if (error === undefined || /^(POOL_CLOSED|LEASE_RELEASED|CLIENT_CLOSED)$/.test(codeOf(error))) return;
        throw error;
      });
    },
  };
};

/** Calls made earlier run to their end, and later calls are refused. */
const drains: Make = (dice, world) => {
  const count = 1 + dice.below(6);
  const first = (world.number += 1_000);
  const gives = dice.oneIn(4) ? 1 + dice.below(5) : undefined;
  return {
    says: `drain of a pool under ${count} queries${gives ? `, given up after ${gives} ms` : ""}`,
    kind: "client",
    connections: 2,
    async run(_, options) {
      const pool = driver.createPool({ ...optionsOf(world), max: 2 });
      await with_(pool, async () => {
        const works = Array.from({ length: count }, async (_, at) => {
          const n = first + at;
          const { rows } = await pool.query(world.sql`select ${n}::int4 as n, pg_sleep(0.002) as slept`, options);
          assert.deepEqual(rows, [{ n, slept: "" }]);
        }).map(endOf);
        const draining = pool.drain(gives ? AbortSignal.timeout(gives) : undefined);
        const drained = endOf(draining);
        await alwaysRefused(pool.query("select 1 as n"), "a pool that drains", "POOL_CLOSED");
        const errors = await Promise.all(works);
        const ended = await drained;
        if (ended !== undefined && !(gives && codeOf(ended) === "ABORTED")) throw ended;
        const error = errors.find((it) => it !== undefined);
        if (error !== undefined) throw error;
      });
    },
  };
};

/** Closes concurrently, twice, and one after the other: all resolve. */
const closesTwice: Make = (dice, world) => {
  const kind = dice.pick(["client", "pool"] as const);
  const runs = dice.oneIn(2);
  const number = ++world.number;
  return {
    says: `${kind} of its own, closed ${runs ? "under a query, " : ""}together and again`,
    kind: "client",
    connections: 1,
    async run(_, options) {
      const given = optionsOf(world);
      const own = kind === "client" ? driver.createClient(given) : driver.createPool({ ...given, max: 1, min: 1 });
      await with_(own, async () => {
        const asked = runs ? own.query(world.sql`select ${number}::int4 as n`, options) : undefined;
        const ended = asked && endOf(asked);
        await inTime(Promise.all([own.close(), own.close(), own[Symbol.asyncDispose]()]), CLOSE, "close()");
        await own.close();
        const code = kind === "client" ? "CLIENT_CLOSED" : "POOL_CLOSED";
        await alwaysRefused(own.query("select 1 as n"), "a query behind close()", code);
        if (kind === "pool") await alwaysRefused(own.listen("x"), "listen of a closed pool", code);
        const error = await ended;
        if (error === undefined) return void (asked && assert.deepEqual((await asked).rows, [{ n: number }]));
        // A waiter for a connection is refused. A client's query gets 400 ms.
        if (!/^(CLIENT_CLOSED|POOL_CLOSED)$/.test(codeOf(error))) throw error;
      });
    },
  };
};

/** Calls of many clients at once, each with its own connection. */
const manyClients: Make = (dice, world) => {
  const count = 2 + dice.below(4);
  const first = (world.number += 1_000);
  return {
    says: `${count} clients of its own, a query each`,
    kind: "client",
    connections: count,
    async run(_, options) {
      const ends = await Promise.all(
        Array.from({ length: count }, (_, at) => {
          const client = driver.createClient(optionsOf(world));
          const n = first + at;
          return endOf(
            with_(client, async () => {
              const { rows } = await client.query(world.sql`select ${n}::int4 as n`, options);
              assert.deepEqual(rows, [{ n }]);
            }),
          );
        }),
      );
      const error = ends.find((it) => it !== undefined);
      if (error !== undefined) throw error;
    },
  };
};

/** Each notice is reported with the call that it belongs to, though calls are pipelined on one connection. */
const noticed: Make = (dice, world) => {
  const count = 1 + dice.below(4);
  const texts = range(1, count).map((at) => `do $$ begin raise notice 'of call ${at}'; end $$`);
  return {
    says: `${count} calls of a client of its own with a notice each`,
    kind: "client",
    connections: 1,
    async run(_, options) {
      const asked = new Map<number, string>();
      const told: string[] = [];
      const observer: pgz.Observer = {
        onQueryStart: ({ id, text }) => void asked.set(id, text),
        onNotice({ message, severity, queryId = 0 }) {
          // A warning about md5 belongs to the login.
          if (severity === "NOTICE") told.push(`${message}: ${asked.get(queryId)}`);
        },
      };
      const client = driver.createClient({ ...optionsOf(world), observer });
      await with_(client, async () => {
        const ends = await Promise.all(texts.map((text) => endOf(client.exec(text, options))));
        const error = ends.find((it) => it !== undefined);
        if (error !== undefined) throw error;
        const expected = texts.map((text, at) => `of call ${at + 1}: ${text}`);
        assert.deepEqual(told, expected, "notices");
      });
    },
  };
};

/** Options that are wrong, or that belong to another class, make neither a client nor a pool. */
const misconfigured: Make = (dice, world) => {
  const [kind, code, wrong] = dice.pick([
    ["client", "UNKNOWN_OPTION", { max: 3 }],
    ["client", "INVALID_OPTION", { maxRows: -1 }],
    ["client", "INVALID_OPTION", { port: 70_000 }],
    ["pool", "UNKNOWN_OPTION", { maxConnections: 3 }],
    ["pool", "INVALID_OPTION", { max: 0 }],
  ] as const);
  return {
    says: `a ${kind} with ${JSON.stringify(wrong)}`,
    kind: "client",
    async run() {
      const given = { ...optionsOf(world), ...wrong };
      const make = async () => (kind === "client" ? driver.createClient(given) : driver.createPool(given));
      await alwaysRefused(make(), "options that are wrong", code);
    },
  };
};

/** Calls for any caller, which they do not use. They need `options` of their world. */
export const own: readonly Make[] = [
  ...[closesWhenDone, closesWhenDone, outlives, outlives, standsStill, leaseUnderClose, leaseUnderClose, drains],
  ...[closesTwice, manyClients, misconfigured, noticed, ...sharing],
];
