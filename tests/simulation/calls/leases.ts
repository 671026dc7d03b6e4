// Leases: what a borrower leaves behind, how it releases its connection, and that the next borrower finds nothing.
//
// Knows a pool's `acquire`, and what a session can keep. Must not know how a pool cleans.
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import { pause, range, type Disturbed } from "../../random/plan.ts";
import { alwaysRefused, asPool, endOf, refused, type CallWorld, type Make } from "./call.ts";

/** No other call sets these. Hooks of a simulated session set another time zone. */
const ZONE = "Europe/Paris";
const SETTING = "app.rest";

/** Queries of a session that must be as new, with their results. */
const ASKED: readonly (readonly [what: string, text: string, isRight: (value: unknown) => boolean])[] = [
  ["a setting", `select nullif(current_setting('${SETTING}', true), '') as v`, (value) => value === null],
  ["a time zone", "select current_setting('TimeZone') as v", (value) => value !== ZONE],
  ["a role", "select current_setting('role') as v", (value) => value === "none"],
  ["a temporary table", "select count(*)::int4 as v from pg_class where relpersistence = 't'", isNone],
  ["LISTEN", "select count(*)::int4 as v from pg_listening_channels()", isNone],
  ["a cursor", "select count(*)::int4 as v from pg_cursors where is_holdable", isNone],
  [
    "an advisory lock",
    "select count(*)::int4 as v from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
    isNone,
  ],
];

function isNone(value: unknown): boolean {
  return value === 0;
}

async function findsNothing(caller: Pick<pgz.Pool, "batch">, options: Disturbed): Promise<void> {
  const results = await caller.batch<{ v: unknown }>(
    ASKED.map(([, text]) => text),
    options,
  );
  ASKED.forEach(([what, , isRight], at) => {
    const value = results[at]!.rows[0]?.v;
    assert(isRight(value), `the borrower before has left ${what}: ${String(value)}`);
  });
}

/** Each leaves something on its session. No other call uses `number`. */
const LEFT: Readonly<Record<string, (number: number, role: string) => string>> = {
  setting: () => `set ${SETTING} = 'left'`,
  set_config: () => `select set_config('${SETTING}', 'left', false)`,
  zone: () => `set time zone '${ZONE}'`,
  role: (_, role) => `set role ${role}`,
  table: (number) => `create temporary table left_${number} (n int4)`,
  lock: (number) => `select pg_advisory_lock(${number})`,
  listen: () => "listen rest",
  cursor: () => "declare rest cursor with hold for select 1 as n",
  prepared: () => "prepare rest as select 1 as n",
};

const ENDS = ["release", "release", "twice", "together", "disposed", "destroy", "until"] as const;
type End = (typeof ENDS)[number];

async function giveBack(lease: pgz.Lease, end: End, until: AbortController): Promise<void> {
  if (end === "release" || end === "twice") await lease.release();
  if (end === "twice") await lease.release();
  if (end === "together") await Promise.all([lease.release(), lease.release({ destroy: true })]);
  if (end === "disposed") await lease[Symbol.asyncDispose]();
  if (end === "destroy") await lease.release({ destroy: true });
  if (end === "until") {
    until.abort();
    await lease.release();
  }
  await alwaysRefused(lease.query("select 1 as n"), "a lease that was released", "LEASE_RELEASED");
  await alwaysRefused(
    lease.transaction(() => {}),
    "a transaction of a released lease",
    "LEASE_RELEASED",
  );
}

/** Uses a connection that is then released, and then the connection that the pool lends next. */
async function borrowed(
  pool: pgz.Pool,
  end: End,
  { signal }: Disturbed,
  work: (lease: pgz.Lease) => Promise<void>,
): Promise<number | undefined> {
  const until = new AbortController();
  const lease = await pool.acquire({ signal, until: until.signal });
  const error = await endOf(work(lease));
  // The process id is known once the login is over.
  const { processId } = lease;
  await giveBack(lease, end, until);
  if (error !== undefined) throw error;
  return processId;
}

const leaves: Make = (dice, world) => {
  const names = range(1, 1 + dice.below(3)).map(() => dice.pick(Object.keys(LEFT)));
  const number = ++world.number;
  const end = dice.pick(ENDS);
  const isTogether = dice.oneIn(3);
  return {
    says: `a lease leaves ${[...new Set(names)].join()}, ends by ${end}, and the next one finds nothing`,
    kind: "client",
    isDirect: true,
    async run(caller, options) {
      const pool = asPool(caller);
      const texts = [...new Set(names)].map((name) => LEFT[name]!(number, world.schema));
      const processId = await borrowed(pool, end, options, async (lease) => {
        if (isTogether) await Promise.all(texts.map((text) => lease.exec(text, options)));
        else for (const text of texts) await lease.exec(text, options);
      });
      await borrowed(pool, "release", options, async (lease) => {
        if (end === "destroy" && processId) assert(lease.processId !== processId, "a connection that was destroyed");
        await findsNothing(lease, options);
      });
    },
  };
};

