// A pool that is never closed, and when its program ends.
import { execFile } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { bin } from "../packaging/project.ts";

const url = testServers().servers[0]!.url.split("?")[0]!;
const [plain, tls] = [`${url}?sslmode=disable`, `${url}?sslmode=require`];
const runtimes: Readonly<Record<string, readonly string[]>> = {
  Node: [process.execPath],
  Bun: [bin("bun")],
  Deno: [bin("deno"), "run", "-A"],
};

async function said(runtime: string, address: string, options = {}, left = "nothing"): Promise<string> {
  const [command, ...words] = runtimes[runtime]!;
  const child = path.join(import.meta.dirname, "idle-child.mjs");
  const all = [...words, child, address, JSON.stringify(options), left];
  return (await promisify(execFile)(command!, all, { timeout: 20_000 })).stdout;
}

test.each([
  ["Node", "plain", plain],
  ["Node", "TLS", tls],
  ["Bun", "plain", plain],
  ["Bun", "TLS", tls],
  ["Deno", "plain", plain],
])("%s, %s: a program ends when its work is done", async (runtime, _, address) => {
  expect(await said(runtime, address)).toBe("done\n");
  expect(await said(runtime, address, { holdProcess: true })).toBe("done\nstill there\n");
});

test.each(["lease", "call"])("a %s keeps the process alive", async (left) => {
  expect(await said("Node", plain, {}, left)).toBe("done\nstill there\n");
});
