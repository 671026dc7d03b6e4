// Reads after a position, over standbys that replay late or not at all: no answer is older than the position.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { positionOf, positionText } from "../../js/cluster/position.ts";
import { standbyGuardAlone, standbyGuardWithStatement } from "../../js/cluster/questions.ts";
import type { RouteEvent, Transaction } from "../../js/index.ts";
import type { ClusterOfServers } from "../servers/standbys.mjs";
import { clusterOf, driver, majors, start, type Options } from "./world.ts";

const { sql } = driver;

describe.each(majors)("PostgreSQL %i", (major) => {
  let servers: ClusterOfServers;
  beforeAll(async () => {
    servers = await start(`positions-${major}`, { major });
    await using cluster = clusterOf(servers);
    await cluster.exec("create table counter (id int primary key, n int not null)");
    const { position } = await cluster.exec("insert into counter values (1, 0)", { position: true });
    for (const standby of servers.standbys) await standby.catchUp(servers.primary);
    expect(position).toMatch(/^[0-9a-z]{10,13}-1-[0-9a-z]+$/);
  });
  afterAll(() => servers?.stop());
  afterEach(async () => {
    for (const standby of servers.standbys) {
      await standby.delay(0);
      await standby.resume();
      await standby.catchUp(servers.primary);
    }
  });

  /** Returns a cluster, and the routes of its reads. */
  function watched(options: Options = {}) {
    const routes: RouteEvent[] = [];
    const observer = { onRoute: (event: RouteEvent) => void routes.push(event) };
    return { cluster: clusterOf(servers, { observer, ...options }), routes };
  }

  test("the error of a value with a guard's words is the caller's own, from the chosen server", async () => {
    const { cluster, routes } = watched();
    await using _ = cluster;
    const position = await cluster.position();
    for (const word of ["behind", "unknown", "role", "isolation"]) {
      const { length } = routes;
      const call = cluster.reads.after(position).query("select $1::text::pg_lsn", [`pgz-edge:${word}`]);
      await expect(call).rejects.toMatchObject({ code: "22P02" });
      expect(routes.length).toBe(length + 1);
    }
  });

  test("each call that writes returns a position after its commit", async () => {
    await using cluster = clusterOf(servers);
    await cluster.exec("create table if not exists positions (id int)");
    const insert = "insert into positions values (1)";
    const given = { position: true } as const;
    const first = await cluster.position();
    const all = [
      first,
      (await cluster.query(`${insert} returning id`, given)).position,
      (await cluster.query(insert, [], given)).position,
      (await cluster.exec(sql`insert into positions values (${2})`, given)).position,
      (await cluster.batch([insert, insert], given)).position,
      (await cluster.batch([insert, insert], { ...given, atomic: false })).position,
      (await cluster.copyFrom("copy positions from stdin", "1\n2\n", given)).position,
      (await cluster.copyFromRows("positions", ["id"], [[1], [2]], given)).position,
      (await cluster.transaction((tx) => tx.exec(insert), given)).position,
      (await cluster.transaction((tx) => tx.last(insert), given)).position,
      (await cluster.transaction((tx) => tx.exec(insert), { ...given, isolation: "serializable", retry: 3 })).position,
    ];
    const lsns = all.map((text) => positionOf(text).lsn);
    expect(lsns).toEqual([...lsns].sort((a, b) => Number(a - b)));
    expect(new Set(lsns).size).toBe(lsns.length);
    const [{ lsn }] = (await servers.primary.ask("select pg_current_wal_insert_lsn() - '0/0' as lsn")) as [
      { lsn: string },
    ];
    expect(lsns.at(-1)!).toBeLessThanOrEqual(BigInt(lsn));
    const { value, position } = await cluster.transaction(() => 7, given);
    expect(value).toBe(7);
    expect(positionOf(position).lsn).toBeGreaterThanOrEqual(lsns.at(-1)!);
    const [results] = [await cluster.batch(["select 1 as n", "select 2 as n"], given)];
    expect(results.map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }]]);
    // Without the option the result has no position.
    expect(await cluster.exec(insert)).not.toHaveProperty("position");
    await expect(cluster.exec("insert into nowhere values (1)", given)).rejects.toMatchObject({ code: "42P01" });
    expect(await cluster.exec(insert, given)).toHaveProperty("position");
  });

  test("a call waits for a standby that is behind", async () => {
    const { cluster, routes } = watched({ wait: 5_000 });
    await using _ = cluster;
    await cluster.probe();
    for (const standby of servers.standbys) await standby.delay(300);
    const { rows, position } = await cluster.query<{ n: number }>(
      "update counter set n = n + 1 where id = 1 returning n",
      { position: true },
    );
    const { rows: seen } = await cluster.reads
      .after(position)
      .query<{ n: number }>("select n from counter where id = 1");
    expect(seen).toEqual(rows);
    expect(routes.at(-1)).toMatchObject({ role: "standby", reason: "nearest" });
    // If the call waits in the server, the time is not known when it is routed.
    if (major < 19) expect(routes.at(-1)!.waitedMs).toBeGreaterThan(100);
    // The standby is now known to have reached the position.
    const { length } = routes;
    await cluster.reads.after(position).query("select n from counter where id = 1");
    expect(routes.slice(length)).toMatchObject([{ role: "standby", waitedMs: 0 }]);
  });

  test("if no standby reaches the position, the primary answers every call", async () => {
    const { cluster, routes } = watched({ wait: 50 });
    await using _ = cluster;
    await cluster.reads.query("select 1");
    for (const standby of servers.standbys) await standby.pause();
    const { rows, position } = await cluster.query<{ n: number }>(
      "update counter set n = n + 1 where id = 1 returning n",
      { position: true },
    );
    const now = rows[0]!;
    const question = "select n from counter where id = 1";
    const behind = cluster.reads.after(position);
    expect((await behind.query(question)).rows).toEqual([now]);
    expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "position" });
    const text = `{"n":${now.n}}`;
    expect(new TextDecoder().decode(await behind.json(question))).toBe(`[${text}]`);
    expect(await new Response(await behind.stream(question)).text()).toBe(`${text}\n`);
    expect(await (await behind.respond(question)).text()).toBe(`${text}\n`);
    for await (const row of behind.rows(question)) expect(row).toEqual(now);
    for await (const row of behind.copyToRows(question)) expect(row).toEqual(now);
    for await (const batch of behind.cursor(question, 5)) expect(batch).toEqual([now]);
    expect((await behind.batch([question, question])).map(({ rows }) => rows)).toEqual([[now], [now]]);
    const isolated = await behind.batch([question, question], { atomic: false });
    expect(isolated).toMatchObject([{ value: { rows: [now] } }, { value: { rows: [now] } }]);
    expect((await behind.simple(`${question}; ${question}`)).map(({ rows }) => rows)).toEqual([[now], [now]]);
    expect(await new Response(await behind.copyTo(`copy (${question}) to stdout`)).text()).toBe(`${now.n}\n`);
    const inTransaction = async (tx: Transaction) => (await tx.query(question)).rows;
    expect(await behind.transaction(inTransaction)).toEqual([now]);
    expect(await behind.transaction(inTransaction, { isolation: "repeatable read" })).toEqual([now]);
    const scope = behind.scope({ settings: { "app.tenant": 7 } });
    expect((await scope.query(question)).rows).toEqual([now]);
    expect(await scope.transaction(inTransaction)).toEqual([now]);
    expect(cluster.stats().reads).toMatchObject({ position: routes.filter(({ role }) => role === "primary").length });
    // Without the position the standbys show the past: they have not caught up by chance.
    expect((await cluster.reads.query(question)).rows).toEqual([{ n: now.n - 1 }]);
  });

  test("standbys that have reached the position answer every call", async () => {
    const { cluster, routes } = watched();
    await using _ = cluster;
    const position = await cluster.position();
    for (const standby of servers.standbys) await standby.catchUp(servers.primary);
    const behind = cluster.reads.after(position);
    const question = "select pg_is_in_recovery() as standby";
    const standby = { standby: true };
    expect((await behind.query(question)).rows).toEqual([standby]);
    expect(await (await behind.respond(question)).text()).toBe('{"standby":true}\n');
    for await (const row of behind.rows(question)) expect(row).toEqual(standby);
    for await (const batch of behind.cursor(question, 5)) expect(batch).toEqual([standby]);
    expect((await behind.batch([question, question])).map(({ rows }) => rows)).toEqual([[standby], [standby]]);
    expect((await behind.simple(question)).map(({ rows }) => rows)).toEqual([[standby]]);
    expect(await new Response(await behind.copyTo(`copy (${question}) to stdout`)).text()).toBe("t\n");
    const inTransaction = async (tx: Transaction) => (await tx.query(question)).rows;
    expect(await behind.transaction(inTransaction)).toEqual([standby]);
    expect(await behind.transaction(inTransaction, { isolation: "repeatable read" })).toEqual([standby]);
    const scope = behind.scope({ settings: { "app.tenant": 7 } });
    const tenant = "select current_setting('app.tenant') as tenant, pg_is_in_recovery() as standby";
    expect((await scope.query(tenant)).rows).toEqual([{ tenant: "7", ...standby }]);
    expect((await behind.query("select current_setting('app.tenant', true) as tenant")).rows).not.toEqual([
      { tenant: "7" },
    ]);
    expect(routes.every(({ role }) => role === "standby")).toBe(true);
  });

  /** Makes many writes, each read at once after its position. */
  async function hammer(
    read: (cluster: ReturnType<typeof clusterOf>, position: string) => Promise<number>,
    options?: Options,
  ) {
    const { cluster, routes } = watched({ wait: 2_000, ...options });
    await using _ = cluster;
    await servers.standbys[0]!.delay(3);
    const count = 150;
    const lane = async (id: number) => {
      await cluster.exec(sql`insert into counter values (${id}, 0) on conflict do nothing`);
      for (let at = 0; at < count; at++) {
        const { value, position } = await cluster.transaction(
          async (tx) =>
            (await tx.query<{ n: number }>(sql`update counter set n = n + 1 where id = ${id} returning n`)).rows[0]!.n,
          { position: true },
        );
        expect(await read(cluster, `${position} ${id}`)).toBe(value);
      }
    };
    await Promise.all([11, 12, 13, 14].map(lane));
    const byStandbys = routes.filter(({ role }) => role === "standby").length;
    expect(byStandbys).toBeGreaterThan(count);
  }

  const question = (id: string) => sql<{ n: number }>`select n from counter where id = ${Number(id)}`;
  const inQuery = async (cluster: ReturnType<typeof clusterOf>, told: string) => {
    const [position, id] = told.split(" ") as [string, string];
    return (await cluster.reads.after(position).query<{ n: number }>(question(id))).rows[0]!.n;
  };

  test("no read is stale in READ COMMITTED", () => hammer(inQuery));

  test("no read is stale in REPEATABLE READ", () =>
    hammer(async (cluster, told) => {
      const [position, id] = told.split(" ") as [string, string];
      const read = (tx: Transaction) => tx.query<{ n: number }>(question(id));
      return (await cluster.reads.after(position).transaction(read, { isolation: "repeatable read" })).rows[0]!.n;
    }));

  test("no read is stale if REPEATABLE READ is the default", async () => {
    await hammer(inQuery, { startup: { default_transaction_isolation: "repeatable read" } });
  });

  test("a standby refuses a position of a timeline before its own, and of one after it", async () => {
    await using cluster = clusterOf(servers);
    const position = positionOf(await cluster.position());
    const [standby] = servers.standbys;
    await standby!.catchUp(servers.primary);
    for (const guardAfter of [standbyGuardAlone, standbyGuardWithStatement]) {
      await standby!.ask(guardAfter(position));
      for (const timeline of [position.timeline - 1, position.timeline + 1])
        await expect(standby!.ask(guardAfter({ ...position, timeline }))).rejects.toThrow("pgz-edge:unknown");
    }
  });

  test("the primary answers a read after a position that cannot be compared", async () => {
    const { cluster, routes } = watched();
    await using _ = cluster;
    const isPrimary = async (position: string) => {
      const { rows } = await cluster.reads.after(position).query<{ s: boolean }>("select pg_is_in_recovery() as s");
      expect(rows).toEqual([{ s: false }]);
      expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "unknown" });
    };
    const position = positionOf(await cluster.position());
    await isPrimary("'; drop table counter; --");
    await isPrimary("zzzzzzzzzzzzz-zzzzzzz-zzzzzzzzzzzzz");
    await isPrimary(positionText({ ...position, system: position.system + 1n }));
    // Seen from a position of timeline 2, a promotion has left this primary behind.
    const older = positionText({ ...position, timeline: 2 });
    // Seen from a position that this log does not have yet, it was restored to an earlier point.
    const later = positionText({ ...position, lsn: position.lsn + 0x1_0000_0000n });
    for (const lost of [older, later])
      await expect(cluster.reads.after(lost).query("select 1")).rejects.toMatchObject({ code: "CLUSTER_LEFT_BEHIND" });
    for (const none of [undefined, null, ""]) expect(cluster.reads.after(none)).toBe(cluster.reads);
    await expect(cluster.reads.after(positionText(position)).query("select 1", { cache: true })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});
