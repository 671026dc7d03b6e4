// First runs on servers that answer unlike PostgreSQL, over sockets in memory: which answers are accepted, what is then
// described and run, what may have run and is never repeated, and what is remembered of the server. The answers of
// immudb and of SPQR's router are those that they gave to this driver, message by message (immudb 1.11.1, SPQR of
// August 2026 over PostgreSQL 18 and 15).
import { beforeEach, expect, test } from "vitest";
import {
  begun,
  client,
  ended,
  execution,
  int4,
  letIn,
  newClient,
  otherClient,
  useMemoryServer,
} from "../support/memory-session.ts";
import type { Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
let database = 0;
/** Where the client of a test, and other clients beside it, connect. */
const place = () => ({ database: `odd${database}`, firstRun: "text" as const });
beforeEach(() => {
  database++;
  newClient(place());
});

const firstFlight = ["Close", "Parse", "Parse", "Bind", "Execute", "Describe", "Bind", "Execute", "Sync"];
const behindPrelude = ["Close", "Parse", "Bind", "Execute", ...firstFlight.slice(1)];
const described = ["Parse", "Describe", "Sync"];

const text = (value: string | null) => wire.dataRow([value === null ? null : Buffer.from(value)]);
const over = (tag: string, status: "I" | "T" | "E" = "I") =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);
const failing = (C: string, M = "no", S = "ERROR") => wire.errorResponse({ S, C, M });
const checkPasses = () => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete("SELECT 0")]);
const begins = (tag: string) => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete(tag)]);
/** The statement's own answers, with one int4 column. */
const rows = (...values: string[]) =>
  Buffer.concat([
    wire.parameterDescription([]),
    wire.rowDescription([int4]),
    wire.bindComplete(),
    ...values.map((value) => text(value)),
    over(`SELECT ${values.length}`),
  ]);

/** How each of these servers answers the first run of an INSERT. */
const conversations: Record<string, (columns: number) => Buffer> = {
  "immudb, which knows no Close, goes on behind the error and answers the check with a row": () =>
    Buffer.concat([
      wire.errorResponse({
        S: "ERROR",
        C: "08P01",
        M: "found an unknown message type on the wire",
        H: "submitted message is not yet implemented",
      }),
      wire.parseComplete(),
      wire.parseComplete(),
      wire.bindComplete(),
      text(null),
      wire.commandComplete("ok"),
      wire.parameterDescription([]),
      wire.rowDescription([]),
      wire.bindComplete(),
      over("INSERT 0 0"),
    ]),
  "SPQR's router, which answers the check with its words": () =>
    Buffer.concat([
      wire.closeComplete(),
      wire.parseComplete(),
      wire.parseComplete(),
      wire.bindComplete(),
      text("pgz-edge: settings"),
      wire.commandComplete("SELECT 1"),
      wire.parameterDescription([]),
      wire.noData(),
      wire.bindComplete(),
      over("INSERT 0 1"),
    ]),
  "a server that runs on behind a check that fails": () =>
    Buffer.concat([
      wire.closeComplete(),
      wire.parseComplete(),
      failing("42883", "no such function"),
      failing("26000", "no such statement"),
      failing("34000", "no such portal"),
      wire.parameterDescription([]),
      wire.noData(),
      wire.bindComplete(),
      over("INSERT 0 1"),
    ]),
  "a server that does not answer Close": () =>
    Buffer.concat([
      wire.parseComplete(),
      checkPasses(),
      wire.parameterDescription([]),
      wire.noData(),
      wire.bindComplete(),
      over("INSERT 0 1"),
    ]),
  "a server that describes its answers unasked": () =>
    Buffer.concat([
      wire.closeComplete(),
      wire.parseComplete(),
      wire.parseComplete(),
      wire.bindComplete(),
      wire.rowDescription([int4]),
      wire.commandComplete("SELECT 0"),
      wire.parameterDescription([]),
      wire.noData(),
      wire.bindComplete(),
      over("INSERT 0 1"),
    ]),
};

