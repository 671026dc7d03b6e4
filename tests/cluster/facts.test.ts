// What servers tell an ordinary role about their cluster. js/adapters/cluster/questions.ts is built on these facts.
import { expect, test } from "vitest";
import { driver, majors, start } from "./world.ts";

test.each(majors)("PostgreSQL %i tells an ordinary role about its cluster", { timeout: 60_000 }, async (major) => {
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
    const fromControl = "select timeline_id as it from pg_control_checkpoint()";
    expect([1, 2]).toContain(await on(standby.url, fromControl));
  } finally {
    await servers.stop();
  }
});
