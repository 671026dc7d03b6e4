// What tenants do behind a pooler, and how it is checked: 50 statements of their own that run again and again, and
// between them jobs (scopes, aborts, and the calls of tests/random), in a random order that a seed repeats. It runs in
// Node and in a Worker, so it uses web standards and nothing of a runtime.
//
// Every result names its tenant and lane, or depends on them, so another tenant's statement, row or transaction shows
// as a wrong result.
import type * as pgz from "../../js/index.ts";
import { assert, AssertionError } from "../integration/assert.ts";
import { differences, tablesOf, worldOf } from "../random/judge.ts";
import { generator } from "../support/random.ts";
import { jobs } from "./jobs.ts";
import { statements } from "./statements.ts";
import type { Client, Statement, Tenant } from "./tenant.ts";

export interface Load {
  /** Prefix of the tenants' schemas. */
  prefix: string;
  seed: number;
  /** How often each statement runs in each lane. */
  repeat: number;
  /** How often each job runs. */
  jobs: number;
  /** Matches the names of jobs that do not work behind this pooler. */
  without?: RegExp;
}

export interface Outcome {
  done: number;
  /** Results that differ from the expected ones. */
  wrong: string[];
  /** Calls that should not have failed. */
  failed: string[];
}

export const schemaOf = ({ prefix }: Load, tenant: number) => `${prefix}_${tenant}`;
const worldSchema = (load: Load, tenant: number, lane: number) => `${schemaOf(load, tenant)}_calls_${lane}`;
/** The schemas of one tenant. */
export const schemasOf = (load: Load, tenant: number, lanes: number) => [
  schemaOf(load, tenant),
  ...Array.from({ length: lanes }, (_, lane) => worldSchema(load, tenant, lane)),
];

/** Creates the tables of one tenant, with rows that only that tenant has. */
export function createTenant(load: Load, number: number, lanes: number): string {
  const schema = schemaOf(load, number);
  return `
    create schema ${schema};
    create type ${schema}.mood as enum ('calm', 'tenant ${number}');
    create table ${schema}.items (id int4 primary key, tenant int4 not null,
      label text not null, mood ${schema}.mood not null);
    insert into ${schema}.items select id, ${number}, 'item ' || id || ' of ${number}',
      (enum_range(null::${schema}.mood))[1 + id % 2] from generate_series(1, 200) id;
    create table ${schema}.counters
      (lane int4, statement int4, n int4 not null default 0, primary key (lane, statement));
    insert into ${schema}.counters select lane, statement
      from generate_series(0, ${lanes - 1}) lane, generate_series(0, 49) statement;
    create table ${schema}.ledger (lane int4, note text, unique (lane, note));
    ${Array.from({ length: lanes }, (_, lane) => tablesOf(worldSchema(load, number, lane))).join("\n")}`;
}

/** Runs all steps of one lane: every statement `repeat` times, every job `jobs` times, shuffled. Never rejects. */
export async function runLane(
  driver: typeof pgz,
  connect: () => Promise<Client>,
  load: Load,
  number: number,
  lane: number,
  hasOwnBody = false,
): Promise<Outcome> {
  const random = generator(load.seed * 1_000 + number * 10 + lane);
  const tenant: Tenant = {
    number,
    lane,
    schema: schemaOf(load, number),
    sql: driver.sql,
    random,
    // Numbers that no other lane has show another tenant's rows.
    world: worldOf(worldSchema(load, number, lane), driver.sql, {
      last: (number * 10 + lane) * 10_000_000,
      hasOwnBody,
    }),
    notes: 0,
    counted: new Map(),
  };
  const own = statements(tenant);
  const steps: [name: string, run: (client: Client) => Promise<void>][] = [];
  own.forEach(({ run }, index) => {
    for (let n = 0; n < load.repeat; n++) steps.push([`statement ${index}`, (client) => run(client, tenant)]);
  });
  const reading = own.filter(({ changes }) => !changes);
  for (const { name, run } of jobsOf(load, reading)) {
    for (let n = 0; n < load.jobs; n++) steps.push([name, (client) => run(client, tenant)]);
  }
  shuffle(steps, random);
  steps.push(["ledger", (client) => checkLedger(client, tenant)]);

  const outcome: Outcome = { done: 0, wrong: [], failed: [] };
  const attempt = async (name: string, work: () => Promise<void>) => {
    try {
      await work();
      outcome.done++;
    } catch (error) {
      const where = `tenant ${number} lane ${lane} ${name}: `;
      if (error instanceof AssertionError) outcome.wrong.push(where + error.message.slice(0, 500));
      else outcome.failed.push(`${where}${(error as { code?: string }).code} ${String(error).slice(0, 300)}`);
    }
  };
  let client: Client | undefined;
  await attempt("connect", async () => void (client = await connect()));
  for (const [name, run] of steps) {
    if (!client) break;
    const running = client;
    await attempt(name, () => run(running));
    if (client.stats().state !== "closed") continue;
    client = undefined;
    await attempt("connect again", async () => void (client = await connect()));
  }
  await client?.close();
  return outcome;
}

/** Checks that nothing is lost, doubled, or another tenant's. */
async function checkLedger(client: Client, { lane, schema, sql, world, notes, counted }: Tenant): Promise<void> {
  const ledger = sql.identifier(schema, "ledger");
  const { rows } = await client.query(sql`select count(*)::int4 as n from ${ledger} where lane = ${lane}`);
  assert.deepEqual(rows, [{ n: notes }], "notes in the ledger");
  const counters = sql.identifier(schema, "counters");
  const found = await client.query<[number, number]>(
    sql`select statement, n from ${counters} where lane = ${lane} and n > 0 order by statement`,
    { rowMode: "array" },
  );
  assert.deepEqual(
    found.rows,
    [...counted].sort(([a], [b]) => a - b),
    "counters",
  );
  const written = await client.query<unknown[]>(`select n, count(*) from ${world.schema}.ledger group by n`, {
    rowMode: "array",
  });
  assert.deepEqual(differences(world.ledger, written.rows), [], "numbers of calls");
}

const jobsOf = ({ without }: Load, reading: Statement[]) => jobs(reading, without);

/** Returns how many steps a lane has, including connecting and the check of the ledger. */
export function stepsOf(load: Load): number {
  return 50 * load.repeat + jobsOf(load, []).length * load.jobs + 2;
}

/**
 * Returns a client that knows that it is behind a pooler. The driver takes a process id above 2^22 for a pooler's, and
 * one in 1024 of PgBouncer's is below: then a name may be missing inside a transaction, as docs/poolers.md says. Such a
 * connection is replaced, so that chance decides no test.
 */
export async function connectRecognised(connect: (observer: pgz.Observer) => Promise<Client>): Promise<Client> {
  for (;;) {
    let seen = 0;
    const client = await connect({ onConnect: ({ processId = 0 }) => void (seen = processId) });
    if (seen > 2 ** 22) return client;
    await client.close();
  }
}

export function sum(outcomes: readonly Outcome[]): Outcome {
  return {
    done: outcomes.reduce((all, { done }) => all + done, 0),
    wrong: outcomes.flatMap(({ wrong }) => wrong),
    failed: outcomes.flatMap(({ failed }) => failed),
  };
}

function shuffle(list: unknown[], random: (below: number) => number): void {
  for (let at = list.length - 1; at > 0; at--) {
    const other = random(at + 1);
    [list[at], list[other]] = [list[other], list[at]];
  }
}
