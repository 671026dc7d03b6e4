// A client from its first call to its end, over sockets in memory: its states, what it counts and shows, and how
// closing affects calls in flight.
import { inspect } from "node:util";
import { beforeEach, expect, test, vi } from "vitest";
import { Client, connect } from "../../js/api/client.ts";
import { installRuntime, runtime } from "../../js/sockets/runtime.ts";
import { gate } from "../support/memory-pool.ts";
import {
  accepted,
  begun,
  client,
  ended,
  failure,
  fakeClock,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  otherClient,
  quiet,
  rows,
  shutdown,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const place = { host: "memory", user: "u", database: "d", sslmode: "disable", firstRun: "describe" } as const;
const closed = { name: "UsageError", code: "CLIENT_CLOSED", retryable: true };

async function answered(session: Session, call: Promise<unknown>): Promise<void> {
  await session.flight();
  session.send(begun(), rows(7, 8), ended(1));
  expect(await call).toMatchObject({ rows: [{ n: 7 }] });
}

/** Completes a login whose StartupMessage has been read. */
function letInNow(session: Session): void {
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
}

// -- states and counters ----------------------------------------------------------------------------------------------

test("a client goes through its states, from new to closed", async () => {
  const states: string[] = [];
  const look = () => void states.push(client.stats().state);
  look();
  const call = client.query("select n");
  look();
  const session = await letIn();
  await quiet();
  look();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([{ name: "n", oid: 23 }]));
  session.send(wire.readyForQuery());
  await answered(session, call);
  look();
  session.peer.reset();
  await failure(client.query("select n"));
  look();
  const closing = client.close();
  look();
  await closing;
  look();
  expect(states).toEqual(["new", "connecting", "busy", "idle", "lost", "closed", "closed"]);
});

test("a client is busy while an idle transaction is open, and shows its status", async () => {
  const session = await letInKnowing();
  const { closed: goesOn, open: goOn } = gate();
  const call = client.transaction(async (tx) => (await tx.query("select n"), goesOn));
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await quiet();
  expect(client.stats()).toMatchObject({ state: "busy", transactionStatus: "T" });
  goOn();
  await session.flight();
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  await call;
  expect(client.stats()).toMatchObject({ state: "idle", transactionStatus: "I" });
});

test("counters are totals of all its connections, and nothing else is among them", async () => {
  const nothing = { boundaryCalls: 0, copiedBytes: 0, receivedBytes: 0, receivedChunks: 0, cancels: 0 };
  const none = { ...nothing, writes: 0, flights: 0, queries: 0, errors: 0, rows: 0, bytes: 0 };
  expect(client.stats()).toStrictEqual({ ...none, transactionStatus: "I", state: "new" });
  const first = await letInKnowing();
  const before = client.stats();
  for (const name of ["boundaryCalls", "copiedBytes", "receivedBytes", "receivedChunks", "writes", "flights"] as const)
    expect(before[name], name).toBeGreaterThan(0);
  first.peer.reset();
  await failure(client.query("select n"));
  const lost = client.stats();
  const call = client.query("select n");
  const second = await letIn();
  // The counts of the lost connection stay.
  const connecting = client.stats();
  for (const name of ["boundaryCalls", "receivedBytes", "writes", "flights"] as const)
    expect(connecting[name], name).toBeGreaterThanOrEqual(lost[name]);
  await answered(second, call);
  const after = client.stats();
  expect(after).toMatchObject({ queries: 3, errors: 1, rows: 2 });
  // The second login and an execution of a known statement are two flights.
  expect(after.flights).toBe(lost.flights + 2);
  expect(after.writes).toBe(lost.writes + 2);
});

test("a setting of the server is known from the login on", async () => {
  expect(client.parameterStatus("integer_datetimes")).toBeUndefined();
  await letInKnowing();
  expect(client.parameterStatus("integer_datetimes")).toBe("on");
  expect(client.parameterStatus("TimeZone")).toBeUndefined();
});

