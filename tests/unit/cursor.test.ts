// A result in batches (js/statement/cursor.ts), over sockets in memory: the flights of its portal, its own transaction,
// and the outcome of both when the cursor is left, fails, or loses its connection.
import { beforeEach, expect, test } from "vitest";
import type { PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  begun,
  client,
  division,
  execution,
  fakeClock,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  newServer,
  quiet,
  rows,
  shutdown,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
// With a named statement a flight would lack Parse.
beforeEach(() => newClient({ prepare: "unnamed" }));

const opening = ["Parse", "Bind", "Execute", ...execution];
const fetching = ["Execute", "Sync"];
const beginning = () => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")]);
const suspended = (status: "T" | "E" = "T") => Buffer.concat([wire.message("s"), wire.readyForQuery(status)]);
const atEnd = (count: number, status: "T" | "I" = "T") =>
  Buffer.concat([wire.commandComplete(`SELECT ${count}`), wire.readyForQuery(status)]);
const done = (tag: string, status: "I" | "T" | "E" = "I") =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);
const failed = (C: string, status: "I" | "T" | "E") =>
  Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery(status)]);

type Batches = AsyncGenerator<{ n: number }[], void, undefined>;

/** Opens a cursor with two rows a batch on a session that knows its statement, and reads its first flight. */
async function open(
  options?: object,
): Promise<{ session: Session; batches: Batches; first: ReturnType<Batches["next"]> }> {
  const session = await letInKnowing();
  const batches = client.cursor<{ n: number }>("select n", 2, options);
  const first = batches.next();
  expect(await session.flight()).toEqual(opening);
  return { session, batches, first };
}

/** The same, with the first batch read and more rows possible. */
async function begin(options?: object) {
  const { session, batches, first } = await open(options);
  session.send(beginning(), begun(), rows(0, 2), suspended());
  expect((await first).value).toEqual([{ n: 0 }, { n: 1 }]);
  return { session, batches };
}

/** The text of the next message, which is a Query. */
async function query(session: Session): Promise<string> {
  const message = await session.message();
  return message?.name === "Query" ? message.body.toString().slice(0, -1) : (message?.name ?? "end");
}

async function goesOn(session: Session): Promise<void> {
  const call = client.query("select n");
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(7, 8), atEnd(1, "I"));
  expect((await call).rows).toEqual([{ n: 7 }]);
}

