// A result in batches (js/statement/cursor.ts), over sockets in memory: the flights of its portal, its own transaction,
// and the outcome of both when the cursor is left, fails, or loses its connection.
import { beforeEach, expect, test } from "vitest";
import type { PgzError } from "../../js/util/errors.ts";
import {
  acceptCancel,
  accepted,
  client,
  execution,
  fakeTimers,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  newServer,
  queryText,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  begun,
  completeAndReady,
  ended,
  errorAndReady,
  executed,
  executedInside,
  fatal,
  ran,
  rows,
  shutdown,
  suspended,
} from "../support/server-messages.ts";

useMemoryServer();
// With a named statement a flight would lack Parse.
beforeEach(() => newClient({ prepare: "unnamed" }));

const opening = ["Parse", "Bind", "Execute", ...execution];
const fetching = ["Execute", "Sync"];

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
  session.send(ran("BEGIN"), begun(), rows(0, 2), suspended());
  expect((await first).value).toEqual([{ n: 0 }, { n: 1 }]);
  return { session, batches };
}

async function goesOn(session: Session): Promise<void> {
  const call = client.query("select n");
  expect(await session.flight()).toEqual(execution);
  session.send(executed(7));
  expect((await call).rows).toEqual([{ n: 7 }]);
}

test("a cursor that is left reports the rows of all batches, commits, and waits until that is done", async () => {
  const ends: unknown[] = [];
  const { session, batches } = await begin({ observer: { onQueryEnd: (event: object) => void ends.push(event) } });
  const second = batches.next();
  expect(await session.flight()).toEqual(fetching);
  session.send(rows(2, 4), suspended());
  expect((await second).value).toEqual([{ n: 2 }, { n: 3 }]);
  const leaving = batches.return();
  expect(await queryText(session)).toBe("COMMIT");
  expect(await isPending(leaving)).toBe(true);
  session.send(completeAndReady("COMMIT"));
  await leaving;
  expect(ends).toMatchObject([{ rows: 4, error: undefined }]);
  await goesOn(session);
});

test("a COMMIT that is refused when the loop is left is the error of leaving", async () => {
  const { session, batches } = await begin();
  const leaving = batches.return().catch((error: unknown) => error);
  expect(await queryText(session)).toBe("COMMIT");
  session.send(errorAndReady("23505"));
  expect(await leaving).toMatchObject({ code: "23505", committed: true, retryable: false });
  await goesOn(session);
});

test("a silent server holds up a loop that is left no longer than the deadline", async () => {
  using clock = fakeTimers();
  const { batches, session } = await begin({ timeout: 100 });
  const leaving = batches.return().catch((error: unknown) => error);
  expect(await queryText(session)).toBe("COMMIT");
  await clock.pass(100);
  expect(await leaving).toMatchObject({ code: "QUERY_TIMEOUT", committed: true, retryable: false });
});

// -- failures --------------------------------------------------------------------------------------------------------

test("a connection that is lost between two batches frees the client at once if the loss is noticed", async () => {
  newServer({ readsWhileIdle: true });
  const { session, batches } = await begin();
  session.peer.reset();
  await quiet();
  // Otherwise the call would be refused, because a loop is open.
  const next = client.query("select n");
  const other = await letIn();
  expect(await other.flight()).toEqual(execution);
  other.send(executed(7));
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
  next.send(ran("BEGIN"), executedInside(4));
  expect(await queryText(next)).toBe("COMMIT");
  next.send(completeAndReady("COMMIT"));
  expect((await first).value).toEqual([{ n: 4 }]);
});

test.each([
  [
    "the end of the connection",
    (session: Session) => session.peer.end(),
    { code: "CONNECTION_LOST", retryable: false },
  ],
  ["a cut", (session: Session) => session.peer.reset(), { code: "CONNECTION_LOST", retryable: false }],
  ["a farewell", (session: Session) => session.send(shutdown()), { code: "57P01", retryable: false }],
  ["a retryable farewell", (session: Session) => session.send(fatal("57P05")), { code: "57P05" }],
])(
  "%s in place of COMMIT's answer fails the cursor, which may have committed and runs nowhere else",
  async (_, end, facts) => {
    const { session, first } = await open();
    session.send(ran("BEGIN"), executedInside(0));
    expect(await queryText(session)).toBe("COMMIT");
    const another = accepted();
    end(session);
    await expect(Promise.race([first, another])).rejects.toMatchObject(facts);
    expect(await isPending(another)).toBe(true);
  },
);

