// The cache in real workerd against PostgreSQL: an answer is confirmed without a query until a commit changes it. No
// tenant's answer is confirmed, or may be stored, for another. workerd has no cache in front (docs/cache.md).
import { beforeAll, describe, expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { startDemo, type DemoWorker, workerds } from "./demo-server.ts";

type Ask = DemoWorker["acme"];
interface Line {
  status: string;
  orders: number;
  total: string;
}

let demo: Awaited<ReturnType<typeof startDemo>>;
beforeAll(async () => {
  demo = await startDemo();
});

async function summary(ask: Ask, etag?: string | null) {
  const response = await ask("/api/summary", etag ? { headers: { "if-none-match": etag } } : {});
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, etag: response.headers.get("etag") };
}
const lines = ({ text }: { text: string }) => JSON.parse(text) as Line[];
const expected = async (tenant: string) =>
  (
    await demo.admin.query<Line>(
      "select status, count(*)::int4 as orders, sum(total)::text as total from orders where tenant = $1 " +
        "group by status order by status",
      [tenant],
    )
  ).rows;
/** Until the object follows the database, an answer may not be stored. */
async function stored(ask: Ask) {
  let found!: Awaited<ReturnType<typeof summary>>;
  await until(async () => (found = await summary(ask)).etag !== null, "an answer may be stored");
  return found;
}
/** Changes an order of the tenant, by its route. */
async function change(ask: Ask) {
  const { items } = (await (await ask("/api/orders?limit=1")).json()) as { items: { id: number; status: string }[] };
  const { id, status } = items[0]!;
  const body = JSON.stringify({ status: status === "paid" ? "open" : "paid" });
  const init = { method: "PATCH", headers: { "content-type": "application/merge-patch+json" }, body };
  expect((await ask(`/api/orders/${id}`, init)).status).toBe(200);
}

describe.each(workerds)("workerd %s", (workerd) => {
  let worker: DemoWorker;
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
  });

  test("an answer is confirmed without a query, and read anew after a commit", async () => {
    const first = await stored(worker.acme);
    expect([first.status, lines(first)]).toEqual([200, await expected("acme")]);
    // No query can run: the role is given no connection.
    await demo.admin.query(`alter role ${demo.sample.objectRole} connection limit 0`);
    try {
      await until(async () => (await summary(worker.acme, first.etag)).status === 304, "the answer is confirmed");
      expect(await summary(worker.acme)).toMatchObject({ status: 503 });
    } finally {
      await demo.admin.query(`alter role ${demo.sample.objectRole} connection limit 45`);
    }
    await change(worker.acme);
    let fresh!: Awaited<ReturnType<typeof summary>>;
    await until(async () => (fresh = await summary(worker.acme, first.etag)).status === 200, "the answer is fresh");
    expect(lines(fresh)).toEqual(await expected("acme"));
    expect(lines(fresh)).not.toEqual(lines(first));
  });

  test("one tenant's answer is neither given to nor confirmed for another", async () => {
    const [mine, theirs] = [await stored(worker.acme), await stored(worker.globex)];
    expect(lines(theirs)).toEqual(await expected("globex"));
    expect(lines(theirs)).not.toEqual(lines(mine));
    await until(async () => (await summary(worker.acme, mine.etag)).status === 304, "acme's answer is confirmed");
    for (const etag of [mine.etag, `${mine.etag}, "x"`, "*"]) {
      const answer = await summary(worker.globex, etag);
      expect([answer.status, lines(answer)]).toEqual([200, await expected("globex")]);
    }
  });

  test("no cache outside may store an answer, and no answer depends on the address", async () => {
    const { headers } = await stored(worker.acme);
    expect(headers.get("cache-control")).toBe("max-age=0, must-revalidate, private");
    expect(headers.get("vary")).toBe("authorization");
    expect([headers.get("cdn-cache-control"), headers.get("cache-tag")]).toEqual([null, null]);
    const other = await worker.acme("/api/summary?tenant=globex");
    expect(await other.json()).toEqual(await expected("acme"));
    expect((await worker.bearing("nobody")("/api/summary")).status).toBe(401);
    expect((await worker.acme("/api/summary", { method: "POST" })).status).toBe(405);
  });
});

test("without an invalidator an answer is not stored, and says why", async () => {
  const worker = await demo.worker({ feedUrl: "" });
  for (let times = 0; times < 2; times++) {
    const answer = await summary(worker.acme);
    expect([answer.status, answer.etag, lines(answer)]).toEqual([200, null, await expected("acme")]);
    expect(answer.headers.get("cache-control")).toBe("no-store, private");
    expect(answer.headers.get("cache-status")).toContain('detail="there is no invalidator');
  }
});

test("a database that cannot be reached is DATABASE_UNAVAILABLE", async () => {
  const objectUrl = "postgres://nobody:nothing@127.0.0.1:1/none";
  const refused = await (await demo.worker({ objectUrl })).acme("/api/summary");
  expect(await refused.json()).toMatchObject({ status: 503, code: "DATABASE_UNAVAILABLE" });
});
