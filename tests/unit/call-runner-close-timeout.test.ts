// How `closeTimeout` affects streams that outlive a close: a stream ends when it has not moved for that long, whether
// it waits for its server or for its reader. Over sockets in memory, with timers that the test advances.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createClient } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import { createPool } from "../../js/pool/pool.ts";
import {
  accepted,
  failure,
  isPending,
  learn,
  letIn,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { begun, ended, rows } from "../support/server-messages.ts";

useMemoryServer();
beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
let databases = 0;
const place = () => ({ host: "memory", user: "u", database: `closing${databases++}`, sslmode: "disable" }) as const;

interface Closed {
  readonly session: Session;
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly stats: () => object;
  /** The error that ended the stream. `undefined` while it is open. */
  outcome: unknown;
}

/** Opens a stream, and closes or releases its owner once its first row has arrived. */
async function closedUnder(of: string, options: Options = {}, timeout?: number): Promise<Closed> {
  const all = { ...place(), flushBytes: 1, flushInterval: 0, firstRun: "describe", ...options } as const;
  const owner = of === "client" ? createClient(all) : createPool(all);
  const acquiring = "acquire" in owner && of === "lease" ? owner.acquire() : undefined;
  const opening = (acquiring ?? Promise.resolve(owner)).then((calls) => calls.stream("select n", { timeout }));
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const reader = (await opening).getReader();
  await (await acquiring)?.release();
  if (of === "client") await owner.close();
  if (of === "pool") await createdPool(owner).close({ timeout: 0 });
  const closed: Closed = { session, reader, stats: () => owner.stats(), outcome: undefined };
  reader.closed.then(
    () => (closed.outcome = "read"),
    (error: unknown) => (closed.outcome = error),
  );
  return closed;
}

const createdPool = (owner: object) => owner as ReturnType<typeof createPool>;
const codes = { client: "CLIENT_CLOSED", pool: "POOL_CLOSED", lease: "LEASE_RELEASED" };
const owners = Object.keys(codes) as (keyof typeof codes)[];

test.each(owners)("a reader that waits for a silent server gets an error 30 s after the last byte (%s)", async (of) => {
  const closed = await closedUnder(of);
  const { session, reader } = closed;
  expect(closed.stats()).toMatchObject(of === "lease" ? { total: 1 } : { state: "closed" });
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n');
  await pass(20_000);
  session.send(rows(1, 2));
  await reader.read();
  await pass(29_000);
  expect(closed.outcome).toBe(undefined);
  if (of !== "client") expect(closed.stats()).toMatchObject({ total: 1 });
  await pass(10_000);
  expect(closed.outcome).toMatchObject({ code: codes[of] });
  if (of === "client") expect(await session.flight()).toEqual(["Terminate"]);
  // The pool of a lease is open. It gives up the session, since the server does not answer a cancel.
  await pass(2_000);
  if (of !== "client") expect(closed.stats()).toMatchObject({ total: 0 });
});

test.each(owners)("closeTimeout sets the time, also for a stream that is not read (%s)", async (of) => {
  const closed = await closedUnder(of, { closeTimeout: 5_000 });
  closed.session.send(rows(1, 2));
  await pass(4_900);
  await closed.reader.read();
  closed.session.send(rows(2, 9));
  await pass(4_900);
  expect(closed.outcome).toBe(undefined);
  await pass(2_000);
  expect(closed.outcome).toMatchObject({ code: codes[of] });
});

test.each(owners)("closeTimeout 0 means for ever (%s)", async (of) => {
  const closed = await closedUnder(of, { closeTimeout: 0 });
  await closed.reader.read();
  await pass(86_400_000);
  expect(closed.outcome).toBe(undefined);
  const ending = closed.session.flight();
  expect(await isPending(ending)).toBe(true);
  closed.session.send(rows(1, 2), ended(2));
  expect((await closed.reader.read()).done).toBe(false);
  expect((await closed.reader.read()).done).toBe(true);
  if (of !== "lease") expect(await ending).toEqual(["Terminate"]);
});

test.each(owners)("the timeout of the call applies instead for a reader that waits (%s)", async (of) => {
  const closed = await closedUnder(of, { closeTimeout: 5_000 }, 60_000);
  await closed.reader.read();
  await pass(59_000);
  expect(closed.outcome).toBe(undefined);
  await pass(2_000);
  expect(closed.outcome).toMatchObject({ code: "QUERY_TIMEOUT" });
});

test("bytes from the server keep a stream open, even before they make a whole row", async () => {
  const closed = await closedUnder("client", { closeTimeout: 5_000 });
  await closed.reader.read();
  for (const byte of rows(1, 2)) {
    closed.session.send(Uint8Array.of(byte));
    await pass(2_000);
  }
  expect((await closed.reader.read()).done).toBe(false);
  expect(closed.outcome).toBe(undefined);
  await pass(6_000);
  expect(closed.outcome).toMatchObject({ code: "CLIENT_CLOSED" });
});

test("a stream that its server has not begun ends too, and so does its call", async () => {
  const pool = createPool(place());
  const opening = failure(pool.stream("select n"));
  const session = await letIn();
  await session.flight();
  await pool.close({ timeout: 0 });
  await pass(29_000);
  expect(pool.stats().total).toBe(1);
  await pass(10_000);
  expect(await opening).toMatchObject({ code: "POOL_CLOSED" });
  expect(pool.stats().total).toBe(0);
});

test("a stream whose client still connects ends closeTimeout after the close", async () => {
  const one = createClient(place(), { closeTimeout: 5_000, connectTimeout: 60_000 });
  const opening = failure(one.stream("select n"));
  await (await accepted()).flight();
  await one.close();
  await pass(4_900);
  expect(await isPending(opening)).toBe(true);
  await pass(1_000);
  expect(await opening).toMatchObject({ code: "CLIENT_CLOSED" });
});
