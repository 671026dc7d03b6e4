// A new process of one build: `cold.mjs <dist/node.js> <url>`. Prints a line of JSON: the CPU of all its threads from
// the first query to the nth, in milliseconds, `{ "1": 6.8, "10": 11.8, … }`. Loading the driver and the login are not
// included.
import process from "node:process";

const [dist, url] = process.argv.slice(2);
const TOLD = [1, 10, 100, 1000];

const { connect, sql } = await import(dist);
const client = await connect(url);
const told = {};
const before = process.cpuUsage();
for (let n = 1; n <= TOLD.at(-1); n++) {
  const { rows } = await client.query(sql`select 1 as one, ${n}::int4 as n`);
  if (rows[0].n !== n) throw new Error(`${JSON.stringify(rows)} for ${n}`);
  const { user, system } = process.cpuUsage(before);
  if (TOLD.includes(n)) told[n] = (user + system) / 1000;
}
process.stdout.write(`${JSON.stringify(told)}\n`);
await client.close();
