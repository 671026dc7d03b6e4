// A statement that runs before its first description (js/statement/first-execution.ts), over sockets in memory: which
// rows wait for the catalog, which are too many for that or cannot be read, and which failures lead to a description.
import { beforeEach, expect, test, vi } from "vitest";
import { Connection } from "../../js/connection/connection.ts";
import { sql } from "../../js/statement/sql.ts";
import { MOST_HELD } from "../../js/util/limits.ts";
import { FIRST_OF_A_DATABASE } from "../../js/values/oid.ts";
import type { CoreConnection } from "../../js/wasm/boundary.ts";
import { answer, firstRun, nextIsDescribed, nextRunsFirst, runsDescribed } from "../support/flights.ts";
import {
  acceptCancel,
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
  int4,
  says,
  shutdown,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

const text = { name: "t", oid: 25, size: -1 };
const pair = { name: "c", oid: 20_002, size: -1 };
const pairs = { name: "c", oid: 20_003, size: -1 };
const mood = { name: "m", oid: 20_001, size: 4 };
const moods = { name: "m", oid: 20_004, size: -1 };
const record = { name: "r", oid: 2249, size: -1 };
const PAIR = '[[20002,"c","pair",[23],["a"]]]';

/** A row of several columns, as text. */
const row = (...cells: string[]) => wire.dataRow(cells.map((cell) => Buffer.from(cell)));

/** Runs "select c", whose row has this text and waits for the catalog. */
async function waiting(value = "(1)", options?: { signal: AbortSignal }) {
  const call = client.query("select c", options);
  call.catch(() => {});
  const session = await firstRun(undefined, firstBegun([pair]), textRows(value), ended(1));
  await answer(session, ["Query"]);
  return { call, session };
}

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

// -- waiting rows ----------------------------------------------------------------------------------------------------

test("one composite column makes whole rows wait for the catalog, and the statement is known then", async () => {
  const call = client.query("select n, c");
  const session = await firstRun(undefined, firstBegun([int4, pair]), row("1", "(2)"), ended(1));
  await answer(session, ["Query"]);
  expect(await isPending(call)).toBe(true);
  session.send(says(PAIR));
  expect(await call).toMatchObject({ rows: [{ n: 1, c: { a: 2 } }], rowCount: 1 });
  const again = client.query("select n, c");
  await answer(session, execution, wire.parseComplete(), wire.bindComplete());
  session.send(wire.rowDescription([int4, pair], [1, 1]), ended(0));
  await again;
});

test.each([
  ["of an unknown type", false],
  ["of a composite that is cached", true],
])("a call without rows asks nothing, with a column %s", async (_, isCached) => {
  let session: Session | undefined;
  if (isCached) {
    const learning = await waiting();
    session = learning.session;
    session.send(says(PAIR));
    await learning.call;
  }
  const counted = client.exec("select c, 2");
  await firstRun(session, firstBegun([pair]), textRows("(1)"), ended(1));
  expect(await counted).toMatchObject({ rowCount: 1 });
});

test("a value of a fixed-size type is its text, unless a parser may need the type's name", async () => {
  let session: Session | undefined;
  for (const encoded of [false, true]) {
    const call = encoded ? client.json("select t, m") : client.query("select t, m, 2");
    session = await firstRun(session, firstBegun([text, mood]), row("x", "sad"), ended(1));
    const result = await call;
    const found = "rows" in result ? result.rows : JSON.parse(new TextDecoder().decode(result as Uint8Array));
    expect(found).toEqual([{ t: "x", m: "sad" }]);
  }
  const types = { mood: (value: string) => value.toUpperCase() };
  const parsed = client.query("select m", { types });
  await answer(session!, ["Query"], says('{"mood":20001}'));
  await firstRun(session, firstBegun([mood]), textRows("sad"), ended(1));
  await answer(session!, ["Query"], says('[[20001,"e","mood",[0],[]]]'));
  // By now the name may mean another type.
  await answer(session!, ["Query"], says('{"mood":20001}'));
  expect((await parsed).rows).toEqual([{ m: "SAD" }]);
});

test("the lowest OID of a database's own types counts as such a type", async () => {
  const call = client.query("select c");
  const lowest = { ...pair, oid: FIRST_OF_A_DATABASE };
  const session = await firstRun(undefined, firstBegun([lowest]), textRows("(1)"), ended(1));
  await answer(session, ["Query"], says(`[[${FIRST_OF_A_DATABASE},"c","pair",[23],["a"]]]`));
  expect((await call).rows).toEqual([{ c: { a: 1 } }]);
});

test("a cached type without a composite inside needs no further look-up, on any connection", async () => {
  const database = "first-execution";
  newClient({ ...OPTIONS, database });
  const learning = client.query("select m");
  const session = await firstRun(undefined, firstBegun([moods]), textRows("{sad}"), ended(1));
  await answer(session, ["Query"], says('[[20004,"A","_mood",[20001],[]],[20001,"e","mood",[0],[]]]'));
  expect((await learning).rows).toEqual([{ m: ["sad"] }]);
  await using other = otherClient({ ...OPTIONS, database });
  for (const [user, at] of [
    [client, session],
    [other, undefined],
  ] as const) {
    const call = user.query(`select m, ${at ? 1 : 2}`);
    await firstRun(at, firstBegun([moods]), textRows("{glad}"), ended(1));
    expect((await call).rows).toEqual([{ m: ["glad"] }]);
  }
});

test("a type with a composite inside is looked up each time, because it may have changed", async () => {
  let session: Session | undefined;
  for (const name of ["a", "b"]) {
    const call = client.query(`select c as ${name}`);
    session = await firstRun(session, firstBegun([pairs]), textRows('{"(1)"}'), ended(1));
    await answer(session, ["Query"], says(`[[20003,"A","_pair",[20002],[]],[20002,"c","pair",[23],["${name}"]]]`));
    expect((await call).rows).toEqual([{ c: [{ [name]: 1 }] }]);
  }
});

// -- dropped rows ----------------------------------------------------------------------------------------------------

/** Records the names of what the core is told outside of operations. */
function toldCore(): string[] {
  const names: string[] = [];
  const { tell } = Connection.prototype;
  vi.spyOn(Connection.prototype, "tell").mockImplementation(function (this: Connection, command) {
    const noted = (handle: CoreConnection) =>
      new Proxy(handle, {
        get(target, name) {
          names.push(String(name));
          const member = target[name as keyof CoreConnection] as (...given: unknown[]) => unknown;
          return member.bind(target);
        },
      });
    tell.call(this, (handle) => command(noted(handle)));
  });
  return names;
}

test("a call that ends while its rows wait gets none, and the core drops them before the next call", async () => {
  const told = toldCore();
  try {
    const abort = new AbortController();
    const { call, session } = await waiting("(1)", { signal: abort.signal });
    expect(told).not.toContain("drop_held");
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "ABORTED", hasNoEffect: false });
    await acceptCancel();
    session.send(errorAndReady("57014"));
    await quiet();
    expect(told).toContain("drop_held");
    await nextRunsFirst(session);
  } finally {
    vi.restoreAllMocks();
  }
});

