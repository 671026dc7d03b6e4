// Consumers of changes: they follow the ledger while numbers are stored in it, and lose their connections meanwhile.
//
//   follows    two runs over one slot: the second continues where the first was left
//   idles      a consumer that waits, or is slow, for longer than the server waits for a reply
//   takesOver  two consumers of one slot: the second waits until the first has left
//   refused    what cannot be read, or ends with its connection
//
// The session decides by the server's log whether they have seen the right transactions (followed.ts). This file checks
// that stored changes arrive in time. Knows slots. Must not know how a stream of changes connects (changes-reader.ts).
import { changes, type ChangesOptions } from "../../../js/changes.ts";
import type * as pgz from "../../../js/index.ts";
import { driver } from "../driver.ts";
import type { Dice } from "../../random/dice.ts";
import { pause, type Disturbed } from "../../random/plan.ts";
import {
  alwaysRefused,
  asClient,
  codeOf,
  endOf,
  ofSeveral,
  optionsOf,
  refused,
  with_,
  type CallWorld,
  type Followed,
  type Make,
  type Run,
} from "./call.ts";
import { Late, Reader, type How } from "./changes-reader.ts";

/**
 * Milliseconds for everything that a call waits for, and then for the end of its slot. A process may freeze for 60 s.
 */
const PATIENCE = 12_000;
const CLEANING = 9_000;
const PUBLICATION = "simulated";

type Db = pgz.Client | pgz.Pool;

// -- what is stored ---------------------------------------------------------------------------------------------------

interface Group {
  readonly way: "exec" | "batch" | "transaction" | "with a savepoint" | "rolled back";
  readonly numbers: readonly number[];
  /** A number after a savepoint that is rolled back: no consumer may ever see it. */
  readonly undone: number;
}

const group = (dice: Dice, { ledger }: CallWorld): Group => ({
  way: dice.pick(["exec", "exec", "batch", "transaction", "with a savepoint", "rolled back"] as const),
  numbers: ledger.take(1 + dice.below(3)),
  undone: ledger.take(1)[0]!,
});

const groups = (count: number, dice: Dice, world: CallWorld): Group[] =>
  Array.from({ length: count }, () => group(dice, world));

class Own extends Error {}

async function store(db: Db, { way, numbers, undone }: Group, options: Disturbed, world: CallWorld): Promise<void> {
  const { sql, schema } = world;
  const table = sql.identifier(schema, "ledger");
  const insert = (some: readonly number[]) => sql`insert into ${table} select unnest(${[...some]}::int4[])`;
  if (way === "exec") return void (await db.exec(insert(numbers), options));
  const each = numbers.map((number) => insert([number]));
  if (way === "batch") return void (await db.batch(each, options));
  const own = new Own("of its own accord");
  const work = db.transaction(async (tx) => {
    for (const query of each) await tx.exec(query);
    if (way === "rolled back") throw own;
    if (way === "transaction") return;
    const inner = tx.transaction(async (inside) => {
      await inside.exec(insert([undone]));
      throw own;
    });
    const error = await endOf(inner);
    if (error !== own) throw error;
  }, options);
  const error = await endOf(work);
  if (error !== undefined && error !== own) throw error;
}

/** Stores groups on `db`, reports each to the ledger, and keeps what was acknowledged and the first error. */
class Writer {
  readonly stored: number[] = [];
  error: unknown;

  constructor(
    readonly db: Db,
    readonly options: Disturbed,
    readonly world: CallWorld,
  ) {}

  /** `between` is called after each group. */
  async store(all: readonly Group[], between = () => Promise.resolve()): Promise<void> {
    for (const one of all) {
      await this.try(this.#store(one));
      await this.try(between());
    }
  }

  /** The call continues, whatever the outcome of `work`. */
  async try(work: Promise<void>): Promise<void> {
    const error = await endOf(work);
    this.error ??= error;
  }

  async #store(one: Group): Promise<void> {
    const { ledger } = this.world;
    const isUndone = one.way === "rolled back";
    if (isUndone) ledger.settle(one.numbers, "absent");
    const error = await endOf(store(this.db, one, this.options, this.world));
    if (error === undefined && !isUndone) {
      this.stored.push(...one.numbers);
      ledger.settle(one.numbers, "stored");
    }
    if ((error as { hasNoEffect?: boolean } | undefined)?.hasNoEffect) ledger.settle(one.numbers, "absent");
    if (error !== undefined) throw error;
  }

