// A pool under mixed load for a long time, while its connections are harmed and its backends are ended.
//
// What must hold:
//   every call settles, with its right result or with an error that a harmed connection explains
//   what was acknowledged is stored once, what was refused is not stored, and a group is stored whole or not at all
//   a borrower finds nothing that an earlier borrower has left
//   in the end the pool is intact, and nothing of it is left: no socket, no session, no memory
//
// The calls and the ledger are those of the random sessions (tests/random).
import type * as pgz from "../../js/index.ts";
import { AssertionError } from "../integration/assert.ts";
import { callWhich } from "../random/calls.ts";
import { Dice } from "../random/dice.ts";
import { differences, ended, judged, tablesOf, worldOf } from "../random/judge.ts";
import type { Ledger } from "../random/ledger.ts";
import { pause, type Disturbed, type Plan, type World } from "../random/plan.ts";
import { transaction } from "../random/transactions.ts";

export interface Soak {
  readonly driver: typeof pgz;
  readonly options: pgz.PoolOptions;
  /** Runs SQL as superuser, over another connection. */
  side(sql: string): Promise<(string | null)[][]>;
  readonly users: number;
  readonly until: number;
  readonly seed: number;
}

export interface Counts {
  calls: number;
  /** Calls that ended with an error, by its code. */
  readonly errors: Record<string, number>;
  /** The number of backends that were ended or cancelled. */
  ended: number;
  /** The number of chapters whose numbers were compared with what is stored. */
  chapters: number;
  readonly faults: string[];
}

/** Milliseconds within which a call must settle: a silence lasts for 8 s, and a call waits 10 s for a connection. */
const DEADLINE = 45_000;
/** The number of a user's calls between two comparisons with what is stored. */
const CHAPTER = 40;
const NAME = "soak";
/**
 * The errors that a harmed connection explains. TRANSACTION_ROLLED_BACK: the cancel has hit a statement of the driver,
 * such as the end of a cursor that was left, so no call of the transaction has failed.
 */
const HARMED =
  /^(57P01|57014|TRANSACTION_ROLLED_BACK|CONNECTION_LOST|CONNECT_FAILED|CONNECT_TIMEOUT|TLS_FAILED|QUERY_TIMEOUT|ACQUIRE_TIMEOUT)$/;

export function start(soak: Soak): { pool: pgz.Pool; counts: Counts; done: Promise<void> } {
  const counts: Counts = { calls: 0, errors: {}, ended: 0, chapters: 0, faults: [] };
  const pool = soak.driver.createPool({
    ...soak.options,
    applicationName: NAME,
    timeout: 5_000,
    acquireTimeout: 10_000,
  });
  const run = async () => {
    const users = Array.from({ length: soak.users }, (_, at) => new User(soak, pool, counts, at));
    // With its first record the driver learns all types that a record may hold. A type made later gives SHAPE_CHANGED
    // once (docs/types.md), so every type exists before the first call.
    for (const user of users) await user.create();
    await Promise.all([...users.map((user) => user.run()), endBackends(soak, counts)]);
    await pool.waitIdle();
    const left = `select count(*) from pg_stat_activity where application_name = '${NAME}'`;
    await pool.close();
    for (let tries = 0; (await soak.side(left))[0]![0] !== "0"; tries++) {
      if (tries > 100) return void counts.faults.push("sessions are left on the server");
      await pause(100);
    }
  };
  return { pool, counts, done: run() };
}

/** Ends and cancels backends of the pool, in whatever state they are. */
async function endBackends({ side, until, seed }: Soak, counts: Counts): Promise<void> {
  const dice = new Dice(seed);
  while (performance.now() < until) {
    await pause(dice.below(1_000));
    const call = dice.pick(["pg_terminate_backend", "pg_cancel_backend"]);
    await side(
      `select ${call}(pid) from pg_stat_activity where application_name = '${NAME}' order by random() limit 1`,
    );
    counts.ended++;
  }
}

class User {
  readonly #soak: Soak;
  readonly #pool: pgz.Pool;
  readonly #counts: Counts;
  readonly #schema: string;
  readonly #dice: Dice;
  #last = 0;

