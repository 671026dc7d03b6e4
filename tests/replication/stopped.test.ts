// A consumer that stops reading neither grows nor is dropped, in each form of changes: the server has far more to send
// than the sockets buffer, and status updates continue. Then all rows arrive, in order, over the same connection.
//
// In `make test` the server waits three seconds for a status, and consumers stop for ten. In a release the server waits
// for a minute, its default, and they stop for longer.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { newCluster, prepare, run, superuser } from "../servers/postgres.mjs";
import { isRelease } from "../support/release.ts";
import { pause, until } from "../support/until.mjs";
import { driver } from "./replication.ts";

const FORMS = ["iterator", "transactions", "stream", "respond"] as const;
const STOP = isRelease ? 75_000 : 10_000;
const STATUS_INTERVAL = isRelease ? 10_000 : 500;
/** Rows of more than 60 MB: ten times what the sockets of both sides buffer. */
const ROWS = 150_000;
const EACH = 1_000;
const MOST = 16 << 20;

let server: Awaited<ReturnType<typeof run>>;
let db: InstanceType<typeof driver.Pool>;
let url: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  const extra = isRelease ? {} : { wal_sender_timeout: "3s" };
  server = await run(await newCluster(newestMajor()), { log: logFile("changes-stopped"), extra, prepare });
  const { user, password } = superuser;
  url = `postgres://${user}:${password}@127.0.0.1:${server.descriptor.port}/app?sslmode=disable`;
  db = driver.createPool(url, { max: 2 });
  await db.simple("create table stopped (n int4, body text); create publication stopped for table stopped");
  for (const form of FORMS) await db.query(`select from pg_create_logical_replication_slot('${form}', 'pgoutput')`);
  await db.simple(`do $$ begin
    for low in 1 .. ${ROWS} by ${EACH} loop
      insert into stopped select n, repeat('x', 400) from generate_series(low, low + ${EACH - 1}) n;
      commit;
    end loop;
  end $$`);
});
afterAll(async () => {
  for (const child of children) child.kill();
  await db?.close();
  await server?.stop();
});

interface Sender {
  slot: string;
  pid: number;
  told: Date;
}

/** Returns the server's side of each stream: its process, and when it last heard from the consumer. */
async function senders(): Promise<Map<string, Sender>> {
  const { rows } = await db.query<Sender>(
    `select slot_name as slot, pid, reply_time as told from pg_stat_replication
      join pg_replication_slots on active_pid = pid`,
    [],
    { dates: "date" },
  );
  return new Map(rows.map((sender) => [sender.slot, sender]));
}

function start(form: string): ChildProcess {
  const words = [url, form, form, String(ROWS), String(STATUS_INTERVAL)];
  const child = fork(fileURLToPath(new URL("stopped-child.mjs", import.meta.url)), words, {
    execArgv: ["--expose-gc"],
  });
  children.push(child);
  return child;
}

async function said(child: ChildProcess): Promise<unknown> {
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`ended with ${code}`)));
  const [message] = (await Promise.race([once(child, "message"), ended])) as [unknown];
  return message;
}

test("a consumer that stops reading neither grows nor is dropped", async () => {
  const running = FORMS.map(start);
  for (const message of await Promise.all(running.map(said))) expect(message).toEqual({ stopped: true });
  const before = await senders();
  expect([...before.keys()].sort()).toEqual([...FORMS].sort());
  await pause(STOP);
  const after = await senders();
  for (const form of FORMS) {
    expect(after.get(form)?.pid, form).toBe(before.get(form)!.pid);
    // The server waits for the consumer, and still hears from it.
    await until(async () => (await senders()).get(form)!.told > after.get(form)!.told, `${form} tells its status`);
  }
  const results = running.map(said);
  for (const child of running) child.send("go on");
  for (const [at, result] of (await Promise.all(results)).entries()) {
    const { grown, ...rest } = result as { grown: number };
    console.log(`[changes] ${FORMS[at]} has grown by ${(grown / (1 << 20)).toFixed(1)} MiB in ${STOP / 1_000} s`);
    expect(rest).toEqual({ seen: ROWS, inOrder: true, connections: 1 });
    expect(grown, FORMS[at]).toBeLessThan(MOST);
  }
});
