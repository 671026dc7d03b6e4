// A lease over sockets in memory: what it shows, when it ends, and how its end affects its calls and streams.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { memoryPool } from "../support/memory-pool.ts";
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
  await pool.close();
});

test("release returns the connection once, even if called again, and calls are refused from then on", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  await lease.query("select n");
  const first = lease.release();
  expect(lease.release()).toBe(first);
  expect(lease.release({ destroy: true })).toBe(first);
  expect(lease[Symbol.asyncDispose]()).toBe(first);
  await expect(lease.query("select n")).rejects.toMatchObject(released);
  await first;
  expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0, total: 1 });
  expect((await pool.query("select n")).rows).toEqual([{ n: 0 }]);
  expect(server.sessions).toHaveLength(1);
  await pool.close();
});

test("a stream with closeWhenDone releases its lease when it is over", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const stream = await lease.stream("select n", { closeWhenDone: true });
  expect(await new Response(stream).text()).toBe('{"n":0}\n');
  await pool.waitIdle();
  await expect(lease.query("select n")).rejects.toMatchObject(released);
  expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
  await pool.close();
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
  await pool.close();
});

test("destroy closes the connection, and the next borrower gets another", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  await lease.release({ destroy: true });
  await pool.query("select n");
  expect(server.sessions).toHaveLength(2);
  await pool.close();
});

test("a running call ends with the lease, and release waits until the connection is free", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  let open = () => {};
  server.gate = new Promise<void>((resolve) => (open = resolve));
  const running = lease.query("select n").catch((error: unknown) => error);
  await quiet();
  const releasing = lease.release();
  expect(await running).toMatchObject(released);
  expect(await isPending(releasing)).toBe(true);
  expect(pool.stats().acquired).toBe(1);
  open();
  server.gate = undefined;
  await releasing;
  expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
  await pool.close();
});

test("a stream outlives a release, which resolves at once, and the connection returns after the stream", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  let open = () => {};
  server.gate = new Promise<void>((resolve) => (open = resolve));
  const opening = lease.stream("select n");
  await quiet();
  await lease.release();
  expect(inspect(lease)).toContain("'released'");
  expect(pool.stats()).toMatchObject({ idle: 0, acquired: 1 });
  await expect(lease.query("select n")).rejects.toMatchObject(released);
  open();
  expect(await new Response(await opening).text()).toBe('{"n":0}\n');
  await expect.poll(() => pool.stats().idle).toBe(1);
  await pool.close();
});

test("destroy ends an open stream too", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  server.gate = new Promise(() => {});
  const lease = await pool.acquire();
  const opening = lease.stream("select n").catch((error: unknown) => error);
  await quiet();
  const releasing = lease.release({ destroy: true });
  expect(await opening).toMatchObject(released);
  server.sessions[0]!.peer.end();
  await releasing;
  expect(pool.stats().total).toBe(0);
  await pool.close();
});

test("`until` ends a lease together with its stream", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  server.gate = new Promise(() => {});
  const until = new AbortController();
  const lease = await pool.acquire({ until: until.signal });
  const opening = lease.stream("select n").catch((error: unknown) => error);
  await quiet();
  until.abort();
  expect(await opening).toMatchObject(released);
  await expect(lease.query("select n")).rejects.toMatchObject(released);
  server.sessions[0]!.peer.end();
  await expect.poll(() => pool.stats().total).toBe(0);
  await pool.close();
});
