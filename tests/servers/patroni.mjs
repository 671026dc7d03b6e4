// Starts a cluster run by Patroni: one etcd, and several PostgreSQL servers, each with its own Patroni.
//
//   const { nodes, leader, add, stop } = await startPatroni({ log, count: 3 });
//   await (await leader()).kill();      // its Patroni and its PostgreSQL: another is promoted when its key expires
//   await nodes[0].revive();            // starts its Patroni again: pg_rewind, then a standby of the new primary
//   await (await leader()).orphan();    // its Patroni only: its PostgreSQL remains a primary without supervision
//
// Patroni, etcd and PostgreSQL are packages of the system (`scripts/setup release`), since the npm packages have
// neither pg_basebackup nor pg_rewind. Durability is off, as in postgres.mjs, but not towards standbys. Roles and the
// database `app` are those of postgres.mjs. Must not know what is tested.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { give, identity, scratch } from "./home.mjs";
import { app, prepare, superuser, tail, withClient } from "./postgres.mjs";
import { freePort } from "./free-port.mjs";
import { listens, supervise } from "./supervise.mjs";
import { until } from "../support/until.mjs";

const host = "127.0.0.1";
const scope = "pgz-edge";
const replicator = { username: "replicator", password: "replicator-secret" };
/**
 * The folder of the system's PostgreSQL versions. The programs of the newest are in `/usr/lib/postgresql/<major>/bin`.
 */
const POSTGRESQL = "/usr/lib/postgresql";

/**
 * In seconds. A leader whose Patroni is gone is replaced after `ttl`. Newer versions of Patroni use 20 instead of a
 * smaller value.
 */
const timing = { ttl: 6, loop_wait: 1, retry_timeout: 2 };

/**
 * Runs a node's Patroni. When it is told to end, its server and its Patroni end at once; until then the node's folder
 * remains. After Patroni has ended, a file `start` starts it again.
 */
const keeper = `
folder=$1 patroni=
finish() {
  [ -z "$patroni" ] || { kill -KILL "$patroni"; wait "$patroni"; }
  postmaster=$(head -n 1 "$folder/data/postmaster.pid") && kill -QUIT "$postmaster"
  while kill -0 "$postmaster"; do sleep 0.05; done
  exit
} 2>/dev/null
trap finish TERM
while :; do
  rm -f "$folder/start"
  patroni "$folder/patroni.yml" &
  patroni=$!
  echo "$patroni" >"$folder/patroni.pid"
  wait "$patroni"
  patroni=
  rm -f "$folder/patroni.pid"
  while [ ! -e "$folder/start" ]; do sleep 0.1; done
done
`;