  /** Ends the connection of the slot's reader. */
  async cut(slot: string): Promise<void> {
    const { sql } = this.world;
    const asked = sql`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = ${slot}`;
    await this.db.query(asked, this.options);
  }
}

// -- the slot ---------------------------------------------------------------------------------------------------------

/** Uses a client of its own, because the call's client or pool may have ended. */
async function drop(slot: string, world: CallWorld): Promise<void> {
  const { sql } = world;
  const deadline = performance.now() + CLEANING;
  const client = driver.createClient({ ...optionsOf(world), timeout: 2_000, connectTimeout: 2_000 });
  await with_(client, async () => {
    for (let waits = 20; ; waits *= 2) {
      const dropping = client.query(
        sql`select pg_terminate_backend(active_pid), pg_drop_replication_slot(slot_name)
          from pg_replication_slots where slot_name = ${slot}`,
      );
      const error = await endOf(dropping);
      if (error === undefined) return;
      if (performance.now() + waits > deadline) {
        world.leftSlots?.add(slot);
        throw codeOf(error) === "55006" ? new Late(`slot ${slot} does not become free`) : error;
      }
      await pause(waits);
    }
  });
}

/**
 * Runs `work` with a slot that is always dropped afterwards. Throws the first error, that of `work` before that of the
 * drop.
 */
async function withSlot(world: CallWorld, work: (slot: string, followed: Followed) => Promise<void>): Promise<void> {
  const slot = `s${++world.number}`;
  const followed: Followed = { slot, runs: [] };
  world.followed?.push(followed);
  const error = await endOf(work(slot, followed));
  const dropped = await endOf(drop(slot, world));
  if (error !== undefined || dropped !== undefined) throw ofSeveral(error ?? dropped);
}

/**
 * Waits until changes arrive. Returns false if they cannot arrive yet, since the server waits for transactions that
 * were open when the slot was requested.
 */
async function begins(reader: Reader, deadline: number, slot: string, db: Db, { sql }: CallWorld): Promise<boolean> {
  const error = await endOf(reader.streams(deadline));
  if (error === undefined) return true;
  if (!(error instanceof Late)) throw error;
  const asked = sql`select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = ${slot}`;
  const { rows } = await db.query(asked, { timeout: 2_000 });
  if (rows.length && rows[0]!["at"] === null) return false;
  throw error;
}

/** Runs `work` beside a reader that is always ended afterwards. */
async function beside(reader: Reader, how: "left" | "aborted", work: () => Promise<void>): Promise<void> {
  const error = await endOf(work());
  const ended = await endOf(reader.end(how));
  if (error !== undefined || ended !== undefined) throw error ?? ended;
}

// -- the calls --------------------------------------------------------------------------------------------------------

const how = (dice: Dice): How => ({
  form: dice.pick(["changes", "transactions", "stream"] as const),
  acknowledges: dice.pick(["never", "at once", "at once", "late", "partly", "out of order"] as const),
  slow: dice.oneIn(6) ? dice.below(200) : 0,
});

/**
 * `stores`: the second run begins after what the first has seen, by `from`. Otherwise it begins at the slot's position.
 */
