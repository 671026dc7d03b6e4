// The faults of pg and postgres.js that docs/reliability.md names, on a real PostgreSQL.
//
//   node tests/peers/faults.mjs
//   POSTGRES_JS=/some/node_modules/postgres node tests/peers/faults.mjs
//
// It prints what happens, and checks nothing. Where the order of events matters, a proxy makes each link slow.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import pg from "pg";
import Cursor from "pg-cursor";
import { startServers } from "../servers/index.mjs";
import { ByteProxy } from "../support/byte-proxy.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = [process.env.POSTGRES_JS, "bench/node_modules/postgres", "node_modules/postgres"]
  .filter((one) => one !== undefined)
  .map((one) => path.resolve(root, one))
  .find((one) => existsSync(one));
const { default: postgres } = await import(pathToFileURL(path.join(folder, "src/index.js")).href);
const { version } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));

for (const event of ["unhandledRejection", "uncaughtException"])
  process.on(event, (error) => console.log(`    escapes: ${error.message}`));

const { servers, stop } = await startServers({ majors: [18] });
const url = new URL(servers[0].appUrl);
url.search = "";
const admin = new pg.Client(url.href);
await admin.connect();

/** Prints the outcome after this many milliseconds. */
async function shows(what, promise, within = 3_000) {
  const late = pause(within, `not settled within ${within} ms`, { ref: false });
  const result = promise.then(
    (value) => JSON.stringify(value) ?? "resolved",
    (error) => `rejected: ${error.message}`,
  );
  console.log(`    ${what}: ${await Promise.race([result, late])}`);
}

const terminate = (processId) => admin.query("select pg_terminate_backend($1)", [processId]);

console.log(`postgres.js ${version}`);

console.log("  a statement fails behind its first rows; the next one on the connection");
{
  const sql = postgres(url.href, { max: 1 });
  await sql`select 10 / (4 - n) as n from generate_series(1, 6) n`.catch(() => {});
  await shows("select 7", sql`select 7 as n`); // null is what JSON makes of a hole
  await sql.end({ timeout: 1 });
}

console.log("  the second of four statements on the wire is cancelled");
{
  const sql = postgres(url.href, { max: 1 });
  await sql`select 1`;
  const sent = [sql`select 1 as n from pg_sleep(0.3)`, sql`select 2 as n`, sql`select 3 as n`, sql`select 4 as n`];
  for (const query of sent) query.execute();
  await pause(100);
  sent[1].cancel();
  for (const [at, query] of sent.entries()) await shows(`select ${at + 1}`, query, 1_000);
  await sql.end({ timeout: 1 });
}

console.log("  reserve() connects while another connection closes at its max_lifetime");
{
  const proxy = new ByteProxy({ host: url.hostname, port: Number(url.port) }, { delay: 50 });
  const port = await proxy.listen();
  const sql = postgres({ ...partsOf(url), host: "127.0.0.1", port, max: 3, max_lifetime: 1 });
  await sql`select 1`;
  const busy = sql`select pg_sleep(1.2)::text`.execute();
  await pause(1_150);
  await shows("reserve()", Promise.all([busy, sql.reserve()]));
  await sql.end({ timeout: 1 });
  proxy.close();
}

console.log("  the server ends a connection that is reserved");
{
  const sql = postgres(url.href, { max: 1 });
  const reserved = await sql.reserve();
  const [{ pid }] = await reserved`select pg_backend_pid() as pid`;
  await terminate(pid);
  await pause(100);
  await shows("a query on it", reserved`select 1`);
  reserved.release();
  await shows("the pool's next query", sql`select 2`);
  await sql.end({ timeout: 1 });
}

console.log("  the first query is cancelled while it connects");
{
  const sql = postgres(url.href, { max: 1, connection: { application_name: "behind the end" } });
  const first = sql`select 1 as n`.execute();
  await pause(1);
  first.cancel();
  await first.catch(() => {});
  const next = sql`select 2 as n`.execute();
  await shows("the next query", next);
  await shows("end()", sql.end({ timeout: 1 }));
  await shows("the next query, behind the end", next, 500);
  const { rows } = await admin.query("select from pg_stat_activity where application_name = 'behind the end'");
  console.log(`    connections behind the end: ${rows.length}`);
}

console.log(`pg ${versionOf("pg")}, pg-cursor ${versionOf("pg-cursor")}`);

console.log("  end() while it connects");
{
  const client = new pg.Client({ connectionString: url.href, connectionTimeoutMillis: 1_000 });
  const connected = client.connect();
  await shows("end()", client.end());
  await shows("connect()", connected);
}

console.log("  a cursor on a connection that the server has ended, with query_timeout");
{
  const client = new pg.Client({ connectionString: url.href, query_timeout: 500 });
  client.on("error", () => {});
  await client.connect();
  await terminate(client.processID);
  await pause(100);
  await shows("read()", client.query(new Cursor("select 1")).read(5));
  await pause(1_000);
}

await admin.end();
await stop();
process.exit(0);

function partsOf({ username, password, pathname }) {
  return { user: username, password, database: pathname.slice(1) };
}

function versionOf(name) {
  return JSON.parse(readFileSync(path.join(root, "node_modules", name, "package.json"), "utf8")).version;
}
