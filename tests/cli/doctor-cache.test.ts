// `pgz-edge doctor` about pgz-edge/cache: what it says of a database is what the invalidator and the server do there.
//
// Most tests call the examination itself, without the other findings: a process would log in a dozen times for each.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { learn } from "../../js/cache/learn.ts";
import { BEAT } from "../../js/cache/run.ts";
import { cache } from "../../js/cli/doctor/cache.ts";
import type { Finding } from "../../js/cli/doctor/findings.ts";
import { Patient } from "../../js/cli/doctor/patient.ts";
import { createClient, createPool, type Pool } from "../cache/driver.ts";
import { logFile } from "../servers/index.mjs";
import { newCluster, prepare, run } from "../servers/postgres.mjs";
import { testDatabase } from "../support/test-database.ts";
import { pgbouncer, plainUrl, servers, useCommandLine } from "./command-line.ts";

const SETUP = readFileSync(new URL("../../js/cache/cache.sql", import.meta.url), "utf8");
const POSTGRESQL = { name: "PostgreSQL", version: "", isPostgres: true };

type Found = Readonly<Record<string, Finding>>;
const byId = (findings: readonly Finding[]): Found => Object.fromEntries(findings.map((one) => [one.id, one]));

const patientOf = (url: string) => new Patient({ options: { url }, signal: new AbortController().signal });

/** The findings about the cache by their id. `publication`: that of --cache. */
async function examine(url: string, publication?: string): Promise<Found> {
  await using client = createClient(url);
  return byId(await cache(patientOf(url), client, POSTGRESQL, publication));
}

const ofCache = (found: Found): string[] => Object.keys(found).filter((id) => id.startsWith("cache"));