test("a client prints its state, its place and its counters, without a password", async () => {
  newClient({ prepare: "unnamed", password: "open sesame" });
  await letInKnowing();
  const shown = inspect(client);
  expect(shown).toMatch(/^Client \{/);
  for (const part of [
    "state: 'idle'",
    "host: 'memory'",
    "user: 'u'",
    "transactionStatus: 'I'",
    "queries: 1",
    "rows: 1",
  ])
    expect(shown).toContain(part);
  expect(shown).not.toContain("sesame");
});

// -- connecting -------------------------------------------------------------------------------------------------------

test("connect resolves with the client after the login, and rejects if the server refuses it", async () => {
  const connecting = connect(place);
  const session = await accepted();
  await session.flight();
  expect(await isPending(connecting)).toBe(true);
  letInNow(session);
  const made = await connecting;
  expect(made).toBeInstanceOf(Client);
  expect(made.stats()).toMatchObject({ state: "idle", queries: 0 });
  await made.close();
  async function connectsHere() {
    return await connect(place);
  }
  const refused = failure(connectsHere());
  const refusing = await accepted();
  await refusing.flight();
  refusing.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "28P01", M: "no" }));
  refusing.peer.end();
  expect(await refused).toMatchObject({ code: "28P01", stack: expect.stringContaining("connectsHere") });
});

test("connect waits for the whole login, even if a query could be sent before its end", async () => {
  const connecting = connect({ ...place, earlyQuery: true, password: "x", allowCleartextPassword: true });
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  await session.message();
  expect(await isPending(connecting)).toBe(true);
  letInNow(session);
  await (await connecting).close();
});

test("calls that are made during connect share one connection", async () => {
  const calls = [client.query("select n"), client.exec("select n")];
  const session = await letIn();
  const another = accepted();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([{ name: "n", oid: 23 }]));
  session.send(wire.readyForQuery());
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  await Promise.all(calls);
  expect(await isPending(another)).toBe(true);
});

test("after a failed connect, shared by the waiting calls, the next call connects again", async () => {
  newClient({ prepare: "unnamed", earlyQuery: false });
  const refuse = async () => {
    const session = await accepted();
    await session.flight();
    session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "53300", M: "too many clients" }));
    session.peer.end();
  };
  const sharing = [client.query("select n"), client.query("select n")].map(failure);
  await refuse();
  for (const one of sharing) expect(await one).toMatchObject({ code: "53300" });
  await quiet();
  expect(client.stats().state).toBe("new");
  const connecting = failure(client.open());
  await refuse();
  expect(await connecting).toMatchObject({ code: "53300" });
  expect(client.stats().state).toBe("new");
  const call = client.query("select n");
  const session = await letIn();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([{ name: "n", oid: 23 }]));
  session.send(wire.readyForQuery());
  await answered(session, call);
});

// -- closing ----------------------------------------------------------------------------------------------------------

test("a client that was never used closes at once, and refuses calls from then on", async () => {
  const one = otherClient();
  await one.close();
  expect(one.stats().state).toBe("closed");
  for (const call of [one.query("select n"), one.exec("select n"), one.transaction(() => 1)])
    await expect(call).rejects.toMatchObject(closed);
  await expect(one.open()).rejects.toMatchObject(closed);
});

test("disposing closes the client, and closing twice is the same as closing once", async () => {
  const session = await letInKnowing();
  await client[Symbol.asyncDispose]();
  expect(client.stats().state).toBe("closed");
  expect(client.close()).toBe(client.close());
  expect([await session.flight(), await session.flight()]).toEqual([["Terminate"], ["end"]]);
});

test("calls in flight have 400 ms to finish after close, and later calls are refused", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const [first, second] = [client.query("select n"), failure(client.query("select n"))];
  const closing = client.close();
  await expect(client.query("select n")).rejects.toMatchObject(closed);
  await session.flight();
  await session.flight();
  await clock.pass(399);
  session.send(begun(), rows(7, 8), ended(1));
  expect((await first).rows).toEqual([{ n: 7 }]);
  expect(await isPending(closing)).toBe(true);
  await clock.pass(1);
  expect(await second).toMatchObject({ code: "CLIENT_CLOSED" });
  await clock.pass(1_000);
  await closing;
});