/** `parameters` are PostgreSQL's. `dynamic` are Patroni's settings, such as `{ synchronous_mode: false }`. */
export async function startPatroni({ log, count = 3, parameters = {}, dynamic = {} }) {
  const bin = programs();
  const running = [];
  const nodes = [];
  const stop = async () => {
    // Stops the servers before etcd, so that none of them searches for it meanwhile.
    const [etcd, ...others] = running.splice(0);
    await Promise.all(others.map((one) => one.stop()));
    await etcd?.stop();
  };
  try {
    const etcd = await startEtcd(`${log}.etcd`);
    running.push(etcd);
    let made = 0;
    const add = async () => {
      const name = `node${++made}`;
      const started = await startNode({ name, bin, etcd: etcd.port, log: `${log}.${name}`, parameters, dynamic });
      running.push(started);
      nodes.push(started.node);
      return started.node;
    };
    const members = () => membersOf(nodes);
    const leader = () => leaderOf(nodes);
    const first = await add();
    await leader();
    await prepare({ ended: false }, first.port);
    await Promise.all(Array.from({ length: count - 1 }, add));
    const isWhole = () => isWholeWith(nodes, dynamic.synchronous_mode !== false);
    await isWhole();
    return { nodes, etcd, add, members, leader, isWhole, switchover: () => switchover(nodes), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function programs() {
  const majors = existsSync(POSTGRESQL) ? readdirSync(POSTGRESQL).sort((one, other) => other - one) : [];
  const bin = majors.map((major) => path.join(POSTGRESQL, major, "bin")).find((one) => existsSync(`${one}/pg_rewind`));
  if (bin && existsSync("/usr/bin/patroni") && existsSync("/usr/bin/etcd")) return bin;
  throw new Error("Patroni, etcd and a PostgreSQL of the system are needed: run scripts/setup release");
}

async function startEtcd(log) {
  const folder = scratch("etcd");
  const [port, peers] = [await freePort(), await freePort()];
  const [client, peer] = [port, peers].map((at) => `http://${host}:${at}`);
  const options = {
    "data-dir": path.join(folder, "data"),
    "listen-client-urls": client,
    "advertise-client-urls": client,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `default=${peer}`,
    "log-level": "warn",
  };
  const command = ["/usr/bin/etcd", ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)];
  const process = await supervise({ command, signal: "KILL", folder, log, identity });
  await until(() => process.ended || listens(port), "etcd listens");
  if (process.ended) throw new Error(`etcd did not start\n${tail(log)}`);
  return { port, pid: process.pid, stop: process.stop };
}

async function startNode({ name, bin, etcd, log, parameters, dynamic }) {
  const folder = scratch("patroni");
  const [port, rest] = [await freePort(), await freePort()];
  const file = (at, text) => {
    writeFileSync(path.join(folder, at), text, { mode: 0o600 });
    give(path.join(folder, at));
  };
  // JSON is valid YAML.
  file("patroni.yml", JSON.stringify(configuration({ name, bin, etcd, folder, port, rest, parameters, dynamic })));
  mkdirSync(path.join(folder, "home"));
  give(path.join(folder, "home"));
  const command = ["/bin/sh", "-c", keeper, "keeper", folder];
  const env = { LC_ALL: "C.UTF-8", HOME: path.join(folder, "home"), PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  const server = await supervise({ command, signal: "TERM", folder, log, identity, env });
  return { node: nodeOf({ name, folder, port, rest, server, file }), stop: server.stop };
}

function configuration({ name, bin, etcd, folder, port, rest, parameters, dynamic }) {
  const { user: username, password } = superuser;
  return {
    scope,
    name,
    etcd3: { host: `${host}:${etcd}` },
    restapi: { listen: `${host}:${rest}`, connect_address: `${host}:${rest}` },
    bootstrap: {
      dcs: {
        ...timing,
        synchronous_mode: true,
        ...dynamic,
        postgresql: {
          use_pg_rewind: true,
          use_slots: true,
          parameters: {
            timezone: "UTC",
            fsync: "off",
            wal_level: "logical",
            max_connections: 200,
            max_wal_senders: 20,
            max_replication_slots: 20,
            wal_keep_size: "256MB",
            ...parameters,
          },
        },
      },
      initdb: [{ encoding: "UTF8" }, { locale: "C.UTF-8" }, { "auth-local": "trust" }, "no-sync"],
    },
    postgresql: {
      listen: `${host}:${port}`,
      connect_address: `${host}:${port}`,
      bin_dir: bin,
      data_dir: path.join(folder, "data"),
      pgpass: path.join(folder, "pgpass"),
      authentication: { superuser: { username, password }, replication: replicator },
      parameters: { unix_socket_directories: folder },
      basebackup: ["no-sync", { checkpoint: "fast" }],
      pg_hba: [
        "local all all trust",
        `host replication ${replicator.username} all scram-sha-256`,
        "host all app_trust all trust",
        "host all all all scram-sha-256",
      ],
    },
  };
}

/** Returns one server with its Patroni, and functions that act on them. */
function nodeOf({ name, folder, port, rest, server, file }) {
  const api = `http://${host}:${rest}`;
  const pidOf = (at) => Number.parseInt(readFileSync(path.join(folder, at), "utf8"), 10);
  const node = {
    name,
    port,
    api,
    url: `postgres://${app.user}:${app.password}@${host}:${port}/app`,
    /** Runs a query as the superuser, in `postgres` unless another database is named. */
    async ask(text, database = "postgres") {
      return (await withClient(server, port, database, (client) => client.query(text))).rows;
    },
    /** Kills its Patroni and its server at once. */
    async kill() {
      const postmaster = pidOf("data/postmaster.pid");
      await node.orphan();
      process.kill(postmaster, "SIGKILL");
    },
    /** Kills its Patroni only. */
    async orphan() {
      process.kill(pidOf("patroni.pid"), "SIGKILL");
      await until(() => !existsSync(path.join(folder, "patroni.pid")), `the Patroni of ${name} has ended`);
    },
    /** Starts its Patroni again. */
    revive: () => file("start", ""),
  };
  return node;
}

const get = (url) => fetch(url, { signal: AbortSignal.timeout(2_000) });

/** Returns the members according to the first Patroni that answers. */
async function membersOf(nodes) {
  const one = async ({ api }) => (await get(`${api}/cluster`)).json();
  return (await Promise.any(nodes.map(one))).members;
}

/**
 * Resolves when all nodes except the leader stream from it, and one may be promoted as the synchronous standby. Patroni
 * names it some seconds after it has found one that streams.
 */
async function isWholeWith(nodes, isSynchronous) {
  const names = "select application_name as name from pg_stat_replication where state = 'streaming'";
  await until(async () => {
    const leader = await leaderOf(nodes);
    const found = (await leader.ask(names).catch(() => [])).map(({ name }) => name);
    if (!nodes.every((node) => node === leader || found.includes(node.name))) return false;
    return !isSynchronous || (await membersOf(nodes)).some(({ role }) => role === "sync_standby");
  }, "all nodes stream from the leader");
}

/** Returns the node whose Patroni holds the leader's key and whose server accepts writes. Waits for such a node. */
async function leaderOf(nodes) {
  let leader;
  await until(async () => {
    for (const node of nodes) {
      // Patroni answers 200 there only if the node is the leader.
      const answer = await get(`${node.api}/primary`).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer?.status === 200) leader = node;
    }
    return leader !== undefined;
  }, "there is a leader");
  return leader;
}

/**
 * Switches over to the synchronous standby, which alone may be promoted, or to any standby. Resolves when that node is
 * the leader.
 */
async function switchover(nodes) {
  const [from, members] = [await leaderOf(nodes), await membersOf(nodes)];
  const standbys = members.filter(({ role }) => role !== "leader");
  const { name } = standbys.find(({ role }) => role === "sync_standby") ?? standbys[0];
  const body = JSON.stringify({ leader: from.name, candidate: name });
  const answer = await fetch(`${from.api}/switchover`, { method: "POST", body });
  if (!answer.ok) throw new Error(`no switchover: ${answer.status} ${await answer.text()}`);
  await until(async () => (await leaderOf(nodes)).name === name, `${name} is promoted`);
  return nodes.find((node) => node.name === name);
}
