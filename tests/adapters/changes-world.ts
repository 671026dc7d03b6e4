// The setting of a case of `pgz-edge/changes`: a server, and a table, a publication and a slot of one name, which are
// removed afterwards.
//
// Knows how a case begins and ends, and what several cases check. Must not know the steps of a case.
import type * as driver from "../../js/index.ts";
import type * as ofChanges from "../../js/changes.ts";
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";

export type AnyChange = ofChanges.AnyChange;

export interface Setting {
  readonly pgz: typeof driver;
  readonly changes: typeof ofChanges.changes;
  /** The URL of a superuser, with `sslmode`. */
  readonly url: string;
}

export type Case = (world: World) => Promise<void>;

/** The setting of one case: the server, and a name of its own. */
export class World {
  readonly pgz: typeof driver;
  readonly changes: typeof ofChanges.changes;
  readonly url: string;
  readonly pool: driver.Pool;
  readonly name: string;
  readonly #ends: string[] = [];

  constructor({ pgz, changes, url }: Setting) {
    this.pgz = pgz;
    this.changes = changes;
    this.url = url;
    // The server drops a replication connection after this silence.
    this.pool = pgz.createPool(url, { options: "-c wal_sender_timeout=2s", max: 5 });
    const random = Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(36));
    this.name = `changes_${random.join("")}`;
  }

  async table(columns: string): Promise<void> {
    const { name, pool } = this;
    await pool.simple(`create table ${name} (${columns}); create publication ${name} for table ${name}`);
  }

  /** Runs this SQL at the end of the case, before what dropAll() itself drops. */
  after(sql: string): void {
    this.#ends.unshift(sql);
  }

  async dropAll(): Promise<void> {
    const { name, pool } = this;
    try {
      await until(async () => !(await this.#isActive()), "nobody reads the slot");
      for (const sql of this.#ends) await pool.simple(sql);
      await pool.simple(`
        select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '${name}';
        drop publication if exists ${name}; drop schema if exists ${name}_types cascade;
        drop table if exists ${name}`);
    } finally {
      await pool.close();
    }
  }

  get options() {
    const { name } = this;
    return { slot: name, publication: name, createSlot: "permanent" } as const;
  }

  async #isActive(): Promise<boolean> {
    const asked = this.pgz.sql`select active from pg_replication_slots where slot_name = ${this.name}`;
    return (await this.pool.query(asked)).rows[0]?.["active"] === true;
  }

  /**
   * Waits until the slot is being read: a new slot lacks earlier changes. It is also active while it is being created.
   */
  streaming(): Promise<void> {
    const asked = this.pgz.sql`select from pg_replication_slots join pg_stat_replication on pid = active_pid
      where slot_name = ${this.name} and state in ('catchup', 'streaming')`;
    return until(async () => (await this.pool.query(asked)).rows.length === 1, "the slot is read");
  }

  free(): Promise<void> {
    return until(async () => !(await this.#isActive()), "the slot is free");
  }

  /** Returns the position up to which the server may discard its log. */
  async flushed(): Promise<string> {
    const asked = this.pgz
      .sql`select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = ${this.name}`;
    return (await this.pool.query(asked)).rows[0]!["at"] as string;
  }

  insert(id: number): Promise<unknown> {
    const { sql } = this.pgz;
    return this.pool.exec(sql`insert into ${sql.identifier(this.name)} values (${id})`);
  }

  async cut(): Promise<void> {
    const { sql } = this.pgz;
    await this.pool.query(sql`select pg_terminate_backend(active_pid) from pg_replication_slots
      where slot_name = ${this.name} and active`);
  }

  /** Ends the connection that copies the table's rows. */
  async cutCopy(): Promise<void> {
    const asked = this.pgz.sql`select pg_terminate_backend(pid) as ended from pg_stat_activity
      where backend_type = 'walsender' and query like ${`copy %${this.name}%`}`;
    assert.equal((await this.pool.query(asked)).rows.length, 1);
  }

  async slots(): Promise<number> {
    const asked = this.pgz.sql`select from pg_replication_slots where slot_name = ${this.name}`;
    return (await this.pool.query(asked)).rows.length;
  }

  /** Reads a new slot's changes while `work` runs, up to and including the last of `commits`. */
  async read(commits: number, work: () => Promise<unknown>, more: Partial<ofChanges.ChangesOptions> = {}) {
    const seen: AnyChange[] = [];
    const working = started(this.streaming().then(work));
    for await (const change of this.changes(this.pool, { ...this.options, ...more })) {
      seen.push(change);
      if (change.kind === "commit" && --commits === 0) break;
    }
    await working;
    return seen;
  }
}

/** Reads a feed up to and including its first change of this kind. */
export async function upTo(kind: AnyChange["kind"], feed: AsyncIterable<AnyChange>): Promise<AnyChange[]> {
  const seen: AnyChange[] = [];
  for await (const change of feed) if (seen.push(change) && change.kind === kind) break;
  return seen;
}

/** Requests the first change of a feed. */
export const first = (feed: AsyncIterable<AnyChange>) => feed[Symbol.asyncIterator]().next();

/** The promise is awaited later, so a rejection must not count as unhandled. */
export function started<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

export const newRows = (seen: readonly AnyChange[]) =>
  seen.flatMap((change) => (change.kind === "insert" ? [change.new] : []));

/**
 * A slot whose reader has acknowledged the commit at `from` is there or after it, but before `next`, the next commit.
 * Between the two it may advance by itself, over log that has no change of the publication's tables.
 */
export function assertAcknowledged(flushed: string, { from, next }: { from: string; next: string }): void {
  const [at, least, end] = [flushed, from, next].map(lsn) as [bigint, bigint, bigint];
  assert(least <= at && at < end, `the slot is at ${flushed}, not from ${from} on and before ${next}`);
}

function lsn(text: string): bigint {
  const [high, low] = text.split("/") as [string, string];
  return BigInt(`0x${high}${low.padStart(8, "0")}`);
}

export async function run(work: Case, setting: Setting): Promise<void> {
  const world = new World(setting);
  try {
    await work(world);
  } finally {
    await world.dropAll();
  }
}
