// A batch whose first flight misses types of columns (js/statement/batch.ts), over sockets in memory: the types are
// looked up once, before the whole batch. Also other outcomes of a first flight.
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
/** Without "unnamed" the check before a statement would have a name from the third use on. */
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

/** Answers a batch of two, where the first item's check misses types. */
function misses(session: Session): void {
  session.send(wire.closeComplete(), ...begins("BEGIN"), missesTypes([20_001], "E"));
  session.send(wire.closeComplete(), failed("25P02", "E"), ending("ROLLBACK"));
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "well",
    ({ code, batch }: PgzError) => ({ code, batch }),
  );

test("types that a check misses are looked up before the batch, in one write with it", async () => {
  const call = client.batch(["select m", "select n"]);
  const session = await letIn();
  expect(await written(session)).toEqual(batchOfTwo);
  misses(session);
  expect(await written(session)).toEqual(["Query", ...batchOfTwo]);
  session.send(says(MOOD), item("sad", "BEGIN", [mood]), item("1"), ending("COMMIT"));
  expect((await call).map(({ rows }) => rows)).toEqual([[{ m: "sad" }], [{ n: 1 }]]);
});

test("a second check that misses types makes the client describe the statements", async () => {
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

test("if a value cannot be encoded a second time, the statements are described after the type look-up", async () => {
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

test("the names in `types` are looked up after the missing types, and the batch follows both answers", async () => {
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

test("a call that ends during the type look-up sends none of its items again", async () => {
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

test("a value that does not fit the cached types makes the client describe the batch's statements", async () => {
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
