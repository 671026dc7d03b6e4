// A lease over sockets in memory: what it shows, when it ends, and how its end affects its calls and streams.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { holdBack, memoryPool } from "../support/memory-pool.ts";
import { isPending, quiet } from "../support/memory-session.ts";

const released = { code: "LEASE_RELEASED" };

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
