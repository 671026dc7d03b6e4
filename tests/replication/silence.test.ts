// A link that falls silent without an end: it is given up, and the stream continues over another connection.
import { afterAll, beforeAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";
import { Gate } from "./gate.ts";
import { changes, driver } from "./replication.ts";

const NAME = `silence_${process.pid}`;
const { port, superuserUrl } = testServers().servers.find(({ own }) => own)!;
const { username, password, pathname } = new URL(superuserUrl!);
const gate = new Gate();
let db: InstanceType<typeof driver.Pool>;
let beside: InstanceType<typeof driver.Pool>;

beforeAll(async () => {
  gate.port = port!;
  const account = { user: username, password, database: pathname.slice(1), sslmode: "disable" } as const;
  beside = driver.createPool({ host: "localhost", port: port!, ...account });
  db = driver.createPool({ host: "127.0.0.1", port: await gate.open(), ...account });
  await beside.simple(`create table ${NAME} (n int4); create publication ${NAME} for table ${NAME}`);
});
afterAll(async () => {
  await db.close();
  gate.close();
  await until(
    async () =>
      (await beside.query(`select from pg_replication_slots where slot_name = '${NAME}' and active`)).rows.length === 0,
  );
  await beside.simple(`select pg_drop_replication_slot('${NAME}'); drop publication ${NAME}; drop table ${NAME}`);
  await beside.close();
});

test("a silent link is given up, and the link of an idle server that answers is not", async () => {
  const options = { slot: NAME, publication: NAME, createSlot: "permanent", statusInterval: 100 } as const;
  const feed = changes<{ n: number }>(db, options);
  const reader = feed[Symbol.asyncIterator]();
  let change = reader.next();
  await until(() => feed.stats().state === "streaming", "it streams");
  // Ten times as long as a link may be silent.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(feed.stats().connections).toBe(1);
  gate.mute();
  // PostgreSQL still holds the slot for the silent link, and ends that link as it would for a client that has gone.
  await beside.exec(`insert into ${NAME} values (1)`);
  await until(() => feed.stats().state !== "streaming", "it is given up");
  await beside.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '${NAME}'`);
  const kinds: string[] = [];
  while (!kinds.includes("insert")) {
    kinds.push((await change).value!.kind);
    change = reader.next();
  }
  expect(feed.stats().connections).toBeGreaterThan(1);
  await reader.return!();
});
