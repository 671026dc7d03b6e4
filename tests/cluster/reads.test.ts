// `cluster.reads` over a primary and two standbys: which server answers, and why it is not the nearest standby.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RouteEvent } from "../../js/index.ts";
import type { ClusterOfServers } from "../servers/standbys.mjs";
import { until } from "../support/until.mjs";
import type { driver } from "./world.ts";
import { clusterOf, createCluster, majors, PORT, start, type Answered } from "./world.ts";

let servers: ClusterOfServers;
beforeAll(async () => void (servers = await start("reads", { major: majors[0]! })));
afterAll(() => servers?.stop());

const portOf = async (calls: { query: typeof driver.Pool.prototype.query }) =>
  (await calls.query<Answered>(PORT)).rows[0]!;

test("calls go to the primary, reads to standbys", async () => {
  const { primary, standbys } = servers;
  await using cluster = clusterOf(servers);
  await cluster.exec("create table if not exists reads_first (id int primary key)");
  expect(await portOf(cluster)).toEqual({ port: primary.descriptor.port, standby: false });
  await cluster.probe();
  const ports = new Set<number>();
  for (let count = 0; count < 20; count++) ports.add((await portOf(cluster.reads)).port);
  for (const port of ports) expect(standbys.map(({ descriptor }) => descriptor.port)).toContain(port);
  const { servers: seen, reads } = cluster.stats();
  expect(reads).toMatchObject({ nearest: 20, none: 0, lag: 0 });
  expect(seen.map(({ role }) => role).sort()).toEqual(["primary", "standby", "standby"]);
  expect(seen.map(({ reads }) => reads).reduce((sum, count) => sum + count)).toBe(20);
});

test("options for the user's own rows change nothing that the cluster asks", async () => {
  const types = { text: () => "none", bool: () => "none", int4: () => -1 };
  const rows = { maxRows: 1, maxFieldBytes: 1, duplicates: "error", columnNames: "camelCase", types } as const;
  await using cluster = clusterOf(servers, { ...rows, onLimit: "error" });
  await cluster.probe();
  expect(
    cluster
      .stats()
      .servers.map(({ role }) => role)
      .sort(),
  ).toEqual(["primary", "standby", "standby"]);
  const position = await cluster.position();
  await cluster.reads.after(position).exec("select 1");
  expect(cluster.stats().reads).toMatchObject({ nearest: 1, none: 0 });
});

test("every call of a pool can read on a standby", async () => {
  await using cluster = clusterOf(servers);
  const { reads } = cluster;
  const inside = "select pg_is_in_recovery() as standby";
  const first = { standby: true };
  expect((await reads.query`select pg_is_in_recovery() as standby, ${1}::int as n`).rows).toEqual([{ ...first, n: 1 }]);
  expect(new TextDecoder().decode(await reads.json(inside))).toBe('[{"standby":true}]');
  for await (const row of reads.rows(inside)) expect(row).toEqual(first);
  for await (const rows of reads.cursor(inside, 10)) expect(rows).toEqual([first]);
  expect((await reads.batch([inside, inside])).map(({ rows }) => rows)).toEqual([[first], [first]]);
  expect(await new Response(await reads.stream(inside, { format: "ndjson" })).text()).toBe('{"standby":true}\n');
  expect(await (await reads.respond(inside)).json()).toEqual(first);
  expect(await new Response(await reads.copyTo(`copy (${inside}) to stdout`)).text()).toBe("t\n");
  for await (const row of reads.copyToRows(inside)) expect(row).toEqual(first);
  expect(await reads.transaction(async (tx) => (await tx.query(inside)).rows)).toEqual([first]);
  const repeatable = { isolation: "repeatable read" } as const;
  expect(await reads.transaction(async (tx) => (await tx.query(inside)).rows, repeatable)).toEqual([first]);
  const scope = reads.scope({ settings: { "app.tenant": 7 } });
  expect((await scope.query("select current_setting('app.tenant') as t, pg_is_in_recovery() as standby")).rows).toEqual(
    [{ t: "7", ...first }],
  );
  expect(await scope.transaction(async (tx) => (await tx.query(inside)).rows)).toEqual([first]);
  expect((await reads.simple(`${inside}; ${inside}`)).map(({ rows }) => rows)).toEqual([[first], [first]]);
});

