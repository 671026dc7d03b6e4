// Calls of a client in their order, over sockets in memory: when each is sent, which are sent twice, and how a client
// begins and ends.
import { expect, test } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import { createPool } from "../../js/pool/pool.ts";
import { sql } from "../../js/statement/sql.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  fakeClock,
  int4,
  isPending,
  learn,
  letIn,
  letInKnowing,
  newClient,
  otherClient,
  quiet,
  rows,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test("an unknown statement is described in one flight and run in the next, a known one runs in one", async () => {
  const first = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 2), ended(2));
  expect(await first).toMatchObject({ rows: [{ n: 0 }, { n: 1 }], rowCount: 2, command: "SELECT" });
  const second = client.query("select n", { rowMode: "array" });
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(0, 1), ended(1));
  expect((await second).rows).toEqual([[0]]);
});

test("the values of statements that are described at the same time are not mixed up", async () => {
  // Encoded values share memory: a call must send its values before another call encodes.
  const beside = otherClient();
  const texts = [[client, "mine", 11] as const, [beside, "theirs", 22] as const];
  const calls = texts.map(([on, text, value]) => on.query(`select $1::int4 as ${text}`, [value]));
  const sessions = [await letIn(), await letIn()];
  for (const session of sessions) expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  // Both in one turn of the event loop, so that both calls continue in the microtasks of that turn.
  for (const session of sessions)
    session.send(
      wire.parseComplete(),
      wire.parameterDescription([23]),
      wire.rowDescription([int4]),
      wire.readyForQuery(),
    );
  const sent = [];
  for (const session of sessions) {
    const binds = [];
    while (binds.length < 5) binds.push((await session.message())!);
    sent.push(binds.find(({ name }) => name === "Bind")!.body.toString("hex"));
    session.send(begun(), rows(0, 1), ended(1));
  }
  await Promise.all(calls);
  await beside.close();
  // The value's length and its four bytes.
  const found = sent.map((bind) => [11, 22].filter((n) => bind.includes(`00000004${n.toString(16).padStart(8, "0")}`)));
  expect(new Set(found.flat())).toEqual(new Set([11, 22]));
});

test("a call is sent in its own turn of the event loop, before a call that its values' own code makes", async () => {
  const session = await letInKnowing();
  const json = (value: unknown) => client.query(sql`select ${value}::json`);
  const learningToo = json(4);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([114]),
    wire.rowDescription([int4]),
    wire.readyForQuery(),
  );
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(0, 1), ended(1));
  await learningToo;

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
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(1, 2), ended(1));
  expect((await outer).rows).toEqual([{ n: 1 }]);
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(2, 3), ended(1));
  expect((await inner!).rows).toEqual([{ n: 2 }]);
});

test("an idle connection does not read its socket", async () => {
  const query = client.exec("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), ended(0));
  await query;
  const { reads } = session.peer;
  await quiet();
  expect(session.peer.reads).toBe(reads);
  expect(client.stats()).toMatchObject({ receivedChunks: reads });
});

test("a call that was not sent is only removed from the queue", async () => {
  const abort = new AbortController();
  const first = client.query("select n");
  const second = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  abort.abort();
  await expect(second).rejects.toMatchObject({ code: "ABORTED", retryable: true });
  await learn(session);
  session.send(begun(), ended(0));
  await first;
});

test("a call during an open stream is refused, and after a cancelled stream it waits", async () => {
  const opening = client.stream("select n");
  await expect(client.query("select n")).rejects.toMatchObject({ name: "UsageError", code: "STREAM_OPEN" });
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const stream = await opening;
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await stream.cancel();
  const next = client.query("select n");
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(rows(1, 9), ended(9));
  await session.flight();
  session.send(begun(), rows(3, 4), ended(1));
  expect((await next).rows).toEqual([{ n: 3 }]);
});

test.each([
  ["0A000", "RevalidateCachedQuery", 2],
  ["0A000", "exec_stmt_raise", 1],
  ["26000", "FetchPreparedStatement", 2],
  ["08P01", "PortalSetResultFormat", 2],
  ["08P01", "exec_bind_message", 1],
])("after %s of %s the statement runs %d times", async (code, routine, times) => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(
    wire.parseComplete(),
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: "stale", R: routine }),
    wire.readyForQuery(),
  );
  if (times === 1) return void (await expect(query).rejects.toMatchObject({ code }));
  await learn(session);
  session.send(begun(), rows(1, 2), ended(1));
  expect((await query).rows).toEqual([{ n: 1 }]);
});

