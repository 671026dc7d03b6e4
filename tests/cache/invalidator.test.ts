// The invalidator on each version of PostgreSQL: which tags a commit purges, and what it does when its platform, or the
// stream, fails.
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Dependency } from "../../js/cache/dependencies.ts";
import { EVERYTHING, tagOf } from "../../js/cache/tags.ts";
import { STAMP, type Moment } from "../../js/cache/moment.ts";
import { Invalidator } from "../../js/cache/invalidator.ts";
import type { InvalidatorOptions } from "../../js/cache/options.ts";
import type { Opened } from "../../js/cache/protocol.ts";
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
  let told: unknown[] = [];
  let abort = new AbortController();
  let running: Promise<unknown> | undefined;
  let fills = 0;
  /** What is known of the statement whose answer was stored last. */
  let stored: Dependency;

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
      create publication cache for all tables;
      create publication few for table other`);
    await db.query("select pg_create_logical_replication_slot($1, 'pgoutput')", [SLOT]);
  });
  afterAll(async () => {
    await untilFree();
    await db.query("select pg_drop_replication_slot($1)", [SLOT]);
    await db.close();
    await database.drop();
  });
  afterEach(async () => {
    abort.abort();
    await running;
  });

  const untilFree = () =>
    until(
      async () =>
        (await db.query("select from pg_replication_slots where slot_name = $1 and active", [SLOT])).rows.length === 0,
    );

  /** Starts an invalidator that knows what is stored: nothing. */
  async function start(options: Partial<InvalidatorOptions> = {}) {
    abort = new AbortController();
    [purged, told] = [[], []];
    const { purge = async (tags: readonly string[]) => void purged.push(...tags) } = options;
    let all = 0;
    const invalidator: Invalidator = new Invalidator(db, {
      ...{ slot: SLOT, publication: "cache", signal: abort.signal },
      // The second purge of all comes after all of these.
      ...{ settle: 20, maxFill: 100, maxLag: 1_000, ...options },
      onFailure: (error) => void told.push(error),
      // Before the life begins, what the last run has not acknowledged is purged, and that may be everything too.
      purge(tags) {
        all += Number(tags.includes(EVERYTHING) && invalidator.stats.state === "following");
        return purge(tags);
      },
    });
    running = invalidator.run();
    await until(() => all === 2, "what is unknown has been purged");
    return invalidator;
  }

  const tagFor = async (table: string) => {
    const { rows } = await db.query<{ oid: number }>("select $1::regclass::oid as oid", [table]);
    return tagOf(rows[0]!.oid);
  };
  /** What is learned now of a statement that reads tables with these tags. */
  async function learned(...tags: string[]): Promise<Dependency> {
    const { seesOwn: _, ...moment } = (await db.first<Moment>(STAMP))!;
    return { statement: tags.join(), tags, parameterTypes: [], reasons: [], isPersonal: false, ...moment };
  }
  const NOTHING = { statement: "", fingerprint: "", timeline: "" };
  /** Opens a fill of its own URL. */
  const open = (invalidator: Invalidator, of: typeof NOTHING, given: object = {}): Opened => {
    const { statement, fingerprint, timeline } = of;
    const url = `${++fills}`;
    return invalidator.open({
      ...{ id: `${fills}`, statement, fingerprint, timeline, maxAge: 3_600_000 },
      ...{ url, isSeparated: false, rows: "", form: "", validators: [] },
      ...given,
    });
  };
  const refusalOf = (opened: Opened) => ("refusal" in opened ? opened.refusal : "none");
  /** The life that is heard of now. */
  const lifeOf = (invalidator: Invalidator) => open(invalidator, NOTHING).life!;
  /** Stores an answer that has read these tables. Returns its tags. */
  async function store(invalidator: Invalidator, ...tables: string[]) {
    const tags = await Promise.all(tables.map(tagFor));
    // What is learned counts when every transaction from before this life is over, also those of other databases.
    await until(async () => {
      stored = await learned(...tags);
      invalidator.remember({ life: lifeOf(invalidator), ...stored });
      return refusalOf(open(invalidator, stored)) === "none";
    });
    const { snapshot, isStandby } = stored;
    invalidator.close({ life: lifeOf(invalidator), id: `${fills - 1}`, tags, snapshot, isStandby });
    await until(() => invalidator.stats.fills === 0, "it has settled");
    return tags;
  }
  /** The tags that a statement purges. They are known once a later commit has purged. */
  async function purgedBy(invalidator: Invalidator, text: string) {
    const [marker] = await store(invalidator, "other");
    purged = [];
    await db.simple(text);
    await db.exec("insert into other values (1) on conflict (n) do update set n = excluded.n");
    await until(() => purged.includes(marker!) || purged.includes(EVERYTHING));
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
    "alter index plain rename to plain_2; alter index plain_2 rename to plain",
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
    const text = "create temp table t as select 1 as c; create index on t (c); drop table t";
    expect(await purgedBy(invalidator, text)).toEqual([]);
  });

  test("a purge that fails is repeated, and its commit is not acknowledged before", async () => {
    let refuses = false;
    const purge = async (tags: readonly string[]) => {
      if (refuses) throw new Error("too many requests");
      purged.push(...tags);
    };
    const invalidator = await start({ purge, maxLag: 400 });
    const [tag] = await store(invalidator, "plain");
    refuses = true;
    purged = [];
    told = [];
    const confirmed = async () =>
      (
        await db.query<{ lsn: string }>(
          "select confirmed_flush_lsn::text as lsn from pg_replication_slots where slot_name = $1",
          [SLOT],
        )
      ).rows[0]!.lsn;
    await db.exec("delete from plain");
    await db.exec("insert into plain values (1)");
    await until(() => told.length > 1);
    const before = await confirmed();
    expect(purged).toEqual([]);
    await until(() => invalidator.stats.lag > 400);
    expect(refusalOf(open(invalidator, stored))).toBe("behind");
    refuses = false;
    await until(() => purged.length > 0);
    expect(purged).toEqual([tag]);
    await until(async () => (await confirmed()) > before || (await confirmed()).length > before.length);
    await until(() => invalidator.stats.lag < 400);
  });

  test("a new run is told what the last one has not acknowledged, and an invalidator that is down opens nothing", async () => {
    const first = await start();
    const [tag] = await store(first, "plain");
    await expect(first.run()).rejects.toMatchObject({ code: "STREAM_OPEN" });
    abort.abort();
    await running;
    expect(first.stats.state).toBe("down");
    expect(refusalOf(open(first, NOTHING))).toBe("down");
    expect(() => open(first, NOTHING, { maxAge: NaN })).toThrow("maxAge");
    await db.exec("delete from plain");
    await untilFree();
    await start();
    expect(purged).toContain(tag);
  });

  test("each connection of the stream is a new life, which purges everything twice", async () => {
    const invalidator = await start();
    await store(invalidator, "plain");
    purged = [];
    await db.query(
      "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active_pid is not null",
      [SLOT],
    );
    await until(() => purged.filter((tag) => tag === EVERYTHING).length === 2);
    await store(invalidator, "plain");
  });

  test("a database without the event triggers is refused, also when they are dropped later", async () => {
    const invalidator = await start();
    await db.exec("drop event trigger pgz_edge_cache_drop");
    await until(() => told.some((error) => /cache\.sql/.test(String(error))));
    expect(invalidator.stats.state).toBe("down");
    await db.simple(SETUP);
    await until(() => invalidator.stats.state === "following", "it begins anew by itself");
  });

  test("messages of other programs and roles do no harm, whatever they hold", async () => {
    const invalidator = await start();
    await store(invalidator, "plain");
    purged = [];
    for (const prefix of ["pgz-edge/cache-heartbeat", "pgz-edge/cache"])
      await db.query("select pg_logical_emit_message(true, $1, '\\xff'::bytea)", [prefix]);
    await until(() => purged.includes(EVERYTHING));
    await store(invalidator, "plain");
    expect(told).toEqual([]);
  });

  test("a slot that is missing is made if that is wanted, and one that another connection reads is waited for", async () => {
    await db.query("select pg_drop_replication_slot($1)", [SLOT]);
    const first = await start({ createSlot: "permanent" });
    await store(first, "plain");
    const second = new Invalidator(db, {
      ...{ slot: SLOT, publication: "cache", purge: async () => {}, signal: abort.signal },
      onFailure: (error) => void told.push(error),
    });
    const following = second.run();
    await until(() => told.length > 0);
    expect(String(told[0])).toContain(`another connection reads slot "${SLOT}"`);
    expect(second.stats).toMatchObject({ state: "down", reason: expect.stringContaining("another connection") });
    abort.abort();
    await following;
  });

  test("a pool that is closed ends it, and what its run refuses is told", async () => {
    const closing = createPool(database.superuserUrl);
    const errors: unknown[] = [];
    const options = {
      publication: "cache",
      purge: async () => {},
      onFailure: (error: unknown) => void errors.push(error),
    };
    const invalidator = new Invalidator(closing, { slot: "Not A Slot", ...options });
    const ended = invalidator.run();
    await until(() => errors.length > 0);
    expect(errors[0]).toMatchObject({ code: "INVALID_OPTION" });
    expect(invalidator.stats.reason).toContain("slot");
    await closing.close();
    await ended;
    await invalidator.run(); // it does nothing
    expect(errors).toHaveLength(1);
  });

  test("a pool that is closed ends a run that follows, and its slot is free", async () => {
    const slot = "cache_closing";
    const own = createPool(database.superuserUrl);
    const errors: unknown[] = [];
    const onFailure = (error: unknown) => void errors.push(error);
    const options = { slot, createSlot: "permanent", publication: "cache", purge: async () => {}, onFailure } as const;
    const closing = new Invalidator(own, options);
    const ended = closing.run();
    await until(() => closing.stats.state === "following");
    await own.close();
    await ended;
    expect(closing.stats).toMatchObject({ state: "down", reason: "The pool of the invalidator is closed." });
    expect(errors).toEqual([]);
    const isActive = async () =>
      (await db.query("select from pg_replication_slots where slot_name = $1 and active", [slot])).rows.length > 0;
    await until(async () => !(await isActive()));
    await db.query("select pg_drop_replication_slot($1)", [slot]);
  });

  test("options that do not fit are refused at once", () => {
    const options = { slot: SLOT, publication: "cache", purge: async () => {}, onFailure: () => {} };
    const wrong: object[] = [
      ...[{ slot: "" }, { publication: undefined }, { purge: undefined }, { onFailure: 3 }, { createSlot: true }],
      ...[{ settle: "2000" }, { settle: 0 }, { maxFill: Infinity }, { maxLag: NaN }, { settle: 1e12 }],
    ];
    for (const given of wrong)
      expect(() => new Invalidator(db, { ...options, ...given } as InvalidatorOptions), JSON.stringify(given)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION" }),
      );
    const other = { ...options, maxlag: 5 } as InvalidatorOptions;
    expect(() => new Invalidator(db, other)).toThrow(expect.objectContaining({ code: "UNKNOWN_OPTION" }));
    expect(() => new Invalidator("postgres://" as never, options)).toThrow("takes a pool");
  });

  test("cache.sql takes over nothing that another role has made", async () => {
    const drop = "drop schema pgz_edge_cache cascade";
    await db.simple(`${drop}; create role cache_evil; grant create on database ${new URL(database.url).pathname.slice(1)}
      to cache_evil; set role cache_evil; create schema pgz_edge_cache; reset role`);
    await expect(db.simple(SETUP)).rejects.toThrow("belongs to another role");
    await db.simple(`${drop}; drop owned by cache_evil; drop role cache_evil`);
    await db.simple(SETUP);
  });

  test("a table that takes its name back from another is told as itself", async () => {
    const invalidator = await start();
    await db.exec("insert into plain values (50)");
    await db.simple("alter table plain rename to away; create table plain (n int4 primary key)");
    await db.exec("insert into plain values (50)");
    await db.simple("drop table plain; alter table away rename to plain");
    await until(() => invalidator.stats.commits > 0);
    const [tag] = await store(invalidator, "plain");
    expect(await purgedBy(invalidator, "insert into plain values (51)")).toEqual([tag]);
    await db.exec("delete from plain");
  });

  test("DETACH PARTITION CONCURRENTLY is told at the first of its two commits", async () => {
    const invalidator = await start();
    await store(invalidator, "whole");
    purged = [];
    let detached: Promise<unknown> | undefined;
    await db.transaction(async (reader) => {
      await reader.query("select from whole");
      // It waits for the reader between its commits.
      detached = db.exec("alter table whole detach partition part concurrently");
      await until(() => purged.includes(EVERYTHING));
    });
    await detached;
    await db.exec("alter table whole attach partition part for values from (0) to (10)");
  });

  test("nothing counts that was learned while a transaction ran that a change of the publication does not show", async () => {
    const invalidator = await start({ publication: "few" });
    await store(invalidator, "other");
    const learnAndOpen = async () => {
      const dependency = await learned("a");
      invalidator.remember({ life: lifeOf(invalidator), ...dependency });
      return refusalOf(open(invalidator, dependency));
    };
    purged = [];
    await db.transaction(async (writer) => {
      await writer.exec("insert into plain values (60)");
      await db.exec("alter publication few add table plain");
      await until(() => purged.includes(EVERYTHING));
      expect(await learnAndOpen()).toBe("unknown");
    });
    await until(async () => (await learnAndOpen()) === "none");
    await db.exec("delete from plain");
  });
});
