// A batch of described statements (js/statement/batch.ts), over sockets in memory: what is sent first, what is
// pipelined, and what each item reports when one of them fails.
import { expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import type { PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  begun,
  client,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const describing = ["Parse", "Describe", "Sync"];
const item = ["Bind", "Describe", "Execute"];
const parsed = ["Parse", ...item];
const ready = (status: "I" | "T" | "E" = "I") => wire.readyForQuery(status);
const error = (C: string, more = {}) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });
const described = (columns = [int4], parameters: number[] = []) =>
  Buffer.concat([wire.parseComplete(), wire.parameterDescription(parameters), wire.rowDescription(columns), ready()]);
const bound = () => Buffer.concat([wire.bindComplete(), wire.rowDescription([int4], [1])]);
/** The rest of an item's answer, with one row. */
const row = (n: number) => Buffer.concat([wire.dataRow([wire.int32(n)]), wire.commandComplete("SELECT 1")]);
const failed = (C: string) => Buffer.concat([error(C), ready()]);

/** Expects this flight, and then answers it. */
async function answer(session: Session, flight: readonly string[], ...messages: Uint8Array[]): Promise<void> {
  expect(await session.flight()).toEqual(flight);
  session.send(...messages);
}

/** The answers to Close and Parse, which come first if a name is prepared again. */
function inFront(flight: readonly string[]): Buffer[] {
  const answers: Record<string, Buffer> = { Close: wire.closeComplete(), Parse: wire.parseComplete() };
  return flight.flatMap((name) => answers[name] ?? []);
}

/** Answers a repeated Describe of a statement. The client may first close the old name. */
async function describedAgain(session: Session, types: number[] = []): Promise<void> {
  const flight = await session.flight();
  expect(flight.filter((name) => name !== "Close")).toEqual(describing);
  session.send(...inFront(flight.slice(0, -3)), described([int4], types));
}

/** Returns a session on which these statements have run in a batch, so that their descriptions are cached. */
async function knowing(...texts: string[]): Promise<Session> {
  const call = client.batch(texts);
  const session = await letIn();
  for (const _ of texts) await answer(session, describing, described());
  await answer(session, [...texts.flatMap(() => item), "Sync"], ...texts.flatMap(() => [bound(), row(0)]), ready());
  await call;
  return session;
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "well",
    ({ code, batch, retryable }: PgzError) => ({ code, batch, retryable }),
  );
const reasons = (settled: PromiseSettledResult<{ rows: unknown[] }>[]) =>
  settled.map((one) => (one.status === "rejected" ? (one.reason as PgzError).code : one.value.rows));

test("statements are described together once, and then all items are pipelined", async () => {
  const texts = ["select a", "select b", "select a"];
  const call = client.batch(texts);
  const session = await letIn();
  expect([await session.flight(), await session.flight()]).toEqual([describing, describing]);
  session.send(described(), described());
  await answer(session, [...item, ...item, "Bind", "Execute", "Sync"], bound(), row(1), bound(), row(2));
  session.send(wire.bindComplete(), row(3), ready());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
  const second = client.batch(["select b"]);
  await answer(session, [...item, "Sync"], bound(), row(4), ready());
  expect((await second)[0]).toMatchObject({ rows: [{ n: 4 }], rowCount: 1, command: "SELECT" });
});

test("if a batch is not atomic, each item has a Sync, and a failed item leaves the others unaffected", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b", "select a"], { atomic: false });
  for (const _ of "123") await answer(session, [...item, "Sync"]);
  session.send(bound(), row(1), ready(), bound(), failed("22012"), bound(), row(3), ready());
  expect(reasons(await call)).toEqual([[{ n: 1 }], "22012", [{ n: 3 }]]);
});

test("a failed item rolls back the earlier ones, and the later ones have not run", async () => {
  const session = await knowing("select a", "select b", "select c");
  const call = client.batch(["select a", "select b", "select c"]);
  await session.flight();
  session.send(bound(), row(1), bound(), failed("22012"));
  expect(await outcome(call)).toEqual({
    code: "22012",
    batch: { index: 1, rolledBack: [0], skipped: [2] },
    retryable: false,
  });
  // The error is not about a description, so the cached descriptions are kept.
  const next = client.batch(["select a"]);
  await answer(session, [...item, "Sync"], bound(), row(5), ready());
  expect((await next)[0]!.rows).toEqual([{ n: 5 }]);
});

test("what a COMMIT among the items has committed is not reported as rolled back", async () => {
  const session = await knowing("select a", "commit", "select b");
  const call = client.batch(["select a", "commit", "select b", "select a"]);
  await session.flight();
  session.send(bound(), row(1), wire.bindComplete(), wire.noData(), wire.commandComplete("COMMIT"));
  session.send(bound(), row(1), wire.bindComplete(), failed("22012"));
  expect(await outcome(call)).toMatchObject({ batch: { index: 3, rolledBack: [2], skipped: [] } });
});

