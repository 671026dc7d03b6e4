// Changes over a failover: the slot also exists on the standby (`failover`, from PostgreSQL 17 on), and the stream
// continues there after its promotion. No change is lost, and none comes twice.
import { afterEach, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { superuser } from "../servers/postgres.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { until } from "../support/until.mjs";
import { Consumer, driver, Expected } from "../replication/replication.ts";

let pair: ReplicatedServers | undefined;
afterEach(() => pair?.stop());

test("a stream continues where its slot was kept", async () => {
  pair = await startReplicated({ log: logFile("changes-failover"), keepsSlots: true });
  const { primary, standby } = pair;
  const db = driver.createPool({
    host: `${standby.host},${primary.host}`,
    port: `${standby.port},${primary.port}`,
    database: "app",
    ...superuser,
    sslmode: "disable",
    targetSessionAttrs: "read-write",
    connectTimeout: 2_000,
    timeout: 5_000,
  });
  await db.simple("create table ledger (n int4 primary key); create publication ledger for table ledger");
  const options = { slot: "kept", publication: "ledger", createSlot: "permanent", failover: true } as const;
  const consumer = new Consumer(db, { ...options, statusInterval: 200 }, true);
  const expected = new Expected();
  const following = consumer.follow(() => expected.all);
  await until(
    async () => (await db.query("select from pg_replication_slots where slot_name = 'kept'")).rows.length > 0,
  );

  let isOver = false;
  const writing = (async () => {
    for (let n = 1; !isOver; n++) await db.exec(`insert into ledger values (${n})`).catch(() => {});
  })();
  await until(() => consumer.numbers.length > 50, "changes come from the primary");
  const hasSlot = () => until(() => pair!.hasSlot("kept"), "the standby has the slot");
  await hasSlot().catch(hasSlot).catch(hasSlot);
  await pair.crash();
  await pair.promote();
  const before = consumer.numbers.length;
  await until(() => consumer.numbers.length > before + 50, "changes come from the standby");
  isOver = true;
  await writing;
  const stored = await expected.finish(db);
  await following;
  expect(consumer.numbers).toEqual(stored);
  expect(consumer.streams).toHaveLength(1);
  await db.close();
});
