// The tenants of tenants.test.ts behind pgpool-II, over a primary and a streaming standby, with the settings of
// docs/poolers.md; and the order of messages that pgpool-II does not survive, the subject of docs/decisions/0019.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client, Options } from "../../js/index.ts";
import { logFile } from "../servers/index.mjs";
import { startPgpool } from "../servers/pgpool.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { driver, plain, seed, TENANTS, withTenants } from "./pooled.ts";
import { runLane, stepsOf, sum, type Load } from "./workload.ts";

const { sql } = driver;
let pair: ReplicatedServers;
let pgpool: Awaited<ReturnType<typeof startPgpool>>;

beforeAll(async () => {
  pair = await startReplicated({ major: 15, log: logFile("replicated") });
  pgpool = await startPgpool({ ...pair, log: logFile("pgpool") });
});
afterAll(async () => {
  await pgpool?.stop();
  await pair?.stop();
});

const connect = (options: Options = {}): Promise<Client> => driver.connect(plain(pgpool.descriptor), options);

/**
 * When a process of pgpool-II meets a table for the first time, it runs a catalog query of its own. That query may run
 * before our BEGIN, or our cancel may hit it, which ends the session.
 */
const OF_ITS_OWN_QUESTION = [
  /a transaction inside .* 25001 .*must be called before any/,
  /a call: 25001 Error: transaction (repeatable read|serializable)/,
  /one of which is aborted: XX000 .*Backend throw an error message/,
];

test.each<{ name: string; options: Options }>([
  { name: "default options", options: {} },
  { name: 'prepare: "unnamed"', options: { prepare: "unnamed" } },
])(`${TENANTS} tenants with 50 statements each, $name`, async ({ options }) => {
  // pgpool-II finds the primary by the application's name, so both tests have one name, under which the driver knows
  // the types of records that were there at first.
  const without = /record/;
  const load: Load = { prefix: `pgpool_${options.prepare ?? "auto"}`, seed, repeat: 3, jobs: 1, without };
  console.log(`PGZ_SEED=${seed}`);
  const tenants = Array.from({ length: TENANTS }, (_, number) => number);
  const outcome = await withTenants(
    load,
    1,
    async () =>
      sum(await Promise.all(tenants.map((number) => runLane(driver, () => connect(options), load, number, 0)))),
    pair.primary,
  );
  const known = outcome.failed.filter((text) => OF_ITS_OWN_QUESTION.some((one) => one.test(text)));
  const failed = outcome.failed.filter((text) => !known.includes(text));
  expect(known.length).toBeLessThanOrEqual(3);
  expect({ ...outcome, failed }, `PGZ_SEED=${seed}`).toEqual({
    done: TENANTS * stepsOf(load) - known.length,
    wrong: [],
    failed: [],
  });
});

/** Gives `work` a client with a table of its own, and a function that returns the table's rows. */
async function withTable(work: (client: Client, notes: () => Promise<unknown>) => Promise<void>): Promise<void> {
  const client = await connect();
  try {
    await client.simple("drop table if exists pgpool_notes; create table pgpool_notes (note text)");
    await work(client, async () => (await client.query("select note from pgpool_notes", { rowMode: "array" })).rows);
    expect(client.stats().state).toBe("idle");
  } finally {
    await client.close();
  }
}

/**
 * pgpool-II ends a session in which a Query arrives before the responses of a failing flight. COMMIT was such a Query.
 */
test("a COMMIT after a failing statement does not end the session", () =>
  withTable(async (client, notes) => {
    for (let round = 0; round < 20; round++) {
      const note = sql`insert into pgpool_notes values ('lost')`;
      await expect(client.batch([note, sql`select ${sql.unsafe(`1/0 as r${round}`)}`, note])).rejects.toMatchObject({
        code: "22012",
      });
      const last = client.transaction(async (tx) => {
        await tx.exec(note);
        await tx.last("select 1/0");
      });
      await expect(last).rejects.toMatchObject({ code: "22012", transaction: "rolled back" });
    }
    expect(await notes()).toEqual([]);
  }));

/** pgpool-II passes on a CancelRequest to one server per second, and closes its socket after the last. */
test("a session survives a cancelled call", () =>
  withTable(async (client) => {
    const backend = async () => (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]!.pid;
    const before = await backend();
    await expect(client.query("select pg_sleep(10)", { timeout: 50 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
    expect(await backend()).toBe(before);
  }));

test("clients of another application_name read from either server, and ours only from the primary", async () => {
  const read = async (options: Options) => {
    const client = await connect(options);
    const { rows } = await client.query<{ on: string }>("select current_setting('transaction_read_only') as on");
    await client.close();
    return rows[0]!.on;
  };
  const readers = (options: Options) => Promise.all(Array.from({ length: 30 }, () => read(options)));
  expect([...new Set(await readers({ applicationName: "reader" }))].sort()).toEqual(["off", "on"]);
  expect([...new Set(await readers({}))]).toEqual(["off"]);
});
