// What servers tell an ordinary role about their cluster. js/cluster/questions.ts is built on these facts.
import { expect, test } from "vitest";
import { TIMELINE } from "../../js/cache/moment.ts";
import { positionOf } from "../../js/cluster/position.ts";
import { until } from "../support/until.mjs";
import { clusterOf, driver, majors, start } from "./world.ts";

test.each(majors)("PostgreSQL %i tells an ordinary role about its cluster", async (major) => {
  const servers = await start(`facts-${major}`, { major, count: 1 });
  const { primary, standbys } = servers;
  const standby = standbys[0]!;
  try {
    const on = async (url: string, text: string) => {
      await using client = await driver.connect(url, { sslmode: "disable" });
      return (await client.query<{ it: unknown }>(text)).rows[0]?.it;
    };
    const system = "select system_identifier::text as it from pg_control_system()";
    expect(await on(primary.url, system)).toBe(await on(standby.url, system));
    // What js/cache compares, from the same facts.
    const log = `select ${TIMELINE} as it`;
    const before = await on(primary.url, log);
    expect(before).toMatch(/^\d+\/00000001\/./);
    expect(await on(standby.url, log)).toBe(before);
    const fromFile = "select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as it";
    expect(await on(primary.url, fromFile)).toBe("00000001");
    await expect(on(standby.url, fromFile)).rejects.toMatchObject({ code: "55000" });
    const received = "select received_tli as it from pg_stat_wal_receiver";
    expect(await on(standby.url, received)).toBe(null);
    await primary.ask("grant pg_read_all_stats to app");
    await standby.catchUp(primary);
    expect(await on(standby.url, received)).toBe(1);
    await primary.crash();
    await standby.promote();
    // The control file has the timeline of a checkpoint, which happens later. So the file may be behind, and is never
    // ahead.
    expect(await on(standby.url, fromFile)).toBe("00000002");
    expect(await on(standby.url, log)).toBe(String(before).replace("/00000001/", "/00000002/"));
    const fromControl = "select timeline_id as it from pg_control_checkpoint()";
    expect([1, 2]).toContain(await on(standby.url, fromControl));
  } finally {
    await servers.stop();
  }
});

test("a commit that waits for its standby is in positions, and another standby shows it first", async () => {
  const servers = await start("facts-waiting", {
    isSynchronous: true,
    settings: { synchronous_commit: "remote_apply" },
  });
  const { primary, standbys } = servers;
  const [waitedFor] = standbys;
  try {
    await primary.ask("grant pg_read_all_stats to app");
    await primary.set(`synchronous_standby_names = '${waitedFor!.name}'`);
    await using cluster = clusterOf(servers);
    await using alone = clusterOf({ primary, standbys: [] });
    await cluster.exec("create table waiting (n int4)");
    for (const standby of standbys) await standby.catchUp(primary);
    await waitedFor!.pause();
    const writing = cluster.exec("insert into waiting values (1)", { position: true });
    writing.catch(() => {});
    const waiting = "select from pg_stat_activity where wait_event = 'SyncRep'";
    await until(async () => (await primary.ask(waiting)).length === 1);
    const position = await cluster.position();
    const count = async ({ reads }: typeof cluster) =>
      (await reads.after(position).query<{ n: number }>("select count(*)::int4 as n from waiting")).rows[0]!.n;
    expect([await count(alone), await count(cluster)]).toEqual([0, 1]);
    await waitedFor!.resume();
    expect(lsnIn((await writing).position)).toBeGreaterThanOrEqual(lsnIn(position));
    expect(await count(alone)).toBe(1);
  } finally {
    await servers.stop();
  }
});

const lsnIn = (position: string) => positionOf(position).lsn;