test.each([
  ["after the answer to COMMIT takes nothing back", true],
  ["before the answer to COMMIT fails the last batch", false],
])("a session that ends %s", async (_, isAnswered) => {
  newServer({ readsWhileIdle: true });
  const { session, batches } = await begin();
  const last = batches.next();
  expect(await session.flight()).toEqual(fetching);
  session.send(rows(2, 3), ended(1, "T"));
  expect(await queryText(session)).toBe("COMMIT");
  session.send(...(isAnswered ? [completeAndReady("COMMIT")] : []), shutdown());
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

test("a silent server holds up neither the error nor a loop that is left", async () => {
  using clock = fakeTimers();
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
  await acceptCancel();
  const next = queryText(session);
  expect(await isPending(next)).toBe(true);
  session.send(errorAndReady("57014", "E"));
  expect(await next).toBe("ROLLBACK");
  session.send(completeAndReady("ROLLBACK"));
  await goesOn(session);
});

test("an abort that comes too late for the last batch still rolls back", async () => {
  const abort = new AbortController();
  const { session, batches } = await begin({ signal: abort.signal });
  const last = batches.next();
  await session.flight();
  abort.abort();
  await expect(last).rejects.toMatchObject({ code: "ABORTED", committed: true });
  await acceptCancel();
  session.send(rows(2, 3), ended(1, "T"));
  expect(await queryText(session)).toBe("ROLLBACK");
  session.send(completeAndReady("ROLLBACK"));
  await goesOn(session);
});

test.each(["while the server rolls back", "long after"])(
  "a loop that is left %s its call has failed reports the failure",
  async (when) => {
    const abort = new AbortController();
    const { session, batches } = await begin({ signal: abort.signal });
    abort.abort();
    expect(await queryText(session)).toBe("ROLLBACK");
    const rolledBack = () => session.send(completeAndReady("ROLLBACK"));
    if (when === "long after") {
      rolledBack();
      await quiet();
    }
    await expect(batches.return()).rejects.toMatchObject({ code: "ABORTED", committed: true });
    if (when !== "long after") rolledBack();
    await goesOn(session);
  },
);

// -- in a user's transaction -----------------------------------------------------------------------------------------

/** Runs this in a transaction that has begun with a statement. */
async function inTransaction<T>(work: (batches: Batches, session: Session) => Promise<T>): Promise<T | PgzError> {
  const session = await letInKnowing();
  const transaction = client.transaction(async (tx) => {
    await tx.query("select n");
    return work(tx.cursor<{ n: number }>("select n", 2) as Batches, session);
  });
  expect(await session.flight()).toEqual(opening);
  session.send(ran("BEGIN"), executedInside(9));
  return transaction.catch((error: unknown) => error as PgzError);
}

test("invalid input in a user's transaction leaves the transaction unchanged", async () => {
  const session = await letInKnowing();
  const transaction = client.transaction(async (tx) => {
    const values = Array<number>(65_536).fill(1);
    const first = tx.cursor({ text: "select n", values }, 2).next();
    await expect(first).rejects.toMatchObject({ code: "TOO_MANY_PARAMETERS" });
    return tx.query("select n");
  });
  expect(await session.flight()).toEqual(opening);
  session.send(ran("BEGIN"), executedInside(9));
  expect(await queryText(session)).toBe("COMMIT");
  session.send(completeAndReady("COMMIT"));
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
    session.send(errorAndReady("22012", "E"));
    void queryText(session).then((text) => {
      expect(text).toBe("ROLLBACK");
      session.send(completeAndReady("ROLLBACK"));
    });
    await second;
  });
  expect(outcome).toMatchObject({ code: "22012" });
});
