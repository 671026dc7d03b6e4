// How many promises a call makes (docs/architecture.md, "A call's path"), including the socket's and without the
// caller's own `await`; and that each frame of its stack has a name. These are counts, so they hold on any machine.
import { promiseHooks } from "node:v8";
import { afterAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";

const { connect, createPool } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const { url } = testServers().servers[0]!;
const client = await connect(url);
const pool = createPool(url);

afterAll(async () => {
  await client.close();
  await pool.close();
});

const byKey = "select $1::int4 as id";

/**
 * The minimum of ten runs, because other work of the process only adds to it. `awaits`: promises that `work` itself
 * makes.
 */
async function promisesOf(work: () => Promise<unknown>, awaits: number): Promise<number> {
  for (let times = 0; times < 10; times++) await work(); // known by then
  const counts = [];
  for (let times = 0; times < 10; times++) {
    let made = 0;
    const stop = promiseHooks.onInit(() => made++) as () => void;
    const result = work();
    await result;
    stop();
    counts.push(made - awaits);
  }
  return Math.min(...counts);
}

test("a known query makes at most three promises through a client", async () => {
  const made = await promisesOf(() => client.query(byKey, [7]), 1);
  console.log(`client.query: ${made}`);
  expect(made).toBeGreaterThan(0);
  expect(made).toBeLessThanOrEqual(3);
});

test("a known query makes at most three promises through a pool", async () => {
  const made = await promisesOf(() => pool.query(byKey, [7]), 1);
  console.log(`pool.query: ${made}`);
  expect(made).toBeGreaterThan(0);
  expect(made).toBeLessThanOrEqual(3);
});

test("an item of five that are made together makes at most three promises", async () => {
  // Promise.all makes one promise, and one more for each item.
  const made = await promisesOf(() => Promise.all([1, 2, 3, 4, 5].map((id) => client.query(byKey, [id]))), 7);
  console.log(`five together: ${made}`);
  expect(made).toBeGreaterThan(0);
  expect(made / 5).toBeLessThanOrEqual(3);
});

test.each([
  ["client", client],
  ["pool", pool],
])("no frame of a known query's stack is anonymous: %s", async (_, on) => {
  await on.query(byKey, [7]);
  const { stackTraceLimit, prepareStackTrace } = Error;
  let frames: string[] = [];
  /** Its own code runs where the driver writes its parameter. */
  const spy = {
    toJSON() {
      Error.stackTraceLimit = 100;
      frames = new Error().stack!.split("\n").slice(2);
      Object.assign(Error, { stackTraceLimit, prepareStackTrace });
      return 7;
    },
  };
  const query = "select $1::jsonb as id";
  await on.query(query, [7]);
  await on.query(query, [spy]);
  const own = frames.filter((frame) => /\/dist\/(node|shared\/\w+)\.js/.test(frame));
  console.log(own.map((frame) => /at (.*?) \(/.exec(frame)?.[1]).join(" < "));
  expect(own.length).toBeGreaterThan(5);
  expect(own.filter((frame) => !/at (new |async )?[\w#.$]+ (\[as \w+\] )?\(/.test(frame))).toEqual([]);
});