const follows: Make = (dice, world) => {
  const first = groups(1 + dice.below(3), dice, world);
  const between = groups(dice.below(2), dice, world);
  const second = groups(dice.below(3), dice, world);
  const hows = [how(dice), how(dice)] as const;
  const ends = dice.pick(["left", "aborted"] as const);
  const cuts = dice.pick(["not", "not", "cut", "cut when seen"] as const);
  const stores = dice.oneIn(2);
  const statusInterval = dice.pick([10_000, 1_000, 50]);
  const all = [...first, ...between, ...second];
  const said = all.map(({ way, numbers }) => `${numbers.join()} by ${way}`).join("; ");
  const forms = hows.map(({ form, acknowledges }) => `${form} ${acknowledges}`).join(", then ");
  return {
    says: `changes of ${said} as ${forms}, ${cuts}, ${ends}${stores ? ", with its position" : ""}`,
    kind: "client",
    isDirect: true,
    hasSeveralTurns: true,
    connections: 3,
    groups: all.map(({ numbers }) => numbers),
    settles: true,
    run: (caller, options) =>
      withSlot(world, async (slot, followed) => {
        const db = asClient(caller);
        const writer = new Writer(db, options, world);
        const deadline = performance.now() + PATIENCE;
        const given = { slot, publication: PUBLICATION, createSlot: "permanent", statusInterval } as const;
        const open = (run: Run, reads: How, more: Partial<ChangesOptions> = {}) => {
          followed.runs.push(run);
          return new Reader(db, { ...given, ...more, signal: options.signal }, run, reads);
        };
        // What was seen and not acknowledged must not come again on the next connection.
        const cut = async (from: Reader, stored: readonly number[]) => {
          if (cuts === "cut when seen") await from.saw(stored, deadline);
          if (cuts !== "not") await writer.cut(slot);
        };
        const one: Run = { after: undefined, isExact: true, seen: [] };
        const reader = open(one, hows[0]);
        let isMade = false;
        await beside(reader, ends, async () => {
          isMade = await begins(reader, deadline, slot, db, world);
          if (!isMade) return;
          await writer.store(first, () => cut(reader, writer.stored));
          await reader.saw(writer.stored, deadline);
        });
        if (!isMade) return;
        await writer.store(between);
        const from = stores ? one.seen.at(-1)?.position : undefined;
        const two: Run = { after: from ?? reader.leaves, isExact: from !== undefined, seen: [] };
        const next = open(two, hows[1], { from });
        await beside(next, "left", async () => {
          await next.streams(deadline);
          // What was seen and not acknowledged comes again.
          const begins = one.seen.findIndex(({ position }) => position === two.after) + 1;
          const known = new Set(one.seen.slice(0, begins).flatMap(({ numbers }) => numbers));
          const left = () => writer.stored.filter((number) => !known.has(number));
          await writer.store(second, () => cut(next, left()));
          await next.saw(left(), deadline);
        });
        if (writer.error !== undefined) throw writer.error;
      }),
  };
};

/** With a status interval that is too long, only replies to keepalives keep the connection. */
const idles: Make = (dice, world) => {
  const [before, after] = groups(2, dice, world) as [Group, Group];
  const timeout = dice.oneIn(6) ? 60_000 : 2_000;
  const isSlow = timeout < 60_000 && dice.oneIn(2);
  const statusInterval = isSlow ? timeout / 4 : 3_600_000;
  const reads = { ...how(dice), slow: isSlow ? timeout * 1.5 : 0 };
  return {
    says: `changes for a consumer that ${isSlow ? "is slow" : "waits"} for more than ${timeout} ms`,
    kind: "client",
    isDirect: true,
    hasSeveralTurns: true,
    connections: 3,
    groups: [before.numbers, after.numbers],
    settles: true,
    run: (caller, options) =>
      withSlot(world, async (slot, followed) => {
        const writer = new Writer(asClient(caller), options, world);
        const own = driver.createClient({ ...optionsOf(world), options: `-c wal_sender_timeout=${timeout}` });
        const run: Run = { after: undefined, isExact: true, seen: [] };
        followed.runs.push(run);
        const { signal } = options;
        const given = { slot, publication: PUBLICATION, createSlot: "permanent", statusInterval, signal } as const;
        await with_(own, async () => {
          const reader = new Reader(own, given, run, reads);
          await beside(reader, "left", async () => {
            const began = performance.now();
            if (!(await begins(reader, began + PATIENCE, slot, writer.db, world))) return;
            await writer.store([before]);
            while (performance.now() < began + timeout + 2_000 && !reader.isOver) await pause(500);
            await writer.store([after]);
            await reader.saw(writer.stored, performance.now() + PATIENCE);
            if (reader.feed.stats().connections > 1) throw new Lost("the server has ended a connection that was alive");
          });
        });
        if (writer.error !== undefined) throw writer.error;
      }),
  };
};

/** A lost connection, which another event must explain. */
class Lost extends Error {
  readonly code = "CONNECTION_LOST";
}

