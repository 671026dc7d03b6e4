// First runs on servers that answer unlike PostgreSQL, over sockets in memory: which answers are accepted, what is then
// described and run, what may have run and is never repeated, and what is remembered of the server. The answers of
// immudb and of SPQR's router are those that they gave to this driver, message by message (immudb 1.11.1, SPQR of
// August 2026 over PostgreSQL 18 and 15).
import { beforeEach, expect, test } from "vitest";
import { answer, behindBegin, behindPrelude, described, firstRun, nextIsDescribed } from "../support/flights.ts";
import {
  client,
  execution,
  letIn,
  newClient,
  otherClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  begun,
  completeAndReady,
  description,
  ended,
  errorWithoutV,
  int4,
  ran,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
let database = 0;
/** Where the client of a test, and other clients beside it, connect. */
const place = () => ({ database: `odd${database}`, firstRun: "text" as const });
beforeEach(() => {
  database++;
  newClient(place());
});

const [closed, parsed] = [wire.closeComplete(), wire.parseComplete()];
const checkPasses = () => Buffer.concat([parsed, wire.bindComplete(), wire.commandComplete("SELECT 0")]);
/** The statement's own answers: an INSERT, or rows of one int4 column. */
const inserted = () =>
  Buffer.concat([wire.parameterDescription([]), wire.noData(), wire.bindComplete(), completeAndReady("INSERT 0 1")]);
const selected = (...values: string[]) =>
  Buffer.concat([
    ...[wire.parameterDescription([]), wire.rowDescription([int4]), wire.bindComplete()],
    ...[textRows(...values), completeAndReady(`SELECT ${values.length}`)],
  ]);

/** How each of these servers answers the first run of an INSERT. */
const conversations: Record<string, Buffer[]> = {
  "immudb, which knows no Close, goes on behind the error and answers the check with a row": [
    wire.errorResponse({
      S: "ERROR",
      C: "08P01",
      M: "found an unknown message type on the wire",
      H: "submitted message is not yet implemented",
    }),
    ...[parsed, parsed, wire.bindComplete(), textRows(null), wire.commandComplete("ok")],
    ...[wire.parameterDescription([]), wire.rowDescription([]), wire.bindComplete(), completeAndReady("INSERT 0 0")],
  ],
  "SPQR's router, which answers the check with its words": [
    ...[closed, parsed, parsed, wire.bindComplete(), textRows("pgz-edge: settings"), wire.commandComplete("SELECT 1")],
    inserted(),
  ],
  "a server that runs on behind a check that fails": [
    ...[closed, parsed, errorWithoutV("42883", "no such function"), errorWithoutV("26000", "no such statement")],
    ...[errorWithoutV("34000", "no such portal"), inserted()],
  ],
  "a server that does not answer Close": [parsed, checkPasses(), inserted()],
  "a server that describes its answers unasked": [
    ...[closed, parsed, parsed, wire.bindComplete(), wire.rowDescription([int4]), wire.commandComplete("SELECT 0")],
    inserted(),
  ],
};

/** Expects that the statement is described first, and then runs without rows. */
async function describesInstead(session: Session): Promise<void> {
  await answer(session, described, description());
  await answer(session, execution, begun(), ended(0));
}

/** Checks that another client of the same server describes first, too. */
async function isRemembered(): Promise<void> {
  await using other = otherClient(place());
  const call = other.query("select elsewhere");
  await describesInstead(await letIn());
  expect((await call).rows).toEqual([]);
}

async function isNotRemembered(): Promise<void> {
  await using other = otherClient(place());
  const call = other.query("select elsewhere");
  await firstRun(undefined, closed, parsed, checkPasses(), selected("1"));
  expect((await call).rows).toEqual([{ n: 1 }]);
}

test.each(Object.entries(conversations))("%s", async (_name, answers) => {
  const insert = client.exec("insert into t values (1)");
  const session = await firstRun(undefined, ...answers);
  expect(await insert).toMatchObject({ command: "INSERT" });
  const second = client.query("select n");
  await describesInstead(session);
  expect((await second).rows).toEqual([]);
  await isRemembered();
});

test("from then on rows are requested as text, as by pg", async () => {
  const insert = client.exec("insert into t values (1)");
  const session = await firstRun(undefined, ...conversations["SPQR's router, which answers the check with its words"]!);
  await insert;
  const query = client.query("select n");
  await answer(session, described, description());
  session.reader.push(Buffer.from((await session.peer.received())!));
  const [, bind] = [session.reader.next(), session.reader.next()];
  expect(bind).toMatchObject({ name: "Bind", body: Buffer.from([0, 0, 0, 0, 0, 0, 0, 1, 0, 0]) });
  session.send(parsed, wire.bindComplete(), wire.rowDescription([int4]), textRows("9"), completeAndReady("SELECT 1"));
  expect((await query).rows).toEqual([{ n: 9 }]);
});

test("the answers may be cut anywhere, and a row of the check may be long", async () => {
  const query = client.query("select n");
  const session = await firstRun();
  const all = Buffer.concat([
    ...[errorWithoutV("08P01"), parsed, parsed, wire.bindComplete(), textRows("x".repeat(300))],
    ...[wire.commandComplete("ok"), selected("7", "8")],
  ]);
  for (let at = 0; at < all.length; at += 7) {
    session.send(all.subarray(at, at + 7));
    await quiet();
  }
  expect((await query).rows).toEqual([{ n: 7 }, { n: 8 }]);
});

test.each([
  ...["08P01", "0A000", "XX000"].map(
    (code) => [`a Close that is refused with ${code}`, [errorWithoutV(code)]] as const,
  ),
  [
    "a name that is taken because Close is unknown",
    [errorWithoutV("08P01"), errorWithoutV("42P05", "already present")],
  ] as const,
])("%s ran nothing, so the statement is described", async (_, answers) => {
  const query = client.query("select n");
  const session = await firstRun(undefined, ...answers, wire.readyForQuery());
  await describesInstead(session);
  expect((await query).rows).toEqual([]);
  await isRemembered();
});

test.each(["57014", "53200"])(
  "a Close that fails with %s is the call's error, and does not count against the server",
  async (code) => {
    const query = client.query("select n");
    query.catch(() => {});
    await firstRun(undefined, errorWithoutV(code), wire.readyForQuery());
    await expect(query).rejects.toMatchObject({ name: "PostgresError", code });
    await isNotRemembered();
  },
);

test("a BEGIN after a refused Close is sent again", async () => {
  const transaction = client.transaction(async (tx) => void (await tx.exec("delete from t")));
  const session = await letIn();
  await answer(session, behindPrelude, errorWithoutV("08P01"), wire.readyForQuery());
  await answer(session, described, description());
  await answer(session, behindBegin, ran("BEGIN"), begun(), completeAndReady("SELECT 0", "T"));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  await transaction;
});

test("if the server continues after a refused BEGIN, the statement may have run outside a transaction", async () => {
  const transaction = client.transaction(async (tx) => void (await tx.exec("delete from t")));
  const session = await letIn();
  await session.flight();
  session.send(closed, errorWithoutV("0A000"), parsed, checkPasses(), selected());
  await expect(transaction).rejects.toMatchObject({ code: "UNEXPECTED_MESSAGE", retryable: false });
});

test.each([
  ["ReadyForQuery too early", [wire.readyForQuery()]],
  ["a check that is not complete", [closed, parsed, parsed, wire.parameterDescription([])]],
  ["rows that are not described", [closed, parsed, checkPasses(), textRows("1")]],
  ["a check that fails, and something that is bound", [closed, parsed, errorWithoutV("42883"), wire.bindComplete()]],
  [
    "a description twice",
    [closed, parsed, checkPasses(), wire.parameterDescription([]), wire.parameterDescription([])],
  ],
])("%s: it may have run, the error says so, and the next call describes", async (_name, answers) => {
  const insert = client.exec("insert into t values (1)").catch((reason: unknown) => reason);
  await firstRun(undefined, ...answers);
  const reason = await insert;
  expect(reason).toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  expect((reason as Error).message).toContain("may have taken effect");
  await nextIsDescribed();
  await isRemembered();
});

test.each(
  (
    [
      ["the connection is lost", ({ peer }: Session) => peer.end(), "CONNECTION_LOST"],
      [
        "the server refuses it for good",
        (session: Session) => session.send(errorWithoutV("08P01", "no", "FATAL")),
        "08P01",
      ],
    ] as const
  ).flatMap(([name, end, code]) => [
    [`if ${name} in the very first run, it is not repeated, and the next call describes`, end, code, false] as const,
    [`if ${name} after successful first runs, that does not count against the server`, end, code, true] as const,
  ]),
)("%s", async (_name, end, code, hasSucceeded) => {
  let session: Session | undefined;
  if (hasSucceeded) {
    const first = client.query("select n");
    session = await firstRun(undefined, closed, parsed, checkPasses(), selected("1"));
    await first;
  }
  const insert = client.exec("insert into t values (1)");
  insert.catch(() => {});
  session = await firstRun(session, closed);
  end(session);
  await expect(insert).rejects.toMatchObject({ code, retryable: false });
  await (hasSucceeded ? isNotRemembered() : nextIsDescribed());
});

test.each([
  ["a server that shuts down", { code: "57P01", retryable: false }, [closed, errorWithoutV("57P01", "no", "FATAL")]],
  [
    "malformed rows after correct messages",
    { name: "ProtocolError", code: "PROTOCOL_VIOLATION" },
    [
      ...[closed, parsed, checkPasses(), wire.parameterDescription([]), wire.rowDescription([int4])],
      ...[wire.bindComplete(), wire.raw("D", 6, Buffer.from([0, 9]))],
    ],
  ],
])("%s does not count against first runs", async (_, facts, answers) => {
  const call = client.query("select n");
  call.catch(() => {});
  await firstRun(undefined, ...answers);
  await expect(call).rejects.toMatchObject(facts);
  await isNotRemembered();
});
