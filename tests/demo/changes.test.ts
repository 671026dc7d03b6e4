// The feed of changes, in real workerd against PostgreSQL: each line reaches its own tenant only, no failure loses or
// doubles a line, and the server has no load while no client follows.
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { startDemo, type DemoWorker, workerds } from "./demo-server.ts";
import { Follower, numbered, references } from "./followed.ts";

type Ask = DemoWorker["acme"];

let demo: Awaited<ReturnType<typeof startDemo>>;
beforeAll(async () => {
  demo = await startDemo();
});

const open = new Set<Follower>();
afterEach(() => {
  for (const follower of open) follower.leave();
  open.clear();
});

/** Follows the feed after this line, or from now on. */
async function follow(ask: Ask, from?: number): Promise<Follower> {
  const leaving = new AbortController();
  const headers = from === undefined ? {} : { "last-event-id": String(from) };
  // A Worker learns a little later that clients of the test before have left.
  let response!: Response;
  await until(async () => {
    response = await ask("/changes", { headers, signal: leaving.signal });
    if (response.status === 503) await response.body?.cancel();
    return response.status !== 503;
  }, "there is room for a client");
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const follower = new Follower(response.body!, leaving);
  open.add(follower);
  return follower;
}

const post = async (ask: Ask, reference: string): Promise<number> => {
  const body = JSON.stringify({ reference, customer: "Ada", total: "7.10" });
  const made = await ask("/api/orders", { method: "POST", headers: { "content-type": "application/json" }, body });
  expect(made.status).toBe(201);
  return ((await made.json()) as { id: number }).id;
};
const insert = (prefix: string, from: number, to: number, tenant = "acme") =>
  demo.admin.query(
    "insert into orders (tenant, reference, customer, total) select $1, $2 || '-' || n, 'Ada', n " +
      "from generate_series($3::int4, $4::int4) n",
    [tenant, prefix, from, to],
  );
let prefixes = 0;
const newPrefix = () => `C${process.pid}X${++prefixes}`;

