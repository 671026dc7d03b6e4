// A link that falls silent while a slot is made, or while rows of a snapshot are read; a server that has to wait.
import net from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Pool } from "../../js/index.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";

const { createPool } = (await import(`../../dist/${runtime}.js` as string)) as typeof import("../../js/index.ts");
const { changes } = (await import("../../dist/changes.js" as string)) as typeof import("../../js/changes.ts");

const { superuserUrl, host, port } = testServers().servers.find(({ own }) => own)!;
const name = `silence_${Math.random().toString(36).slice(2)}`;

/** Passes on this much to each client, and then nothing, while both connections stay open. */
const PASSED = 300_000;
const sockets = new Set<net.Socket>();
const servers = new Set<net.Socket>();
const proxy = net.createServer((client) => {
  const server = net.connect(port, host);
  let passed = 0;
  servers.add(server);
  for (const socket of [client, server]) {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      client.destroy();
      server.destroy();
    });
  }
  client.pipe(server);
  server.on("data", (chunk) => {
    passed += chunk.length;
    client.write(chunk);
    if (passed > PASSED) server.pause();
  });
});

const urlOf = (port: number) => {
  const url = new URL(`${superuserUrl}?sslmode=disable`);
  url.port = String(port);
  return url.href;
};

let pool: Pool;

beforeAll(async () => {
  pool = createPool(urlOf(port));
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  await pool.simple(`create table ${name} (id int4, body text); create table ${name}_later (id int4);
    create publication ${name} for table ${name}, ${name}_later; insert into ${name}_later values (1);
    insert into ${name} select i, repeat('x', 1000) from generate_series(1, 60000) i`);
});

afterAll(async () => {
  await pool.simple(`drop publication ${name}; drop table ${name}, ${name}_later`);
  await pool.close();
  for (const socket of sockets) socket.destroy();
  proxy.close();
});

const options = { slot: name, publication: name, createSlot: "permanent", snapshot: true, statusInterval: 50 } as const;

test("a link that falls silent in a snapshot is given up", async () => {
  const address = new URL(urlOf((proxy.address() as net.AddressInfo).port));
  address.hostname = "127.0.0.1";
  await using db = createPool(address.href);
  const reading = (async () => {
    for await (const change of changes(db, options)) if (change.kind === "snapshot") break;
  })();
  await expect(reading).rejects.toMatchObject({ code: "SNAPSHOT_BROKEN_OFF", cause: { code: "CONNECTION_LOST" } });
});

test("a link that falls silent while the slot is made is given up", async () => {
  const address = new URL(urlOf((proxy.address() as net.AddressInfo).port));
  address.hostname = "127.0.0.1";
  await using db = createPool(address.href);
  const owner = await pool.acquire();
  await owner.simple("begin; select pg_current_xact_id()");
  const reading = changes(db, options)[Symbol.asyncIterator]().next();
  const made = "select from pg_replication_slots where slot_name = $1";
  await until(async () => (await pool.query(made, [name])).rows.length === 1, "the slot is being made");
  for (const server of servers) server.pause();
  await owner.exec("rollback");
  owner.release();
  const message = expect.stringMatching(/may have made it/);
  await expect(reading).rejects.toMatchObject({ code: "INVALID_OPTION", message });
  await pool.query("select pg_drop_replication_slot($1)", [name]);
});

test("a server that has to wait for a lock is not given up", async () => {
  let looks = 0;
  await using db = createPool(urlOf(port), { observer: { onChanges: () => void looks++ } });
  const owner = await pool.acquire();
  await owner.exec("begin");
  let rows = 0;
  let before = Infinity;
  const reading = (async () => {
    for await (const change of changes(db, options)) {
      if (change.kind === "snapshot") break;
      if (change.kind === "insert" && rows++ === 0)
        await owner.exec(`lock table ${name}_later in access exclusive mode`);
      if (rows === 60_000) before = looks;
    }
  })();
  await until(() => looks > before + 20, "the server was silent for 20 looks");
  await owner.exec("rollback");
  owner.release();
  await reading;
  expect(rows).toBe(60_001);
  await pool.query(`select pg_drop_replication_slot('${name}')`);
});