async function letInFirst(): Promise<Session> {
  const session = await letIn();
  expect(await session.flight()).toEqual(firstFlight);
  return session;
}

/** Expects that the statement is described first, and then runs. */
async function runsDescribed(session: Session, prelude?: string): Promise<void> {
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(prelude ? ["Parse", "Bind", "Execute", ...execution] : execution);
  if (prelude) session.send(begins(prelude), begun(), over("SELECT 0", "T"));
  else session.send(begun(), ended(0));
}

/** Checks that another client of the same server describes first, too. */
async function isRemembered(): Promise<void> {
  const other = otherClient(place());
  const call = other.query("select elsewhere");
  await runsDescribed(await letIn());
  expect((await call).rows).toEqual([]);
  await other.close();
}

async function isNotRemembered(): Promise<void> {
  const other = otherClient(place());
  const call = other.query("select elsewhere");
  (await letInFirst()).send(wire.closeComplete(), wire.parseComplete(), checkPasses(), rows("1"));
  expect((await call).rows).toEqual([{ n: 1 }]);
  await other.close();
}

test.each(Object.entries(conversations))("%s", async (_name, answers) => {
  const insert = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(answers(0));
  expect(await insert).toMatchObject({ command: "INSERT" });
  const second = client.query("select n");
  await runsDescribed(session);
  expect((await second).rows).toEqual([]);
  await isRemembered();
});

test("from then on rows are requested as text, as by pg", async () => {
  const insert = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(conversations["SPQR's router, which answers the check with its words"]!(0));
  await insert;
  const query = client.query("select n");
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  session.reader.push(Buffer.from((await session.peer.received())!));
  const [, bind] = [session.reader.next(), session.reader.next()];
  expect(bind).toMatchObject({ name: "Bind", body: Buffer.from([0, 0, 0, 0, 0, 0, 0, 1, 0, 0]) });
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4]), text("9"), over("SELECT 1"));
  expect((await query).rows).toEqual([{ n: 9 }]);
});

test("the answers may be cut anywhere, and a row of the check may be long", async () => {
  const query = client.query("select n");
  const session = await letInFirst();
  const all = Buffer.concat([
    failing("08P01"),
    wire.parseComplete(),
    wire.parseComplete(),
    wire.bindComplete(),
    text("x".repeat(300)),
    wire.commandComplete("ok"),
    rows("7", "8"),
  ]);
  for (let at = 0; at < all.length; at += 7) {
    session.send(all.subarray(at, at + 7));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await query).rows).toEqual([{ n: 7 }, { n: 8 }]);
});

test.each(["08P01", "0A000", "XX000"])(
  "a Close that is refused with %s ran nothing, so the statement is described",
  async (code) => {
    const query = client.query("select n");
    const session = await letInFirst();
    session.send(failing(code), wire.readyForQuery());
    await runsDescribed(session);
    expect((await query).rows).toEqual([]);
    await isRemembered();
  },
);

test("a name that is taken because Close is unknown ran nothing, so the statement is described", async () => {
  const query = client.query("select n");
  const session = await letInFirst();
  session.send(failing("08P01"), failing("42P05", "already present"), wire.readyForQuery());
  await runsDescribed(session);
  await query;
  await isRemembered();
});

test.each(["57014", "53200"])(
  "a Close that fails with %s is the call's error, and does not count against the server",
  async (code) => {
    const query = client.query("select n");
    const session = await letInFirst();
    session.send(failing(code), wire.readyForQuery());
    await expect(query).rejects.toMatchObject({ name: "PostgresError", code });
    await isNotRemembered();
  },
);

test("a BEGIN after a refused Close is sent again", async () => {
  const transaction = client.transaction(async (tx) => void (await tx.exec("delete from t")));
  const session = await letIn();
  expect(await session.flight()).toEqual(behindPrelude);
  session.send(failing("08P01"), wire.readyForQuery());
  await runsDescribed(session, "BEGIN");
  expect(await session.flight()).toEqual(["Query"]);
  session.send(over("COMMIT"));
  await transaction;
});

