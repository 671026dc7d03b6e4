// A lease over sockets in memory: what it shows, when it ends, and how its end affects its calls and streams.
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { holdBack, memoryPool } from "../support/memory-pool.ts";
import { isPending, quiet } from "../support/memory-session.ts";
import { shutdown } from "../support/server-messages.ts";
import { until } from "../support/until.mjs";

const released = { code: "LEASE_RELEASED" };

const allReject = (calls: readonly Promise<unknown>[], error: object) =>
  Promise.all(calls.map((call) => expect(call).rejects.toMatchObject(error)));

test("a lease has the state of its connection's session", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  expect(lease.processId).toBe(7);
  expect(lease.parameterStatus("integer_datetimes")).toBe("on");
  expect(lease.parameterStatus("no_such_setting")).toBeUndefined();
  expect(inspect(lease)).toMatch(/^Lease \{\s+state: 'held',\s+host: 'memory',.*processId: 7/s);
  server.sessions[0]!.peer.end();
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  expect(inspect(lease)).toContain("'lost'");
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  await lease.release();
  expect(inspect(lease)).toContain("'released'");
});

describe("a lease that has lost a transaction begun in SQL", () => {
  const lost = { code: "CONNECTION_LOST", retryable: false, transaction: "rolled back" };

  /** A lease whose transaction is open. */
  async function inTransaction() {
    const { pool, server } = memoryPool({ max: 1 });
    const lease = await pool.acquire();
    server.status = "T";
    await lease.exec("select n");
    return { pool, server, lease, session: server.sessions[0]! };
  }

  test("says so to the next call, and to those that are made with it", async () => {
    const { lease, session } = await inTransaction();
    session.send(shutdown());
    await until(() => inspect(lease).includes("'lost'"));
    const calls = [lease.exec("select n"), lease.exec("select n"), lease.simple("commit")];
    await allReject(calls, lost);
    await expect(lease.exec("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  });

  test("says so to a transaction() that is the next call", async () => {
    const { lease, session } = await inTransaction();
    session.peer.reset();
    await until(() => inspect(lease).includes("'lost'"));
    await expect(lease.transaction(() => 1)).rejects.toMatchObject(lost);
  });

  test("says so to the call that runs, and to those that wait behind it", async () => {
    const { server, lease, session } = await inTransaction();
    holdBack(server);
    const calls = [lease.exec("select n"), lease.simple("commit"), lease.exec("select n")];
    await quiet();
    session.send(shutdown());
    const [running, ...waiting] = calls;
    await Promise.all([allReject([running!], { ...lost, code: "57P01" }), allReject(waiting, lost)]);
  });

  test("says so to the calls that wait when the pool is closed under it", async () => {
    const { pool, server, lease } = await inTransaction();
    holdBack(server);
    const calls = [lease.exec("select n"), lease.simple("commit")];
    const rejections = allReject(calls, { retryable: false });
    await quiet();
    await pool.close({ timeout: 0 });
    await rejections;
  });
});

test("calls of a lease that wait behind a lost BEGIN are not to be repeated by themselves", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  holdBack(server);
  const calls = [lease.simple("begin"), lease.exec("select n"), lease.simple("commit")];
  await quiet();
  server.sessions[0]!.send(shutdown());
  await allReject(calls, { retryable: false });
});

test("a stream with closeWhenDone releases its lease when it is over", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const stream = await lease.stream("select n", { closeWhenDone: true });
  expect(await new Response(stream).text()).toBe('{"n":0}\n');
  await pool.waitIdle();
  await expect(lease.query("select n")).rejects.toMatchObject(released);
  expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
});

test("the signal of a pool's options ends the calls of the pool and of its leases", async () => {
  const stop = new AbortController();
  const { pool } = memoryPool({ max: 2, signal: stop.signal });
  const lease = await pool.acquire();
  await lease.query("select n");
  stop.abort();
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "ABORTED" });
  await expect(pool.query("select n")).rejects.toMatchObject({ code: "ABORTED" });
  await lease.release();
});

test("a running call ends with the lease, and release waits until the connection is free", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const held = holdBack(server);
  const running = lease.query("select n").catch((error: unknown) => error);
  await quiet();
  const releasing = lease.release();
  expect(await running).toMatchObject(released);
  expect(await isPending(releasing)).toBe(true);
  expect(pool.stats().acquired).toBe(1);
  held.all();
  await releasing;
  expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
});
