// Starts pgpool-II (Debian's package, whose system service is not used) over a primary and a standby.
//
// It does not pool by transaction: each client has one pgpool process, and one connection to each of the two servers,
// until it leaves. The settings are those of docs/poolers.md: a client named `pgz-edge` is directed to the primary, any
// other client reads from either. It logs in with the roles' plain passwords from its own file. It has no TLS and no
// failover.
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { give, identity, scratch } from "./home.mjs";
import { app, superuser, tail } from "./postgres.mjs";
import { freePort } from "./free-port.mjs";
import { listens, supervise } from "./supervise.mjs";
import { until } from "../support/until.mjs";

const programs = ["/usr/sbin/pgpool", "/usr/bin/pgpool", "/usr/local/bin/pgpool"];

/** Returns a descriptor like the server's, named `pgpool`. `settings`: more lines of its configuration. */
export async function startPgpool({ primary, standby, log, settings = "" }) {
  const installed = programs.find((file) => existsSync(file));
  if (installed === undefined) throw new Error("pgpool-II is missing: run scripts/setup");
  const folder = scratch("pgpool");
  const [port, pcpPort] = [await freePort(), await freePort()];
  const file = (name, text) => {
    const target = path.join(folder, name);
    writeFileSync(target, text);
    chmodSync(target, 0o600);
    give(target);
    return target;
  };
  const users = [app, superuser];
  const passwords = file("pool_passwd", users.map(({ user, password }) => `${user}:TEXT${password}\n`).join(""));
  const access = file("pool_hba.conf", "host all all all scram-sha-256\n");
  const configuration = file(
    "pgpool.conf",
    `
backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = ${port}
pcp_listen_addresses = ''
pcp_port = ${pcpPort}
socket_dir = '${folder}'
pcp_socket_dir = '${folder}'
pid_file_name = '${path.join(folder, "pgpool.pid")}'
logdir = '${folder}'
work_dir = '${folder}'
${[primary, standby]
  .map(
    ({ port: at }, n) => `
backend_hostname${n} = '127.0.0.1'
backend_port${n} = ${at}
backend_weight${n} = 1
backend_flag${n} = 'DISALLOW_TO_FAILOVER'
`,
  )
  .join("")}
enable_pool_hba = on
pool_passwd = '${passwords}'
num_init_children = 64
load_balance_mode = on
app_name_redirect_preference_list = 'pgz-edge:primary'
sr_check_user = '${superuser.user}'
sr_check_password = '${superuser.password}'
sr_check_database = 'postgres'
${settings}
`,
  );
  const command = [installed, "-n", "-f", configuration, "-a", access, "-F", file("pcp.conf", "")];
  const process = await supervise({ command, signal: "INT", folder, log, identity });
  await until(async () => process.ended || (await listens(port)), "pgpool-II listens, or has ended");
  if (process.ended) throw new Error(`pgpool-II did not start\n${tail(log)}`);
  const url = ({ user, password }) => `postgres://${user}:${password}@127.0.0.1:${port}/app`;
  return {
    descriptor: {
      ...primary,
      name: "pgpool",
      host: "127.0.0.1",
      port,
      tls: false,
      url: url(app),
      appUrl: url(app),
      superuserUrl: url(superuser),
      log,
      pid: process.pid,
    },
    stop: process.stop,
  };
}