test("inside a transaction no statement is run twice", async () => {
  const begin = client.exec("begin");
  const session = await letIn();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.bindComplete(),
    wire.noData(),
    wire.commandComplete("BEGIN"),
    wire.readyForQuery("T"),
  );
  await begin;
  const query = client.query("select n");
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([int4]),
    wire.readyForQuery("T"),
  );
  await session.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "26000", M: "gone" }), wire.readyForQuery("E"));
  await expect(query).rejects.toMatchObject({ code: "26000" });
});

test("close sends Terminate once, and needs no answer", async () => {
  const query = client.exec("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), ended(0));
  await query;
  await Promise.all([client.close(), client.close()]);
  expect(await session.flight()).toEqual(["Terminate"]);
  expect(await session.flight()).toEqual(["end"]);
  await expect(client.query("select n")).rejects.toMatchObject({ name: "UsageError", code: "CLIENT_CLOSED" });
});

test("close settles in less than a second during a call that never ends, and that call rejects", async () => {
  const query = client.query("select n");
  const queued = client.query("select n");
  await learn(await letIn());
  const outcome = Promise.allSettled([query, queued]);
  using clock = fakeClock();
  const closing = client.close();
  await clock.pass(999);
  expect(await isPending(closing)).toBe(false);
  for (const { reason } of (await outcome) as PromiseRejectedResult[])
    expect(reason).toMatchObject({ code: "CLIENT_CLOSED" });
});

test("close does not wait for the reader of a stream, which has half a minute to begin", async () => {
  using clock = fakeClock();
  newClient({ flushBytes: 1, flushInterval: 0, firstRun: "describe" });
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const reader = (await opening).getReader();
  session.send(rows(1, 2));
  await client.close();
  expect(client.stats().state).toBe("closed");
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n');
  const unread = reader.closed.catch((error: unknown) => error);
  await clock.pass(29_000);
  await reader.read();
  session.send(rows(2, 10));
  await clock.pass(70_000);
  expect(await unread).toMatchObject({ code: "CLIENT_CLOSED" });
  expect(await session.flight()).toEqual(["Terminate"]);
});

test.each(["pool", "lease"])(
  "close of a %s gives an open stream's reader half a minute too, and then ends the stream",
  async (of) => {
    using clock = fakeClock();
    const place = { host: "memory", user: "u", database: `streams_of_a_${of}`, sslmode: "disable" } as const;
    const pool = createPool({ ...place, flushBytes: 1, flushInterval: 0, firstRun: "describe" });
    const acquiring = of === "lease" ? pool.acquire() : undefined;
    const opening = (acquiring ?? Promise.resolve(pool)).then((owner) => owner.stream("select n"));
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(0, 1));
    const reader = (await opening).getReader();
    session.send(rows(1, 2));
    await (await acquiring)?.release();
    await pool.close({ timeout: 0 });
    expect(pool.stats()).toMatchObject({ state: "closed", total: 1 });
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n');
    const unread = reader.closed.catch((error: unknown) => error);
    await clock.pass(29_000);
    await reader.read();
    session.send(rows(2, 10));
    await clock.pass(29_000);
    expect(pool.stats().total).toBe(1);
    await clock.pass(41_000);
    expect(await unread).toMatchObject({ code: of === "pool" ? "POOL_CLOSED" : "LEASE_RELEASED" });
    expect(pool.stats().total).toBe(0);
  },
);

test("connecting ends at its deadline or with its signal, and its error contains no password", async () => {
  const config = { host: "memory", user: "u", password: "open sesame", sslmode: "disable" } as const;
  await expect(createClient(config, { connectTimeout: 20 }).query("select n")).rejects.toMatchObject({
    name: "TimeoutError",
    code: "CONNECT_TIMEOUT",
    retryable: true,
  });
  const abort = new AbortController();
  const query = createClient(config, { signal: abort.signal }).query("select n");
  await quiet();
  abort.abort();
  const error: unknown = await query.catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "AbortError", retryable: true });
  expect(JSON.stringify([error, createClient(config)]) + String(error)).not.toContain("sesame");
});

test("an early query is sent after the password, before the server has accepted the login", async () => {
  newClient({ password: "x", earlyQuery: true, allowCleartextPassword: true });
  const query = client.query(sql`select n`);
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  expect(await session.flight()).toEqual(["PasswordMessage", "Parse", "Describe", "Sync"]);
  session.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  await session.flight();
  session.send(begun(), rows(0, 1), ended(1));
  expect((await query).rows).toEqual([{ n: 0 }]);
});
