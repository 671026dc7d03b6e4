// The tenants of tenants.test.ts behind pgpool-II, over a primary and a standby that streams, with the settings of
// docs/poolers.md; and the wire shapes that it cannot stand, which docs/decisions/0019 is about.
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
}, 60_000);
afterAll(async () => {
  await pgpool?.stop();
  await pair?.stop();
});

const connect = (options: Options = {}): Promise<Client> => driver.connect(plain(pgpool.descriptor), options);

/**
 * Where its process meets a table for the first time, it asks the catalog a question of its own: that may come in front
 * of our BEGIN, and our cancel may meet it, which ends the session.
 */
const OF_ITS_OWN_QUESTION = [
  /a transaction inside .* 25001 .*must be called before any/,
  /one of which is aborted: XX000 .*Backend throw an error message/,
];

test.each<{ name: string; options: Options }>([
  { name: "default options", options: {} },
  { name: 'prepare: "unnamed"', options: { prepare: "unnamed" } },
])(`${TENANTS} tenants with 50 statements each, $name`, { timeout: 180_000 }, async ({ options }) => {
  const load: Load = { prefix: `pgpool_${options.prepare ?? "auto"}`, seed, repeat: 3, jobs: 1 };
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

/** With a table of its own, whose rows it gives. */
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

/** It ends a session in which a Query comes before the answers of a flight that fails. COMMIT was one. */
test("COMMIT behind a statement that fails does not end the session", () =>
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

/** It hands a CancelRequest to one server a second, and closes its socket behind the last. */
test("a session lives on behind a cancelled call", () =>
  withTable(async (client) => {
    const backend = async () => (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]!.pid;
    const before = await backend();
    await expect(client.query("select pg_sleep(10)", { timeout: 50 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
    expect(await backend()).toBe(before);
  }));

test("clients with another name read from either server, ours from the primary", async () => {
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
