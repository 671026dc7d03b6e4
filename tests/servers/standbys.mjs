// Starts a primary and hot standbys that stream from it. Each standby can be delayed, paused, promoted, and redirected
// to another primary.
//
//   const { primary, standbys, stop } = await startStandbys({ major: 15, log, count: 2 });
//   await standbys[0].pause();          // stops replay: its reads are stale from now on
//   await standbys[1].delay(500);       // shows each commit half a second late
//   await primary.crash();
//   await standbys[1].promote();
//   await standbys[0].follow(standbys[1]);
//
// The npm packages have no pg_basebackup, so each standby is a copy of the cluster, made before the cluster's first
// start. The copy equals that of pg_basebackup on an unused cluster.
import { execFileSync } from "node:child_process";
import { appendFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { give, scratch } from "./home.mjs";
import { newestMajor } from "./postgres-19.mjs";
import { newCluster, prepare, run, superuser, withClient } from "./postgres.mjs";
import { pause, until } from "../support/until.mjs";

export async function startStandbys({ major = newestMajor(), log, count = 2, settings = {}, isSynchronous = false }) {
  const cluster = await newCluster(major);
  appendFileSync(path.join(cluster.data, "pg_hba.conf"), "host replication all all scram-sha-256\n");
  const copies = Array.from({ length: count }, () => copyOf(cluster));
  const running = [];
  const stop = async () => void (await Promise.all(running.splice(0).map((server) => server.stop())));
  const start = async (from, name, ready) => {
    // Standbys keep log that another one may still need after a promotion.
    const extra = { synchronous_commit: "local", wal_keep_size: "256MB", ...settings };
    const server = await run(from, { name: `${major}-${name}`, log: `${log}.${name}`, extra, prepare: ready });
    running.push(server);
    return server;
  };
  try {
    const primary = nodeOf(await start(cluster, "primary", prepare));
    const standbys = [];
    for (const [at, copy] of copies.entries()) {
      const name = `standby${at + 1}`;
      writeFileSync(path.join(copy.data, "standby.signal"), "");
      give(path.join(copy.data, "standby.signal"));
      appendFileSync(
        path.join(copy.data, "postgresql.auto.conf"),
        `primary_conninfo = '${conninfo(primary.descriptor, name)}'\n`,
      );
      const ready = (process, port) => withClient(process, port, "postgres", () => {});
      standbys.push(nodeOf(await start(copy, name, ready), name));
    }
    for (const standby of standbys) await standby.catchUp(primary);
    // On each server, since each may become the primary.
    if (isSynchronous)
      for (const node of [...standbys, primary])
        await node.set(`synchronous_standby_names = 'ANY 1 (${standbys.map(nameOf).join(", ")})'`);
    return { primary, standbys, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const nameOf = ({ name }) => name;

function copyOf(cluster) {
  const folder = scratch(`pg${cluster.major}-standby`);
  execFileSync("cp", ["-a", cluster.data, folder]);
  return { ...cluster, folder, data: path.join(folder, "data") };
}

function conninfo({ host, port }, name) {
  const { user, password } = superuser;
  return `host=${host} port=${port} user=${user} password=${password} dbname=postgres application_name=${name}`;
}

/** Returns one server, and functions that act on it. */
function nodeOf({ descriptor, stop }, name = "primary") {
  const ask = async (text, database = "postgres") => {
    const work = (client) => client.query(text);
    return (await withClient({ ended: false }, descriptor.port, database, work)).rows;
  };
  const set = async (setting) => {
    await ask(`alter system set ${setting}`);
    await ask("select pg_reload_conf()");
  };
  return {
    name,
    descriptor,
    url: descriptor.url,
    ask,
    set,
    /** Resolves when it has replayed everything that the other one has now. */
    async catchUp(other) {
      await other.ask("select pg_logical_emit_message(true, 'flush', 'what waits')");
      const [{ lsn }] = await other.ask("select pg_current_wal_flush_lsn()::text as lsn");
      const isThere = `select pg_last_wal_replay_lsn() >= '${lsn}' as there`;
      await until(async () => (await ask(isThere))[0].there, `${name} follows`);
    },
    /** Stops replay until `resume`. */
    async pause() {
      await ask("select pg_wal_replay_pause()");
      const isPaused = async () => (await ask("select pg_get_wal_replay_pause_state() as state"))[0].state === "paused";
      await until(isPaused, `${name} has paused`);
    },
    resume: () => ask("select pg_wal_replay_resume()"),
    /** Delays the replay of each commit by this time. */
    async delay(milliseconds) {
      await set(`recovery_min_apply_delay = ${milliseconds}`);
      await pause(200); // until its startup process has read the setting too
    },
    promote: () => ask("select pg_promote(true, 30)"),
    /** Returns the position up to which it has received the log. */
    async received() {
      const [{ lsn }] = await ask(
        "select coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0' as lsn",
      );
      return BigInt(lsn);
    },
    /** Makes it stream from the other one. */
    follow: (other) => set(`primary_conninfo = '${conninfo(other.descriptor, name)}'`),
    /** Ends the server at once, without a checkpoint. */
    async crash() {
      process.kill(descriptor.pid, "SIGQUIT");
      await stop();
    },
  };
}
