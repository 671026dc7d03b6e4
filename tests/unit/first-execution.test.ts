// A statement that runs before its first description (js/statement/first-execution.ts), over sockets in memory: how its
// rows are read, which cannot be, and which failures let it run as described.
import { beforeEach, expect, test, vi } from "vitest";
import { Statements } from "../../js/session/statements.ts";
import { sql } from "../../js/statement/sql.ts";
import { answer, firstRun, nextIsDescribed, nextRunsFirst } from "../support/flights.ts";
import {
  accepted,
  client,
  execution,
  isPending,
  letIn,
  letInByPooler,
  newClient,
  otherClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  checked,
  ended,
  errorAndReady,
  executed,
  firstBegun,
  firstDescribed,
  int4,
  missesTypes,
  says,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

const text = { name: "t", oid: 25, size: -1 };
const mood = { name: "m", oid: 20_001, size: 4 };
const moods = { name: "m", oid: 20_004, size: -1 };

/** A row of several columns, as text. */
const row = (...cells: string[]) => wire.dataRow(cells.map((cell) => Buffer.from(cell)));

// -- the text of the statement ---------------------------------------------------------------------------------------

/** The text in the Parse of the user's statement. */
async function textOf(session: Session): Promise<string> {
  for (;;) {
    const { name, body } = (await session.message())!;
    if (name === "Parse") return body.toString().split("\0")[1]!;
  }
}

const UNIQUE = /^select n\n\/\* [a-z0-9]{5,} \*\/$/;

test("the statement's text is the user's own, with the comment of its call", async () => {
  newClient({ ...OPTIONS, sqlComment: () => ({ route: "a" }) });
  const call = client.query("select n").catch(() => {});
  const session = await letIn();
  expect(await textOf(session)).toBe("select n\n/*route='a'*/");
  session.peer.end();
  await call;
});

test("behind a possible pooler the text is made unique, in each run", async () => {
  const found: string[] = [];
  for (const _ of "12") {
    newClient(OPTIONS);
    const call = client.query("select n").catch(() => {});
    const session = await letInByPooler();
    found.push(await textOf(session));
    session.peer.end();
    await call;
  }
  for (const each of found) expect(each).toMatch(UNIQUE);
  expect(found[0]).not.toBe(found[1]);
});

test("before the server is known there may be a pooler, so the statement gets a unique text", async () => {
  newClient({ ...OPTIONS, password: "x", earlyQuery: true, allowCleartextPassword: true });
  const call = client.query("select n").catch(() => {});
  const session = await accepted();
  await answer(session, ["StartupMessage"], wire.authentication(3));
  expect((await session.message())!.name).toBe("PasswordMessage");
  expect(await textOf(session)).toMatch(UNIQUE);
  session.peer.end();
  await call;
});

// -- rows ------------------------------------------------------------------------------------------------------------

test("a value of a fixed-size type of the database is its text", async () => {
  let session: Session | undefined;
  for (const encoded of [false, true]) {
    const call = encoded ? client.json("select t, m") : client.query("select t, m, 2");
    session = await firstRun(session, firstBegun([text, mood]), row("x", "sad"), ended(1));
    const result = await call;
    const found = "rows" in result ? result.rows : JSON.parse(new TextDecoder().decode(result as Uint8Array));
    expect(found).toEqual([{ t: "x", m: "sad" }]);
  }
});

test("the text of a known type is read on any connection, also if the catalog has forgotten it meanwhile", async () => {
  const database = "first-execution";
  newClient({ ...OPTIONS, database });
  const learning = client.query("select m");
  const session = await firstRun(undefined, wire.closeComplete(), missesTypes([moods]));
  await answer(session, ["Query"], says('[[20004,"A","_mood",[20001],[]],[20001,"e","mood",[0],[]]]'));
  await answer(session, execution, wire.parseComplete(), wire.bindComplete());
  session.send(wire.rowDescription([moods], [1]), ended(0));
  await learning;
  await using other = otherClient({ ...OPTIONS, database });
  const forgets = vi.spyOn(Statements.prototype, "learnedNow");
  try {
    for (const [user, at] of [
      [client, session],
      [other, undefined],
    ] as const) {
      if (!at) forgets.mockReturnValue(undefined);
      const call = user.query(`select m, ${at ? 1 : 2}`);
      await firstRun(at, firstBegun([moods]), textRows("{glad}"), ended(1));
      expect((await call).rows).toEqual([{ m: ["glad"] }]);
    }
  } finally {
    forgets.mockRestore();
  }
});

const UNREADABLE = { code: "INVALID_VALUE", message: expect.stringContaining("The statement has run") };

test("a text that is invalid for its type is refused once the statement has run", async () => {
  const call = client.query("select n");
  const session = await firstRun(undefined, firstBegun(), textRows("1", "odd"));
  expect(await isPending(call)).toBe(true);
  session.send(textRows("3"), ended(3));
  await expect(call).rejects.toMatchObject(UNREADABLE);
  await nextRunsFirst(session);
});

test("an error about an unreadable text says whether its stream has shown rows", async () => {
  let session: Session | undefined;
  for (const isSeen of [true, false]) {
    const opening = client.stream(`select n, ${String(isSeen)}`);
    session = await firstRun(session, firstBegun(), ...(isSeen ? [textRows("1")] : []));
    await quiet();
    session.send(textRows("odd"), ended(2));
    const read = opening.then((stream) => new Response(stream).text());
    await expect(read).rejects.toMatchObject({ code: "INVALID_VALUE", committed: isSeen });
  }
});

// -- failures --------------------------------------------------------------------------------------------------------

test.each([
  ["a statement that is not there", "26000", false],
  ["a value that its type does not take, where there are values", "22P02", true],
  ["another number of values", "08P01", true],
])("after the check and before Bind, %s leads to a run with the learned shape", async (_, code, hasValues) => {
  const call = client.query(hasValues ? sql`select ${"x"}` : "select n");
  const session = await firstRun(undefined, checked([int4], hasValues ? [25] : []), errorAndReady(code));
  await answer(session, execution, executed(5));
  expect((await call).rows).toEqual([{ n: 5 }]);
});

test.each([
  ["text that is no SQL", "select n", "42601", [wire.closeComplete()]],
  ["text that is no SQL, with a value", sql`select from ${1}`, "42601", [wire.closeComplete()]],
  ["a value, where there is none", "select n", "22P02", [checked()]],
  ["a timeout", "select n", "57014", [checked()]],
  ["a failure after Bind", "select n", "26000", [firstBegun()]],
  ["a failure after rows", "select n", "22012", [firstBegun(), textRows("1")]],
  ["a check that the server has no memory for", "select n", "53200", [wire.closeComplete(), ...firstDescribed()]],
])("%s is the call's error", async (_, query, code, answers) => {
  const call = client.query(query);
  call.catch(() => {});
  const session = await firstRun(undefined, ...answers, errorAndReady(code));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code });
  await nextRunsFirst(session);
});

test("after a check that fails, the statement runs as described, and all others of its session", async () => {
  const call = client.query("select n");
  const session = await firstRun(undefined, wire.closeComplete(), ...firstDescribed(), errorAndReady("42883"));
  await answer(session, execution, executed(5));
  expect((await call).rows).toEqual([{ n: 5 }]);
  await nextIsDescribed(session);
});

test("if BEGIN before the statement fails, BEGIN's error is the call's, without a description", async () => {
  const transaction = client.transaction((tx) => tx.query("select n"));
  const session = await letIn();
  await session.flight();
  session.send(wire.closeComplete(), errorAndReady("25006"));
  await expect(transaction).rejects.toMatchObject({ code: "25006" });
});

test("a lost connection does not fail a call whose rows a cap has already cut off", async () => {
  const cut = client.json("select n", { maxRows: 1, onLimit: "truncate" });
  const session = await firstRun(undefined, firstBegun(), textRows("1", "2", "3"));
  await quiet();
  session.peer.end();
  expect(new TextDecoder().decode(await cut)).toMatch(/^\[\{"n":1\}/);
});
