// Citus on three nodes: a coordinator and two workers, each a PostgreSQL of its own with the extension that build.sh
// has made. Data folders and processes end with this one.
//
// Knows how nodes are made and joined. Must not know what is tested on them.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { world } from "../servers/home.mjs";
import { logFile } from "../servers/index.mjs";
import { newCluster, prepare, run, withClient } from "../servers/postgres.mjs";

const script = fileURLToPath(new URL("build.sh", import.meta.url));

/** The folder of PostgreSQL's binaries with Citus. Built once for a checkout and its revision: two minutes. */
async function built(checkout) {
  const name = `citus-${checkout}-${process.env.CITUS_REVISION ?? ""}`.replace(/[^\w.-]+/g, "-");
  const folder = path.join(world(), name);
  const native = path.join(folder, "native");
  if (!existsSync(native)) await promisify(execFile)(script, [checkout, folder], { maxBuffer: 1 << 24 });
  return readFileSync(native, "utf8").trim();
}

/**
 * `{ nodes, stop }`: the descriptors of the coordinator and of the workers (servers/index.mjs), in this order, each
 * with `stop`. The role `app` may distribute tables, and each node trusts each other.
 */
export async function startCitus(checkout) {
  const native = await built(checkout);
  const { stdout } = await promisify(execFile)(path.join(native, "bin", "postgres"), ["--version"]);
  const major = Number(/(\d+)\./.exec(stdout)[1]);
  const names = ["citus-coordinator", "citus-worker-1", "citus-worker-2"];
  const nodes = [];
  const stop = async () => {
    for (const node of nodes.reverse()) await node.stop();
  };
  try {
    for (const name of names) nodes.push(await startNode(name, major, native));
    const [coordinator, ...workers] = nodes;
    await withClient(coordinator, coordinator.port, "app", async (client) => {
      await client.query(`select citus_set_coordinator_host('localhost', ${coordinator.port})`);
      for (const { port } of workers) await client.query(`select citus_add_node('localhost', ${port})`);
    });
    return { nodes, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startNode(name, major, native) {
  const cluster = await newCluster(major, native);
  // Citus' own connections have no password, and no other user is on this machine's loopback.
  writeFileSync(path.join(cluster.data, "pg_hba.conf"), "local all all trust\nhost all all all trust\n");
  const extra = {
    shared_preload_libraries: "citus",
    max_prepared_transactions: "200",
    "citus.node_conninfo": "sslmode=disable",
  };
  const first = async (process, port) => {
    await prepare(process, port);
    await withClient(process, port, "app", (client) => client.query("create extension citus"));
  };
  const { descriptor, stop } = await run(cluster, { name, log: logFile(name), extra, prepare: first });
  return { ...descriptor, stop };
}
