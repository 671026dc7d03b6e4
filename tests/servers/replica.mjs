// Starts a primary and a hot standby that streams from it, and can fail over between them.
//
//   const pair = await startReplicated({ major: 15, log });
//   await pair.crash();      // the primary ends at once
//   await pair.retire();     // or it keeps running and accepts no writes
//   await pair.promote();    // the standby accepts writes
//   await pair.stop();
//
// The npm packages have no pg_basebackup, so the standby is a copy of the cluster, made before the cluster's first
// start. A commit waits until the standby shows it (synchronous_commit=remote_apply), so reads there are never stale,
// and a failover loses no acknowledged commit. `promote` alone creates a split brain; a manager such as Patroni first
// ends the old primary, as `crash` does.
import { execFileSync } from "node:child_process";
import { appendFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { give, scratch } from "./home.mjs";
import { newestMajor } from "./postgres-19.mjs";
import { newCluster, prepare, run, superuser, withClient } from "./postgres.mjs";
import { until } from "../support/until.mjs";

/**
 * Returns two descriptors like those of index.mjs, and functions that act on their servers. `log`: the name of a file.
 * `keepsSlots`: the standby keeps logical slots that were created for failover, from PostgreSQL 17 on.
 */
export async function startReplicated({ major = newestMajor(), log, settings = {}, keepsSlots = false }) {
  const cluster = await newCluster(major);
  appendFileSync(path.join(cluster.data, "pg_hba.conf"), "host replication all all scram-sha-256\n");
  const copy = copyOf(cluster);
  const running = [];
  const start = async (from, role, ready) => {
    const server = await run(from, {
      name: `${major}-${role}`,
      log: role === "primary" ? log : `${log}.${role}`,
      extra: { synchronous_commit: "remote_apply", ...settings },
      prepare: ready,
    });
    running.push(server);
    return server;
  };
  const stop = async () => void (await Promise.all(running.splice(0).map((server) => server.stop())));
  try {
    const primary = await start(cluster, "primary", prepare);
    if (keepsSlots) await ask(primary.descriptor, "select pg_create_physical_replication_slot('standby', true)");
    follow(copy, primary.descriptor, keepsSlots ? SLOTS_KEPT : "");
    const standby = await start(copy, "standby", (process, port) => withClient(process, port, "postgres", () => {}));
    await waitForCommits(primary.descriptor);
    if (keepsSlots) await set(primary.descriptor, "synchronized_standby_slots = 'standby'");
    return {
      primary: primary.descriptor,
      standby: standby.descriptor,
      crash: () => crash(primary),
      retire: () => retire(primary.descriptor),
      /**
       * Whether the standby has this logical slot. If there was no activity before, its worker checks only every 30 s.
       */
      hasSlot: async (name) => (await ask(standby.descriptor, `${KEPT} and slot_name = '${name}'`)).rowCount === 1,
      promote: () => ask(standby.descriptor, "select pg_promote(true, 30)"),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Copies the cluster. The servers' user owns the copy too. */
function copyOf(cluster) {
  const folder = scratch(`pg${cluster.major}-standby`);
  execFileSync("cp", ["-a", cluster.data, folder]);
  return { ...cluster, folder, data: path.join(folder, "data") };
}

/** The settings of a standby that keeps the primary's logical slots. */
const SLOTS_KEPT = "primary_slot_name = 'standby'\nhot_standby_feedback = on\nsync_replication_slots = on\n";
const KEPT = "select from pg_replication_slots where synced and not temporary and invalidation_reason is null";

/** Makes the cluster a standby of that server. */
function follow({ data }, { host, port }, settings) {
  const { user, password } = superuser;
  const account = `user=${user} password=${password} dbname=postgres`;
  const connection = `host=${host} port=${port} ${account} application_name=standby`;
  appendFileSync(path.join(data, "postgresql.auto.conf"), `primary_conninfo = '${connection}'\n${settings}`);
  const signal = path.join(data, "standby.signal");
  writeFileSync(signal, "");
  give(signal);
}

/**
 * Makes commits wait for the standby, which streams. The setting is only in the primary's own file, because the standby
 * has no standby after a failover.
 */
async function waitForCommits(primary) {
  await set(primary, "synchronous_standby_names = 'standby'");
  const streams = "select 1 from pg_stat_replication where sync_state = 'sync' and replay_lsn >= pg_current_wal_lsn()";
  await until(async () => (await ask(primary, streams)).rowCount > 0, "the standby streams");
}

/** Ends the server at once, without a checkpoint and without notifying the standby. */
async function crash({ descriptor, stop }) {
  process.kill(descriptor.pid, "SIGQUIT");
  await stop();
}

/** Makes the server read-only, also in open sessions. */
async function retire(primary) {
  await set(primary, "default_transaction_read_only = on");
}

async function set(server, setting) {
  await ask(server, `alter system set ${setting}`);
  await ask(server, "select pg_reload_conf()");
}

const ask = (server, text) => withClient({ ended: false }, server.port, "postgres", (client) => client.query(text));
