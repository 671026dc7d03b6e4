// A client from its first call to its end, over sockets in memory: when it sends a call, its states and counters, and
// how it connects and closes.
import { beforeEach, expect, test, vi } from "vitest";
import { Client, connect, createClient } from "../../js/api/client.ts";
import { installRuntime, runtime } from "../../js/runtime/runtime.ts";
import { sql } from "../../js/statement/sql.ts";
import type { SqlValue } from "../../js/values/parameter-types.ts";
import { answered, runs } from "../support/memory-calls.ts";
import { gate } from "../support/memory-pool.ts";
import {
  accepted,
  cancelRequest,
  client,
  execution,
  failure,
  fakeTimers,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  otherClient,
  refuseLogin,
  useMemoryServer,
} from "../support/memory-session.ts";
import { answers, running } from "../support/memory-transaction.ts";
import {
  completeAndReady,
  description,
  executed,
  loginAnswer,
  notified,
  shutdown,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const place = { host: "memory", user: "u", database: "d", sslmode: "disable", firstRun: "describe" } as const;
const closed = { name: "UsageError", code: "CLIENT_CLOSED", hasNoEffect: true };

test("postgres.js' begin() says what to write", async () => {
  const begin = (client as unknown as { begin(work: () => Promise<void>): Promise<void> }).begin.bind(client);
  await expect(begin(async () => {})).rejects.toThrow("transaction(async (tx) => { … })");
});

// -- when a call is sent ----------------------------------------------------------------------------------------------

test("the values of statements that are described at the same time are not mixed up", async () => {
  // Encoded values share memory: a call must send its values before another call encodes.
  const beside = otherClient();
  const calls = [client, beside].map((on, at) => on.query(`select $1::int4 as n`, [[11, 22][at]]));
  const sessions = [await letIn(), await letIn()];
  for (const session of sessions) expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  // Both in one turn of the event loop, so that both calls continue in the microtasks of that turn.
  for (const session of sessions) session.send(description(undefined, [23]));
  const sent = [];
  for (const session of sessions) {
    const binds = [];
    while (binds.length < 5) binds.push((await session.message())!);
    sent.push(binds.find(({ name }) => name === "Bind")!.body.toString("hex"));
    session.send(executed());
  }
  await Promise.all(calls);
  await beside.close();
  // The value's length and its four bytes.
  const found = sent.map((bind) => [11, 22].filter((n) => bind.includes(`00000004${n.toString(16).padStart(8, "0")}`)));
  expect(new Set(found.flat())).toEqual(new Set([11, 22]));
});

test("a call is sent in its own turn of the event loop, before a call that its values' own code makes", async () => {
  const session = await letInKnowing();
  const json = (value: SqlValue) => client.query(sql`select ${value}::json`);
  const learningToo = json(4);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(description(undefined, [114]));
  await answered(session, learningToo);

  const { writes } = client.stats();
  let inner: ReturnType<Client["query"]> | undefined;
  const outer = json({
    toJSON() {
      inner ??= client.query("select n");
      return 5;
    },
  });
  expect(inner).toBeInstanceOf(Promise);
  await undefined;
  expect(client.stats().writes).toBe(writes + 1);
  await answered(session, outer, 1);
  await answered(session, inner!, 2);
});

test("an early query is sent after the password, before the server has accepted the login", async () => {
  newClient({ password: "x", earlyQuery: true, allowCleartextPassword: true });
  const query = client.query("select n");
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  expect(await session.flight()).toEqual(["PasswordMessage", "Parse", "Describe", "Sync"]);
  session.send(loginAnswer());
  session.send(description());
  await answered(session, query);
});

// -- states and counters ----------------------------------------------------------------------------------------------

test("a client goes through its states, from new to closed", async () => {
  const states: string[] = [];
  const look = () => void states.push(client.stats().state);
  look();
  expect(client.parameterStatus("integer_datetimes")).toBeUndefined();
  const call = client.query("select n");
  look();
  const session = await letIn();
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  look();
  expect(client.parameterStatus("integer_datetimes")).toBe("on");
  session.send(description());
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
  const { closed: goesOn, open: goOn } = gate();
  const { session, call } = await running(() => goesOn);
  expect(client.stats()).toMatchObject({ state: "busy", transactionStatus: "T" });
  goOn();
  await answers(session, "COMMIT");
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

// -- connecting -------------------------------------------------------------------------------------------------------

test("connect resolves with the client after the login, and rejects if the server refuses it", async () => {
  const connecting = connect(place);
  const session = await accepted();
  await session.flight();
  expect(await isPending(connecting)).toBe(true);
  session.send(loginAnswer());
  const made = await connecting;
  expect(made).toBeInstanceOf(Client);
  expect(made.stats()).toMatchObject({ state: "idle", queries: 0 });
  await made.close();
  async function connectsHere() {
    return await connect(place);
  }
  const refused = failure(connectsHere());
  await refuseLogin("28P01");
  expect(await refused).toMatchObject({ code: "28P01", stack: expect.stringContaining("connectsHere") });
});

test("connect waits for the whole login, even if a query could be sent before its end", async () => {
  const connecting = connect({ ...place, earlyQuery: true, password: "x", allowCleartextPassword: true });
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  await session.message();
  expect(await isPending(connecting)).toBe(true);
  session.send(loginAnswer());
  await (await connecting).close();
});

test("the client's signal ends a connect, and neither the error nor the client shows a password", async () => {
  const config = { ...place, password: "open sesame" };
  const abort = new AbortController();
  const query = failure(createClient(config, { signal: abort.signal }).query("select n"));
  await (await accepted()).flight();
  abort.abort();
  const error = await query;
  expect(error).toMatchObject({ name: "AbortError", hasNoEffect: true });
  expect(JSON.stringify([error, createClient(config)]) + String(error)).not.toContain("sesame");
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

// -- closing ----------------------------------------------------------------------------------------------------------

test("a client that was never used closes at once, and refuses calls from then on", async () => {
  await client.close();
  expect(client.stats().state).toBe("closed");
  for (const call of [client.query("select n"), client.exec("select n"), client.transaction(() => 1), client.open()])
    await expect(call).rejects.toMatchObject(closed);
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
  using clock = fakeTimers();
  const [first, second] = [client.query("select n"), failure(client.query("select n"))];
  const closing = client.close();
  await expect(client.query("select n")).rejects.toMatchObject(closed);
  for (const _ of [first, second]) expect(await session.flight()).toEqual(execution);
  await clock.pass(399);
  session.send(executed(7));
  expect((await first).rows).toEqual([{ n: 7 }]);
  expect(await isPending(closing)).toBe(true);
  await clock.pass(1);
  expect(await second).toMatchObject({ code: "CLIENT_CLOSED" });
  await clock.pass(599);
  expect(await isPending(closing)).toBe(false);
});

test("close resolves as soon as the last call is over, and without calls it sets no timer", async () => {
  const session = await letInKnowing();
  using clock = fakeTimers();
  const call = client.query("select n");
  const closing = client.close();
  await runs(session);
  await call;
  expect(await session.flight()).toEqual(["Terminate"]);
  await closing;
  await clock.pass(0);
  expect(vi.getTimerCount()).toBe(0);
});

test("close ends a connect in progress and the calls that wait for it", async () => {
  using clock = fakeTimers();
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
  using clock = fakeTimers();
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
  using clock = fakeTimers();
  const calls = [client.query("select n"), client.simple("select 1")].map(failure);
  await session.flight();
  const closing = client.close();
  await clock.pass(400);
  for (const call of calls) expect(await call).toMatchObject({ code: "CLIENT_CLOSED" });
  // The running call is cancelled.
  await cancelRequest();
  const another = accepted();
  await clock.pass(10_000);
  await closing;
  expect(await isPending(another)).toBe(true);
});

test("a listener is independent of its client and continues after the client's end", async () => {
  const pending = client.listen("jobs");
  const session = await letIn();
  await session.flight();
  session.send(completeAndReady("LISTEN"));
  const listener = await pending;
  await client.close();
  session.send(notified("seven"));
  expect((await listener[Symbol.asyncIterator]().next()).value).toMatchObject({ payload: "seven" });
  await listener.close();
});
