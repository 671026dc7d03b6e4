// Reads 20 MB of a long result over unverified TLS, then nothing for a second and a half, and reports how much its RSS
// has grown meanwhile (KiB); then it reads the rest: `deno run -A slow-reader-child.mjs <url>`, or Node or Bun.
import { readFileSync } from "node:fs";
import process from "node:process";

const runtime = "Deno" in globalThis ? "deno" : "Bun" in globalThis ? "bun" : "node";
const { connect } = await import(`../../dist/${runtime}.js`);
const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
const client = await connect(process.argv[2]);
const { rows } = await client.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
const stream = await client.stream(
  "select repeat('x', 1000) as pad from (select generate_series(1, 300000)) as series",
);
let bytes = 0;
let stopped;
for await (const chunk of stream) {
  bytes += chunk.length;
  if (stopped || bytes < 20e6) continue;
  const before = rss();
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  stopped = { grown: rss() - before, received: client.stats().receivedBytes };
}
await client.close();
console.log(JSON.stringify({ ...rows[0], ...stopped, bytes }));