test("waiting rows are dropped if their statement fails, without a look-up", async () => {
  const call = client.query("select c");
  const session = await firstRun(undefined, firstBegun([pair]), textRows("(1)"), errorAndReady("22012"));
  await expect(call).rejects.toMatchObject({ code: "22012", committed: false });
  await nextRunsFirst(session);
});

test("too many waiting rows fail the call, and the next call describes", async () => {
  const call = client.query("select c");
  const many = Buffer.concat(Array<Buffer>(17).fill(textRows(`(${"1".repeat(MOST_HELD >> 4)})`)));
  const session = await firstRun(undefined, firstBegun([pair]));
  session.send(many);
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "TYPES_NEED_DESCRIBE", retryable: false });
  await expect(call).rejects.toThrow("more than 4 MiB");
  await acceptCancel();
  session.send(errorAndReady("57014"));
  await nextIsDescribed(session, "select c");
});

test("no row with a record reaches a stream, which fails after its statement, and the next call describes", async () => {
  const opening = client.stream("select r");
  const ends = expect(opening).rejects.toMatchObject({
    ...{ name: "UsageError", code: "RECORD_NEEDS_DESCRIBE", retryable: false },
  });
  const session = await firstRun(undefined, firstBegun([record]), textRows("(1)", "(2)"));
  expect(await isPending(opening)).toBe(true);
  session.send(ended(2));
  await ends;
  await nextRunsFirst(session);
  await nextIsDescribed(session, "select r");
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

test("an invalid text among rows that have waited is refused too", async () => {
  const { call, session } = await waiting("(odd)");
  session.send(says(PAIR));
  await expect(call).rejects.toMatchObject(UNREADABLE);
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
  ["a failure before rows that could not be read", "select r", "22012", [firstBegun([record])]],
  ["a check that the server has no memory for", "select n", "53200", [wire.closeComplete(), wire.parseComplete()]],
])("%s is the call's error", async (_, query, code, answers) => {
  const call = client.query(query);
  call.catch(() => {});
  const session = await firstRun(undefined, ...answers, errorAndReady(code));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code });
  await nextRunsFirst(session);
});

test("a statement whose check fails is described, and all others of its session from then on", async () => {
  const call = client.query("select n");
  const session = await firstRun(undefined, wire.closeComplete(), wire.parseComplete(), errorAndReady("42883"));
  await runsDescribed(session, call);
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

test.each([
  ["a server that goes", shutdown(), "57P01"],
  ["a lock", errorAndReady("55P03"), "55P03"],
  ["a conflict, which would be safe to repeat", errorAndReady("40001"), "40001"],
])("%s during the look-up fails a call whose statement has run, and is not repeated", async (_, end, code) => {
  const { call, session } = await waiting();
  session.send(end);
  await expect(call).rejects.toMatchObject({ code, retryable: false });
  if (code !== "57P01") return nextRunsFirst(session);
  expect(await isPending(accepted())).toBe(true);
});

test.each([[], [23, 23]])(
  "a statement with other parameters than the bound ones is another statement",
  async (...types) => {
    const call = client.query(sql`select ${7}::int4 as n`);
    call.catch(() => {});
    await firstRun(undefined, firstBegun([int4], types), textRows("7"), ended(1));
    await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  },
);
