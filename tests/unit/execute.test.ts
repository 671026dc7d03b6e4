// How one statement is carried out (js/statement/execute.ts), over sockets in memory: the flights that follow from each
// decision of its state, and what is not sent once a call has ended.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import type { Retry } from "../../js/util/observer.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  fakeClock,
  int4,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  quiet,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
// With a named statement a flight would lack Parse.
beforeEach(() => newClient({ prepare: "unnamed" }));

const describing = ["Parse", "Describe", "Sync"];
const beginning = () => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")]);
const error = (C: string, more = {}) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });
const failed = (C: string, status: "I" | "E" = "I") => Buffer.concat([error(C), wire.readyForQuery(status)]);
const described = (columns = [int4], parameters: number[] = []) =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.parameterDescription(parameters), wire.rowDescription(columns)],
    wire.readyForQuery(),
  ]);
/** The complete answer to an execution, with one row. */
const whole = (n: number) => Buffer.concat([begun(), rows(n, n + 1), ended(1)]);

async function answer(session: Session, flight: readonly string[], ...messages: Uint8Array[]): Promise<void> {
  expect(await session.flight()).toEqual(flight);
  session.send(...messages);
}

test("a known statement is sent at once in one flight, and an unknown one after its description", async () => {
  const call = client.query("select n");
  const session = await letIn();
  await answer(session, describing, described());
  await answer(session, execution, whole(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  const again = client.query("select n");
  await answer(session, execution, whole(2));
  expect((await again).rows).toEqual([{ n: 2 }]);
});

test("calls are pipelined, but no call is sent before the answer to BEGIN", async () => {
  const session = await letInKnowing();
  const calls = [1, 2, 3].map(() => client.query("select n"));
  for (const _ of calls) expect(await session.flight()).toEqual(execution);
  session.send(whole(1), whole(2), whole(3));
  expect((await Promise.all(calls)).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);

  const transaction = client.transaction((tx) => Promise.all([tx.query("select n"), tx.query("select n")]));
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
  const second = session.flight();
  expect(await isPending(second)).toBe(true);
  session.send(beginning(), begun(), rows(4, 5), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  expect(await second).toEqual(execution);
  session.send(begun(), rows(5, 6), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await answer(session, ["Query"], wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await transaction).map(({ rows }) => rows)).toEqual([[{ n: 4 }], [{ n: 5 }]]);
});

test("invalid values are reported before anything is sent", async () => {
  const session = await letInKnowing();
  const many = Array<number>(65_536).fill(1);
  await expect(client.query({ text: "select n", values: many })).rejects.toMatchObject({ code: "TOO_MANY_PARAMETERS" });
  const call = client.query("select n");
  await answer(session, execution, whole(1));
  await call;
});

test("a value that does not fit the cached shape is encoded by the server's current description", async () => {
  const first = client.query(sql`select ${1}`);
  const session = await letIn();
  await answer(session, describing, described([int4], [23]));
  await answer(session, execution, whole(1));
  await first;
  const second = client.query(sql`select ${"x"}`);
  await answer(session, describing, described([int4], [25]));
  await answer(session, execution, whole(2));
  expect((await second).rows).toEqual([{ n: 2 }]);
});

test("an outdated statement is described and runs again, and its transaction begins again", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  await answer(session, execution, failed("42P01"));
  await answer(session, describing, described());
  await answer(session, execution, whole(1));
  expect((await call).rows).toEqual([{ n: 1 }]);

  const transaction = client.transaction((tx) => tx.query("select n"));
  await answer(session, ["Parse", "Bind", "Execute", ...execution], beginning(), failed("26000", "E"));
  await answer(session, ["Query"], wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await answer(session, describing, described());
  await answer(session, ["Parse", "Bind", "Execute", ...execution], beginning(), begun(), rows(2, 3));
  session.send(wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await answer(session, ["Query"], wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await transaction).rows).toEqual([{ n: 2 }]);
});

test("if the server describes the statement as before, the error is the statement's own", async () => {
  const session = await letInKnowing();
  for (const _ of "12") {
    const call = client.query("select n");
    await answer(session, execution, begun(), failed("22012"));
    await expect(call).rejects.toMatchObject({ code: "22012" });
  }
});

test("rows of a failed run are not mixed with those of the next run", async () => {
  using clock = fakeClock();
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  const call = client.query("select n");
  await answer(session, execution, begun(), rows(1, 3), failed("40001"));
  await clock.pass(20);
  await answer(session, execution, begun(), rows(3, 4), ended(1));
  expect((await call).rows).toEqual([{ n: 3 }]);
});

// -- pauses ----------------------------------------------------------------------------------------------------------

test("a conflict is retried after a pause, as often as the option says, and the observer is told", async () => {
  using clock = fakeClock();
  const told: Retry[] = [];
  newClient({ prepare: "unnamed", retryOnSerialization: 3, observer: { onRetry: (event) => void told.push(event) } });
  const session = await letInKnowing();
  const call = client.query("select n");
  const outcome = expect(call).rejects.toMatchObject({ code: "40001" });
  for (const attempt of [1, 2]) {
    await answer(session, execution, begun(), failed("40001"));
    await quiet();
    expect(told.length).toBe(attempt);
    await clock.pass(told[attempt - 1]!.delayMs + 1);
  }
  await answer(session, execution, begun(), failed("40001"));
  await outcome;
  expect(told.map(({ attempt, error: { code } }) => [attempt, code])).toEqual([
    [1, "40001"],
    [2, "40001"],
  ]);
});

test("a call that ends in its pause sends nothing more", async () => {
  using clock = fakeClock();
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = client.query("select n", { signal: abort.signal });
  const outcome = expect(call).rejects.toMatchObject({ code: "ABORTED" });
  await answer(session, execution, begun(), failed("40001"));
  await quiet();
  abort.abort();
  await outcome;
  await clock.pass(1_000);
  const next = client.query("select n");
  await answer(session, execution, whole(4));
  expect((await next).rows).toEqual([{ n: 4 }]);
});

test("a statement that a cancel for another call has hit runs again, once that cancel is over", async () => {
  const told: Retry[] = [];
  newClient({ prepare: "unnamed", observer: { onRetry: (event) => void told.push(event) } });
  const session = await letInKnowing();
  const abort = new AbortController();
  const aborted = client.query("select n", { signal: abort.signal });
  const hit = client.query("select n");
  for (const _ of "12") expect(await session.flight()).toEqual(execution);
  abort.abort();
  await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  session.send(whole(1), begun(), failed("57014"));
  const again = session.flight();
  expect(await isPending(again)).toBe(true);
  cancel.peer.end();
  expect(await again).toEqual(execution);
  session.send(whole(2));
  expect((await hit).rows).toEqual([{ n: 2 }]);
  // This is not reported as a failure of the call.
  expect(told).toEqual([]);
});

test("a call that ends while it waits for that cancel does not run again", async () => {
  const session = await letInKnowing();
  const aborts = [new AbortController(), new AbortController()];
  const calls = aborts.map(({ signal }) => client.query("select n", { signal }).catch(({ code }) => code as string));
  for (const _ of "12") expect(await session.flight()).toEqual(execution);
  aborts[0]!.abort();
  const cancel = await accepted();
  await cancel.flight();
  session.send(whole(1), begun(), failed("57014"));
  await quiet();
  aborts[1]!.abort();
  cancel.peer.end();
  expect(await Promise.all(calls)).toEqual(["ABORTED", "ABORTED"]);
  const next = client.query("select n");
  await answer(session, execution, whole(4));
  expect((await next).rows).toEqual([{ n: 4 }]);
});

// -- descriptions ----------------------------------------------------------------------------------------------------

test("a failed description is the call's error, and a late one has no effect", async () => {
  const call = client.query("select m");
  const session = await letIn();
  await answer(session, describing, failed("42703"));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code: "42703" });
  const abort = new AbortController();
  const late = client.query("select m", { signal: abort.signal });
  expect(await session.flight()).toEqual(describing);
  abort.abort();
  await expect(late).rejects.toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(described());
  const next = client.query("select k");
  await answer(session, describing, failed("42P01"));
  await expect(next).rejects.toMatchObject({ code: "42P01" });
});

test("parsers by the names of types look the names up first, once", async () => {
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = client.query("select n", { types });
  const session = await letIn();
  const question = { name: "json", oid: 114, size: -1 };
  const oids = wire.dataRow([Buffer.from('{"mood":20001}')]);
  await answer(session, ["Query"], wire.rowDescription([question]), oids, wire.commandComplete("SELECT 1"));
  session.send(wire.readyForQuery());
  await answer(session, describing, described());
  await answer(session, execution, whole(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  const again = client.query("select n", { types });
  await answer(session, execution, whole(2));
  await again;
  const unknown = client.query("select n", { types: { nothing: types.mood } });
  await answer(session, ["Query"], wire.rowDescription([question]), wire.dataRow([Buffer.from('{"nothing":null}')]));
  session.send(wire.commandComplete("SELECT 1"), wire.readyForQuery());
  await expect(unknown).rejects.toMatchObject({ name: "UsageError", code: "INVALID_OPTION" });
});