describe.each(workerds)("workerd %s", (workerd) => {
  let worker: DemoWorker;
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
  });

  const slot = async () => {
    const text = "select active from pg_replication_slots where slot_name = $1";
    return (await demo.admin.query<{ active: boolean }>(text, [worker.feedSlot])).rows[0];
  };
  const cut = () =>
    demo.admin.query("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1", [
      worker.feedSlot,
    ]);

  test("each tenant sees its own rows as they change, and no row of another tenant", async () => {
    const [mine, theirs] = [await follow(worker.acme), await follow(worker.globex)];
    expect((await mine.next()).name).toBe("ready");
    expect((await theirs.next()).name).toBe("ready");
    const prefix = newPrefix();
    const id = await post(worker.acme, `${prefix}-1`);
    await worker.acme(`/api/orders/${id}`, {
      method: "PATCH",
      headers: { "content-type": "application/merge-patch+json" },
      body: '{"status":"paid"}',
    });
    await worker.acme(`/api/orders/${id}`, { method: "DELETE" });
    await post(worker.globex, `${prefix}-2`);
    const [made, paid, gone] = await mine.take(3);
    expect([made!.data.kind, made!.data.new]).toEqual([
      "insert",
      expect.objectContaining({ id, tenant: "acme", reference: `${prefix}-1`, status: "open", total: "7.10" }),
    ]);
    expect([paid!.data.kind, paid!.data.new?.status]).toEqual(["update", "paid"]);
    expect([gone!.data.kind, gone!.data.old]).toEqual(["delete", expect.objectContaining({ id, tenant: "acme" })]);
    // The first line that the other tenant gets is of its own row.
    expect((await theirs.next()).data.new).toMatchObject({ tenant: "globex", reference: `${prefix}-2` });

    // A row that moves to another tenant is deleted for the first and inserted for the second.
    await insert(prefix, 3, 3);
    await demo.admin.query("update orders set tenant = 'globex' where reference = $1", [`${prefix}-3`]);
    expect((await mine.take(2)).map(({ data }) => data.kind)).toEqual(["insert", "delete"]);
    const moved = (await theirs.next()).data;
    expect([moved.kind, moved.new?.tenant, moved.old]).toEqual(["insert", "globex", undefined]);
  });

  test("a transaction that rolls back sends no line, and a large transaction sends all of its lines", async () => {
    const follower = await follow(worker.acme);
    await follower.next();
    const prefix = newPrefix();
    await demo.admin.query("begin");
    await insert(prefix, 1, 10);
    await demo.admin.query("rollback");
    await insert(prefix, 11, 5_010);
    expect(references(await follower.take(5_000))).toEqual(numbered(prefix, 11, 5_010));
  });

  test("a client that returns with the number of its last line gets the rest, and no line twice", async () => {
    const first = await follow(worker.acme);
    await first.next();
    const prefix = newPrefix();
    await insert(prefix, 1, 5);
    expect(references(await first.take(3))).toEqual(numbered(prefix, 1, 3));
    first.leave();
    await insert(prefix, 6, 9);
    const again = await follow(worker.acme, first.last);
    expect(await again.next()).toEqual({ name: "ready", id: undefined, data: { from: first.last } });
    expect(references(await again.take(6))).toEqual(numbered(prefix, 4, 9));
    // Without a number, the feed begins now.
    const late = await follow(worker.acme);
    await late.next();
    await insert(prefix, 10, 10);
    expect(references(await late.take(1))).toEqual(numbered(prefix, 10, 10));
    // A number that this feed has not given belongs to another feed.
    const lost = await follow(worker.acme, 1e12);
    expect((await lost.take(2)).map(({ name }) => name)).toEqual(["missed", "ready"]);
  });

  test("no line is lost or doubled when the feed's connection is cut under load", async () => {
    const follower = await follow(worker.acme);
    await follower.next();
    const prefix = newPrefix();
    const working = (async () => {
      for (let n = 0; n < 20; n++) {
        await insert(prefix, n * 50 + 1, n * 50 + 50);
        if (n % 4 === 1) await cut();
      }
    })();
    expect(references(await follower.take(1_000))).toEqual(numbered(prefix, 1, 1_000));
    await working;
    expect(await slot()).toMatchObject({ active: true });
  });

  test("when the slot is dropped, clients are told that lines are missing", async () => {
    const follower = await follow(worker.acme);
    await follower.next();
    const prefix = newPrefix();
    await insert(prefix, 1, 1);
    await follower.next();
    // The feed reads the slot again at once, so the slot is dropped between the two reads.
    await until(async () => {
      await cut();
      const text =
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1 and not active";
      return (await demo.admin.query(text, [worker.feedSlot]).catch(() => ({ rowCount: 0 }))).rowCount === 1;
    }, "the slot is gone");
    await insert(prefix, 2, 2); // no client will get this row
    await expect(follower.next()).rejects.toThrow();
    const again = await follow(worker.acme, follower.last);
    expect((await again.take(2)).map(({ name }) => name)).toEqual(["missed", "ready"]);
    await insert(prefix, 3, 3);
    expect(references(await again.take(1))).toEqual(numbered(prefix, 3, 3));
  });

  test("when the slot is further than the feed, it is made anew, and clients are told", async () => {
    const follower = await follow(worker.acme);
    await follower.next();
    const prefix = newPrefix();
    await insert(prefix, 1, 1);
    await follower.next();
    const moving = async () => {
      await cut();
      const names = [worker.feedSlot];
      const free = "from pg_replication_slots where slot_name = $1 and not active";
      if (!(await demo.admin.query(`select ${free}`, names)).rowCount) return false;
      // A slot moves within what has been flushed.
      await demo.admin.query(
        "begin; set local synchronous_commit = on; select pg_logical_emit_message(true, 'a', 'b'); commit",
      );
      // It fails if the feed has connected again.
      const moved = `select pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) ${free}`;
      return (await demo.admin.query(moved, names).catch(() => ({ rowCount: 0 }))).rowCount === 1;
    };
    await until(moving, "the slot is moved between two reads");
    await expect(follower.next()).rejects.toThrow();
    const again = await follow(worker.acme, follower.last);
    expect((await again.take(2)).map(({ name }) => name)).toEqual(["missed", "ready"]);
    await insert(prefix, 2, 2);
    expect(references(await again.take(1))).toEqual(numbered(prefix, 2, 2));
  });

  test("a wrong number is a 400, and a wrong token is a 401", async () => {
    for (const from of ["x", "-1", "1.5", ""]) {
      const refused = await worker.acme(`/changes?from=${from}`);
      expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([400, "BAD_FROM"]);
    }
    expect((await worker.bearing("nobody")("/changes")).status).toBe(401);
  });
});

