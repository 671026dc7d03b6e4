// What positions and guards cost in flights: a question for a position is sent in the flight of its call, a guard in
// that of its statement. A proxy in front of the primary and one in front of a standby count the flights.
import { afterAll, beforeAll, expect, test } from "vitest";
import { delayingProxy, type DelayingProxy } from "../../bench/lib/delaying-proxy.mjs";
import type { ClusterOfServers } from "../servers/standbys.mjs";
import { createCluster, driver, majors, start } from "./world.ts";

const { sql } = driver;
let servers: ClusterOfServers;
let primary: DelayingProxy;
let standby: DelayingProxy;
let cluster: ReturnType<typeof createCluster>;
beforeAll(async () => {
  servers = await start("flights", { major: majors[0]!, count: 1 });
  primary = await delayingProxy(servers.primary.url);
  standby = await delayingProxy(servers.standbys[0]!.url);
  const options = { sslmode: "disable", probeInterval: 1_000_000, maxLag: Infinity } as const;
  cluster = createCluster([primary.url, standby.url], options);
  await cluster.exec("create table flights (id int)");
  await servers.standbys[0]!.catchUp(servers.primary);
  await cluster.probe();
});
afterAll(async () => {
  await cluster?.close();
  primary?.close();
  standby?.close();
  await servers?.stop();
});

/** Returns the flights to the primary and to the standby of the third run: the earlier runs learn the statement. */
async function flights(work: () => Promise<unknown>): Promise<[number, number]> {
  await work();
  await work();
  primary.take();
  standby.take();
  await work();
  return [primary.take().flights, standby.take().flights];
}

const given = { position: true } as const;
const insert = sql`insert into flights values (${1})`;

test("a position is asked for in the flight of its call", async () => {
  type Given = typeof given;
  const calls: Record<string, (options: Given) => Promise<unknown>> = {
    exec: (options) => cluster.exec(insert, options),
    query: (options) => cluster.query(sql`${insert} returning id`, options),
    batch: (options) => cluster.batch([insert, insert], options),
    "isolated batch": (options) => cluster.batch([insert, insert], { ...options, atomic: false }),
    copyFrom: (options) => cluster.copyFrom("copy flights from stdin", "1\n", options),
    copyFromRows: (options) => cluster.copyFromRows("flights", ["id"], [[1]], options),
    transaction: (options) => cluster.transaction((tx) => tx.exec(insert), options),
    "last of a transaction": (options) =>
      cluster.transaction(async (tx) => {
        await tx.exec(insert);
        await tx.last(insert);
      }, options),
  };
  const counts: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(calls)) {
    const without = await flights(() => call({} as Given));
    expect([name, ...(await flights(() => call(given)))]).toEqual([name, ...without]);
    counts[name] = without;
  }
  expect(counts).toMatchObject({ exec: [1, 0], batch: [1, 0], copyFrom: [2, 0], "last of a transaction": [2, 0] });
  expect(await flights(() => cluster.position())).toEqual([1, 0]);
});

test("a guard is sent in the flight of its statement", async () => {
  const position = await cluster.position();
  const behind = cluster.reads.after(position);
  const question = sql`select id from flights where id = ${1}`;
  await servers.standbys[0]!.catchUp(servers.primary);
  expect(await flights(() => behind.query(question))).toEqual([0, 1]);
  expect(await flights(() => behind.batch([question, question]))).toEqual([0, 1]);
  expect(await flights(async () => new Response(await behind.stream(question)).text())).toEqual([0, 1]);
  // Before a transaction the guard has a flight of its own.
  const count = async (reads: typeof cluster.reads | typeof behind, isolation?: "repeatable read") =>
    (await flights(() => reads.transaction((tx) => tx.query(question), { isolation })))[1];
  expect(await count(behind)).toBe((await count(cluster.reads)) + 1);
  expect(await count(behind, "repeatable read")).toBe((await count(cluster.reads)) + 1);
});

test("a read right after a write goes to the standby that has the write", async () => {
  const question = sql`select id from flights where id = ${1}`;
  const work = async () => {
    const { position } = await cluster.exec(insert, given);
    await servers.standbys[0]!.catchUp(servers.primary);
    await cluster.reads.after(position).query(question);
  };
  expect(await flights(work)).toEqual([1, 1]);
});
