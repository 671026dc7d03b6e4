// Reads PGZ_TEST_SERVERS (tests/run.mjs starts the servers and sets it) and the CA's text. For test files that run in
// Node, Deno and Bun.
import { readFileSync } from "node:fs";
import type { Runtime, TestServers } from "./context.ts";

export function testServers(): TestServers {
  const text = process.env["PGZ_TEST_SERVERS"];
  if (text === undefined)
    throw new Error("PGZ_TEST_SERVERS is not set: run the tests with `node tests/run.mjs [suite…]`");
  const found = JSON.parse(text) as TestServers;
  for (const server of found.servers)
    if (server.caFile !== undefined) server.caPem = readFileSync(server.caFile, "utf8");
  return found;
}

/**
 * The runtime of this process. vitest starts processes of its own, so it is compared with the runtime that
 * tests/run.mjs asked for.
 */
export const runtime: Runtime = "Deno" in globalThis ? "deno" : "Bun" in globalThis ? "bun" : "node";
const expected = process.env["PGZ_TEST_RUNTIME"];
if (expected !== undefined && expected !== runtime)
  throw new Error(`this should run in ${expected} and runs in ${runtime}`);
