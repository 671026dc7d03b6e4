// A lease that is never released, and to which no reference is left: `node --expose-gc lost-lease-child.mjs <url>`.
import { createPool } from "../../dist/node.js";

const told = [];
const observer = { onLeaseLeak: ({ stack }) => void told.push(stack) };
const pool = createPool(process.argv[2], { max: 1, leakThreshold: 1_500, observer });

/** Waits until `holds` is true, for at most about fifteen seconds. */
async function until(holds) {
  for (let tries = 0; tries < 750 && !holds(); tries++) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function forgetful() {
  const lease = await pool.acquire();
  await lease.exec("begin");
  await lease.exec("create temporary table of_a_lost_lease (n int)");
}

/** The signal aborts after the lease was collected, and the loss is reported before the abort. */
async function abandoned() {
  const request = new AbortController();
  await (async () => void (await pool.acquire({ until: request.signal })))();
  await until(() => told.length);
  globalThis.gc();
  request.abort();
  await until(() => pool.stats().idle);
}

async function slow() {
  const lease = await pool.acquire();
  await until(() => told.length);
  await lease.release();
}

await forgetful();
const waiting = pool.query("select to_regclass('of_a_lost_lease') is null as clean");
await until(() => (globalThis.gc(), !pool.stats().waiting));
const { rows } = await waiting;
const lost = told.splice(0);
await abandoned();
const collected = { told: told.splice(0), idle: pool.stats().idle };
await slow();
await pool.close();
process.send({ rows, lost, collected, slow: told });