/** A call of the pool itself that sets something: the session is reset after it. */
const leavesByCall: Make = (dice, world) => {
  const name = dice.pick(Object.keys(LEFT));
  const number = ++world.number;
  const call = dice.pick(["exec", "simple", "query"] as const);
  return {
    says: `${call} of the pool leaves ${name}, and the next one finds nothing`,
    kind: "client",
    isDirect: true,
    async run(caller, options) {
      const pool = asPool(caller);
      await pool[call](LEFT[name]!(number, world.schema), options);
      await findsNothing(pool, options);
    },
  };
};

/** An open transaction, a half-read cursor, or a call that still runs. */
const leavesWork: Make = (dice, world) => {
  const what = dice.pick(["transaction", "failed transaction", "cursor", "rows", "call", "callback"] as const);
  const end = dice.pick(ENDS);
  const numbers = world.ledger.take(1 + dice.below(2));
  return {
    says: `a lease leaves a ${what} that is not over, and ends by ${end}`,
    kind: "client",
    isDirect: true,
    groups: [numbers],
    settles: true,
    async run(caller, options) {
      const pool = asPool(caller);
      const working = borrowed(pool, end, options, (lease) => leaveOpen(lease, what, numbers, options, world));
      const error = await endOf(working);
      // None of it was committed, whatever has happened.
      world.ledger.settle(numbers, "absent");
      if (error !== undefined) throw error;
      await borrowed(pool, "release", options, (lease) => findsNothing(lease, options));
    },
  };
};

async function leaveOpen(
  lease: pgz.Lease,
  what: string,
  numbers: readonly number[],
  options: Disturbed,
  { sql, schema }: CallWorld,
): Promise<void> {
  const insert = sql`insert into ${sql.identifier(schema, "ledger")} select unnest(${numbers}::int4[])`;
  const many = sql`select n from generate_series(1, ${300}::int4) n`;
  if (what === "transaction" || what === "failed transaction") {
    await lease.exec("begin", options);
    await lease.exec(insert, options);
    if (what === "failed transaction") await refused(lease.exec("select 1 / 0", options), "a division", "22012");
  }
  if (what === "cursor") await lease.cursor(many, 10, options)[Symbol.asyncIterator]().next();
  if (what === "rows") await lease.rows(many, options)[Symbol.asyncIterator]().next();
  if (what === "call") void endOf(lease.exec(sql`select pg_sleep(${0.05}::float8)`, options));
  if (what !== "callback") return;
  // The release ends the transaction, whose callback never ends.
  void endOf(
    lease.transaction(async (tx) => {
      await tx.exec(insert);
      await new Promise(() => {});
    }),
  );
  await pause(5);
}

/** The lease is released while its stream continues: the connection returns after the stream. */
const leavesStream: Make = (dice, world) => {
  const first = (world.number += 1_000_000);
  const count = 1 + dice.below(400);
  const reads = dice.pick(["to its end", "to its end", "not on", "and cancels"] as const);
  const pad = dice.pick([3, 900]);
  return {
    says: `a lease is released under a stream of ${count} rows of ${pad} bytes, whose reader reads ${reads}`,
    kind: "client",
    ...(reads === "not on" ? { causes: ["ACQUIRE_TIMEOUT", "QUERY_TIMEOUT"] } : {}),
    async run(caller, options) {
      const lease = await asPool(caller).acquire({ signal: options.signal });
      const query = world.sql`select n, repeat('x', ${pad}::int4) as pad
        from generate_series(${first}::int4, ${first + count - 1}::int4) n`;
      let reader;
      try {
        reader = (await lease.stream(query, { ...options, format: "ndjson" })).getReader();
      } finally {
        void lease.release();
      }
      await alwaysRefused(lease.query("select 1 as n"), "a lease that was released", "LEASE_RELEASED");
      if (reads === "and cancels") return reader.cancel();
      let seen = 0;
      for (let step; !(step = await reader.read()).done;) {
        seen += step.value.filter((byte) => byte === 10).length;
        if (reads === "not on") return;
      }
      assert.equal(seen, count, "rows of the stream");
    },
  };
};

/** Calls for any borrower. */
const isNew: Make = (dice) => {
  const isLease = dice.oneIn(2);
  return {
    says: `${isLease ? "a lease" : "a call of the pool"} finds nothing`,
    kind: "client",
    isDirect: true,
    async run(caller, options) {
      if (!isLease) return findsNothing(asPool(caller), options);
      await borrowed(asPool(caller), "release", options, (lease) => findsNothing(lease, options));
    },
  };
};

/** A borrower that stops waiting takes none of the pool's connections with it. */
const givesUp: Make = (dice: Dice) => {
  const waits = dice.below(5);
  return {
    says: `an acquire that gives up after ${waits} ms`,
    kind: "client",
    async run(caller) {
      const own = new AbortController();
      const acquired = asPool(caller).acquire({ signal: own.signal });
      const ended = endOf(acquired.then((lease) => lease.release()));
      if (waits) await pause(waits);
      own.abort();
      const error = await ended;
      if (error !== undefined && (error as { code?: string }).code !== "ABORTED") throw error;
    },
  };
};

export const leases: readonly Make[] = [
  ...[leaves, leaves, leaves, leavesByCall, leavesByCall, leavesWork, leavesWork, leavesStream],
  ...[isNew, isNew, givesUp],
];