test("the primary runs what no standby can: a write, a serializable transaction", async () => {
  await using cluster = clusterOf(servers);
  await cluster.exec("create table if not exists reads_written (id int)");
  await cluster.probe();
  const { rowCount } = await cluster.reads.exec("insert into reads_written values (1)");
  expect(rowCount).toBe(1);
  const serializable = { isolation: "serializable" } as const;
  const rows = await cluster.reads.transaction(async (tx) => (await portOf(tx)).standby, serializable);
  expect(rows).toBe(false);
  expect(cluster.stats().reads).toMatchObject({ write: 2 });
});

test("a standby that lags is left out, and the observer says so", async () => {
  const { standbys } = servers;
  const routes: RouteEvent[] = [];
  const observer = { onRoute: (event: RouteEvent) => void routes.push(event) };
  await using cluster = clusterOf(servers, { maxLag: 500, probeInterval: 50, observer });
  await cluster.exec("create table if not exists reads_lag (id int)");
  await until(async () => (await portOf(cluster.reads)).standby);
  await Promise.all(standbys.map((standby) => standby.pause()));
  try {
    await cluster.exec("insert into reads_lag values (1)");
    await until(async () => {
      await cluster.exec("insert into reads_lag values (1)");
      await cluster.probe();
      return !(await portOf(cluster.reads)).standby;
    });
    expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "lag" });
    expect(routes.some(({ role, reason }) => role === "standby" && reason === "nearest")).toBe(true);
    await standbys[0]!.resume();
    await until(async () => (await portOf(cluster.reads)).port === standbys[0]!.descriptor.port);
  } finally {
    await Promise.all(standbys.map((standby) => standby.resume()));
  }
});

test("the servers are one string, or come from discover", async () => {
  const { primary, standbys } = servers;
  const all = [primary, ...standbys];
  const { user, password, database } = primary.descriptor;
  const hosts = all.map(({ descriptor: { host, port } }) => `${host}:${port}`).join(",");
  await using one = createCluster(`postgres://${user}:${password}@${hosts}/${database}?sslmode=disable`);
  expect((await portOf(one.reads)).standby).toBe(true);
  expect((await portOf(one)).standby).toBe(false);
  let known = [primary.url];
  await using found = createCluster(known, { sslmode: "disable", probeInterval: 10, discover: async () => known });
  expect((await portOf(found.reads)).standby).toBe(false);
  expect(found.stats().reads).toMatchObject({ none: 1 });
  known = all.map(({ url }) => url);
  await until(async () => (await portOf(found.reads)).standby);
  expect(found.stats().servers).toHaveLength(3);
  known = [primary.url, standbys[1]!.url];
  await until(async () => {
    await portOf(found.reads);
    return found.stats().servers.length === 2;
  });
  expect((await portOf(found.reads)).port).toBe(standbys[1]!.descriptor.port);
});

test("servers may have different accounts", async () => {
  const { primary, standbys } = servers;
  await primary.ask("grant pg_read_all_data to app_trust");
  const other = standbys[0]!.url.replace(/\/\/[^@]*@/, "//app_trust@");
  await using cluster = createCluster([other, primary.url], { sslmode: "disable" });
  expect(await portOf(cluster)).toMatchObject({ port: primary.descriptor.port });
  expect(await portOf(cluster.reads)).toMatchObject({ port: standbys[0]!.descriptor.port });
});

test("options are checked, and a cluster closes", async () => {
  const { primary } = servers;
  expect(() => createCluster([primary.url], { maxLag: -1 })).toThrowError(/maxLag/);
  expect(() => createCluster([])).toThrowError(/servers/);
  const cluster = createCluster([primary.url], { sslmode: "disable" });
  await cluster.query("select 1");
  await cluster.close();
  await expect(cluster.query("select 1")).rejects.toMatchObject({ code: "POOL_CLOSED" });
  await expect(cluster.reads.query("select 1")).rejects.toMatchObject({ code: "POOL_CLOSED" });
});
