// How many functions a call of a known statement passes on its way: from the caller to the core, and from the socket's
// bytes back to the end of the call. Every call pays for each of them, and so does a reader of a profile.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Client } from "../../js/api/client.ts";
import { Operation } from "../../js/connection/operation.ts";
import type { Pool } from "../../js/pool/pool.ts";
import { Call } from "../../js/session/call.ts";
import { CoreConnection } from "../../pkg/pgz_edge.js";
import { learned, runs } from "../support/memory-calls.ts";
import { memoryPool } from "../support/memory-pool.ts";
import { client, letIn, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

type Database = Pick<Client & Pool, "exec" | "first" | "json" | "query" | "respond">;

const { execute } = CoreConnection.prototype;
const { succeed } = Call.prototype;
const { end } = Operation.prototype;
const { stackTraceLimit } = Error;
let out: string[];
let back: string[];
beforeEach(() => {
  Error.stackTraceLimit = Infinity;
  CoreConnection.prototype.execute = function (...values) {
    out = framesTo("caller");
    return execute.apply(this, values);
  };
  Operation.prototype.end = function (...values) {
    back = ["end", ...framesTo()];
    return end.apply(this, values);
  };
  Call.prototype.succeed = function (...values) {
    back.push("succeed", ...framesTo());
    return succeed.apply(this, values);
  };
});
afterEach(() => {
  CoreConnection.prototype.execute = execute;
  Call.prototype.succeed = succeed;
  Operation.prototype.end = end;
  Error.stackTraceLimit = stackTraceLimit;
});

/** The functions of the driver on the stack, up to this one. The innermost is a stand-in of this file. */
function framesTo(name?: string): string[] {
  const frames = new Error().stack!.split("\n").slice(3);
  const own = frames
    .filter((line) => line.includes("/js/"))
    .map((line) => /^\s*at (?:async )?(.*?)(?: \(|$)/.exec(line)![1]!);
  return name === undefined || frames.some((line) => line.includes(name)) ? own : [];
}

/** Calls of each kind, the functions to the core, and those back. */
const KINDS: [kind: string, call: (db: Database) => Promise<unknown>, out: number, back: number][] = [
  ["query", (db) => db.query("select n"), 14, 9],
  ["exec", (db) => db.exec("select n"), 14, 9],
  ["json", (db) => db.json("select n"), 14, 9],
  ["respond", (db) => db.respond("select n"), 17, 9],
];

async function counts(db: Database, call: (db: Database) => Promise<unknown>, answer?: () => Promise<void>) {
  const called = (function caller() {
    return call(db);
  })();
  await answer?.();
  await called;
  return [out.length, back.length];
}

test.each(KINDS)("%s of a client", async (_, call, ...most) => {
  const learning = client.query("select n");
  const session = await letIn();
  await learned(session, learning);
  expect(await counts(client, call, () => runs(session))).toEqual(most);
});

test.each(KINDS)("%s of a pool", async (_, call, ...most) => {
  const { pool } = memoryPool();
  await pool.query("select n");
  const [toCore, toCaller] = most;
  expect(await counts(pool, call)).toEqual([toCore + 2, toCaller]);
});
