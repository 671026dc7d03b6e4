// Turns a CPU profile of V8 into microseconds in each part of the process that a reader can name.
//
// Knows where Node, the driver and its peers have their code. Must not know what ran. Idle time is not part of the
// result.
import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";

/** The parts, in the order in which a table shows them. */
export const PARTS = [
  "system calls, and Node's own C++",
  "Node's sockets, streams and timers",
  "garbage collection",
  "the library: Kysely, Drizzle",
  "driver: adapter of the library",
  "driver: public calls and turns",
  "driver: pool",
  "driver: statement and parameters",
  "driver: connection and session",
  "driver: socket",
  "driver: rows to values",
  "driver: wasm",
  "pg",
  "pg-pool",
  "the benchmark",
];

const [SYSTEM, NODE, COLLECTOR, LIBRARY, ADAPTER, CALLS, POOL, STATEMENT, CONNECTION, SOCKET, ROWS, WASM, ...OTHERS] =
  PARTS;
const [PG, PG_POOL, BENCH] = OTHERS;

/** The parts of the folders of js/. */
const FOLDERS = {
  api: CALLS,
  util: CALLS,
  config: CALLS,
  pool: POOL,
  statement: STATEMENT,
  values: STATEMENT,
  connection: CONNECTION,
  session: CONNECTION,
  sockets: SOCKET,
  rows: ROWS,
  wasm: WASM,
};

/** Returns `{ part: us }` of all samples. */
export function partsOf({ nodes, samples, timeDeltas }) {
  const partOfNode = new Map(nodes.map(({ id, callFrame }) => [id, partOf(callFrame)]));
  const parts = {};
  samples.forEach((id, at) => {
    const part = partOfNode.get(id);
    if (part) parts[part] = (parts[part] ?? 0) + timeDeltas[at];
  });
  return parts;
}

function partOf({ functionName, url, lineNumber, columnNumber }) {
  if (functionName === "(idle)") return undefined;
  if (functionName === "(garbage collector)") return COLLECTOR;
  if (url.startsWith("wasm:")) return WASM;
  if (url.startsWith("node:")) return NODE;
  if (/\/dist\/(node|shared\/\w+)\.js$/.test(url)) return partOfSource(url, lineNumber, columnNumber);
  const [, name] = /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (name) return name === "pg-pool" ? PG_POOL : name.startsWith("pg") ? PG : LIBRARY;
  if (/\/dist\/[a-z]+\.js$/.test(url)) return ADAPTER;
  return url ? BENCH : SYSTEM;
}

const maps = new Map();

function partOfSource(url, line, column) {
  if (!maps.has(url)) maps.set(url, new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, "utf8"))));
  const { originalSource = "" } = maps.get(url).findEntry(line, column);
  const [, folder] = /\bjs\/([a-z]+)\//.exec(originalSource) ?? [];
  return FOLDERS[folder] ?? WASM; // the only other code is the wasm's glue
}