const takesOver: Make = (dice, world) => {
  const [before, after] = groups(2, dice, world) as [Group, Group];
  const waits = dice.pick([0, 50, 1_000]);
  const hows = [how(dice), how(dice)] as const;
  return {
    says: `changes of a slot that another one reads for ${waits} ms`,
    kind: "client",
    isDirect: true,
    hasSeveralTurns: true,
    connections: 4,
    groups: [before.numbers, after.numbers],
    settles: true,
    run: (caller, options) =>
      withSlot(world, async (slot, followed) => {
        const db = asClient(caller);
        const writer = new Writer(db, options, world);
        const deadline = performance.now() + PATIENCE;
        const given = { slot, publication: PUBLICATION, createSlot: "permanent", signal: options.signal } as const;
        const one: Run = { after: undefined, isExact: true, seen: [] };
        followed.runs.push(one);
        const reader = new Reader(db, given, one, hows[0]);
        const other = async () => {
          reader.hasRival = true;
          const next = new Reader(db, given, { after: undefined, isExact: false, seen: [] }, hows[1]);
          await beside(next, "left", async () => {
            await pause(waits);
            await reader.end("left");
            followed.runs.push({ ...next.run, after: reader.leaves });
            await next.streams(deadline);
            const known = writer.stored.length;
            await writer.store([after]);
            await next.saw(writer.stored.slice(known), deadline);
          });
        };
        await beside(reader, "left", async () => {
          if (!(await begins(reader, deadline, slot, db, world))) return;
          await writer.store([before]);
          await reader.saw(writer.stored, deadline);
          await other();
        });
        if (writer.error !== undefined) throw writer.error;
      }),
  };
};

/** Options that are refused before anything is sent, or by the server at once. */
const misused: Make = (dice, world) => {
  const slot = `s${++world.number}`;
  const wrong = dice.pick(["no slot", "option", "form", "twice"] as const);
  return {
    says: `changes with a wrong ${wrong}`,
    kind: "client",
    isDirect: true,
    connections: 1,
    async run(caller, { signal }) {
      // A reader of changes does not notice a silent link.
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), PATIENCE);
      const given = {
        slot,
        publication: PUBLICATION,
        signal: AbortSignal.any([late.signal, ...(signal ? [signal] : [])]),
      };
      const feed = (more: object = {}) => changes(asClient(caller), { ...given, ...more });
      const next = async (more?: object) => feed(more)[Symbol.asyncIterator]().next();
      if (wrong === "no slot") {
        const error = await endOf(next()).finally(() => clearTimeout(timer));
        if (late.signal.aborted) throw new Late("a slot that is not there is not told of");
        await refused(Promise.reject(error as Error), "a slot that is not there", "42704");
      }
      clearTimeout(timer);
      if (wrong === "option") await alwaysRefused(next({ publications: "x" }), "an option", "UNKNOWN_OPTION");
      if (wrong === "form") await alwaysRefused(next({ slot: "No Slot" }), "a slot's name", "INVALID_OPTION");
      if (wrong !== "twice") return;
      const one = feed();
      const first = one.stream();
      const again = async () => one.stream();
      await alwaysRefused(again(), "changes that are read already", "STREAM_OPEN");
      await first.cancel();
    },
  };
};

/** A temporary slot ends with its connection, and so does the stream. */
const temporary: Make = (dice, world) => {
  const slot = `t${++world.number}`;
  const waits = dice.below(30);
  return {
    says: `changes of a temporary slot that is cut after ${waits} ms`,
    kind: "client",
    isDirect: true,
    hasSeveralTurns: true,
    connections: 2,
    async run(caller, options) {
      const db = asClient(caller);
      const writer = new Writer(db, options, world);
      const deadline = performance.now() + PATIENCE;
      const given = { slot, publication: PUBLICATION, createSlot: "temporary", signal: options.signal } as const;
      const run: Run = { after: undefined, isExact: true, seen: [] };
      const followed: Followed = { slot, runs: [run] };
      world.followed?.push(followed);
      const reader = new Reader(db, given, run, { form: "changes", acknowledges: "at once", slow: 0 });
      const error = await endOf(
        beside(reader, "left", async () => {
          if (!(await begins(reader, deadline, slot, db, world))) return;
          await pause(waits);
          await writer.cut(slot);
          await refused(
            reader.until(() => false, deadline, "a lost slot was not told of"),
            "a lost slot",
            "57P01",
          );
        }),
      );
      // The end of the reader reports the same error again.
      if (error !== undefined && codeOf(error) !== "57P01") throw error;
    },
  };
};

/** Calls for clients and pools: a lease has no replication. */
export const followers: readonly Make[] = [
  ...[follows, follows, follows, idles, idles, takesOver],
  ...[misused, temporary],
];
