// The memory of three concurrent rows that a cap refuses: `node caps-child.mjs <url>`. Reports the outcome of each
// call, how much RSS has grown (KiB), and how large the wasm memory is (bytes). It is a separate process, so that only
// the driver is measured.
import { readFileSync } from "node:fs";

/** The memories of all instances. */
const memories = [];
const { Instance } = WebAssembly;
WebAssembly.Instance = class extends Instance {
  constructor(...given) {
    super(...given);
    memories.push(this.exports.memory);
  }
};
const { connect } = await import("../../dist/node.js");

const rss = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))[1]);
const url = process.argv[2];
const idle = await connect(url);
const clients = await Promise.all([1, 2, 3].map(() => connect(url)));
// Reads as many bytes in small rows first, so that V8's heap and the sockets' buffers reach the size that reading
// needs. Then only the additional cost of a refused row is measured.
const many = "select repeat('x', 1000) as a, generate_series(1, 200000)";
for (const client of [idle, ...clients]) await client.query("select repeat('x', 1000) as a");
await Promise.all(
  clients.map(async (client) => {
    for await (const chunk of await client.stream(many)) if (!chunk.length) throw new Error("an empty chunk");
  }),
);
const before = rss("VmHWM");
const query = "select repeat('x', 200000000) as a";
const calls = [
  (client) => client.query(query, { maxBytes: 1 << 20 }),
  async (client) => new Response(await client.stream(query, { maxBytes: 1 << 20 })).text(),
  (client) => client.json("select to_json(repeat('x', 200000000)) as a", { maxBytes: 1 << 20 }),
];
const errors = await Promise.all(
  calls.map((call, index) =>
    call(clients[index]).then(
      () => "it passed",
      ({ code, limit }) => `${code} ${limit}`,
    ),
  ),
);
const { rows } = await idle.query("select 1 as a");
process.send({
  errors,
  idle: rows[0].a,
  grown: rss("VmHWM") - before,
  wasm: memories.map(({ buffer }) => buffer.byteLength),
});
await Promise.all([idle, ...clients].map((client) => client.close()));
