// Starts PgBouncer (Debian's package, whose system service is not used, or a newer version) in transaction mode in
// front of one of our servers. It logs in with the roles' plain passwords from its own user list, and offers TLS with
// the same certificate. Its pool is small, so that clients share and switch server connections all the time. It refuses
// to run as root, so it is then started as another user, like the servers.
//
// ignore_startup_parameters has the value that PgBouncer's manual recommends for other drivers. Ours sends no parameter
// that PgBouncer would refuse.
import { chmodSync, copyFileSync, existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { certificates } from "./certificates.mjs";
import { cache, give, identity, scratch } from "./home.mjs";
import { app, superuser, tail } from "./postgres.mjs";
import { freePort } from "./free-port.mjs";
import { listens, supervise } from "./supervise.mjs";
import { until } from "../support/until.mjs";

const programs = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
/** A newer version, which scripts/setup builds from Debian's source. */
const NEWER = path.join(cache, "pgbouncer-1.24.1");

/**
 * Returns a descriptor like the server's, named `pgbouncer`. `poolSize`: server connections for each user. `settings`:
 * more lines of `[pgbouncer]`. `newer`: 1.24.1 instead of the system's version. `port`: the port of a PgBouncer that
 * was stopped.
 */
export async function startPgBouncer({ server, log, poolSize = 4, settings = "", newer = false, port }) {
  const installed = (newer ? [NEWER] : programs).find((file) => existsSync(file));
  if (installed === undefined) throw new Error(`PgBouncer${newer ? " 1.24.1" : ""} is missing: run scripts/setup`);
  const folder = scratch("pgbouncer");
  // PgBouncer's user cannot read our cache.
  const program = path.join(folder, "pgbouncer");
  copyFileSync(installed, program);
  chmodSync(program, 0o755);
  give(program);
  port ??= await freePort();
  const { server: own, ca } = certificates();
  const file = (name, text) => {
    const target = path.join(folder, name);
    if (existsSync(text)) copyFileSync(text, target);
    else writeFileSync(target, text);
    chmodSync(target, 0o600);
    give(target);
    return target;
  };
  const users = file("users.txt", [app, superuser].map(({ user, password }) => `"${user}" "${password}"\n`).join(""));
  const configuration = file(
    "pgbouncer.ini",
    `
[databases]
app = host=127.0.0.1 port=${server.port} dbname=app
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
client_tls_sslmode = allow
client_tls_cert_file = ${file("server.crt", own.certificate)}
client_tls_key_file = ${file("server.key", own.key)}
${settings}
`,
  );
  const process = await supervise({ command: [program, configuration], signal: "TERM", folder, log, identity });
  await until(async () => process.ended || (await listens(port)), "PgBouncer listens, or has ended");
  if (process.ended) throw new Error(`PgBouncer did not start\n${tail(log)}`);
  const url = ({ user, password }) => `postgres://${user}:${password}@127.0.0.1:${port}/app`;
  return {
    descriptor: {
      ...server,
      name: "pgbouncer",
      host: "127.0.0.1",
      port,
      url: url(app),
      appUrl: url(app),
      superuserUrl: url(superuser),
      caFile: ca,
      log,
      pid: process.pid,
    },
    stop: process.stop,
  };
}