test("a transaction that cannot be committed is no single item's failure", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b"]);
  await session.flight();
  session.send(bound(), row(1), bound(), row(2), failed("23503"));
  expect(await outcome(call)).toMatchObject({
    code: "23503",
    batch: { index: undefined, rolledBack: [0, 1], skipped: [] },
  });
});

// -- before anything runs --------------------------------------------------------------------------------------------

test("a statement that cannot be described fails all of an atomic batch before any item runs", async () => {
  const call = client.batch(["select a", "select b", "select c"]);
  const session = await letIn();
  for (const end of [described(), failed("42P01"), described()]) await answer(session, describing, end);
  expect(await outcome(call)).toEqual({
    code: "42P01",
    batch: { index: 1, rolledBack: [], skipped: [0, 2] },
    retryable: false,
  });
});

test("a statement that cannot be described fails only its own items if the batch is not atomic", async () => {
  const call = client.batch(["select a", "select b", "select a", "select b"], { atomic: false });
  const session = await letIn();
  for (const end of [failed("42P01"), described()]) await answer(session, describing, end);
  for (const messages of [
    [bound(), row(1)],
    [bound(), row(2)],
  ])
    await answer(session, [...item, "Sync"], ...messages, ready());
  expect(reasons(await call)).toEqual(["42P01", [{ n: 1 }], "42P01", [{ n: 2 }]]);
});

test("if no statement can be described, nothing more is sent", async () => {
  const call = client.batch(["select a", "select b"], { atomic: false });
  const session = await letIn();
  for (const code of ["42P01", "42703"]) await answer(session, describing, failed(code));
  expect(reasons(await call)).toEqual(["42P01", "42703"]);
});

test.each([true, false])("a value that cannot be sent stops all of a batch, atomic or not (%s)", async (atomic) => {
  const queries = [sql`select ${1}`, sql`select ${"x"}`, sql`select ${2}`];
  const call = client.batch(queries, { atomic } as { atomic: true });
  const session = await letIn();
  // The isolate may have cached another type, so the client describes the statement once more.
  await answer(session, describing, described([int4], [23]));
  await describedAgain(session, [23]);
  expect(await outcome(call)).toMatchObject({
    code: "INVALID_PARAMETER",
    batch: { index: 1, rolledBack: [], skipped: [0, 2] },
  });
  expect(client.stats().state).toBe("idle");
});

test("a value that does not fit the cached type is encoded by the server's current description", async () => {
  const call = client.batch([sql`select ${1}`]);
  const session = await letIn();
  await answer(session, describing, described([int4], [23]));
  await answer(session, [...item, "Sync"], bound(), row(1), ready());
  await call;
  const other = client.batch([sql`select ${"x"}`]);
  await describedAgain(session, [25]);
  const flight = await session.flight();
  expect(flight.slice(-4)).toEqual([...item, "Sync"]);
  session.send(...inFront(flight), bound(), row(2), ready());
  expect((await other)[0]!.rows).toEqual([{ n: 2 }]);
});

// -- repeats ---------------------------------------------------------------------------------------------------------

test("a batch whose statement is lost is described again and runs once more", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b"]);
  await session.flight();
  session.send(bound(), row(1), failed("26000"));
  for (const _ of "12") await describedAgain(session);
  // The names are prepared again.
  await answer(session, [...parsed, ...parsed, "Sync"], begun(), row(3), begun(), row(4), ready());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 3 }], [{ n: 4 }]]);
});

test("a batch whose statement is lost a second time fails", async () => {
  const session = await knowing("select a");
  const call = client.batch(["select a"]);
  await session.flight();
  session.send(failed("26000"));
  await describedAgain(session);
  await answer(session, [...parsed, "Sync"], failed("26000"));
  expect(await outcome(call)).toEqual({
    code: "26000",
    batch: { index: 0, rolledBack: [], skipped: [] },
    retryable: true,
  });
});

test("a batch that may have committed is not repeated, and the next call describes its statements again", async () => {
  const session = await knowing("create table t", "select a");
  const call = client.batch(["create table t", "select a"]);
  await session.flight();
  session.send(bound(), wire.commandComplete("CREATE TABLE"), failed("26000"));
  expect(await outcome(call)).toMatchObject({ code: "26000", batch: { index: 1, rolledBack: [0], skipped: [] } });
  const next = client.query("select a");
  const flight = await session.flight();
  expect(flight).toContain("Parse");
  expect(flight).not.toContain("Bind");
  session.send(...inFront(flight.slice(0, -3)), failed("42P01"));
  await expect(next).rejects.toMatchObject({ code: "42P01" });
});

test("without a transaction items from the lost one on run again, and earlier ones keep their results", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b", "select b"], { atomic: false });
  for (const _ of "123") await session.flight();
  session.send(bound(), row(1), ready(), failed("26000"), failed("26000"));
  await describedAgain(session);
  await answer(session, [...parsed, "Sync"], begun(), row(2), ready());
  await answer(session, [...parsed, "Sync"], begun(), row(3), ready());
  expect(reasons(await call)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
});