test("each batch is a flight with one Execute, BEGIN is sent with the first, COMMIT after the last rows", async () => {
  const { session, batches } = await begin();
  const second = batches.next();
  expect(await session.flight()).toEqual(fetching);
  session.send(rows(2, 4), suspended());
  expect((await second).value).toEqual([{ n: 2 }, { n: 3 }]);
  const third = batches.next();
  expect(await session.flight()).toEqual(fetching);
  session.send(rows(4, 5), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  // The user gets no row of a transaction that may still fail.
  expect(await isPending(third)).toBe(true);
  session.send(done("COMMIT"));
  expect((await third).value).toEqual([{ n: 4 }]);
  expect(await batches.next()).toEqual({ done: true, value: undefined });
  await goesOn(session);
});

test("no batch is empty, and a full batch may be the last", async () => {
  const { session, batches } = await begin();
  const last = batches.next();
  await session.flight();
  session.send(atEnd(0));
  expect(await query(session)).toBe("COMMIT");
  session.send(done("COMMIT"));
  expect(await last).toEqual({ done: true, value: undefined });
  expect(client.stats()).toMatchObject({ errors: 0, state: "idle" });
});

test("a statement without rows has no batch, and commits", async () => {
  const { session, first } = await open();
  session.send(beginning(), begun(), atEnd(0));
  expect(await query(session)).toBe("COMMIT");
  session.send(done("COMMIT"));
  expect((await first).done).toBe(true);
  await goesOn(session);
});

test("a cursor that is left rolls its transaction back, and waits until that is done", async () => {
  const { session, batches } = await begin();
  const leaving = batches.return();
  expect(await query(session)).toBe("ROLLBACK");
  expect(await isPending(leaving)).toBe(true);
  session.send(done("ROLLBACK"));
  await leaving;
  await goesOn(session);
});

test("the reported row count of a cursor is that of all its batches", async () => {
  const ends: unknown[] = [];
  const { session, batches } = await begin({
    observer: { onQueryEnd: (event: object) => void ends.push(event) },
  });
  const second = batches.next();
  await session.flight();
  session.send(rows(2, 4), suspended());
  await second;
  const leaving = batches.return();
  await query(session);
  session.send(done("ROLLBACK"));
  await leaving;
  expect(ends).toMatchObject([{ rows: 4, error: undefined }]);
});

// -- failures --------------------------------------------------------------------------------------------------------

test("a first batch that fails has shown no rows, and its transaction is rolled back", async () => {
  const { session, first } = await open();
  session.send(beginning(), begun(), rows(0, 1), division(), wire.readyForQuery("E"));
  await expect(first).rejects.toMatchObject({ code: "22012", committed: false });
  expect(await query(session)).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  await goesOn(session);
});

test("the error of a later batch says that rows were seen", async () => {
  const { session, batches } = await begin();
  const second = batches.next();
  await session.flight();
  session.send(rows(2, 3), division(), wire.readyForQuery("E"));
  await expect(second).rejects.toMatchObject({ code: "22012", committed: true, retryable: false });
  expect(await query(session)).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  expect(await batches.next()).toEqual({ done: true, value: undefined });
  await goesOn(session);
});

test.each([
  ["first", 0],
  ["later", 1],
])("a failed COMMIT after the %s batch is the cursor's error", async (_, isLater) => {
  const { session, first, batches } = await open();
  let last = first;
  session.send(beginning(), begun(), rows(0, 2), isLater ? suspended() : atEnd(2));
  if (isLater) {
    await first;
    last = batches.next();
    await session.flight();
    session.send(rows(2, 3), atEnd(1));
  }
  expect(await query(session)).toBe("COMMIT");
  session.send(failed("40001", "I"));
  await expect(last).rejects.toMatchObject({ code: "40001", committed: !!isLater });
  await goesOn(session);
});

test("a connection that is lost between two batches frees the client at once if the loss is noticed", async () => {
  newServer({ readsWhileIdle: true });
  const { session, batches } = await begin();
  session.peer.reset();
  await quiet();
  // Otherwise the call would be refused, because a loop is open.
  const next = client.query("select n");
  const other = await letIn();
  expect(await other.flight()).toEqual(execution);
  other.send(begun(), rows(7, 8), atEnd(1, "I"));
  expect((await next).rows).toEqual([{ n: 7 }]);
  await expect(batches.next()).rejects.toMatchObject({ code: "CONNECTION_LOST", committed: true });
});

test("if the loss is not noticed, the next batch rejects with it", async () => {
  const { session, batches } = await begin();
  session.peer.end();
  await expect(batches.next()).rejects.toMatchObject({ code: "CONNECTION_LOST", committed: true });
});

test("a session that ends instead of the first answer had not begun, so the cursor moves to another one", async () => {
  newServer({ readsWhileIdle: true });
  const { session, first } = await open();
  session.send(shutdown());
  const next = await letIn();
  expect(await next.flight()).toEqual(opening);
  next.send(beginning(), begun(), rows(4, 5), atEnd(1));
  expect(await query(next)).toBe("COMMIT");
  next.send(done("COMMIT"));
  expect((await first).value).toEqual([{ n: 4 }]);
});

test.each([
  ["a lost connection", (session: Session) => session.peer.end(), "CONNECTION_LOST"],
  ["a session that ends", (session: Session) => session.send(shutdown()), "57P01"],
])("%s during COMMIT fails the cursor, and nothing runs again", async (_, end, code) => {
  const { session, first } = await open();
  session.send(beginning(), begun(), rows(0, 1), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  end(session);
  await expect(first).rejects.toMatchObject({ code, retryable: false });
});

test.each([
  ["after the answer to COMMIT takes nothing back", true],
  ["before the answer to COMMIT fails the last batch", false],
])("a session that ends %s", async (_, isAnswered) => {
  newServer({ readsWhileIdle: true });
  const { session, batches } = await begin();
  const last = batches.next();
  expect(await session.flight()).toEqual(fetching);
  session.send(rows(2, 3), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  session.send(...(isAnswered ? [done("COMMIT")] : []), shutdown());
  if (!isAnswered) return expect(last).rejects.toMatchObject({ code: "57P01", committed: true, retryable: false });
  expect((await last).value).toEqual([{ n: 2 }]);
  expect((await batches.next()).done).toBe(true);
});

test("invalid input before anything is sent is the cursor's error, and nothing is rolled back", async () => {
  const session = await letInKnowing();
  const values = Array<number>(65_536).fill(1);
  await expect(client.cursor({ text: "select n", values }, 2).next()).rejects.toMatchObject({
    code: "TOO_MANY_PARAMETERS",
  });
  await goesOn(session);
});

test("a deadline between two batches ends the cursor and its transaction at once", async () => {
  using clock = fakeClock();
  const { session, batches } = await begin({ timeout: 100 });
  await clock.pass(100);
  expect(await query(session)).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  await expect(batches.next()).rejects.toMatchObject({ code: "QUERY_TIMEOUT", committed: true });
  await goesOn(session);
});

test("a silent server holds up neither the error nor a loop that is left", async () => {
  using clock = fakeClock();
  const { batches, session } = await begin({ timeout: 100 });
  const second = batches.next().catch((error: unknown) => error);
  await session.flight();
  await clock.pass(100);
  expect(await second).toMatchObject({ code: "QUERY_TIMEOUT" });
  // The server answers neither the cancel, nor the portal, nor ROLLBACK.
  expect((await batches.return()).done).toBe(true);
});

test("an abort while a batch is in flight cancels the batch, and then the transaction is rolled back", async () => {
  const abort = new AbortController();
  const { session, batches } = await begin({ signal: abort.signal });
  const second = batches.next();
  await session.flight();
  abort.abort();
  await expect(second).rejects.toMatchObject({ code: "ABORTED", committed: true });
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
  const next = query(session);
  expect(await isPending(next)).toBe(true);
  session.send(failed("57014", "E"));
  expect(await next).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  await goesOn(session);
});

test("an abort during COMMIT cancels it, and rolls back what it has not committed", async () => {
  const abort = new AbortController();
  const { session, first } = await open({ signal: abort.signal });
  session.send(beginning(), begun(), rows(0, 1), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  abort.abort();
  await expect(first).rejects.toMatchObject({ code: "ABORTED", retryable: false });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014", "E"));
  expect(await query(session)).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  await goesOn(session);
});

test.each(["a farewell", "a cut"])(
  "%s in place of COMMIT's answer fails the cursor, which runs nowhere else",
  async (end) => {
    const { session, first } = await open();
    session.send(beginning(), begun(), rows(0, 1), atEnd(1));
    expect(await query(session)).toBe("COMMIT");
    const another = accepted();
    if (end === "a cut") session.peer.reset();
    else session.send(shutdown());
    await expect(first).rejects.toMatchObject({ code: end === "a cut" ? "CONNECTION_LOST" : "57P01" });
    expect(await isPending(another)).toBe(true);
  },
);

test("a retryable end in place of COMMIT's answer does not run the cursor again, since it may have committed", async () => {
  const { session, first } = await open();
  session.send(beginning(), begun(), rows(0, 1), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  const another = accepted();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P05", M: "idle" }));
  session.peer.end();
  await expect(Promise.race([first, another])).rejects.toMatchObject({ code: "57P05" });
});

// -- in a user's transaction -----------------------------------------------------------------------------------------

/** Runs this in a transaction that has begun with a statement. */
async function inTransaction<T>(work: (batches: Batches, session: Session) => Promise<T>): Promise<T | PgzError> {
  const session = await letInKnowing();
  const transaction = client.transaction(async (tx) => {
    await tx.query("select n");
    return work(tx.cursor<{ n: number }>("select n", 2) as Batches, session);
  });
  expect(await session.flight()).toEqual(opening);
  session.send(beginning(), begun(), rows(9, 10), atEnd(1));
  return transaction.catch((error: unknown) => error as PgzError);
}

test("in a user's transaction the cursor uses it, and leaves it open", async () => {
  let ending: Promise<string> | undefined;
  await inTransaction(async (batches, session) => {
    const first = batches.next();
    expect(await session.flight()).toEqual(execution);
    session.send(begun(), rows(0, 1), atEnd(1));
    expect((await first).value).toEqual([{ n: 0 }]);
    expect((await batches.next()).done).toBe(true);
    ending = query(session).then((text) => (session.send(done("COMMIT")), text));
  });
  expect(await ending).toBe("COMMIT");
});

test("a cursor that is left in a user's transaction closes its portal, and the transaction continues", async () => {
  await inTransaction(async (batches, session) => {
    const first = batches.next();
    await session.flight();
    session.send(begun(), rows(0, 2), suspended());
    await first;
    const leaving = batches.return();
    expect(await session.flight()).toEqual(["Close", "Sync"]);
    expect(await isPending(leaving)).toBe(true);
    session.send(wire.closeComplete(), wire.readyForQuery("T"));
    await leaving;
    void query(session).then(() => session.send(done("COMMIT")));
  });
  expect(client.stats().state).toBe("idle");
});

test("invalid input in a user's transaction leaves the transaction unchanged", async () => {
  const session = await letInKnowing();
  const transaction = client.transaction(async (tx) => {
    const values = Array<number>(65_536).fill(1);
    const first = tx.cursor({ text: "select n", values }, 2).next();
    await expect(first).rejects.toMatchObject({ code: "TOO_MANY_PARAMETERS" });
    return tx.query("select n");
  });
  expect(await session.flight()).toEqual(opening);
  session.send(beginning(), begun(), rows(9, 10), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  session.send(done("COMMIT"));
  expect((await transaction).rows).toEqual([{ n: 9 }]);
});

test("a cursor that failed in a user's transaction leaves no portal to close", async () => {
  const outcome = await inTransaction(async (batches, session) => {
    const first = batches.next();
    await session.flight();
    session.send(begun(), rows(0, 2), suspended());
    await first;
    const second = batches.next();
    expect(await session.flight()).toEqual(fetching);
    session.send(failed("22012", "E"));
    void query(session).then((text) => {
      expect(text).toBe("ROLLBACK");
      session.send(done("ROLLBACK"));
    });
    await second;
  });
  expect(outcome).toMatchObject({ code: "22012" });
});

// -- repeats ---------------------------------------------------------------------------------------------------------

test("a statement that the server has lost is described again, in a new transaction", async () => {
  const { session, first } = await open();
  session.send(beginning(), failed("26000", "E"));
  expect(await query(session)).toBe("ROLLBACK");
  session.send(done("ROLLBACK"));
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(wire.parseComplete(), wire.parameterDescription([]));
  session.send(wire.rowDescription([{ name: "n", oid: 23, size: 4 }]), wire.readyForQuery());
  const flight = await session.flight();
  expect(flight.filter((name) => name !== "Close")).toEqual(opening);
  session.send(...(flight[0] === "Close" ? [wire.closeComplete()] : []), beginning(), begun(), rows(3, 4), atEnd(1));
  expect(await query(session)).toBe("COMMIT");
  session.send(done("COMMIT"));
  expect((await first).value).toEqual([{ n: 3 }]);
});
