// A batch whose first flight misses types of columns (js/statement/batch.ts), over sockets in memory: they are asked for
// in front of all of it, once, and what else its first flight may come to.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import type { PgzError } from "../../js/util/errors.ts";
import { behindPrelude, checked, described, missesTypes, over, says, texts } from "../support/first-runs.ts";
import {
  accepted,
  client,
  execution,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { written } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** The check in front of a statement would have a name from the third on. */
beforeEach(() => newClient({ firstRun: "text", prepare: "unnamed" }));

const mood = { name: "m", oid: 20_001, size: -1 };
const MOOD = '[[20001,"e","mood",[0],[]]]';
const begins = (tag: string) => [wire.parseComplete(), wire.bindComplete(), wire.commandComplete(tag)];
const failed = (C: string, status: "I" | "E" = "I") =>
  Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery(status)]);
const item = (value: string, prelude = "SAVEPOINT", columns = [int4]) =>
  Buffer.concat([checked(columns, [], prelude), wire.bindComplete(), texts(value), over(1, "T")]);
const ending = (tag: string) =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.bindComplete(), wire.noData()],
    ...[wire.commandComplete(tag), wire.readyForQuery()],
  ]);
const batchOfTwo = [...behindPrelude, ...behindPrelude, ...execution];

/** The answers to a batch of two whose first item's check misses types. */
function misses(session: Session): void {
  session.send(wire.closeComplete(), ...begins("BEGIN"), missesTypes([20_001], "E"));
  session.send(wire.closeComplete(), failed("25P02", "E"), ending("ROLLBACK"));
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "well",
    ({ code, batch }: PgzError) => ({ code, batch }),
  );

test("types that a check misses are asked for in front of all of it, in one write with it", async () => {
  const call = client.batch(["select m", "select n"]);
  const session = await letIn();
  expect(await written(session)).toEqual(batchOfTwo);
  misses(session);
  expect(await written(session)).toEqual(["Query", ...batchOfTwo]);
  session.send(says(MOOD), item("sad", "BEGIN", [mood]), item("1"), ending("COMMIT"));
  expect((await call).map(({ rows }) => rows)).toEqual([[{ m: "sad" }], [{ n: 1 }]]);
});

test("but not twice: then its statements are described", async () => {
  const call = outcome(client.batch(["select m", "select n"]));
  const session = await letIn();
  await written(session);
  misses(session);
  await written(session);
  session.send(says(MOOD));
  misses(session);
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});

test("where a value cannot leave that way a second time, its statements are described behind the question", async () => {
  let asked = 0;
  class Once extends Date {
    override toISOString(): string {
      asked++;
      if (asked === 2) throw new Error("not now");
      return super.toISOString();
    }
  }
  const call = outcome(client.batch([sql`select ${new Once(0)}`, "select n"]));
  const session = await letIn();
  expect(await written(session)).toEqual(batchOfTwo);
  misses(session);
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says(MOOD));
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
  expect(asked).toBe(2);
});

test("parsers' names are asked for behind the types, and it leaves behind both answers", async () => {
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = client.batch(["select m", "select n"], { types });
  const session = await letIn();
  expect(await written(session)).toEqual(["Query"]);
  session.send(says('{"mood":20001}'));
  expect(await written(session)).toEqual(batchOfTwo);
  misses(session);
  expect(await written(session)).toEqual(["Query"]);
  session.send(says(MOOD));
  expect(await written(session)).toEqual(["Query"]);
  session.send(says('{"mood":20001}'));
  expect(await written(session)).toEqual(batchOfTwo);
  session.send(item("sad", "BEGIN", [mood]), item("1"), ending("COMMIT"));
  expect((await call).map(({ rows }) => rows)).toEqual([[{ m: "SAD" }], [{ n: 1 }]]);
});

test("a call that ends under the question sends nothing of it again", async () => {
  const abort = new AbortController();
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = outcome(client.batch(["select m", "select n"], { types, signal: abort.signal }));
  const session = await letIn();
  await written(session);
  session.send(says('{"mood":20001}'));
  await written(session);
  misses(session);
  expect(await written(session)).toEqual(["Query"]);
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  await quiet();
  expect(client.stats().state).toBe("idle");
  expect(await isPending(session.message())).toBe(true);
});

test("a value that cannot be sent by what is known is told of by the described batch", async () => {
  const learning = client.query(sql`select ${1}`);
  const session = await letIn();
  await session.flight();
  session.send(checked([int4], [23]), wire.bindComplete(), texts("1"), over(1));
  await learning;
  const call = outcome(client.batch([sql`select ${"x"}`, "select n"]));
  const names = await session.flight();
  expect(names.filter((name) => name !== "Close")).toEqual(described);
  session.send(...(names[0] === "Close" ? [wire.closeComplete()] : []), wire.parseComplete());
  session.send(wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  const again = await session.flight();
  expect(again.filter((name) => name !== "Close")).toEqual(described);
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST" });
});