test("close resolves as soon as the last call is over, and without calls it sets no timer", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const call = client.query("select n");
  const closing = client.close();
  await session.flight();
  session.send(begun(), rows(7, 8), ended(1));
  await call;
  expect(await session.flight()).toEqual(["Terminate"]);
  await closing;
  await clock.pass(0);
  expect(vi.getTimerCount()).toBe(0);
});

test("close ends a connect in progress and the calls that wait for it", async () => {
  using clock = fakeClock();
  const call = failure(client.query("select n"));
  const session = await accepted();
  await session.flight();
  const closing = client.close();
  await clock.pass(400);
  expect(await call).toMatchObject(closed);
  expect(await session.message()).toBeUndefined();
  await closing;
  expect(client.stats().state).toBe("closed");
});

test("a call that moves to another session during close ends with the same deadline", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const call = failure(client.query("select n"));
  await session.flight();
  const closing = client.close();
  await clock.pass(100);
  session.send(shutdown());
  const again = await accepted();
  await again.flight();
  await clock.pass(299);
  expect(await isPending(call)).toBe(true);
  await clock.pass(1);
  expect(await call).toMatchObject(closed);
  expect(await again.message()).toBeUndefined();
  await closing;
  expect(await isPending(accepted())).toBe(true);
});

test("a call that waits for its turn ends with close, without a new connection", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const calls = [client.query("select n"), client.simple("select 1")].map(failure);
  await session.flight();
  const closing = client.close();
  await clock.pass(400);
  for (const call of calls) expect(await call).toMatchObject({ code: "CLIENT_CLOSED" });
  // The running call is cancelled.
  expect(await (await accepted()).flight()).toEqual(["CancelRequest"]);
  const another = accepted();
  await clock.pass(10_000);
  await closing;
  expect(await isPending(another)).toBe(true);
});

test("aborting the client's signal ends its calls", async () => {
  const stop = new AbortController();
  newClient({ prepare: "unnamed", signal: stop.signal });
  const session = await letInKnowing();
  const call = failure(client.query("select n"));
  await session.flight();
  stop.abort("enough");
  expect(await call).toMatchObject({ code: "ABORTED", cause: "enough" });
});

test("a connected client belongs to the request that connected it", async () => {
  let request = 1;
  const inRequest = () => {
    const home = request;
    return () => request === home;
  };
  installRuntime({ ...runtime(), inRequest });
  const connecting = connect(place);
  await letIn();
  const made = await connecting;
  request = 2;
  await expect(made.query("select n")).rejects.toMatchObject({ code: "OTHER_REQUEST" });
  request = 1;
  await made.close();
});

test("an open stream outlives its client, and its connection ends with the stream", async () => {
  const session = await letInKnowing();
  const opening = client.stream("select n");
  await session.flight();
  session.send(begun(), rows(0, 1));
  const stream = await opening;
  await client.close();
  expect(client.stats().state).toBe("closed");
  const ending = session.flight();
  expect(await isPending(ending)).toBe(true);
  session.send(rows(1, 2), ended(2));
  expect(await new Response(stream).text()).toBe('{"n":0}\n{"n":1}\n');
  expect(await ending).toEqual(["Terminate"]);
});

test("a listener is independent of its client and continues after the client's end", async () => {
  const pending = client.listen("jobs");
  const session = await letIn();
  await session.flight();
  session.send(wire.commandComplete("LISTEN"), wire.readyForQuery());
  const listener = await pending;
  await client.close();
  session.send(wire.message("A", wire.int32(9), Buffer.from("jobs\0seven\0")));
  expect((await listener[Symbol.asyncIterator]().next()).value).toMatchObject({ payload: "seven" });
  await listener.close();
});
