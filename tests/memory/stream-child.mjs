// Streams two gigabytes of 1 kB rows and reports its RSS (KiB) at 50 MB and at 1 GB: `node stream-child.mjs <url>`. It
// is a separate process, so that only the driver is measured.
//
// Once, V8 lets its young generation grow from 1 to 4 MB, and 13 to 20 MiB more garbage exists between two collections.
// After that nothing grows (seen, MiB at 50 MB, 0.4, 0.7, 1, 2 and 3 GB: 87, 88, 104, 104, 105, 106). That mostly
// happens in the first gigabyte, which is not measured, and on a busy machine in the second. A leak grows in both.
import { readFileSync } from "node:fs";
import { connect } from "../../dist/node.js";

const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
const client = await connect(process.argv[2]);
await streamOnce();
process.send([await streamOnce(), await streamOnce()]);
await client.close();

async function streamOnce() {
  const marks = [50e6, 1e9];
  const seen = [];
  let bytes = 0;
  for await (const chunk of await client.stream(
    "select repeat('x', 1000) as pad from (select generate_series(1, 1000000)) as series",
  )) {
    bytes += chunk.length;
    if (bytes >= marks[seen.length]) seen.push(rss());
  }
  return { bytes, seen };
}
