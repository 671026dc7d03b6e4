// The database of the test: its tables, writers that change one variable at a time, DDL, and a record of when each
// version became visible and when the stream had acknowledged it.
//
// Knows tables and the log. Must not know a cache.
import pg from "pg";
import { pause } from "../support/until.mjs";
import type { Version } from "./judge.ts";
import { LEAVES, PUBLICATION, SLOT, TABLES, TENANTS } from "./statements.mjs";

/** Mean milliseconds between two writes of one variable: an answer that stays too long is seen before the next one. */
const PAUSE = 20_000;
/** A view that reads another table with each version. */
const MOVING = "moving";
/** Milliseconds between two looks at the slot. */
const LOOK = 25;

const SCHEMA = `
  ${TABLES.map((name) => `create table ${name} (variable text primary key, version int4); insert into ${name} values ('${name}', 0);`).join("\n")}
  create table whole (variable text primary key, version int4) partition by list (variable);
  ${LEAVES.map((name) => `create table ${name} partition of whole for values in ('${name}'); insert into ${name} values ('${name}', 0);`).join("\n")}
  create table tenants (variable text primary key, tenant int4, version int4);
  insert into tenants select 't' || n, n, 0 from unnest(array[${TENANTS.join(", ")}]) as n;
  alter table tenants enable row level security;
  create policy own on tenants using (tenant = current_setting('app.tenant')::int4);
  ${viewOf(0)};
  drop role if exists cache_tenant;
  create role cache_tenant;
  grant select on all tables in schema public to cache_tenant;
  create publication ${PUBLICATION} for all tables;`;

/** The view's own version, and that of the table which it reads. */
function viewOf(version: number): string {
  const table = TABLES[version % TABLES.length]!;
  return `create or replace view ${MOVING} as
    select '${MOVING}'::text as variable, ${version}::int4 as version union all select variable, version from ${table}`;
}

interface Recorded extends Version {
  /** The end of the log when it was visible. */
  readonly lsn: string;
}

/** Where a variable's row is. */
const tableOf = (name: string) => (/^t\d/.test(name) ? "tenants" : name);

export class Database {
  readonly url: string;
  readonly #below: (below: number) => number;
  readonly variables = new Map<string, Recorded[]>();
  /** Recorded, and not acknowledged. */
  #waiting: Recorded[] = [];
  #isOver = false;
  writes = 0;
  definitions = 0;

  constructor(url: string, below: (below: number) => number) {
    this.url = url;
    this.#below = below;
    for (const name of [...TABLES, ...LEAVES, ...TENANTS.map((n) => `t${n}`), MOVING]) this.variables.set(name, []);
  }

  async create(setup: string): Promise<void> {
    await this.ask(`${setup}; ${SCHEMA}`);
    await this.createSlot();
  }

  async createSlot(): Promise<void> {
    await this.ask(`select pg_create_logical_replication_slot('${SLOT}', 'pgoutput')`);
  }

  /** Ends who reads the slot, too. */
  async dropSlot(): Promise<void> {
    await this.ask(
      `select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '${SLOT}' and active`,
    );
    await this.ask(`select pg_drop_replication_slot('${SLOT}')`);
  }

  /** On a connection of its own. */
  async ask(text: string): Promise<pg.QueryResult> {
    const client = new pg.Client(this.url);
    client.on("error", () => {});
    await client.connect();
    try {
      return await client.query(text);
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** Until `end`. */
  async run(): Promise<void> {
    const writers = [...this.variables.keys()].map((name) => this.#write(name));
    await Promise.all([...writers, this.#addColumns(), this.#look()]);
  }

  end(): void {
    this.#isOver = true;
  }

  async #pauses(mean: number): Promise<void> {
    for (let left = this.#below(2 * mean); left > 0 && !this.#isOver; left -= 100) await pause(Math.min(left, 100));
  }

  async #write(name: string): Promise<void> {
    while (!this.#isOver) {
      await this.#pauses(PAUSE);
      await this.#untilDone(async (client) => {
        if (name === MOVING) await this.#move(client);
        else await this.#change(client, name);
        // After the commit, or after one whose end is not known: what is read is visible.
        const table = tableOf(name);
        const { rows } = await client.query(
          `select version, pg_current_wal_insert_lsn() as lsn from ${table} where variable = '${name}'`,
        );
        this.#record(name, rows[0] as { version: number; lsn: string });
      });
    }
  }

  #record(name: string, { version, lsn }: { version: number; lsn: string }): void {
    const versions = this.variables.get(name)!;
    if (version <= (versions.at(-1)?.version ?? 0)) return;
    const one = { version, lsn, visibleAt: performance.now(), acknowledgedAt: Infinity };
    versions.push(one);
    this.#waiting.push(one);
  }

  async #change(client: pg.Client, name: string): Promise<void> {
    const table = tableOf(name);
    const update = `update ${table} set version = version + 1 where variable = '${name}'`;
    const kind = this.#below(8);
    if (kind === 0) await client.query(`begin; ${update}; rollback`);
    // Other snapshots are taken while it runs.
    if (kind === 1) {
      await client.query(`begin; ${update}`);
      await this.#pauses(1_500);
      await client.query("commit");
    } else if (kind === 2 && table === name && !LEAVES.includes(name)) {
      await client.query(`begin; create temporary table old on commit drop as select * from ${table}; truncate ${table};
        insert into ${table} select variable, version + 1 from old; commit`);
    } else await client.query(update);
    this.writes++;
  }

  async #move(client: pg.Client): Promise<void> {
    const { rows } = await client.query(`select version from ${MOVING} where variable = '${MOVING}'`);
    await client.query(viewOf((rows[0] as { version: number }).version + 1));
    this.definitions++;
  }

  /** DDL that changes no answer. */
  async #addColumns(): Promise<void> {
    while (!this.#isOver) {
      await this.#pauses(6 * PAUSE);
      const table = TABLES[this.#below(TABLES.length)]!;
      await this.#untilDone((client) =>
        client.query(`alter table ${table} add column if not exists n int4; alter table ${table} drop column n`),
      );
      this.definitions++;
    }
  }

  /** In the meantime the server may restart. */
  async #untilDone(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
    for (;;) {
      const client = new pg.Client(this.url);
      client.on("error", () => {});
      try {
        await client.connect();
        await work(client);
        return;
      } catch {
        await pause(200);
      } finally {
        await client.end().catch(() => {});
      }
    }
  }

  /** Looks how far the slot is, until all that was recorded is acknowledged. */
  async #look(): Promise<void> {
    let client: pg.Client | undefined;
    while (!this.#isOver || this.#waiting.length) {
      await pause(LOOK);
      try {
        if (!client) {
          client = new pg.Client(this.url);
          client.on("error", () => (client = undefined));
          await client.connect();
        }
        const { rows } = await client.query(
          `select l.n from pg_replication_slots, unnest($2::pg_lsn[]) with ordinality as l (lsn, n)
           where slot_name = $1 and confirmed_flush_lsn >= l.lsn`,
          [SLOT, this.#waiting.map(({ lsn }) => lsn)],
        );
        const at = performance.now();
        const done = new Set((rows as { n: string }[]).map(({ n }) => this.#waiting[Number(n) - 1]!));
        for (const one of done) one.acknowledgedAt = at;
        if (done.size) this.#waiting = this.#waiting.filter((one) => !done.has(one));
      } catch {
        client = undefined;
      }
    }
    await client?.end();
  }
}
