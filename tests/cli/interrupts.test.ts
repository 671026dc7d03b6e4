// Ctrl-C, SIGTERM and a reader who leaves: what runs on the server is cancelled there within a second, and what was
// being stored is not.
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, driver, ended, until, url } from "./command-line.ts";

let cli: CommandLine;
let db: InstanceType<typeof driver.Client>;
beforeAll(async () => {
  cli = new CommandLine();
  db = await driver.connect(url);
  await db.exec("drop table if exists cli_interrupted");
  await db.exec("create table cli_interrupted (id int)");
}, 120_000);
afterAll(async () => {
  await db.exec("drop table if exists cli_interrupted");
  await db.close();
  cli.remove();
});

/** The sessions of this name that run something, or that are there at all. */
async function sessions(name: string, states = ["active"]): Promise<number> {
  const { rows } = await db.query<{ n: number }>({
    text: "select count(*)::int4 as n from pg_stat_activity where application_name = $1 and state = any($2)",
    values: [name, states],
  });
  return rows[0]!.n;
}
const ALL = ["active", "idle", "idle in transaction", "idle in transaction (aborted)"];

const ENDLESS = "select generate_series(1, 1000000000) n";
const SLEEPS = "select pg_sleep(60)";

test.each([
  ["SIGINT", 130, ["query", SLEEPS]],
  ["SIGTERM", 143, ["query", SLEEPS]],
  ["SIGINT", 130, ["query", ENDLESS, "-o", "endless.ndjson"]],
  ["SIGINT", 130, ["query", ENDLESS]],
  ["SIGINT", 130, ["copy-out", ENDLESS]],
  ["SIGINT", 130, ["copy-out", "select generate_series(1, 60), pg_sleep(1)", "--progress"]],
] as const)("%s is %i, and the server stops: %j", async (signal, code, words) => {
  const name = randomUUID();
  const child = cli.start(words, { env: { PGAPPNAME: name } });
  await until(async () => (await sessions(name)) > 0);
  await pause(200);
  const from = performance.now();
  child.kill(signal);
  const result = ended(child);
  await until(async () => (await sessions(name, ALL)) === 0);
  expect(performance.now() - from).toBeLessThan(1_000);
  // Its reader has read nothing so far: what is in the pipe is the reader's.
  expect((await result).code).toBe(code);
  expect(readdirSync(cli.project.folder).filter((file) => file.startsWith("endless."))).toEqual([]);
});

/** It watches signals: SIGHUP is the first bit, and Node alone does not watch that one. */
function hasBegun(pid: number): boolean {
  const [, caught = "0"] = /^SigCgt:\s*(\w+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return (BigInt(`0x${caught}`) & 1n) === 1n;
}

test.each([
  ["standard input", ["query", "-"]],
  ["a pipe that nobody reads", ["query", "select 1", "-o", "unread"]],
  ["a pipe that nobody writes", ["query", "--file", "unwritten"]],
  ["the same of a copy", ["copy-in", "cli_interrupted(id)", "unwritten"]],
])("a wait for %s ends with the first signal", async (_, words) => {
  await cli.shell("mkfifo -m 600 unread unwritten");
  const child = cli.start(words, { stdin: "open" });
  await until(() => hasBegun(child.pid!));
  await pause(200);
  const from = performance.now();
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), 5_000);
  expect((await ended(child)).code).toBe(143);
  clearTimeout(late);
  expect(performance.now() - from).toBeLessThan(1_000);
});

test("a statement that changes something and is interrupted: that is not known", async () => {
  const name = randomUUID();
  const child = cli.start(["query", "insert into cli_interrupted select 1 from pg_sleep(60)"], {
    env: { PGAPPNAME: name },
  });
  await until(async () => (await sessions(name)) > 0);
  child.kill("SIGINT");
  const err = "The statement may have taken effect: it is not known.\n";
  expect(await ended(child)).toEqual({ code: 130, out: "", err });
});

test("nobody who reads standard error: the data go on", async () => {
  const line = 'pgz-edge copy-out "select generate_series(1, 4), pg_sleep(1)" --progress -o seen.csv';
  expect(await cli.shell(`${line} 2> >(head -1 > /dev/null)`)).toMatchObject({ code: 0 });
  expect(readFileSync(cli.project.at("seen.csv"), "utf8").split("\n").length).toBe(6);
});

