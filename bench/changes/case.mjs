// CASE=changes: the cost of reading a table's changes by logical replication: transactions of 20,000 rows, and of one
// row. Ours as NDJSON and as rows, beside pg-logical-replication over `pg`, pgwire, and, as the lower bound,
// PostgreSQL's own pg_recvlogical, which drops the bytes without parsing them. Process CPU in milliseconds. Then the
// memory that a transaction of a million rows adds to the process.
//
// The changes are made once. A slot keeps the log from before them, and each trial reads a copy of that slot, so all
// read the same log. Rows and the sum of their ids are checked in each trial. NDJSON is not parsed there: its number of
// bytes is compared with that of a run that was parsed. Slots and tables are made, so a server that is not ours is
// refused.
//
//   TRIALS, ROWS of the long transactions in all, TRANSACTIONS of one row, MANY rows of one transaction     how much
//   SHAPES                                                                                                    which
import { pgClient } from "../lib/connect.mjs";
import { keyOf } from "../lib/harness.mjs";
import { resultRows } from "../lib/trials.mjs";
import { recvlogical } from "./recvlogical.mjs";

export const NAME = "bench_changes";
/** How many times ours pg-logical-replication is to need. The others are only shown. */
const TIMES = { "pgz-edge ndjson": 4, "pgz-edge rows": 2 };
const LONG = 20_000;
const [SHORT_SHAPE, LONG_SHAPE, MANY_SHAPE] = ["tx_1", `tx_${LONG}`, "tx_1000000"];
const plain = (server) => `${server.superuserUrl.split("?")[0]}?sslmode=disable`;

export default {
  numbers: { TRIALS: 7, ROWS: 200_000, TRANSACTIONS: 20_000, MANY: 1_000_000 },
  shapes: [LONG_SHAPE, SHORT_SHAPE, MANY_SHAPE],
  fillsServer: true,
  start: { native: (library, url) => recvlogical(url, NAME) },

  async fill({ server }) {
    const log = await Log.open(plain(server));
    return { log, url: plain(server), close: () => log.close() };
  },

  async run(shape, { log, ROWS, TRANSACTIONS, MANY }, contestants) {
    const [commits, each] = { [LONG_SHAPE]: [ROWS / LONG, LONG], [SHORT_SHAPE]: [TRANSACTIONS, 1] }[shape] ?? [1, MANY];
    const request = await log.write(commits, each);
    const config = { transactions: commits, rows: each };
    if (shape !== MANY_SHAPE) return { config, request };
    const ours = contestants.filter(({ library }) => library.startsWith("pgz-edge"));
    return { ...memory, config: {}, contestants: ours, request: { ...request, memory: true } };
  },

  /** Each request reads a copy of the slot. */
  ask: ({ ask }, request, scene, { log }) =>
    log.reading((slot) => ask({ ...request, slot, bytes: scene.bytes }), request.count ? `${NAME}_counted` : undefined),

  /** Checks the NDJSON once, line by line, and what pg_recvlogical writes. */
  async before(contestants, scene) {
    const [ours, ...others] = contestants;
    scene.bytes = (await ours.ask({ ...scene.request, memory: false, check: true })).bytes;
    for (const { runtime, ask } of others) if (runtime === "native") await ask({ ...scene.request, count: true });
  },

  check(got, { bytes, request: { rows, sum } }) {
    if (got.grown !== undefined) return; // read by the same code, and checked before
    const isRight = got.bytes === undefined ? got.rows === rows && got.sum === sum : got.bytes === bytes;
    if (!isRight) throw new Error(`${JSON.stringify(got)} instead of ${JSON.stringify({ rows, sum, bytes })}`);
  },

  metrics: { cpu_ms: ["ms", ({ cpu }) => cpu] },

  goals({ contestants }) {
    const peers = contestants.filter(({ library }) => !library.startsWith("pgz-edge"));
    return Object.entries(TIMES).flatMap(([ours, wanted]) =>
      peers.map(({ key, library }) => ({
        ours: keyOf(ours, "node"),
        peers: [key],
        by: "cpu",
        wanted: library === "pg-logical-replication" ? wanted : undefined,
      })),
    );
  },
};

/** What a transaction of a million rows adds to a process. One trial, of which the warm-up round is the first half. */
const memory = {
  trials: 1,
  idle: 0,
  goals: () => [],
  rows: ({ shape, config, contestants, samples }) =>
    contestants.flatMap((one) => {
      const metrics = { memory_mib: ["MiB", ({ grown }) => grown / (1 << 20)] };
      const rows = resultRows(one, shape, config, samples.get(one.key), metrics);
      console.log(`${shape}: ${one.library} grows by ${rows[0].median.toFixed(1)} MiB (to reach: 40)`);
      return rows;
    }),
};

/** The server's log of changes, and the slot that keeps it. */
class Log {
  static async open(url) {
    const log = new Log();
    log.client = await pgClient(url);
    await log.#drop();
    await log.client.query(`create table ${NAME} (id int8, name text, amount numeric, at timestamptz, flag bool)`);
    await log.client.query(`create publication ${NAME} for table ${NAME}`);
    return log;
  }

  /** Writes transactions of `each` rows. Returns what a reader must find. */
  async write(commits, each) {
    await this.#dropSlots();
    await this.client.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [NAME]);
    await this.client.query(`
      do $$ begin
        for n in 0 .. ${commits - 1} loop
          insert into ${NAME} select n * ${each} + i, 'user ' || i, i / 8.0,
            '2026-11-27'::timestamptz + i * '1 s'::interval,
            i % 2 = 0 from generate_series(1, ${each}) i;
          commit;
        end loop;
      end $$`);
    const rows = commits * each;
    const { rows: found } = await this.client.query("select pg_current_wal_insert_lsn()::text as end");
    return { commits, rows, sum: (rows * (rows + 1)) / 2, end: found[0].end };
  }

  /** Runs `work` with a copy of the slot. */
  async reading(work, slot = `${NAME}_read`) {
    await this.client.query("select pg_copy_logical_replication_slot($1, $2)", [NAME, slot]);
    try {
      return await work(slot);
    } finally {
      await this.#dropSlots(slot);
    }
  }

  async #dropSlots(pattern = `${NAME}%`) {
    const text = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name like $1";
    for (let left = 100; ; left--)
      try {
        return await this.client.query(text, [pattern]);
      } catch (error) {
        // The server has not yet noticed that its reader has gone.
        if (error.code !== "55006" || left === 0) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
  }

  async #drop() {
    await this.#dropSlots();
    await this.client.query(`drop publication if exists ${NAME}`);
    await this.client.query(`drop table if exists ${NAME}`);
  }

  async close() {
    await this.#drop();
    await this.client.end();
  }
}
