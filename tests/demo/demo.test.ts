// `make demo` as a newcomer runs it: its figures, its end, and what it leaves behind, which is nothing.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { pause } from "./demo-server.ts";

const script = fileURLToPath(new URL("../../worker-example/demo.mjs", import.meta.url));

/** Starts the demo as a terminal would: in a process group of its own, which is what Ctrl-C signals. */
function startDemo(environment: Record<string, string>) {
  const mark = `PGZ_EDGE_TEST_MARK=${randomUUID()}`; // inherited by everything the demo starts
  const [name = "", value] = mark.split("=");
  const child = spawn(process.execPath, [script], { detached: true, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...environment, [name]: value } });
  const demo = { pid: child.pid ?? 0, output: "", code: null as number | null, ended: Promise.resolve(), leftOver: () => processesWith(mark) };
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (demo.output += text));
  demo.ended = new Promise((resolve) => child.once("close", (code) => { demo.code = code; resolve(); }));
  return demo;
}

/** The processes whose environment holds that text (Linux). */
function processesWith(mark: string) {
  return readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)).flatMap((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark)) return [];
      return [readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")];
    } catch {
      return []; // ended while we looked, or another user's
    }
  });
}

const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("pgz-edge-worker-"));

async function untilSaid(demo: { output: string; code: number | null }, words: RegExp) {
  for (const deadline = Date.now() + 20_000; !words.test(demo.output); await pause(20)) {
    if (Date.now() > deadline || demo.code !== null) throw new Error(`never said ${words}:\n${demo.output}`);
  }
}

async function untilNothingIsLeft(demo: { leftOver(): string[] }) {
  for (const deadline = Date.now() + 3_000; demo.leftOver().length > 0 && Date.now() < deadline; ) await pause(50);
  expect(demo.leftOver()).toEqual([]);
}

test("ONCE=1 prints rows and figures, exits 0 within 20 s and leaves nothing", async () => {
  const before = folders();
  const from = performance.now();
  const demo = startDemo({ ONCE: "1" });
  await demo.ended;
  expect(demo.code, demo.output).toBe(0);
  expect(performance.now() - from).toBeLessThan(20_000);
  expect(demo.output.match(/^ {2}\{"id":.*\}$/gm), demo.output).toHaveLength(3);
  for (const line of demo.output.match(/^ {2}\{.*$/gm) ?? []) expect(Object.keys(JSON.parse(line) as object)).toHaveLength(12);
  expect(demo.output).toMatch(/rows +200,000, as many as count\(\*\) says/);
  for (const figure of [/bytes +[\d,]{10,}/, /seconds +\d+\.\d+/, /MB\/s +\d+\.\d/, /first byte +after \d+\.\d ms/]) expect(demo.output).toMatch(figure);
  expect(demo.leftOver()).toEqual([]);
  expect(folders()).toEqual(before);
}, 30_000);

test("leaves the page open until Ctrl-C, then ends everything", async () => {
  const demo = startDemo({});
  await untilSaid(demo, /Ctrl-C here ends everything/);
  const url = /page is open at (\S+)/.exec(demo.output)?.[1] ?? "";
  expect(await (await fetch(url)).text()).toContain("<title>pgz-edge");
  expect(demo.leftOver().some((command) => command.includes("workerd"))).toBe(true);
  process.kill(-demo.pid, "SIGINT");
  await demo.ended;
  expect(demo.code, demo.output).toBe(0);
  expect(demo.output).not.toMatch(/while stopping|failed/);
  expect(demo.leftOver()).toEqual([]);
}, 30_000);

test("Ctrl-C while it is still starting ends everything too", async () => {
  const demo = startDemo({});
  await untilSaid(demo, /sample data/);
  process.kill(-demo.pid, "SIGINT");
  await demo.ended;
  expect(demo.code, demo.output).toBe(130);
  await untilNothingIsLeft(demo);
}, 30_000);

test("even a demo that is killed leaves no process and no folder", async () => {
  const before = folders();
  const demo = startDemo({});
  await untilSaid(demo, /Ctrl-C here ends everything/);
  process.kill(demo.pid, "SIGKILL");
  await demo.ended;
  await untilNothingIsLeft(demo);
  expect(folders()).toEqual(before);
}, 30_000);
