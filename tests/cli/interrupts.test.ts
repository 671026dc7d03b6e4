// Ctrl-C, SIGTERM and a reader that leaves: the running statement is cancelled on the server, and a running copy-in
// stores nothing.
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inTime, pause, until } from "../support/until.mjs";
import { driver, ended, url, useClient, useCommandLine } from "./command-line.ts";

const cli = useCommandLine();
const db = useClient();
beforeAll(() => db.simple("drop table if exists cli_interrupted; create table cli_interrupted (id int)"));
afterAll(() => db.exec("drop table if exists cli_interrupted"));

/** Returns how many sessions of this name are running a statement, or exist. */
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
  child.kill(signal);
  const result = ended(child);
  await until(async () => (await sessions(name, ALL)) === 0);
  // The reader has read nothing so far. Bytes in the pipe are the reader's.
  expect((await result).code).toBe(code);
  expect(readdirSync(cli.project.folder).filter((file) => file.startsWith("endless."))).toEqual([]);
});

/** Returns whether the process handles signals: SIGHUP is the first bit, and Node alone does not handle it. */
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
  child.kill("SIGTERM");
  try {
    expect((await inTime(ended(child))).code).toBe(143);
  } finally {
    child.kill("SIGKILL");
  }
});

test("an interrupted statement that changes data is reported as unknown", async () => {
  const name = randomUUID();
  const child = cli.start(["query", "insert into cli_interrupted select 1 from pg_sleep(60)"], {
    env: { PGAPPNAME: name },
  });
  await until(async () => (await sessions(name)) > 0);
  child.kill("SIGINT");
  const err = "Interrupted: the server was told to stop.\nThe statement may have taken effect: it is not known.\n";
  expect(await ended(child)).toEqual({ code: 130, out: "", err });
});

test("a closed standard error does not stop the data", async () => {
  const line = 'pgz-edge copy-out "select generate_series(1, 4), pg_sleep(1)" --progress -o seen.csv';
  expect(await cli.shell(`${line} 2> >(head -1 > /dev/null)`)).toMatchObject({ code: 0 });
  expect(readFileSync(cli.project.at("seen.csv"), "utf8").split("\n").length).toBe(6);
});

test("a reader that sleeps holds up neither the process nor the server", async () => {
  const name = randomUUID();
  const child = cli.start(["query", ENDLESS], { env: { PGAPPNAME: name } }); // no code reads its output
  await until(async () => (await sessions(name)) > 0);
  await pause(500);
  child.kill("SIGINT");
  const code = await inTime(
    new Promise((resolve) => child.once("exit", (status, signal) => resolve(status ?? signal))),
  );
  expect(code).toBe(130);
  await until(async () => (await sessions(name, ALL)) === 0);
  child.stdout!.destroy();
  child.stderr!.destroy();
});

test.each([
  ["query", `pgz-edge query "${ENDLESS}"`],
  ["copy-out", `pgz-edge copy-out "${ENDLESS}"`],
])("| head -1 ends %s with 141", async (_, line) => {
  const name = randomUUID();
  const { code, out, err } = await cli.shell(`${line} | head -1; exit \${PIPESTATUS[0]}`, {
    env: { PGAPPNAME: name },
  });
  expect([code, out.split("\n").length, err]).toEqual([141, 2, ""]);
  await until(async () => (await sessions(name, ALL)) === 0);
});

test("an interrupted copy-in stores nothing, and says so", async () => {
  for (const begun of ["", "id\n1\n2\n"]) {
    const name = randomUUID();
    const child = cli.start(["copy-in", "cli_interrupted"], { env: { PGAPPNAME: name }, stdin: "open" });
    child.stdin!.write(begun);
    await until(begun ? async () => (await sessions(name)) > 0 : () => hasBegun(child.pid!));
    child.kill("SIGINT");
    const { code, err } = await ended(child);
    expect({ code, err }).toEqual({ code: 130, err: "Interrupted.\nNothing was stored.\n" });
    await until(async () => (await sessions(name, ALL)) === 0);
  }
  expect((await db.query("select * from cli_interrupted")).rows).toEqual([]);
});

test("a copy-in whose server goes away stores nothing", async () => {
  const name = randomUUID();
  const child = cli.start(["copy-in", "cli_interrupted"], { env: { PGAPPNAME: name }, stdin: "open" });
  child.stdin!.write("id\n1\n");
  await until(async () => (await sessions(name)) > 0);
  const result = ended(child);
  const admin = await driver.connect(superuser());
  await admin.query({
    text: "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1",
    values: [name],
  });
  await admin.close();
  const { code, err } = await result;
  expect([code, err]).toEqual([expect.any(Number), expect.stringMatching(/^Nothing was stored\.\n(FATAL|ERROR): /)]);
  expect(code).not.toBe(0);
  expect((await db.query("select * from cli_interrupted")).rows).toEqual([]);
});
const superuser = () => url.replace(/\/\/[^@]*@/, "//postgres:postgres-secret@");

/** AuthenticationOk, BackendKeyData, ReadyForQuery. */
const LOGGED_IN = Buffer.from("520000000800000000" + "4b0000000c0000000700000007" + "5a0000000549", "hex");

test("a second Ctrl-C ends the process at once, unless a launcher has only passed on the first", async () => {
  // The server accepts the login, and then neither answers nor cancels.
  let asked = 0;
  const deaf = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(LOGGED_IN);
      socket.once("data", () => asked++);
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => deaf.once("listening", resolve));
  const { port } = deaf.address() as { port: number };
  const words = ["query", "select 1", "--url", `postgres://a@127.0.0.1:${port}/a?sslmode=disable`];
  const taken = async (...pauses: number[]) => {
    const before = asked;
    const child = cli.start(words);
    await until(() => asked > before);
    const from = performance.now();
    for (const milliseconds of pauses) {
      await pause(milliseconds);
      child.kill("SIGINT");
    }
    expect((await ended(child)).code).toBe(130);
    return performance.now() - from;
  };
  // A busy machine may be slow between two signals or after the last one, but not each time.
  const isOnce = async (pauses: number[], isRight: (milliseconds: number) => boolean) => {
    for (let tries = 0; tries < 10; tries++) if (isRight(await taken(...pauses))) return true;
    return false;
  };
  expect(await taken(0)).toBeGreaterThan(1_500);
  expect(await isOnce([0, 50], (milliseconds) => milliseconds > 1_500)).toBe(true);
  expect(await isOnce([0, 500], (milliseconds) => milliseconds < 1_300)).toBe(true);
  deaf.close();
});
