// Servers with `wal_level = logical`, and what the tests of changes share.
import { newCluster, prepare, run } from "../servers/postgres.mjs";
import { logFile } from "../servers/index.mjs";
import type * as pgz from "../../js/index.ts";
import type * as ofChanges from "../../js/adapters/changes.ts";
import { until } from "../support/until.ts";

export const driver = (await import("../../dist/node.js" as string)) as typeof pgz;
export const { changes } = (await import("../../dist/changes.js" as string)) as typeof ofChanges;
export type { AnyChange, ChangesOptions } from "../../js/adapters/changes.ts";

export interface LogicalServer {
  readonly pool: pgz.Pool;
  stop(): Promise<void>;
}

export async function startLogical(major: number, settings: Record<string, string> = {}): Promise<LogicalServer> {
  const extra = { wal_level: "logical", max_wal_senders: "10", max_replication_slots: "10", ...settings };
  const cluster = await newCluster(major);
  const options = { log: logFile(`changes-${major}`), extra, prepare };
  const { descriptor, stop } = await run(cluster, options);
  const { superuserUrl: connectionString } = descriptor;
  const pool = driver.createPool({ connectionString, sslmode: "disable" });
  return {
    pool,
    stop: async () => {
      await pool.close();
      await stop();
    },
  };
}

/** Waits until the slot is read. Changes made before a new slot is there are not in it. */
export async function streaming(pool: pgz.Pool, slot: string): Promise<void> {
  await until(async () => {
    const { rows } = await pool.query(driver.sql`select active from pg_replication_slots where slot_name = ${slot}`);
    return rows[0]?.["active"] === true;
  }, `slot ${slot} is read`);
}

/** What the server need not keep any more. */
export async function flushed(pool: pgz.Pool, slot: string): Promise<string> {
  const { rows } = await pool.query(
    driver.sql`select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = ${slot}`,
  );
  return rows[0]!["at"] as string;
}