describe("small caps", () => {
  let worker: DemoWorker;
  beforeAll(async () => {
    worker = await demo.worker({ tight: true });
  });
  const slot = async () =>
    (
      await demo.admin.query<{ active: boolean; behind: boolean }>(
        "select active, confirmed_flush_lsn < $2::pg_lsn as behind from pg_replication_slots where slot_name = $1",
        [worker.feedSlot, position],
      )
    ).rows[0];
  let position = "0/0";

  test("without clients the feed leaves the server, and reads the log when the alarm goes off", async () => {
    const follower = await follow(worker.acme);
    await follower.next();
    const prefix = newPrefix();
    await insert(prefix, 1, 3);
    await follower.take(3);
    follower.leave();
    await until(async () => (await slot())?.active === false, "nobody reads the slot");
    // The feed must stay while the server passes over what is not of orders, though nothing arrives meanwhile.
    await demo.admin.query("create table passed_over as select from generate_series(1, 200000)");
    await demo.admin.query("drop table passed_over");
    await insert(prefix, 4, 5);
    const { rows } = await demo.admin.query<{ at: string }>("select pg_current_wal_lsn()::text as at");
    position = rows[0]!.at;
    await until(async () => (await slot())?.behind === false, "the alarm has read what was waiting");
    await until(async () => (await slot())?.active === false, "nobody reads the slot again");
    // The feed keeps the lines that it has read then, for clients that come back.
    const again = await follow(worker.acme, follower.last);
    await again.next();
    expect(references(await again.take(2))).toEqual(numbered(prefix, 4, 5));
  });

  test("lines that are no longer kept are reported as missed", async () => {
    const follower = await follow(worker.acme);
    const { data } = await follower.next();
    const prefix = newPrefix();
    await insert(prefix, 1, 30);
    await until(async () => {
      const late = await follow(worker.acme, data.from);
      const { name } = await late.next();
      late.leave();
      return name === "missed";
    }, "the first lines are gone");
  });

  test("the number of clients is capped, and a client that leaves makes room", async () => {
    const followers = [await follow(worker.acme), await follow(worker.globex)];
    const refused = await worker.acme("/changes");
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([503, "TOO_MANY_CLIENTS"]);
    for (const follower of followers) follower.leave();
    await until(async () => {
      const response = await worker.acme("/changes");
      await response.body?.cancel();
      return response.status === 200;
    }, "who has left makes room");
  });
});

test("a feed without an address is NO_FEED, and one with an unreachable address is DATABASE_UNAVAILABLE", async () => {
  const without = await demo.worker({ feedUrl: "" });
  const refused = await without.acme("/changes");
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([503, "NO_FEED"]);
  const lost = await demo.worker({ feedUrl: "postgres://nobody:nothing@127.0.0.1:1/none" });
  const unavailable = await lost.acme("/changes");
  expect(await unavailable.json()).toMatchObject({ status: 503, code: "DATABASE_UNAVAILABLE" });
});
