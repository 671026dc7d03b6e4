// The cost of a field of 1 GB, the longest that PostgreSQL sends: `node gigabyte-child.mjs <url>`. Reports the outcome
// of each call, whether another connection still works, and how much RSS has grown (KiB).
import { readFileSync } from "node:fs";
import { connect } from "../../dist/node.js";

const highWater = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
const url = process.argv[2];
const beside = await connect(url);
// Reading many bytes lets V8's heap and the sockets' buffers reach their size.
for await (const chunk of await beside.stream("select repeat('x', 1000) as a, generate_series(1, 200000)"))
  if (!chunk.length) throw new Error("an empty chunk");
const before = highWater();
const errors = [];
for (const [options, caps] of [
  [{}, { maxBytes: 1 << 20 }],
  [{ maxMessageBytes: 1 << 20 }, {}],
]) {
  const client = await connect(url, options);
  const error = await client.query("select repeat('x', 1073741800) as a", caps).catch(({ code }) => code);
  errors.push(error, (await client.query("select 1 as n")).rows[0].n);
  await client.close();
}
const { rows } = await beside.query("select 1 as n");
process.send({ errors, beside: rows[0].n, grown: highWater() - before });
await beside.close();
