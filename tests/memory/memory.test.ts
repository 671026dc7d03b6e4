// Memory stays flat for every length of a result and every speed of its reader: RSS after 1 GB of NDJSON minus RSS
// after 50 MB, in Node and in workerd; and RSS while a reader stops, in Node, Bun and Deno. And what a small query
// allocates.
import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { isRelease } from "../support/release.ts";
import { startWorker } from "../workerd/host.mjs";

const MOST_KIB = 16 * 1024;
const [server] = testServers().servers;
const at = (name: string) => fileURLToPath(new URL(name, import.meta.url));

test("Node streams 1 GB in flat memory", async () => {
  const child = fork(at("stream-child.mjs"), [server!.url], { execArgv: [] });
  const [measured] = (await Promise.race([
    once(child, "message"),
    once(child, "exit").then(([code]) => Promise.reject(new Error(`ended with ${code}`))),
  ])) as [{ bytes: number; seen: [number, number] }[]];
  for (const { bytes } of measured) expect(bytes).toBe(1_000_000 * (1000 + '{"pad":""}\n'.length));
  const grown = measured.map(({ seen: [before, after] }) => after - before);
  expect(grown).toHaveLength(2);
  expect(Math.min(...grown), `KiB grown: ${grown.join(", ")}`).toBeLessThanOrEqual(MOST_KIB);
});

/** What may be allocated for one known query, as a multiple of what pg allocates, whose count depends on Node too. */
const MOST_ALLOCATED = { client: 1.27, pool: 1.53 };

test("a known query allocates little more than pg's, by a client and by a pool", async () => {
  const young = ["--min-semi-space-size=64", "--max-semi-space-size=64"];
  const child = [at("allocations-child.mjs"), server!.url];
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", ...young, ...child]);
  const bytes = JSON.parse(stdout) as Record<"client" | "pool" | "pg", number>;
  console.log(`bytes per known query: ${stdout.trim()}`);
  for (const name of ["client", "pool"] as const) {
    expect(bytes[name] / bytes.pg, name).toBeGreaterThan(0.5);
    expect(bytes[name] / bytes.pg, name).toBeLessThanOrEqual(MOST_ALLOCATED[name]);
  }
});

test("Node reads a million rows by batches in flat memory", async () => {
  const child = fork(at("rows-child.mjs"), [server!.url], { execArgv: [] });
  const [{ rows, seen }] = (await Promise.race([
    once(child, "message"),
    once(child, "exit").then(([code]) => Promise.reject(new Error(`ended with ${code}`))),
  ])) as [{ rows: number; seen: number[] }];
  expect(rows).toBe(1_000_000);
  expect(seen).toHaveLength(2);
  expect(seen[1]! - seen[0]!, `KiB grown from ${seen[0]} KiB`).toBeLessThanOrEqual(MOST_KIB);
});

test("Node refuses three rows of 200 MB at once under a cap in flat memory, and a connection beside them goes on", async () => {
  const child = fork(at("caps-child.mjs"), [server!.url], { execArgv: [] });
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`ended with ${code}`)));
  const [said] = (await Promise.race([once(child, "message"), ended])) as [
    { errors: string[]; idle: number; grown: number; wasm: number[] },
  ];
  expect(said.errors).toEqual(Array(3).fill("RESPONSE_TOO_LARGE bytes"));
  expect(said.idle).toBe(1);
  // One instance, which holds at most the cap of json that is counted as it arrives.
  expect(said.wasm).toHaveLength(1);
  expect(said.wasm[0], "bytes of wasm memory").toBeLessThanOrEqual(8 << 20);
  expect(said.grown, "KiB grown").toBeLessThanOrEqual(2 * MOST_KIB);
});

const refusesGigabyte = async () => {
  const child = fork(at("gigabyte-child.mjs"), [server!.url], { execArgv: [] });
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`ended with ${code}`)));
  const [said] = (await Promise.race([once(child, "message"), ended])) as [
    { errors: (string | number)[]; beside: number; grown: number },
  ];
  expect(said).toMatchObject({ errors: ["RESPONSE_TOO_LARGE", 1, "MESSAGE_TOO_LARGE", 1], beside: 1 });
  expect(said.grown, "KiB grown").toBeLessThanOrEqual(MOST_KIB);
};
// The server takes its time to make the field, and three fields of 200 MB are refused above.
if (isRelease) test("Node refuses a field of 1 GB at its length, in flat memory", refusesGigabyte);

// A TLS socket in push mode would buffer what its reader does not read: node:tls in Deno grew by 942 MB in 1.5 s.
test.each([["node"], ["bun"], ["deno", "run", "-A"]])(
  "%s: a reader that stops under unverified TLS stops the server",
  async (...runtime) => {
    const [name, ...flags] = runtime;
    const command = name === "node" ? process.execPath : at(`../../node_modules/.bin/${name}`);
    const url = `${server!.url}?sslmode=require`;
    const { stdout } = await promisify(execFile)(command, [...flags, at("slow-reader-child.mjs"), url]);
    const said = JSON.parse(stdout) as { ssl: boolean; grown: number; bytes: number };
    expect(said.ssl).toBe(true);
    expect(said.bytes).toBe(300_000 * (1000 + '{"pad":""}\n'.length));
    expect(said.grown, "KiB grown").toBeLessThanOrEqual(MOST_KIB);
  },
);

// V8 in workerd first leaves garbage until its heap has reached its preferred size. A Worker that pipes a socket into
// its response without any driver grows the same way (seen, MiB after each GB: for Node 20 82, 129, 182, 182; newest
// 77, 148, 155, 141), so two gigabytes come before the one that is measured.
test.each(["newest" as const, ...(isRelease ? ["node-20" as const] : [])])(
  "a Worker in workerd %s streams 1 GB in flat memory",
  async (which) => {
    const worker = await startWorker({ entry: at("worker.ts"), options: { bindings: { URL: server!.url } }, which });
    try {
      await streamOnce(worker);
      await streamOnce(worker);
      const seen = await streamOnce(worker);
      expect(seen).toHaveLength(2);
      expect(seen[1]! - seen[0]!, `KiB grown from ${seen[0]} KiB`).toBeLessThanOrEqual(MOST_KIB);
    } finally {
      await worker.stop();
    }
  },
);

/** Returns the RSS (KiB) of the Worker's workerd at 50 MB and at 1 GB of one response. */
async function streamOnce({ url, pid: host }: { url: string; pid: number }): Promise<number[]> {
  const response = await fetch(url, { headers: { "accept-encoding": "identity" } });
  // Other tests start their own workerd meanwhile.
  const pid = workerdOf(host);
  const seen: number[] = [];
  let bytes = 0;
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes >= [50e6, 1e9][seen.length]!) seen.push(rss(pid));
  }
  expect(bytes).toBe(1_000_000 * (1000 + '{"pad":""}\n'.length));
  return seen;
}

function rss(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);
}

/** Returns the pid of the workerd that this process has started. */
function workerdOf(host: number): number {
  for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    try {
      const status = readFileSync(`/proc/${name}/status`, "utf8");
      if (/^Name:\s+workerd$/m.test(status) && Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) === host)
        return Number(name);
    } catch {
      // gone meanwhile
    }
  }
  throw new Error(`no workerd is a child of process ${host}`);
}
