// The check at the end of tests/run.mjs finds each kind of thing that a run can leave, and nothing else.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { begin, leftBy, remove, variablesOf, type Run } from "../run/leftovers.mjs";

function newRun(): Run {
  const run = begin();
  onTestFinished(() => remove(run));
  return run;
}

/** Starts a Node that prints a line when it is ready, and ends with this process. */
async function planted(code: string, env: NodeJS.ProcessEnv, words: string[] = []): Promise<[ChildProcess, string]> {
  const child = spawn(process.execPath, ["-e", code, ...words], { env, stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return [child, String(line).trim()];
}

const IDLE = "process.stdin.resume(); console.log('ready')";
const PATH = process.env["PATH"];

test("a run that has cleaned up has left nothing", async () => {
  expect(await leftBy(newRun())).toEqual([]);
});

test("files and folders are named", async () => {
  const run = newRun();
  writeFileSync(path.join(run.folder, "file"), "");
  mkdirSync(path.join(run.folder, "miniflare-1"));
  expect(await leftBy(run)).toEqual(["file", "miniflare-1"].map((name) => `left the file ${run.folder}/${name}`));
});

test("caches that programs keep for their user are not counted", async () => {
  const run = newRun();
  for (const name of ["bun-node-0-a7", ".bunx-0", "node-compile-cache", "jest_0"])
    mkdirSync(path.join(run.folder, name));
  expect(await leftBy(run)).toEqual([]);
});

test("a server's folder is named, and another run's is not", async () => {
  const run = newRun();
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-servers-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(path.join(folder, `pg18-1-${run.mark}.a`));
  mkdirSync(path.join(folder, "pg18-1-pgz-other.a"));
  expect(await leftBy(run, [folder])).toEqual([`left the file ${folder}/pg18-1-${run.mark}.a`]);
});

test("a process is found by its environment, and named with its port", async () => {
  const run = newRun();
  const code = "const s = require('net').createServer().listen(0, () => console.log(s.address().port))";
  const [child, port] = await planted(code, { PATH, ...variablesOf(run) });
  const [line, ...others] = await leftBy(run, [], 1);
  expect(line).toContain(`left process ${child.pid}, which listens at port ${port}: ${process.execPath} -e const s`);
  expect(others).toEqual([]);
});

test("a process is found by its command, and its children with it", async () => {
  const run = newRun();
  const code = `
    require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(IDLE)}], { stdio: "inherit", env: {} });
    process.stdin.resume();`;
  const [child] = await planted(code, { PATH }, [run.mark]);
  const lines = await leftBy(run, [], 1);
  expect(lines).toHaveLength(2);
  expect(lines.join("\n")).toContain(`left process ${child.pid}: `);
});

test("a process that ends in time is not left", async () => {
  const run = newRun();
  const [child] = await planted(IDLE, { PATH, ...variablesOf(run) });
  const left = leftBy(run);
  child.stdin!.end();
  expect(await left).toEqual([]);
});

test("what is left is ended and removed", async () => {
  const run = newRun();
  writeFileSync(path.join(run.folder, "file"), "");
  const [child] = await planted(IDLE, { PATH, ...variablesOf(run) });
  const ended = once(child, "exit");
  remove(run);
  expect(await ended).toEqual([null, "SIGKILL"]);
  expect(await leftBy(run)).toEqual([]);
});
