// The invalidator on each version of PostgreSQL: which tags a commit purges, and what it does when its platform, or the
// stream, fails.
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { EVERYTHING, type Closing } from "../../js/cache/fence.ts";
import { Invalidator, tagOf, type InvalidatorOptions } from "../../js/cache/invalidator.ts";
import { readSnapshot } from "../../js/cache/visibility.ts";
import { testServers } from "../integration/servers.ts";
import { testDatabase } from "../support/test-database.ts";
import { until } from "../support/until.mjs";
import { createPool, type Pool } from "./driver.ts";

const SETUP = readFileSync(new URL("../../js/cache/cache.sql", import.meta.url), "utf8");

describe.each(testServers().servers.filter(({ own }) => own))("PostgreSQL $name", (server) => {
  const database = testDatabase({ url: server.url, superuserUrl: server.superuserUrl! }, "cache_invalidator");
  const SLOT = "cache_invalidator";
  let db: Pool;
  let purged: string[] = [];
  let failures = 0;
  let abort = new AbortController();
  let running: Promise<unknown> | undefined;
  /** Throws what has ended the invalidator. */
  let check = () => true;
  let fills = 0;

  beforeAll(async () => {
    await database.create();
    db = createPool(database.superuserUrl);
    await db.simple(SETUP);
    await db.simple(`
      create table plain (n int4 primary key);
      create table other (n int4 primary key);
      create table whole (n int4 primary key) partition by range (n);
      create table part partition of whole for values from (0) to (10) partition by range (n);
      create table leaf partition of part for values from (0) to (10);
      create table parent (n int4 primary key);
      create table child () inherits (parent);
      alter table child add primary key (n);
      create publication cache for all tables`);
    await db.query("select pg_create_logical_replication_slot($1, 'pgoutput')", [SLOT]);
  });
  afterAll(async () => {
    await until(
      async () =>
        (await db.query("select from pg_replication_slots where slot_name = $1 and active", [SLOT])).rows.length === 0,
    );
    await db.query("select pg_drop_replication_slot($1)", [SLOT]);
    await db.close();
    await database.drop();
  });
  afterEach(async () => {
    abort.abort();
    await running;
    check();
  });

  /** Starts an invalidator that knows what is stored: nothing. */
  async function start(options: Partial<InvalidatorOptions> = {}) {
    abort = new AbortController();
    purged = [];
    const purge = async (tags: readonly string[]) => void purged.push(...tags);
    const all = { slot: SLOT, publication: "cache", settle: 20, maxFill: 100, signal: abort.signal, purge, ...options };
    const invalidator = new Invalidator(db, { ...all, onPurgeFailure: () => void failures++ });
    let failure: (Error & { code?: string }) | undefined;
    running = invalidator.run().catch((error: Error) => void (failure = error));
    check = () => {
      if (failure && failure.code !== "ABORTED") throw failure;
      return true;
    };
    await until(
      () => check() && purged.filter((tag) => tag === EVERYTHING).length === 2,
      "what is unknown has been purged",
    );
    return invalidator;
  }

  const snapshot = async () => {
    const { rows } = await db.query<{ text: string }>("select pg_current_snapshot()::text as text");
    return readSnapshot(rows[0]!.text, false);
  };
  const tagFor = async (table: string) => {
    const { rows } = await db.query<{ oid: number }>("select $1::regclass::oid as oid", [table]);
    return tagOf(rows[0]!.oid);
  };
  /** Stores an answer that has read these tables. Returns its tags. */
  async function store(invalidator: Invalidator, ...tables: string[]) {
    const tags = await Promise.all(tables.map(tagFor));
    const learned = await snapshot();
    const answer: Closing = { id: `${++fills}`, tags, learned, snapshot: learned, maxAge: 3_600_000 };
    expect(invalidator.open(answer)).toBeUndefined();
    invalidator.close(answer);
    await until(() => invalidator.stats.fills === 0, "it has settled");
    return tags;
  }
  /** The tags that a statement purges. They are known once a later commit has purged. */
  async function purgedBy(invalidator: Invalidator, text: string) {
    const [marker] = await store(invalidator, "other");
    purged = [];
    await db.simple(text);
    await db.exec("insert into other values (1) on conflict (n) do update set n = excluded.n");
    await until(() => (check() && purged.includes(marker!)) || purged.includes(EVERYTHING));
    return purged.filter((tag) => tag !== marker);
  }

  test("a commit purges the tables that it changes, and those that these are parts of", async () => {
    const invalidator = await start();
    const [plain, whole, part, leaf, parent, child] = await store(
      invalidator,
      ...["plain", "whole", "part", "leaf", "parent", "child"],
    );
    expect(await purgedBy(invalidator, "select 1")).toEqual([]);
    expect(await purgedBy(invalidator, "insert into plain values (1)")).toEqual([plain]);
    // Nothing was stored since.
    expect(await purgedBy(invalidator, "insert into plain values (2)")).toEqual([]);
    await store(invalidator, "plain");
    expect(await purgedBy(invalidator, "update plain set n = 3 where n = 2")).toEqual([plain]);
    await store(invalidator, "plain");
    expect(await purgedBy(invalidator, "truncate plain")).toEqual([plain]);
    await store(invalidator, "plain");
    expect(await purgedBy(invalidator, "begin; insert into plain values (1); rollback")).toEqual([]);
    expect((await purgedBy(invalidator, "insert into whole values (1)")).sort()).toEqual([whole, part, leaf].sort());
    await store(invalidator, "whole");
    expect(await purgedBy(invalidator, "truncate leaf")).toEqual([whole]);
    await store(invalidator, "whole");
    expect(await purgedBy(invalidator, "truncate whole")).toEqual([whole]);
    expect((await purgedBy(invalidator, "insert into child values (1)")).sort()).toEqual([parent, child].sort());
  });

  test.each([
    "create view a_view as select 1; drop view a_view",
    "alter table plain add column c int4; alter table plain drop column c",
    "create type mood as enum ('a'); alter type mood add value 'b'",
    "create function f() returns int4 immutable language sql as 'select 1'; drop function f()",
    "create policy p on plain using (true); drop policy p on plain",
    "alter table leaf rename to leaf_2; alter table leaf_2 rename to leaf",
    "set session_replication_role = replica; create table t2 (); drop table t2; reset session_replication_role",
    "create schema s create table pg_temp_like (); drop schema s cascade",
  ])("a change of definitions purges everything: %s", async (text) => {
    const invalidator = await start();
    await store(invalidator, "plain");
    expect(await purgedBy(invalidator, text)).toContain(EVERYTHING);
  });

  test("temporary tables are no change of definitions", async () => {
    const invalidator = await start();
    await store(invalidator, "plain");
    const text = "create temp table t as select 1; alter table t add column c int4; drop table t";
    expect(await purgedBy(invalidator, text)).toEqual([]);
  });

  test("a purge that fails is repeated, and its commit is not acknowledged before", async () => {
    let refuses = false;
    const purge = async (tags: readonly string[]) => {
      if (refuses) throw new Error("too many requests");
      purged.push(...tags);
    };
    const invalidator = await start({ purge, maxLag: 0 });
    const [tag] = await store(invalidator, "plain");
    refuses = true;
    purged = [];
    failures = 0;
    const confirmed = async () =>
      (
        await db.query<{ lsn: string }>(
          "select confirmed_flush_lsn::text as lsn from pg_replication_slots where slot_name = $1",
          [SLOT],
        )
      ).rows[0]!.lsn;
    await db.exec("delete from plain");
    await db.exec("insert into plain values (1)");
    await until(() => failures > 1);
    const before = await confirmed();
    expect(purged).toEqual([]);
    expect(invalidator.stats.lag).toBeGreaterThan(0);
    const learned = await snapshot();
    expect(invalidator.open({ id: "late", tags: [tag!], learned, maxAge: 1 })).toBe("behind");
    refuses = false;
    await until(() => purged.length > 0);
    expect(purged).toEqual([tag]);
    await until(async () => (await confirmed()) > before || (await confirmed()).length > before.length);
    await until(() => invalidator.stats.lag === 0);
  });

  test("a new life is told what the last one has not acknowledged, and an invalidator that is down opens nothing", async () => {
    const first = await start();
    await store(first, "plain");
    abort.abort();
    await running;
    const learned = await snapshot();
    expect(first.stats.state).toBe("down");
    expect(first.open({ id: "1", tags: [], learned, maxAge: 1 })).toBe("down");
    await db.exec("delete from plain");
    await until(
      async () =>
        (await db.query("select from pg_replication_slots where slot_name = $1 and active", [SLOT])).rows.length === 0,
    );
    const second = await start();
    await until(() => second.stats.commits > 0);
  });
});
