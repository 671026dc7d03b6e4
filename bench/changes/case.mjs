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
import pg from "pg";
import { command } from "../lib/runtimes.mjs";
import { summary } from "../lib/statistics.mjs";
import { compareCpu, interleaved, resultRows } from "../lib/trials.mjs";
import { pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { RECVLOGICAL, recvlogical } from "./recvlogical.mjs";

const child = new URL("child.mjs", import.meta.url);
const NAME = "bench_changes";
const SHARE = { "pgz-edge ndjson": 1 / 4, "pgz-edge rows": 1 / 2 };
const PEER = "pg-logical-replication";
/** Their cost is shown only; no goal refers to it. */
const OTHERS = ["pgwire", RECVLOGICAL];
const LONG = 20_000;

export async function run({ server, option }) {
  if (!server.own) throw new Error("CASE=changes makes slots, and DATABASE_URL is left as it is: run it without");
  const trials = Number(option("TRIALS") ?? 7);
  const rows = Number(option("ROWS") ?? 200_000);
  const shapes = {
    [`tx_${LONG}`]: { commits: rows / LONG, each: LONG },
    tx_1: { commits: Number(option("TRANSACTIONS") ?? 20_000), each: 1 },
  };
  const many = Number(option("MANY") ?? 1_000_000);
  const wanted = option("SHAPES")?.split(",") ?? [...Object.keys(shapes), `tx_${many}`];
  pin(server.pid, SERVER_CPU); // backends inherit it
  const url = `${server.superuserUrl.split("?")[0]}?sslmode=disable`;
  const log = await Log.open(url);
  const result = { rows: [], failures: [] };
  const running = [];
  try {
    for (const library of [...Object.keys(SHARE), PEER, "pgwire"]) {
      const worker = start(library, command("node", child, library, url, NAME));
      running.push({ key: library, library, runtime: "node", ...worker });
    }
    running.push(recvlogical(url, NAME, (work) => log.reading(work, `${NAME}_counted`)));
    for (const [shape, { commits, each }] of Object.entries(shapes)) {
      if (!wanted.includes(shape)) continue;
      const expected = await log.write(commits, each);
      const samples = await measure(running, log, expected, trials);
      const config = { transactions: commits, rows: each };
      for (const one of running)
        result.rows.push(...resultRows(one, shape, config, samples.get(one.key), { cpu_ms: ["ms", ({ cpu }) => cpu] }));
      for (const [ours, share] of Object.entries(SHARE)) {
        result.failures.push(...compareCpu(samples, shape, ours, PEER, [PEER], share));
        for (const other of OTHERS) compareCpu(samples, shape, ours, other, [other]);
      }
    }
    if (wanted.includes(`tx_${many}`)) {
      const expected = await log.write(1, many);
      for (const one of running.slice(0, 2)) result.rows.push(await memory(one, log, expected, `tx_${many}`));
    }
    return result;
  } finally {
    await Promise.all(running.map((one) => one.stop()));
    await log.close();
  }
}

async function measure(running, log, expected, trials) {
  // Checks the NDJSON once, line by line.
  const [{ ask }] = running;
  const { bytes } = await log.reading((slot) => ask({ ...expected, slot, check: true }));
  const asked = running.map((one) => ({
    ...one,
    ask: (request) => (request.idle ? one.ask(request) : log.reading((slot) => one.ask({ ...request, slot }))),
  }));
  const verify = ({ key }, got) => {
    const isRight =
      got.bytes === undefined ? got.rows === expected.rows && got.sum === expected.sum : got.bytes === bytes;
    if (!isRight)
      throw new Error(`${key}: ${JSON.stringify(got)} instead of ${JSON.stringify({ ...expected, bytes })}`);
  };
  return await interleaved(asked, { ...expected, bytes }, trials, verify);
}

async function memory({ ask, library, runtime }, log, expected, shape) {
  const { bytes } = await log.reading((slot) => ask({ ...expected, slot, check: true }));
  const { grown } = await log.reading((slot) => ask({ ...expected, bytes, slot, memory: true }));
  const value = grown / (1 << 20);
  console.log(`${shape}: ${library} grows by ${value.toFixed(1)} MiB (to reach: 40)`);
  return { shape, library, runtime, config: {}, metric: "memory_mib", unit: "MiB", ...summary([value]) };
}

/** The server's log of changes, and the slot that keeps it. */
class Log {
  static async open(url) {
    const log = new Log();
    log.client = new pg.Client({ connectionString: url });
    await log.client.connect();
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