test("a reader who sleeps keeps neither the process nor the server", async () => {
  const name = randomUUID();
  const child = cli.start(["query", ENDLESS], { env: { PGAPPNAME: name } }); // nobody reads its output
  await until(async () => (await sessions(name)) > 0);
  await pause(500);
  const from = performance.now();
  child.kill("SIGINT");
  const code = await new Promise((resolve) => child.once("exit", (status, signal) => resolve(status ?? signal)));
  expect(code).toBe(130);
  expect(performance.now() - from).toBeLessThan(1_500);
  await until(async () => (await sessions(name, ALL)) === 0, 1_000);
  child.stdout!.destroy();
  child.stderr!.destroy();
});

test.each([
  ["query", `pgz-edge query "${ENDLESS}"`],
  ["copy-out", `pgz-edge copy-out "${ENDLESS}"`],
])("| head -1 ends %s with 141, within a second", async (_, line) => {
  const name = randomUUID();
  const left = "(head -1; date +%s%N >&2)";
  const { code, out, err } = await cli.shell(`${line} | ${left}; exit \${PIPESTATUS[0]}`, {
    env: { PGAPPNAME: name },
  });
  const at = Date.now();
  expect([code, out.split("\n").length]).toEqual([141, 2]);
  expect(err).toMatch(/^\d+\n$/);
  expect(at - Number(err) / 1e6).toBeLessThan(1_000);
  expect(await sessions(name, ALL)).toBe(0);
});

test("a copy-in that is interrupted stores nothing, and says so", async () => {
  for (const begun of ["", "id\n1\n2\n"]) {
    const name = randomUUID();
    const child = cli.start(["copy-in", "cli_interrupted"], { env: { PGAPPNAME: name }, stdin: "open" });
    child.stdin!.write(begun);
    await (begun ? until(async () => (await sessions(name)) > 0) : pause(500));
    const from = performance.now();
    child.kill("SIGINT");
    const { code, err } = await ended(child);
    expect({ code, err }).toEqual({ code: 130, err: "Interrupted.\nNothing was stored.\n" });
    await until(async () => (await sessions(name, ALL)) === 0);
    expect(performance.now() - from).toBeLessThan(1_000);
  }
  expect((await db.query("select * from cli_interrupted")).rows).toEqual([]);
});

test("a copy-in whose server goes away stores nothing", async () => {
  const name = randomUUID();
  const child = cli.start(["copy-in", "cli_interrupted"], { env: { PGAPPNAME: name }, stdin: "open" });
  child.stdin!.write("id\n1\n");
  await until(async () => (await sessions(name)) > 0);
  const admin = await driver.connect(superuser());
  await admin.query({
    text: "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1",
    values: [name],
  });
  await admin.close();
  const { code, err } = await ended(child);
  expect([code, err]).toEqual([expect.any(Number), expect.stringMatching(/^Nothing was stored\.\n(FATAL|ERROR): /)]);
  expect(code).not.toBe(0);
  expect((await db.query("select * from cli_interrupted")).rows).toEqual([]);
});
const superuser = () => url.replace(/\/\/[^@]*@/, "//postgres:postgres-secret@");

/** AuthenticationOk, BackendKeyData, ReadyForQuery. */
const LOGGED_IN = Buffer.from("520000000800000000" + "4b0000000c0000000700000007" + "5a0000000549", "hex");

test("a second Ctrl-C ends it at once, but for one that only a launcher passes on", async () => {
  // It lets one in, and then neither answers nor cancels.
  const deaf = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.write(LOGGED_IN));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => deaf.once("listening", resolve));
  const { port } = deaf.address() as { port: number };
  const words = ["query", "select 1", "--url", `postgres://a@127.0.0.1:${port}/a?sslmode=disable`];
  const taken = async (...pauses: number[]) => {
    const child = cli.start(words);
    await pause(1_000);
    const from = performance.now();
    for (const before of pauses) {
      await pause(before);
      child.kill("SIGINT");
    }
    expect((await ended(child)).code).toBe(130);
    return performance.now() - from;
  };
  const [once, passedOn, twice] = [await taken(0), await taken(0, 50), await taken(0, 500)];
  deaf.close();
  expect(once).toBeGreaterThan(1_500);
  expect(passedOn).toBeGreaterThan(1_500);
  expect(twice).toBeLessThan(1_300);
});