test("if the server continues after a refused BEGIN, the statement may have run outside a transaction", async () => {
  const transaction = client.transaction(async (tx) => void (await tx.exec("delete from t")));
  const session = await letIn();
  await session.flight();
  session.send(wire.closeComplete(), failing("0A000"), wire.parseComplete(), checkPasses(), rows());
  await expect(transaction).rejects.toMatchObject({ code: "UNEXPECTED_MESSAGE", retryable: false });
});

test.each(
  Object.entries({
    "ReadyForQuery too early": () => wire.readyForQuery(),
    "a check that is not complete": () =>
      Buffer.concat([wire.closeComplete(), wire.parseComplete(), wire.parseComplete(), wire.parameterDescription([])]),
    "rows that are not described": () =>
      Buffer.concat([wire.closeComplete(), wire.parseComplete(), checkPasses(), text("1")]),
    "a check that fails, and something that is bound": () =>
      Buffer.concat([wire.closeComplete(), wire.parseComplete(), failing("42883"), wire.bindComplete()]),
    "a description twice": () =>
      Buffer.concat([
        wire.closeComplete(),
        wire.parseComplete(),
        checkPasses(),
        wire.parameterDescription([]),
        wire.parameterDescription([]),
      ]),
  }),
)("%s: it may have run, the error says so, and the next call describes", async (_name, answers) => {
  const insert = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(answers());
  const error = await insert.catch((error: unknown) => error);
  expect(error).toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  expect((error as Error).message).toContain("may have taken effect");
  const next = client.query("select n");
  await runsDescribed(await letIn());
  await next;
  await isRemembered();
});

const ends: Record<string, { end: (session: Session) => void; code: string }> = {
  "the connection is lost": { end: ({ peer }) => peer.end(), code: "CONNECTION_LOST" },
  "the server refuses it for good": {
    end: (session) => session.send(failing("08P01", "unsupported pkt type", "FATAL")),
    code: "08P01",
  },
};

test.each(Object.entries(ends))(
  "if %s in the very first run, the statement is not repeated, and the next call describes",
  async (_name, { end, code }) => {
    const insert = client.exec("insert into t values (1)");
    const session = await letInFirst();
    session.send(wire.closeComplete());
    end(session);
    await expect(insert).rejects.toMatchObject({ code, retryable: false });
    const next = client.query("select n");
    await runsDescribed(await letIn());
    await next;
  },
);

test.each(Object.entries(ends))(
  "if %s after successful first runs, that does not count against the server",
  async (_name, { end, code }) => {
    const first = client.query("select n");
    const session = await letInFirst();
    session.send(wire.closeComplete(), wire.parseComplete(), checkPasses(), rows("1"));
    await first;
    const insert = client.exec("insert into t values (1)");
    expect(await session.flight()).toEqual(firstFlight);
    session.send(wire.closeComplete());
    end(session);
    await expect(insert).rejects.toMatchObject({ code, retryable: false });
    await isNotRemembered();
  },
);

test("a server that shuts down does not count against first runs", async () => {
  const insert = client.exec("insert into t values (1)");
  const session = await letInFirst();
  session.send(wire.closeComplete(), failing("57P01", "terminating connection", "FATAL"));
  await expect(insert).rejects.toMatchObject({ code: "57P01", retryable: false });
  await isNotRemembered();
});

test("malformed rows after correct messages do not count against first runs", async () => {
  const call = client.query("select n");
  const session = await letInFirst();
  session.send(wire.closeComplete(), wire.parseComplete(), checkPasses(), wire.parameterDescription([]));
  session.send(wire.rowDescription([int4]), wire.bindComplete(), wire.raw("D", 6, Buffer.from([0, 9])));
  await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "PROTOCOL_VIOLATION" });
  await isNotRemembered();
});
