// Changes under load over a thousand disturbances: connections cut on the way or ended by the server, crashes of the
// server, abandoned streams. A consumer that stores its position gets each transaction once and in order; a consumer
// that does not gets each at least once, and none twice in one stream. A third one reads parts of transactions, and
// acknowledges late.
//
// `make test` makes sixty disturbances, a release a thousand.
import { afterAll, beforeAll, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { newCluster, prepare, run, superuser, withClient } from "../servers/postgres.mjs";
import { generator } from "../support/random.ts";
import { HOURS, isRelease } from "../support/release.ts";
import { until } from "../support/until.mjs";
import { Gate } from "./gate.ts";
import { Consumer, driver, Expected } from "./replication.ts";

const DISTURBANCES = isRelease ? 1_000 : 60;
const seed = Number(process.env["PGZ_SEED"] ?? Math.floor(Math.random() * 1e6));
const below = generator(seed);

const gate = new Gate();
let server: Awaited<ReturnType<typeof run>>;
let port: number;

beforeAll(async () => {
  // Committed changes must survive a crash.
  const extra = { synchronous_commit: "on", wal_sender_timeout: "5s", logical_decoding_work_mem: "64kB" };
  server = await run(await newCluster(newestMajor()), { log: logFile("changes-cuts"), extra, prepare });
  gate.port = server.descriptor.port;
  port = await gate.open();
});
afterAll(async () => {
  gate.close();
  await server?.stop();
});

const ask = (text: string) =>
  withClient({ ended: false }, server.descriptor.port, "app", (client) => client.query(text));
const terminate = () => ask("select pg_terminate_backend(active_pid) from pg_replication_slots where active");

const disturbances: Readonly<Record<string, (consumers: readonly Consumer[]) => Promise<unknown>>> = {
  terminate,
  cut: () => Promise.resolve(gate.cut()),
  leave: (consumers) => Promise.resolve(consumers.forEach((consumer) => consumer.leave())),
  /** Kills one process: PostgreSQL then ends all others, and recovers. */
  async crash() {
    const { rows } = await ask("select active_pid as pid from pg_replication_slots where active");
    const [sender] = rows as { pid: number }[];
    if (sender) process.kill(sender.pid, "SIGKILL");
  },
};

/** A crash takes a second, so there are few. */
function drawn(): string {
  const n = below(50);
  return n ? ["terminate", "cut", "leave"][n % 3]! : "crash";
}

test("no transaction is lost or doubled over many disturbances", { timeout: HOURS }, async () => {
  const db = driver.createPool({ host: "127.0.0.1", port, ...superuser, database: "app", sslmode: "disable", max: 4 });
  await db.simple("create table ledger (n int4 primary key, body text); create publication ledger for table ledger");
  const options = { publication: "ledger", createSlot: "permanent", statusInterval: 200 } as const;
  const exact = new Consumer(db, { ...options, slot: "exact" }, true);
  const careless = new Consumer(db, { ...options, slot: "careless" }, false);
  const inParts = new Consumer(db, { ...options, slot: "in_parts", streaming: true }, false);
  const consumers = [exact, careless, inParts];
  for (const slot of ["exact", "careless", "in_parts"])
    await db.query(`select from pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
  const expected = new Expected();
  const following = Promise.all(consumers.map((consumer) => consumer.follow(() => expected.all)));
  following.catch(() => {}); // it is awaited in the end
  let isOver = false;
  const writing = write(db, () => isOver);

  const counts: Record<string, number> = {};
  for (let n = 0; n < DISTURBANCES; n++) {
    const name = drawn();
    counts[name] = (counts[name] ?? 0) + 1;
    const before = consumers.map(({ numbers }) => numbers.length);
    await disturbances[name]!(consumers);
    const goesOn = () => consumers.every(({ numbers }, at) => numbers.length > before[at]!);
    await until(goesOn, `all go on behind ${name} (seed ${seed})`);
  }
  isOver = true;
  await writing;
  const stored = await expected.finish(db);
  await following;

  console.log(
    `[changes] seed ${seed}: ${stored.length} rows, ${JSON.stringify(counts)}, ${exact.connections} connections, ` +
      `${careless.numbers.length - stored.length} rows again for who stores no position`,
  );
  expect(exact.numbers).toEqual(stored);
  for (const { numbers } of [careless, inParts]) expect([...new Set(numbers)].sort((a, b) => a - b)).toEqual(stored);
  for (const transactions of [...careless.streams, ...inParts.streams]) {
    const numbers = transactions.flat();
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  }
  await db.close();
});

/** Runs transactions of one row or many, some of which roll back. */
async function write(db: InstanceType<typeof driver.Pool>, isOver: () => boolean): Promise<void> {
  for (let first = 1; !isOver();) {
    const last = first + (below(10) ? below(20) : below(400));
    const rows = `select n, repeat('x', ${below(600)}) from generate_series(${first}, ${last}) n`;
    const work = db.transaction(async (tx) => {
      await tx.exec(`insert into ledger ${rows}`);
      if (!below(8)) throw new Error("rolled back");
    });
    // A transaction that failed may be stored or not, so its numbers are not used again.
    await work.catch(() => new Promise((resolve) => setTimeout(resolve, 20)));
    first = last + 1;
  }
}
