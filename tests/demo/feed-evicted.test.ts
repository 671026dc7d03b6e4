// The example's feed of changes when its object is evicted: it continues from what it has stored.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startWorker, type Worker } from "../workerd/host.mjs";
import { startDemo } from "./demo-server.ts";
import { Follower, numbered, references, type FeedEvent } from "./followed.ts";

const ROWS = 2_000;
const EVICTIONS = 12;

let demo: Awaited<ReturnType<typeof startDemo>>;
let worker: Worker;
beforeAll(async () => {
  demo = await startDemo();
  worker = await startWorker({
    entry: fileURLToPath(new URL("../workerd/fixture/feed.ts", import.meta.url)),
    options: {
      bindings: { CHANGES_URL: `${demo.sample.feedUrl}?sslmode=disable`, CHANGES_SLOT: demo.sample.feedSlot },
      durableObjects: { FEED: { className: "Feed", useSQLite: true } },
    },
  });
});
afterAll(() => worker?.stop());

async function follow(from: number | undefined): Promise<Follower> {
  const leaving = new AbortController();
  const asked = new URLSearchParams({ tenant: "acme", ...(from !== undefined && { from: String(from) }) });
  const response = await fetch(new URL(`/?${asked}`, worker.url), { signal: leaving.signal });
  if (response.status !== 200) throw new Error(await response.text());
  return new Follower(response.body!, leaving);
}

const insert = (from: number, to: number) =>
  demo.admin.query(
    "insert into orders (tenant, reference, customer, total) " +
      "select 'acme', 'EVICTED-' || n, 'Ada', n from generate_series($1::int4, $2::int4) n",
    [from, to],
  );

test("no line is lost or doubled when the object is evicted under load", async () => {
  let follower = await follow(undefined);
  const [ready] = await follower.take(1);
  let last = ready!.data.from!;
  const working = (async () => {
    for (let from = 1; from < ROWS; from += 20) await insert(from, from + 19);
  })();
  const events: FeedEvent[] = [];
  let evictions = 0;
  while (events.length < ROWS) {
    // The eviction comes somewhere in the middle of the read.
    if (evictions < EVICTIONS && events.length >= (evictions * ROWS) / EVICTIONS) {
      evictions++;
      await fetch(new URL("/evict", worker.url)).then(
        (response) => response.body?.cancel(),
        () => {},
      );
    }
    try {
      const event = await follower.next();
      if (event.name === "missed") throw new Error(`lines are missing behind ${last}`);
      if (event.name === "change") events.push(event);
      last = event.id ?? last;
    } catch (error) {
      if (String(error).includes("missing")) throw error;
      // Waits until the object is back.
      await new Promise((resolve) => setTimeout(resolve, 50));
      follower = await follow(last).catch(() => follower);
    }
  }
  await working;
  follower.leave();
  expect(evictions).toBe(EVICTIONS);
  expect(references(events)).toEqual(numbered("EVICTED", 1, ROWS));
});
