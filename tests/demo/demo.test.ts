// `make demo` as a newcomer runs it: its figures, its end, and that it leaves nothing behind.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { ownServer } from "./demo-server.ts";

const script = fileURLToPath(new URL("../../worker-example/demo.mjs", import.meta.url));

/**
 * Starts the demo as a terminal would: in a process group of its own, because Ctrl-C signals the group, and with a
 * temporary folder of its own.
 */
function startDemo(environment: Record<string, string>) {
  const mark = `PGZ_EDGE_TEST_MARK=${randomUUID()}`; // inherited by everything the demo starts
  const [name = "", value] = mark.split("=");
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-demo-test-"));
  temporary.push(folder);
  const child = spawn(process.execPath, [script], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, DATABASE_URL: "", TMPDIR: folder, ...environment, [name]: value },
  });
  const demo = {
    pid: child.pid ?? 0,
    output: "",
    code: null as number | null,
    ended: Promise.resolve(),
    leftOver: () => [...processesWith(mark), ...readdirSync(folder)],
  };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (demo.output += text));
  demo.ended = new Promise((resolve) =>
    child.once("close", (code) => {
      demo.code = code;
      running.delete(demo);
      resolve();
    }),
  );
  running.add(demo);
  return demo;
}

const temporary: string[] = [];
const running = new Set<ReturnType<typeof startDemo>>();
afterEach(async () => {
  for (const demo of running) process.kill(demo.pid, "SIGTERM"); // only after a test that failed
  for (const demo of running) await demo.ended;
});
afterAll(() => temporary.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** Returns the processes whose environment has that text (Linux). */
function processesWith(mark: string) {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark)) return [];
        return [readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")];
      } catch {
        return []; // the process ended meanwhile, or belongs to another user
      }
    });
}

async function untilSaid(demo: { output: string; code: number | null }, words: RegExp) {
  await until(() => words.test(demo.output) || demo.code !== null, `it says ${words}`);
  expect(demo.output).toMatch(words);
}

async function untilNothingIsLeft(demo: { leftOver(): string[] }) {
  await until(() => demo.leftOver().length === 0);
}

test("ONCE=1 prints rows and figures, exits 0 and leaves nothing", async () => {
  const demo = startDemo({ ONCE: "1" });
  await demo.ended;
  expect(demo.code, demo.output).toBe(0);
  expect(demo.output.match(/^ {2}\{"id":.*\}$/gm), demo.output).toHaveLength(3);
  for (const line of demo.output.match(/^ {2}\{.*$/gm) ?? [])
    expect(Object.keys(JSON.parse(line) as object)).toHaveLength(12);
  expect(demo.output).toMatch(/rows +200,000, as many as count\(\*\) says/);
  for (const figure of [/bytes +[\d,]{10,}/, /seconds +\d+\.\d+/, /MB\/s +\d+\.\d/, /first byte +after \d+\.\d ms/])
    expect(demo.output).toMatch(figure);
  expect(demo.output).toMatch(/event: notification\n.*"orders_acme".*insert/);
  expect(demo.output).toMatch(/POST to event +\d+\.\d ms/);
  expect(demo.leftOver()).toEqual([]);
});

describe("DATABASE_URL", () => {
  let urls: { superuserUrl: string; appUrl: string };
  let stop: () => Promise<void>;
  beforeAll(async () => {
    ({ server: urls, stop } = await ownServer());
  });
  afterAll(() => stop());

  /** What demos have made. Other tests make databases and roles on this server meanwhile. */
  const inventory = async () => {
    const client = new pg.Client({ connectionString: urls.superuserUrl });
    await client.connect();
    const { rows } = await client.query(
      "select datname as name from pg_database union all select rolname from pg_roles order by name",
    );
    await client.end();
    return rows.filter(({ name }: { name: string }) => name.startsWith("pgz_edge_demo_"));
  };

  test("a given database is used, and is unchanged afterwards", async () => {
    const before = await inventory();
    const demo = startDemo({ ONCE: "1", DATABASE_URL: urls.superuserUrl });
    await demo.ended;
    expect(demo.code, demo.output).toBe(0);
    expect(demo.output).toContain(new URL(urls.superuserUrl).port);
    expect(demo.output).toMatch(/rows +200,000, as many/);
    expect(await inventory()).toEqual(before);
  });

  test("a role that may not create databases gets an error that says so", async () => {
    const demo = startDemo({ ONCE: "1", DATABASE_URL: urls.appUrl });
    await demo.ended;
    expect(demo.code).toBe(1);
    expect(demo.output).toMatch(/permission denied to create database\nThe role of DATABASE_URL must be allowed/);
    expect(demo.output).not.toContain(new URL(urls.appUrl).password);
    expect(demo.leftOver()).toEqual([]);
  });
});

test("the page stays open until Ctrl-C, which ends everything", async () => {
  const demo = startDemo({});
  await untilSaid(demo, /Ctrl-C here ends everything/);
  const url = /page is open at (\S+)/.exec(demo.output)?.[1] ?? "";
  expect(await (await fetch(url)).text()).toContain("<title>pgz-edge");
  // The tokens are in the fragment of the address, which a browser does not send.
  const { hash } = new URL(url);
  const [[tenant, token] = []] = new URLSearchParams(hash.slice(1));
  expect(tenant).toBe("acme");
  const orders = await fetch(new URL("/api/orders?limit=1", url), { headers: { authorization: `Bearer ${token}` } });
  expect(await orders.json()).toMatchObject({ items: [{ tenant: "acme" }] });
  expect((await fetch(new URL("/api/orders", url))).status).toBe(401);
  // The cache's object follows the database when everything ends.
  const summary = () => fetch(new URL("/api/summary", url), { headers: { authorization: `Bearer ${token}` } });
  await until(async () => (await summary()).headers.has("etag"));
  expect(demo.output.replace(url, "")).not.toContain(token);
  expect(demo.leftOver().some((command) => command.includes("workerd"))).toBe(true);
  process.kill(-demo.pid, "SIGINT");
  await demo.ended;
  expect(demo.code, demo.output).toBe(0);
  expect(demo.output).not.toMatch(/while stopping|failed/);
  expect(demo.leftOver()).toEqual([]);
});

test("Ctrl-C during the start ends everything too", async () => {
  const demo = startDemo({});
  await untilSaid(demo, /sample data/);
  process.kill(-demo.pid, "SIGINT");
  await demo.ended;
  expect(demo.code, demo.output).toBe(130);
  await untilNothingIsLeft(demo);
});

test("a demo that is killed leaves no process and no folder", async () => {
  const demo = startDemo({});
  await untilSaid(demo, /Ctrl-C here ends everything/);
  process.kill(demo.pid, "SIGKILL");
  await demo.ended;
  await untilNothingIsLeft(demo);
});