test("an item that ran after a lost one prevents its repeat, which would come too late", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b"], { atomic: false });
  for (const _ of "12") await session.flight();
  session.send(failed("26000"), bound(), row(2), ready());
  const [first, second] = await call;
  expect(first).toMatchObject({ status: "rejected", reason: { code: "26000", retryable: true } });
  expect(second).toMatchObject({ status: "fulfilled" });
});

test("a server without a binary form is asked for text", async () => {
  const session = await knowing("select a");
  const call = client.batch(["select a"]);
  await session.flight();
  session.send(wire.bindComplete(), error("42883", { R: "getTypeBinaryOutputInfo" }), ready());
  await describedAgain(session);
  const flight = await session.flight();
  session.send(...inFront(flight), wire.bindComplete());
  session.send(
    wire.rowDescription([int4]),
    wire.dataRow([Buffer.from("6")]),
    wire.commandComplete("SELECT 1"),
    ready(),
  );
  expect((await call)[0]!.rows).toEqual([{ n: 6 }]);
});

// -- long batches, and calls that end --------------------------------------------------------------------------------

const long = "x".repeat(70_000);
const longQueries = [sql`select ${long}`, sql`select ${long}`, sql`select ${long}`];

/** A batch of three windows, whose statement has been described. */
async function inWindows(options?: object) {
  const call = client.batch(longQueries, options);
  const ending = outcome(call);
  const session = await letIn();
  await answer(session, describing, described([int4], [25]));
  return { call, ending, session };
}

test("a long batch is sent window by window, with one Sync at its end", async () => {
  const { call, session } = await inWindows();
  expect(await session.flight()).toEqual([...item, "Bind", "Execute", "Bind", "Execute", "Sync"]);
  session.send(bound(), row(1), wire.bindComplete(), row(2), wire.bindComplete(), row(3), ready());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
});

test("a long batch whose call is over is never committed", async () => {
  const abort = new AbortController();
  const { ending, session } = await inWindows({ signal: abort.signal });
  for (const name of item) expect((await session.message())!.name).toBe(name);
  abort.abort();
  expect(await ending).toMatchObject({ code: "ABORTED", retryable: false });
  const flight = await session.flight();
  expect(flight.at(-1)).toBe("Sync");
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(bound(), failed("57014"));
  await quiet();
  expect(client.stats().state).toBe("idle");
});

test("a call that is over while its statements are described sends no item", async () => {
  const abort = new AbortController();
  const call = client.batch(["select a"], { signal: abort.signal });
  const ending = outcome(call);
  const session = await letIn();
  expect(await session.flight()).toEqual(describing);
  abort.abort();
  expect(await ending).toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(described());
  const next = client.batch(["select b"]);
  await answer(session, describing, failed("42P01"));
  expect(await outcome(next)).toMatchObject({ code: "42P01" });
});

test("a value whose own code ends the call prevents the whole batch from being sent", async () => {
  const session = await knowing("select a");
  const abort = new AbortController();
  const toJSON = () => (abort.abort(), 1);
  const call = client.batch([sql`select ${{ toJSON }}`], { signal: abort.signal });
  const ending = outcome(call);
  await answer(session, describing, described([int4], [114]));
  expect(await ending).toMatchObject({ code: "ABORTED" });
  expect(await isPending(session.flight())).toBe(true);
  expect(client.stats().state).toBe("idle");
});

test("a lost connection fails the whole batch", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b"]);
  await session.flight();
  session.send(bound(), row(1));
  session.peer.end();
  expect(await outcome(call)).toEqual({ code: "CONNECTION_LOST", batch: undefined, retryable: false });
});

// -- in a transaction ------------------------------------------------------------------------------------------------

test("in a transaction, items that are not atomic wait for its BEGIN, and atomic ones are sent with it", async () => {
  const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  for (const atomic of [true, false]) {
    await knowing("select a").then(async (session) => {
      const call = client.transaction((tx) => tx.batch(["select a"], { atomic } as { atomic: true }));
      if (atomic) {
        const flight = ["Parse", "Bind", "Execute", ...item, "Sync"];
        await answer(session, flight, ...begins, bound(), row(1), ready("T"));
      } else {
        await answer(session, ["Query"], wire.commandComplete("BEGIN"), ready("T"));
        await answer(session, [...item, "Sync"], bound(), row(1), ready("T"));
      }
      await answer(session, ["Query"], wire.commandComplete("COMMIT"), ready());
      expect((await call).length).toBe(1);
    });
    await client.close();
    newClient();
  }
});

test("a lost statement inside a transaction is not retried, because the transaction has failed", async () => {
  const session = await knowing("select a", "select b");
  const call = client.transaction(async (tx) => {
    await tx.batch(["select a"]);
    return tx.batch(["select b"]);
  });
  const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  await answer(session, ["Parse", "Bind", "Execute", ...item, "Sync"], ...begins, bound(), row(1), ready("T"));
  await answer(session, [...item, "Sync"], error("26000"), ready("E"));
  await answer(session, ["Query"], wire.commandComplete("ROLLBACK"), ready());
  expect(await outcome(call)).toMatchObject({ code: "26000" });
});
