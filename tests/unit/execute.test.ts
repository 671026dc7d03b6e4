// How one statement is carried out (js/statement/execute.ts), over sockets in memory: the flights that follow from each
// decision of its state, and what is not sent once a call has ended. execution-state.test.ts has the decisions.
import { beforeEach, expect, test } from "vitest";
import type { Retry } from "../../js/util/observer.ts";
import { answer, behindBegin, outcome } from "../support/flights.ts";
import {
  accepted,
  client,
  execution,
  fakeTimers,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { begun, completeAndReady, errorAndReady, executed, ran, rows } from "../support/server-messages.ts";

useMemoryServer();
// With a named statement a flight would lack Parse.
beforeEach(() => newClient({ prepare: "unnamed" }));

/** Checks that the next statement to be sent is that of a new call. */
async function nextRuns(session: Session): Promise<void> {
  const next = client.query("select n");
  await answer(session, execution, executed(4));
  expect((await next).rows).toEqual([{ n: 4 }]);
}

test("no call is sent before the answer to BEGIN", async () => {
  const session = await letInKnowing();
  const transaction = client.transaction((tx) => Promise.all([tx.query("select n"), tx.query("select n")]));
  await answer(session, behindBegin);
  const second = session.flight();
  expect(await isPending(second)).toBe(true);
  session.send(ran("BEGIN"), executed(4, 5, "T"));
  expect(await second).toEqual(execution);
  session.send(executed(5, 6, "T"));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  expect((await transaction).map((result) => result.rows)).toEqual([[{ n: 4 }], [{ n: 5 }]]);
});

test("rows of a failed run are not mixed with those of the next run", async () => {
  using clock = fakeTimers();
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  const call = client.query("select n");
  await answer(session, execution, begun(), rows(1, 3), errorAndReady("40001"));
  await clock.pass(20);
  await answer(session, execution, executed(3));
  expect((await call).rows).toEqual([{ n: 3 }]);
});

// -- pauses ----------------------------------------------------------------------------------------------------------

test("a conflict is retried after a pause, as often as the option says, and the observer is told", async () => {
  using clock = fakeTimers();
  const told: Retry[] = [];
  newClient({ prepare: "unnamed", retryOnSerialization: 3, observer: { onRetry: (event) => void told.push(event) } });
  const session = await letInKnowing();
  const call = outcome(client.query("select n"));
  for (const attempt of [1, 2]) {
    await answer(session, execution, begun(), errorAndReady("40001"));
    await quiet();
    expect(told.map((each) => [each.attempt, each.error.code])[attempt - 1]).toEqual([attempt, "40001"]);
    await clock.pass(told[attempt - 1]!.delayMs + 1);
  }
  await answer(session, execution, begun(), errorAndReady("40001"));
  expect(await call).toMatchObject({ code: "40001" });
  expect(told.length).toBe(2);
});

test("a call that ends in its pause sends nothing more", async () => {
  using clock = fakeTimers();
  newClient({ prepare: "unnamed", retryOnSerialization: true });
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = outcome(client.query("select n", { signal: abort.signal }));
  await answer(session, execution, begun(), errorAndReady("40001"));
  await quiet();
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  await clock.pass(1_000);
  await nextRuns(session);
});

// -- cancels for other calls -----------------------------------------------------------------------------------------

test("a statement that a cancel for another call has hit runs again, once that cancel is over", async () => {
  const told: Retry[] = [];
  newClient({ prepare: "unnamed", observer: { onRetry: (event) => void told.push(event) } });
  const session = await letInKnowing();
  const abort = new AbortController();
  const aborted = outcome(client.query("select n", { signal: abort.signal }));
  const hit = client.query("select n");
  for (const _ of "12") await answer(session, execution);
  abort.abort();
  expect(await aborted).toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  session.send(executed(1), begun(), errorAndReady("57014"));
  const again = session.flight();
  expect(await isPending(again)).toBe(true);
  cancel.peer.end();
  expect(await again).toEqual(execution);
  session.send(executed(2));
  expect((await hit).rows).toEqual([{ n: 2 }]);
  // This is not reported as a failure of the call.
  expect(told).toEqual([]);
});

test("a call that ends while it waits for that cancel does not run again", async () => {
  const session = await letInKnowing();
  const aborts = [new AbortController(), new AbortController()];
  const calls = aborts.map(({ signal }) => outcome(client.query("select n", { signal })));
  for (const _ of "12") await answer(session, execution);
  aborts[0]!.abort();
  const cancel = await accepted();
  await cancel.flight();
  session.send(executed(1), begun(), errorAndReady("57014"));
  await quiet();
  aborts[1]!.abort();
  cancel.peer.end();
  expect(await Promise.all(calls)).toMatchObject([{ code: "ABORTED" }, { code: "ABORTED" }]);
  await nextRuns(session);
});