describe.each(servers.filter(({ own }) => own))("PostgreSQL $name", (server) => {
  const database = testDatabase({ url: server.url, superuserUrl: server.superuserUrl! }, "doctor_cache");
  let db: Pool;

  beforeAll(async () => {
    await database.create();
    db = createPool(database.superuserUrl);
  });
  afterAll(async () => {
    await db?.close();
    await database.drop();
  });

  describe("the command", () => {
    const cli = useCommandLine();
    const doctor = async (...options: string[]): Promise<Found> => {
      const { code, out, err } = await cli.run(["doctor", database.superuserUrl, "--json", ...options]);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      return byId((JSON.parse(out) as { findings: Finding[] }).findings);
    };

    test("says nothing about the cache without cache.sql, what is missing with --cache, and what is ready", async () => {
      expect(ofCache(await doctor())).toEqual([]);
      const missing = await doctor("--cache", "answers");
      expect(missing["cache-triggers"]).toMatchObject({
        level: "change",
        text: "no answer is stored: cache.sql makes 3 event triggers, and there are 0",
        advice: [expect.stringContaining("dist/cache.sql")],
      });
      expect(missing["cache-publication"]).toMatchObject({
        level: "change",
        text: 'there is no publication "answers"',
        advice: [expect.stringContaining("create publication")],
      });
      await db.simple(`${SETUP}; create table kept (id int primary key); create publication answers for table kept`);
      const ready = await doctor();
      expect(ofCache(ready)).toEqual(
        ["triggers", "wal", "role", "publication", "identity"].map((name) => `cache-${name}`),
      );
      for (const id of ofCache(ready)) expect(ready[id]).toMatchObject({ level: "good", advice: [] });
      await db.simple("drop publication answers; drop table kept; drop schema pgz_edge_cache cascade");
    });

    test("refuses a URL and an empty word as publication", async () => {
      const url = await cli.run(["doctor", "--cache", database.superuserUrl]);
      expect(url).toMatchObject({ code: 64, out: "", err: expect.stringContaining("Pass a URL with --url") });
      expect(await cli.run(["doctor", "--cache", ""])).toMatchObject({ code: 64, out: "" });
    });
  });

  describe("event triggers", () => {
    const isArmed = async (): Promise<boolean> => {
      await using fresh = createClient(database.superuserUrl);
      return (await fresh.query<{ armed: boolean }>(BEAT, ["doctor 0 0"])).rows[0]!.armed;
    };

    test("are good after cache.sql, as the invalidator finds them", async () => {
      await db.simple(SETUP);
      expect((await examine(database.url))["cache-triggers"]).toMatchObject({ level: "good" });
      expect(await isArmed()).toBe(true);
    });

    const of = (name: string) => `alter event trigger pgz_edge_cache_${name}`;
    const definitions = "function pgz_edge_cache.definitions_changed_1()";
    test.each([
      [
        "disabled",
        `${of("end")} disable; ${of("drop")} disable`,
        "pgz_edge_cache_drop, pgz_edge_cache_end are disabled",
      ],
      ["not always", `${of("start")} enable; ${of("end")} enable replica`, "end, pgz_edge_cache_start are not ENABLE"],
      ["missing", "drop event trigger pgz_edge_cache_drop", "makes 3 event triggers, and there are 2"],
      ["of another version", `alter ${definitions} rename to definitions_changed_0`, "start are of another version"],
      ["of another owner", `alter ${definitions} owner to app`, "start are of another owner than the function"],
      ["of a function as its caller", `alter ${definitions} security invoker`, "not SECURITY DEFINER"],
      [
        "one more than in cache.sql",
        `create event trigger more on table_rewrite execute ${definitions}; alter event trigger more enable always`,
        "makes 3 event triggers, and there are 4",
      ],
    ])("that are %s are found, as by the invalidator", async (_, harm, text) => {
      await db.simple(`${SETUP}; ${harm}`);
      const { level, text: said, advice } = (await examine(database.url))["cache-triggers"]!;
      const armed = await isArmed();
      await db.simple("drop event trigger if exists more; drop schema pgz_edge_cache cascade");
      expect({ level, said, armed }).toEqual({ level: "change", said: expect.stringContaining(text), armed: false });
      expect(advice).toEqual([expect.stringContaining("dist/cache.sql")]);
    });

    const turnedOff = async () => {
      await db.simple(`${SETUP}; alter database doctor_cache set event_triggers = off`);
      const { "cache-triggers": found } = await examine(database.url);
      const armed = await isArmed();
      await db.simple("alter database doctor_cache reset event_triggers; drop schema pgz_edge_cache cascade");
      expect(found).toMatchObject({ level: "change", text: "no answer is stored: event_triggers is off" });
      expect(found!.advice).toEqual([expect.stringContaining("Set event_triggers = on")]);
      expect(armed).toBe(false);
    };
    if (server.major >= 17) test("that event_triggers turns off are found, as by the invalidator", turnedOff);
  });

  describe("publications", () => {
    const published = async (name?: string) => (await examine(database.url, name))["cache-publication"]!;

    beforeAll(() =>
      db.simple(`${SETUP}; create table kept (id int primary key, note text); create table more (id int)`),
    );
    afterAll(() => db.simple("drop table kept, more; drop schema pgz_edge_cache cascade"));

    test("that are none, several, or not there are said", async () => {
      expect(await published()).toMatchObject({ level: "change", text: "there is no publication" });
      await db.simple("create publication one for table kept; create publication two");
      expect(await published()).toMatchObject({
        level: "note",
        text: "there are several: one, two",
        facts: { publications: ["one", "two"] },
        advice: [expect.stringContaining("--cache PUBLICATION")],
      });
      expect(ofCache(await examine(database.url))).not.toContain("cache-identity");
      expect(await published("one")).toMatchObject({ level: "good", text: '"one" publishes all changes of 1 table' });
      expect(await published("three")).toMatchObject({ level: "change", text: 'there is no publication "three"' });
      await db.simple("drop publication one; drop publication two");
    });

    test.each([
      ["for table kept with (publish = 'insert, delete')", "does not publish update, truncate", "set (publish ="],
      ["for table kept with (publish_via_partition_root)", "hides a TRUNCATE", "publish_via_partition_root = false"],
      ["", '"one" has no table', "add table"],
    ])("of which no answer is stored are said: %s", async (of, text, advice) => {
      await db.simple(`create publication one ${of}`);
      const found = await published();
      const { reasons } = await learn(db, { text: "select id from kept" }, { publication: "one" });
      await db.simple("drop publication one");
      expect(reasons).not.toEqual([]);
      expect(found).toMatchObject({ level: "change", text: expect.stringMatching(/^no answer is stored: "one"/) });
      expect(found.text).toContain(text);
      expect(found.advice).toEqual([expect.stringContaining(advice)]);
    });

    test("with row filters are said, and column lists are none", async () => {
      await db.simple("create publication one for table kept (id), more where (id > 1)");
      const found = await published();
      const reasonsOf = async (table: string) =>
        (await learn(db, { text: `select id from ${table}` }, { publication: "one" })).reasons;
      const reasons = [await reasonsOf("kept"), await reasonsOf("more")];
      await db.simple("drop publication one");
      expect(reasons).toEqual([[], [expect.stringContaining("row filter")]]);
      expect(found).toMatchObject({
        level: "note",
        text: expect.stringMatching(/2 tables, but answers from those with a row filter are not stored: public\.more$/),
        facts: { rowFilters: { count: 1, names: ["public.more"] } },
        advice: [expect.stringContaining("without WHERE")],
      });
    });
  });

  describe("replica identities", () => {
    beforeAll(() =>
      db.simple(`${SETUP};
        create table keyed (id int primary key);
        create table whole (id int); alter table whole replica identity full;
        create table by_index (id int not null unique); alter table by_index replica identity using index by_index_id_key;
        create table listed (id int primary key, note text);
        create table keyless (id int);
        create table nothing (id int primary key); alter table nothing replica identity nothing;
        create table deferrable_key (id int primary key deferrable);
        create table lost (id int not null unique); alter table lost replica identity using index lost_id_key;
        alter table lost drop constraint lost_id_key;
        create table unlisted (id int primary key, note text);
        create table whole_listed (id int, note text); alter table whole_listed replica identity full;
        create foreign data wrapper afar; create server yonder foreign data wrapper afar;
        create table parted (id int) partition by list (id);
        create table parted_1 partition of parted for values in (1);
        create foreign table parted_2 partition of parted for values in (2) server yonder;
        create unlogged table parted_3 partition of parted for values in (3);
        create table rooted (id int) partition by list (id);
        create table rooted_1 partition of rooted for values in (1);
        create table apart (id int);
        create publication answers for table keyed, whole, by_index, listed (id), keyless, nothing, deferrable_key, lost,
          unlisted (note), whole_listed (id), parted;
        create publication inserts for table apart with (publish = 'insert');
        create table filtered (id int primary key, note text);
        create publication filtered for table filtered where (note = 'a') with (publish = 'insert');
        create publication by_root for table rooted with (publish_via_partition_root);
        create schema many; create unlogged table many.unlogged (id int);
        do $$begin for n in 1 .. 12 loop execute format('create table many.t%s (id int)', n + 10); end loop; end$$;
        create publication of_schema for tables in schema many`),
    );
    const identity = async (name: string) => (await examine(database.url, name))["cache-identity"];

    test("that are missing, or not in the column list, are named: the server refuses UPDATE just there", async () => {
      const { level, text, facts, advice } = (await identity("answers"))!;
      const { rows } = await db.query<{ name: string }>(
        "select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1",
      );
      const refused: Record<string, string[]> = { "55000": [], "42P10": [] };
      for (const { name } of rows)
        await db.exec(`update ${name} set id = id`).catch(({ code }: { code: string }) => refused[code]!.push(name));
      // That of the other publication.
      const names = (code: string) =>
        refused[code]!.filter((name) => name !== "rooted_1").map((name) => `public.${name}`);
      expect(names("55000")).toHaveLength(5);
      expect(names("42P10")).toHaveLength(2);
      expect(facts).toEqual({
        withoutIdentity: { count: 5, names: names("55000") },
        uncoveredByColumnList: { count: 2, names: names("42P10") },
      });
      expect({ level, text }).toEqual({
        level: "change",
        text:
          `each UPDATE and DELETE fails on tables without a replica identity (55000): ${names("55000").join(", ")}; ` +
          `on tables whose column list lacks part of it (42P10): ${names("42P10").join(", ")}`,
      });
      expect(advice).toEqual([expect.stringContaining("primary key"), expect.stringContaining("Let the list")]);
    });

    test("of the partitions of a root are looked at, too", async () => {
      expect((await identity("by_root"))!.facts).toMatchObject({
        withoutIdentity: { count: 1, names: ["public.rooted_1"] },
      });
    });

    test("are not looked at where neither UPDATE nor DELETE is published", async () => {
      expect(await identity("inserts")).toBeUndefined();
    });

    test("that lack a column of a row filter make UPDATE fail, as the advice says", async () => {
      await db.exec("update filtered set id = id");
      await db.exec("alter publication filtered set (publish = 'update')");
      await expect(db.exec("update filtered set id = id")).rejects.toMatchObject({ code: "42P10" });
      await db.exec("drop publication filtered");
    });

    test("that are missing in many tables are counted, and ten are named", async () => {
      const { text, facts } = (await identity("of_schema"))!;
      const { count, names } = facts["withoutIdentity"] as { count: number; names: string[] };
      expect([count, names.length, names[0]]).toEqual([12, 10, "many.t11"]);
      expect(text).toMatch(/many\.t11, .*many\.t20, 2 more$/);
    });
  });

  describe("a server with wal_level = replica, and its roles", () => {
    let started: Awaited<ReturnType<typeof run>>;
    let admin: Pool;
    const as = (role: string) => `postgres://${role}:${role}-secret@localhost:${started.descriptor.port}/app`;

    beforeAll(async () => {
      const log = logFile(`doctor-cache-${server.major}`);
      started = await run(await newCluster(server.major), { log, extra: { wal_level: "replica" }, prepare });
      admin = createPool(plainUrl(started.descriptor.superuserUrl!));
      await admin.simple(SETUP);
    });
    afterAll(async () => {
      await admin?.close();
      await started?.stop();
    });

    test("the server is told to be changed if it makes no logical slot", async () => {
      const { "cache-wal": found } = await examine(plainUrl(as("app")));
      const made = await admin
        .query("select pg_create_logical_replication_slot('s', 'pgoutput')")
        .then(() => admin.query("select pg_drop_replication_slot('s')"))
        .then(
          () => true,
          () => false,
        );
      expect(made).toBe(server.major >= 19);
      expect(found).toMatchObject({ level: made ? "good" : "change", facts: { walLevel: "replica" } });
      expect(found!.advice).toEqual(made ? [] : [expect.stringContaining("Set wal_level = logical")]);
    });

    test("the role is told to be changed if it has no REPLICATION", async () => {
      const role = async (name: string) => (await examine(plainUrl(as(name))))["cache-role"]!;
      expect(await role("app")).toMatchObject({
        level: "change",
        text: expect.stringMatching(/^app has no REPLICATION.*Only superusers have it/),
        facts: { user: "app", mayReplicate: false, replicators: [] },
        advice: [expect.stringContaining("alter role … replication")],
      });
      await admin.simple("create role follower login replication password 'follower-secret'");
      expect(await role("app")).toMatchObject({
        level: "note",
        text: expect.stringContaining("Others have it: follower"),
        facts: { mayReplicate: false, replicators: ["follower"] },
        advice: ["Let the invalidator log in as such a role."],
      });
      for (const name of ["follower", "postgres"])
        expect(await role(name)).toMatchObject({ level: "good", facts: { user: name, mayReplicate: true } });
    });
  });
});

describe("what cannot be found out", () => {
  const server = servers.find(({ own }) => own)!;
  const url = plainUrl(server.superuserUrl!);

  class Silent extends Patient {
    override ask(): Promise<undefined> {
      return Promise.resolve(undefined);
    }
  }

  test("is said only with --cache: of another server, and of one that does not answer", async () => {
    await using client = createClient(url);
    const other = { name: "QuestDB", version: "", isPostgres: false };
    const silent = new Silent({ options: { url }, signal: new AbortController().signal });
    expect(await cache(patientOf(url), client, other, undefined)).toEqual([]);
    expect(await cache(patientOf(url), client, other, "p")).toMatchObject([{ id: "cache", level: "unknown" }]);
    expect(await cache(silent, client, POSTGRESQL, undefined)).toEqual([]);
    expect(await cache(silent, client, POSTGRESQL, "p")).toMatchObject([{ id: "cache", level: "unknown" }]);
  });

  test("is the role, behind a pooler that passes on no replication", async () => {
    const { "cache-role": role } = await examine(plainUrl(pgbouncer!.url), "p");
    expect(role).toMatchObject({ level: "unknown", advice: [] });
  });
});
