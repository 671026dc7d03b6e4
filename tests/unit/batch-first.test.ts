// A batch whose first flight misses types of columns (js/statement/batch.ts), over sockets in memory: the types are
// looked up once, before the whole batch. Also other outcomes of a first flight.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { answer, behindPrelude, describedAgain, firstRun, isDescribed, outcome } from "../support/flights.ts";
import {
  acceptCancel,
  client,
  execution,
  isPending,
  letIn,
  newClient,
  quiet,
  useMemoryServer,
} from "../support/memory-session.ts";
import {
  ended,
  errorAndReady,
  executedWithoutRows,
  firstBegun,
  firstItem,
  int4,
  missesTypes,
  ran,
  says,
  textRows,
} from "../support/server-messages.ts";
import { answerWrite } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
beforeEach(() => newClient({ firstRun: "text", prepare: "unnamed" }));

const mood = { name: "m", oid: 20_001, size: -1 };
const MOOD = '[[20001,"e","mood",[0],[]]]';
const NAMES = '{"mood":20001}';
const batchOfTwo = [...behindPrelude, ...behindPrelude, ...execution];
const types = { mood: (text: string) => text.toUpperCase() };

/** The answer to a batch of two, where the first item's check misses types. */
const misses = () => [
  ...[wire.closeComplete(), ran("BEGIN"), missesTypes([20_001], "E")],
  ...[wire.closeComplete(), errorAndReady("25P02", "E"), executedWithoutRows("ROLLBACK")],
];
const succeeds = () => [firstItem("sad", "BEGIN", [mood]), firstItem("1"), executedWithoutRows("COMMIT")];

test("types that a check misses are looked up before the batch, in one write with it", async () => {
  const call = client.batch(["select m", "select n"]);
  const session = await letIn();
  await answerWrite(session, batchOfTwo, ...misses());
  await answerWrite(session, ["Query", ...batchOfTwo], says(MOOD), ...succeeds());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ m: "sad" }], [{ n: 1 }]]);
});

test("a second check that misses types makes the client describe the statements", async () => {
  const call = outcome(client.batch(["select m", "select n"]));
  const session = await letIn();
  await answerWrite(session, batchOfTwo, ...misses());
  await answerWrite(session, ["Query", ...batchOfTwo], says(MOOD), ...misses());
  await isDescribed(session, call);
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
  await answerWrite(session, batchOfTwo, ...misses());
  await answer(session, ["Query"], says(MOOD));
  await isDescribed(session, call);
  expect(asked).toBe(2);
});

test("the names in `types` are looked up after the missing types, and the batch follows both answers", async () => {
  const call = client.batch(["select m", "select n"], { types });
  const session = await letIn();
  await answerWrite(session, ["Query"], says(NAMES));
  await answerWrite(session, batchOfTwo, ...misses());
  await answerWrite(session, ["Query"], says(MOOD));
  await answerWrite(session, ["Query"], says(NAMES));
  await answerWrite(session, batchOfTwo, ...succeeds());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ m: "SAD" }], [{ n: 1 }]]);
});

test("a call that ends during the type look-up sends none of its items again", async () => {
  const abort = new AbortController();
  const call = outcome(client.batch(["select m", "select n"], { types, signal: abort.signal }));
  const session = await letIn();
  await answerWrite(session, ["Query"], says(NAMES));
  await answerWrite(session, batchOfTwo, ...misses());
  await answerWrite(session, ["Query"]);
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  await acceptCancel();
  session.send(errorAndReady("57014"));
  await quiet();
  expect(client.stats().state).toBe("idle");
  expect(await isPending(session.message())).toBe(true);
});

test("a value that does not fit the cached types makes the client describe the batch's statements", async () => {
  const learning = client.query(sql`select ${1}`);
  const session = await firstRun(undefined, firstBegun([int4], [23]), textRows("1"), ended(1));
  await learning;
  const call = outcome(client.batch([sql`select ${"x"}`, "select n"]));
  await describedAgain(session);
  await isDescribed(session, call);
});