  constructor(soak: Soak, pool: pgz.Pool, counts: Counts, at: number) {
    this.#soak = soak;
    this.#pool = pool;
    this.#counts = counts;
    this.#schema = `soak_${at}`;
    this.#dice = new Dice(soak.seed + 1 + at);
  }

  /** Creates the schema of this user's calls. */
  async create(): Promise<void> {
    await this.#soak.side(`drop schema if exists ${this.#schema} cascade; ${tablesOf(this.#schema)}`);
  }

  async run(): Promise<void> {
    const { side, until } = this.#soak;
    while (performance.now() < until && !this.#counts.faults.length) await this.#chapter();
    await side(`drop schema ${this.#schema} cascade`);
  }

  async #chapter(): Promise<void> {
    const { driver, side } = this.#soak;
    const schema = this.#schema;
    const world = worldOf(schema, driver.sql, { last: this.#last });
    const { ledger } = world;
    for (let call = 0; call < CHAPTER; call++) await this.#call(this.#plan(world), ledger);
    // Writes from before this chapter that were in doubt may have arrived late.
    const found = await side(`select n, count(*) from ${schema}.ledger where n > ${this.#last} group by n`);
    this.#counts.faults.push(...differences(ledger, found).map((text) => `${schema}: ${text}`));
    this.#last = ledger.last;
    await side(`delete from ${schema}.ledger where n <= ${this.#last}`);
    this.#counts.chapters++;
  }

  #plan(world: World): Plan {
    const dice = this.#dice;
    // DDL and calls about one session do not fit a pool.
    const fits = (plan: Plan) => plan.kind !== "quiet";
    if (dice.oneIn(6)) return transaction(dice, world, fits);
    if (dice.oneIn(12)) return dirty(dice, this.#pool);
    return callWhich(fits, dice, world);
  }

  /** Never rejects: what is wrong becomes a fault. */
  async #call(plan: Plan, ledger: Ledger): Promise<void> {
    const dice = this.#dice;
    const options: Disturbed = {};
    let timer;
    if (dice.oneIn(12)) {
      const controller = new AbortController();
      options.signal = controller.signal;
      timer = setTimeout(() => controller.abort(), dice.below(15));
    }
    if (dice.oneIn(20)) options.timeout = 1 + dice.below(15);
    const counts = this.#counts;
    counts.calls++;
    const error = await ended(plan, this.#pool, options, ledger, DEADLINE);
    clearTimeout(timer);
    if (error !== undefined) {
      const { code = "" } = error as { code?: string };
      counts.errors[code] = (counts.errors[code] ?? 0) + 1;
    }
    const mayAbort = options.signal !== undefined;
    const explains = (code: string) => HARMED.test(code) || code === plan.fails || (mayAbort && code === "ABORTED");
    const fault = judged(plan, ledger, error, explains);
    if (fault !== undefined) counts.faults.push(`${plan.says}: ${fault}`);
  }
}

/** A lease that leaves state that the next borrower must not find. */
function dirty(dice: Dice, pool: pgz.Pool): Plan {
  const what = dice.pick([
    "select set_config('app.tenant', '7', false)",
    "create temporary table left_over (n int4)",
    "set timezone = 'Asia/Tokyo'",
    "select pg_advisory_lock_shared(4711)",
    "listen left_over",
    "begin",
  ]);
  return {
    says: `a lease leaves ${what}`,
    async run() {
      await using lease = await pool.acquire();
      const { rows } = await lease.query(
        `select nullif(current_setting('app.tenant', true), '') as tenant,
           to_regclass('pg_temp.left_over') as temporary,
           nullif(current_setting('TimeZone'), 'Asia/Tokyo') is null as zone,
           (select count(*)::int4 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
           (select count(*)::int4 from pg_listening_channels()) as channels`,
      );
      const clean = { tenant: null, temporary: null, zone: false, locks: 0, channels: 0 };
      if (JSON.stringify(rows) !== JSON.stringify([clean]))
        throw new AssertionError(`left over: ${JSON.stringify(rows)}`);
      await lease.exec(what);
    },
  };
}
