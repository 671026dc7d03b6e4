// What is learned of statements on each version of PostgreSQL: their relations, why their answers may change without a
// commit to these, whether they depend on who asks; and what is refused.
//
// Two proofs at the end do not come from a table: no relation of a plan is missing, nor one that a view depends on.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { learn, type Learned } from "../../js/cache/learn.ts";
import { JSON_TO_ROWS, PERSONAL as PERSONAL_FUNCTIONS, STABLE, TEXT_SEARCH } from "../../js/cache/stable-functions.ts";
import { hasTimeLiteral, hasTimeWords } from "../../js/cache/time-words.ts";
import type { Client } from "../../js/index.ts";
import { CORPUS, DATA, SCHEMA, schemaOf as corpusSchema } from "../cli/types-corpus.ts";
import { testServers } from "../integration/servers.ts";
import { testDatabase } from "../support/test-database.ts";
import { JSON_WITHOUT, PERSONAL, REASONS, REFUSED, RELATIONS, WITHOUT } from "./cases.ts";
import { laterOf, schemaOf } from "./schema.ts";

const { createClient, createPool, sql } = (await import(
  "../../dist/node.js" as string
)) as typeof import("../../js/index.ts");

const OF_P = { publication: "p" };

describe.each(testServers().servers.map((server) => [server.major, server] as const))(
  "PostgreSQL %s",
  (major, server) => {
    const database = testDatabase(server, "cache_learn");
    const app = decodeURIComponent(new URL(server.url).username);
    let db: Client;
    let ordinary: Client;
    const here = <Case extends { readonly since?: number }>(all: readonly Case[]) =>
      all.filter(({ since = 0 }) => since <= major);

    beforeAll(async () => {
      await database.create();
      db = createClient(database.superuserUrl);
      ordinary = createClient(database.url);
      await db.simple(schemaOf(app));
      await db.simple(laterOf(major));
    });
    afterAll(async () => {
      await db.close();
      await ordinary.close();
      await database.drop();
    });

    const namesOf = async ({ relations }: Learned) => {
      const { rows } = await db.query<{ name: string }>(
        sql`select relname as name from pg_class where oid = any (${[...relations]}::oid[]) order by relname`,
      );
      return rows.map(({ name }) => name).join(" ");
    };

    test.each(here(REASONS))("$sql is bounded by time", async ({ sql: text, reason, publication = "p" }) => {
      const { reasons } = await learn(db, { text }, { publication });
      expect(
        reasons.some((one) => reason.test(one)),
        reasons.join("; "),
      ).toBe(true);
    });

    test.each(here(REASONS))("$without is not", async ({ without: text, publication = "p" }) => {
      expect((await learn(db, { text }, { publication })).reasons).toEqual([]);
    });

    test.each([...WITHOUT, ...(major >= 16 ? JSON_WITHOUT : [])])("nothing bounds %s", async (text) => {
      expect((await learn(db, { text }, OF_P)).reasons).toEqual([]);
    });

    test.each(RELATIONS)("the relations of %s", async (text, expected) => {
      const learned = await learn(db, { text }, OF_P);
      expect(await namesOf(learned)).toBe(expected);
      expect([...learned.relations]).toEqual([...learned.relations].sort((a, b) => a - b));
    });

    test.each(PERSONAL)("%s depends on who asks: %s", async (text, isPersonal) => {
      expect((await learn(db, { text }, OF_P)).isPersonal).toBe(isPersonal);
    });

    test.each(REFUSED)("%s is refused", async (text) => {
      await expect(learn(db, { text }, OF_P)).rejects.toMatchObject({ name: "UsageError", code: "INVALID_QUERY" });
    });

    test.each([
      ["select wrong from items", "42703"],
      ["select id from nowhere", "42P01"],
      ["select from where", "42601"],
      ["select 'x", "42601"],
      ["select id from items /*", "42601"],
    ])("the server's error for %s", async (text, code) => {
      await expect(learn(db, { text }, OF_P)).rejects.toMatchObject({ name: "PostgresError", code });
      await expect(learn(db, { text: "select 1" }, OF_P)).resolves.toMatchObject({ reasons: [] });
    });

    test("a policy's relations are those of a role that it applies to", async () => {
      const policies = (who: Client, text: string) => learn(who, { text }, OF_P);
      expect(await namesOf(await policies(db, "select id from secrets"))).toBe("secrets");
      const learned = await policies(ordinary, "select id from secrets");
      expect(await namesOf(learned)).toBe("members secrets");
      expect(learned).toMatchObject({ isPersonal: true, reasons: [] });
      // A view asks as its owner, a superuser, whom no policy applies to.
      expect(await namesOf(await policies(ordinary, "select id from of_secrets"))).toBe("of_secrets secrets");
      // A scope learns as its role.
      const scope = db.scope({ role: app });
      expect(await namesOf(await learn(scope, { text: "select id from secrets" }, OF_P))).toBe("members secrets");
    });

    test("search_path of a scope decides what a name means", async () => {
      const text = "select id from outside";
      await expect(learn(db, { text }, OF_P)).rejects.toMatchObject({ code: "42P01" });
      const scope = db.scope({ settings: { search_path: "other" } });
      expect(await namesOf(await learn(scope, { text }, OF_P))).toBe("outside");
    });

    test("temporary tables and views, and a table that is dropped", async () => {
      await using own = createClient(database.superuserUrl);
      await own.simple("create temp table passing (id int); create temp view seen as select id from items");
      const learned = await learn(own, { text: "select id from passing" }, OF_P);
      expect(learned.reasons[0]).toMatch(/^pg_temp_\d+\.passing is temporary$/);
      expect((await learn(own, { text: "select id from seen" }, OF_P)).reasons[0]).toMatch(/seen is temporary$/);
      await own.simple("drop table passing");
      await expect(learn(own, { text: "select id from passing" }, OF_P)).rejects.toMatchObject({ code: "42P01" });
    });

    test("of many partitions that are not published five are named", async () => {
      await db.simple(`create table split (id int) partition by list (id);
        do $$begin for n in 10 .. 29 loop
          execute format('create table split_%s partition of split for values in (%s)', n, n);
        end loop; end$$`);
      const { reasons } = await learn(db, { text: "select id from split" }, OF_P);
      await db.simple("drop table split");
      expect(reasons).toHaveLength(6);
      expect(reasons[0]).toMatch(/^public\.split_\d+, a child of public\.split, is not in the publication "p"$/);
      expect(reasons[5]).toBe("15 more");
    });

    test("on Citus nothing is told", async () => {
      await db.simple(`set allow_system_table_mods = on;
        insert into pg_extension values (99999, 'citus', 10, 11, false, '1', null, null); reset allow_system_table_mods`);
      const { reasons } = await learn(db, { text: "select id from items" }, OF_P);
      expect(reasons).toEqual(["the server is Citus, whose tables are on other nodes"]);
      await db.simple("set allow_system_table_mods = on; delete from pg_extension where oid = 99999");
      await db.simple("reset allow_system_table_mods");
      expect((await learn(db, { text: "select id from items" }, OF_P)).reasons).toEqual([]);
    });

    test("a text that the driver has described before is parsed again", async () => {
      await db.query("select id from items");
      for (let time = 0; time < 2; time++)
        expect(await namesOf(await learn(db, { text: "select id from items" }, OF_P))).toBe("items");
      await db.simple("create table swapped (id int primary key); create view moved as select id from items");
      expect(await namesOf(await learn(db, { text: "select id from moved" }, OF_P))).toBe("items moved");
      await db.simple("create or replace view moved as select id from swapped");
      expect(await namesOf(await learn(db, { text: "select id from moved" }, OF_P))).toBe("moved swapped");
      await db.simple("drop view moved; drop table swapped");
    });

    test("trees of functions that the server runs while it parses are not the statement's", async () => {
      await db.simple(`create function looked_up(int) returns bool immutable language plpgsql as
        'begin return $1 > (select count(*) - 1000000 from notes); end'; create domain looked as int check (looked_up(value))`);
      await using fresh = createClient(database.superuserUrl);
      expect(await namesOf(await learn(fresh, { text: "select 1::looked as a, id from items" }, OF_P))).toBe("items");
      await db.simple("drop domain looked; drop function looked_up");
    });

    test("the snapshot is older than the catalog, and the server says whether it is a standby", async () => {
      const before = await db.query<{ s: string }>("select pg_current_snapshot()::text as s");
      const learned = await learn(db, { text: "select 1" }, OF_P);
      expect(learned.snapshot).toMatch(/^\d+:\d+:/);
      expect(Number(learned.snapshot.split(":")[0])).toBeGreaterThanOrEqual(Number(before.rows[0]!.s.split(":")[0]));
      expect(learned.isStandby).toBe(false);
    });

    test("a pool learns as a client does, and the statement never runs", async () => {
      await using pool = createPool(database.superuserUrl, { max: 1 });
      const learned = await learn(pool, { text: "select 1 / 0 as a, nextval('counter')" }, OF_P);
      expect(learned.reasons).toEqual([expect.stringMatching(/^nextval/), expect.stringMatching(/regclass/)]);
      const { rows } = await pool.query("select is_called from counter");
      expect(rows).toEqual([{ is_called: false }]);
      // Nothing is left of the settings.
      const settings = await pool.query(
        "select current_setting('client_min_messages') as a, current_setting('debug_print_rewritten') as b",
      );
      expect(settings.rows).toEqual([{ a: "notice", b: "off" }]);
    });

    test("it takes four round trips once its own questions are known", async () => {
      await using fresh = createClient(database.url);
      const counts: number[] = [];
      for (const text of ["select 1", "select id from cheaper", "select id from parted_1, secrets"].slice(0, 2)) {
        const { flights } = fresh.stats();
        await learn(fresh, { text }, OF_P);
        counts.push(fresh.stats().flights - flights);
      }
      expect(counts[1]).toBe(4);
      expect(counts[0]).toBeLessThan(13);
    });

    // -- lists by OID -------------------------------------------------------------------------------------------------

    test("each function of the lists has its name and volatility on this server", async () => {
      const { rows } = await db.query<{ oid: number; name: string; volatility: string }>(
        `select oid, proname as name, provolatile::text as volatility from pg_proc
         where pronamespace = 'pg_catalog'::regnamespace and oid < 10000`,
      );
      const byOid = new Map(rows.map((row) => [row.oid, row]));
      const lists = { STABLE, JSON_TO_ROWS, PERSONAL_FUNCTIONS, TEXT_SEARCH };
      for (const [list, functions] of Object.entries(lists))
        for (const [oid, name] of functions) {
          const found = byOid.get(oid);
          // An older server lacks some.
          if (!found) expect(oid, `${list}: ${name} ${oid}`).toBeGreaterThan(6200);
          else expect([list, found.name, found.volatility === "v"]).toEqual([list, name, false]);
        }
    });

    test("what a session owns alone is a reason, though a view of all has it", async () => {
      await db.simple(`create function pg_temp.f() returns int immutable language sql as 'select 1';
        create type pg_temp.own as (a int)`);
      const { reasons: ofFunction } = await learn(db, { text: "select pg_temp.f()" }, OF_P);
      expect(ofFunction).toEqual([expect.stringMatching(/^(pg_temp\w*\.)?f\(\) is temporary$/)]);
      const { reasons: ofType } = await learn(db, { text: "select null::pg_temp.own" }, OF_P);
      expect(ofType).toEqual([expect.stringMatching(/^(pg_temp\w*\.)?own is temporary$/)]);
      await db.simple("discard temp");
    });

    test("a user's own way to compare a built-in type is a reason", async () => {
      const text = "select array[data::json] = array[data::json] from notes";
      const operators = ["<", "<=", "=", ">=", ">"].map((name, at) => [`operator ${at + 1} ${name}`, name] as const);
      await db.simple(`create schema of_json; set search_path = public, of_json;
        create function of_json.is(json, json) returns bool stable language sql as 'select true';
        create function of_json.compared(json, json) returns int stable language sql as 'select 0';
        ${operators.map(([, name]) => `create operator of_json.${name} (leftarg = json, rightarg = json, function = of_json.is);`).join("\n")}
        create operator class of_json.ops default for type json using btree as
          ${operators.map(([operator]) => operator).join(", ")}, function 1 of_json.compared(json, json)`);
      const { reasons } = await learn(db, { text }, OF_P);
      await db.simple("reset search_path; drop schema of_json cascade");
      expect([...reasons].sort()).toEqual([
        expect.stringMatching(/^"is"\(json,json\) is stable/),
        expect.stringMatching(/^compared\(json,json\) is stable/),
      ]);
    });

    test("a stable function that is on no list is a reason", async () => {
      const { rows } = await db.query<{ oid: number; call: string }>(
        `select oid, concat('select ', proname, '(', (select string_agg(concat('null::', t::regtype), ', ') from
             unnest(proargtypes) t), ') is null') as call from pg_proc
         where pronamespace = 'pg_catalog'::regnamespace and oid < 10000 and provolatile = 's' and prokind = 'f'
           and not proretset and not 'internal'::regtype = any (proargtypes) and not 'cstring'::regtype = any (proargtypes)
           and oidvectortypes(proargtypes) !~ 'any|event|trigger' and prorettype::regtype::text !~ 'any|record|trigger'`,
      );
      const unknown = rows.filter(
        ({ oid }) => ![STABLE, JSON_TO_ROWS, PERSONAL_FUNCTIONS].some((list) => list.has(oid)),
      );
      expect(unknown.length).toBeGreaterThan(200);
      const learned: (readonly [string, readonly string[]])[] = [];
      for (const { call } of unknown.filter((_, at) => at % 5 === 0))
        learned.push([call, (await learn(db, { text: call }, OF_P)).reasons]);
      expect(learned.filter(([, reasons]) => !reasons.length).map(([call]) => call)).toEqual([]);
    });
  },
);

// -- whole proofs -----------------------------------------------------------------------------------------------------

describe.each(testServers().servers.map((server) => [server.major, server] as const))(
  "no relation is missed on PostgreSQL %s",
  (major, server) => {
    const database = testDatabase(server, "cache_missed");
    const app = decodeURIComponent(new URL(server.url).username);
    let db: Client;

    beforeAll(async () => {
      await database.create();
      db = createClient(database.superuserUrl);
      for (const text of [SCHEMA, corpusSchema(major), DATA]) await db.simple(text);
      await db.simple("create schema more; set search_path = more, public");
      // The same objects, without those whose names would hide the corpus's.
      await db.simple(
        `set search_path = more; ${schemaOf(app)
          .replace(/\bpublic\b/g, "more")
          .replace(/\bother\b/g, "further")}; ${laterOf(major)}`,
      );
      await db.simple(
        "reset search_path; create publication of_all for all tables; set plan_cache_mode = force_generic_plan",
      );
    });
    afterAll(async () => {
      await db.close();
      await database.drop();
    });

    /** The relations of a plan, each as itself and by what it is a child of. */
    async function planned(who: Client, text: string, learned: ReadonlySet<number>): Promise<string[]> {
      const count = (await who.describe(text)).parameterTypes.length;
      const values = count ? `(${Array<string>(count).fill("null").join(", ")})` : "";
      await who.simple(`prepare explained as ${text}`);
      try {
        const [, result] = await who.simple<{ "QUERY PLAN": unknown }>(
          `set plan_cache_mode = force_generic_plan; explain (verbose, format json) execute explained${values}`,
        );
        const names = new Set<string>();
        JSON.stringify(result!.rows, (_, value: Record<string, unknown>) => {
          if (typeof value?.["Relation Name"] === "string")
            names.add(`${value["Schema"] as string}.${value["Relation Name"]}`);
          return value as unknown;
        });
        const missed: string[] = [];
        for (const name of names) {
          const { rows } = await who.query<{ oid: number }>(
            sql`with recursive up as (
                select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace
                where concat(nspname, '.', relname) = ${name}::text
                union select inhparent from up join pg_inherits on inhrelid = oid)
              select oid from up`,
          );
          if (!rows.some(({ oid }) => learned.has(oid))) missed.push(name);
        }
        return missed;
      } finally {
        await who.simple("deallocate explained");
      }
    }

    const isRead = ({ sql: text }: { readonly sql: string }) =>
      !/^\s*(insert|update|delete|merge|show)|\bfor update\b|\b(delete from|insert into) /i.test(text);

    test("that a plan of the corpus of types has", async () => {
      let count = 0;
      const missed: string[] = [];
      for (const { sql: text } of CORPUS.filter(({ since = 0 }) => since <= major)) {
        if (!isRead({ sql: text })) {
          await expect(learn(db, { text }, { publication: "of_all" }), text).rejects.toMatchObject({
            name: "UsageError",
          });
          continue;
        }
        const { relations, reasons } = await learn(db, { text }, { publication: "of_all" });
        expect(
          reasons.filter((one) => /that is not known: |could not be read/.test(one)),
          text,
        ).toEqual([]);
        for (const name of await planned(db, text, new Set(relations))) missed.push(`${name}: ${text}`);
        count++;
      }
      expect(missed).toEqual([]);
      expect(count).toBeGreaterThan(150);
    });

    test("that a plan of this file's statements has, for a superuser and another", async () => {
      const texts = [
        ...RELATIONS.map(([text]) => text),
        ...WITHOUT.filter((text) => !text.includes(";")),
        ...REASONS.filter(({ since = 0 }) => since <= major).flatMap(({ sql: text, without }) => [text, without]),
      ]
        // A foreign table of a wrapper without a handler has no plan.
        .filter((text) => !text.includes("remote") && !/from holed\b/.test(text))
        .map((text) => text.replace("other.", "further."));
      for (const role of ["", app]) {
        await using who = createClient(database.superuserUrl);
        await who.simple(`set search_path = more; grant usage on schema more, further to ${app}`);
        if (role) await who.simple(`set role ${role}`);
        const missed: string[] = [];
        for (const text of new Set(texts)) {
          const learned = await learn(who, { text }, { publication: "of_all" }).catch((error: unknown) => error);
          // The other role may not read all.
          if (learned instanceof Error) {
            expect((learned as { code?: string }).code, text).toBe("42501");
            continue;
          }
          const { relations } = learned as Learned;
          const found = await planned(who, text, new Set(relations)).catch((error: unknown) => {
            if (role && (error as { code?: string }).code === "42501") return [];
            throw new Error(`${text}: ${String(error)}`);
          });
          // What a function of the user's reads is hidden in its body: the function is a reason.
          if ((learned as Learned).reasons.some((one) => /^(more\.)?(read_rows|hidden)\(.*is stable/.test(one)))
            continue;
          for (const name of found) missed.push(`${name}: ${text}`);
        }
        expect(missed).toEqual([]);
      }
    });

    test("that a view depends on", async () => {
      const { rows: views } = await db.query<{ name: string; oid: number }>(
        `select c.oid, c.oid::regclass::text as name from pg_class c
         where relkind = 'v' and relnamespace = any (array['public', 'more', 'information_schema']::regnamespace[])`,
      );
      expect(views.length).toBeGreaterThan(80);
      for (const { oid, name } of views) {
        const { relations } = await learn(db, { text: `select * from ${name}` }, { publication: "of_all" });
        const { rows } = await db.query<{ oid: number }>(
          sql`with recursive reached as (
              select ${oid}::oid as oid
              union
              select d.refobjid from reached join pg_rewrite r on r.ev_class = reached.oid
                join pg_class c on c.oid = reached.oid and c.relkind = 'v'
                join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                  and d.refclassid = 'pg_class'::regclass)
            select oid from reached`,
        );
        const missed = rows.filter((row) => !relations.includes(row.oid));
        expect(missed, name).toEqual([]);
      }
    });
  },
);

// -- words ------------------------------------------------------------------------------------------------------------

test.each([
  ["now", true],
  [" NOW ", true],
  ["today 12:00", true],
  ["2020-01-01", false],
  ["snow", false],
  ["know nowhere", false],
  ["{2020-01-01,tomorrow}", true],
  [["a", ["yesterday"]], true],
  [["a", 1, null], false],
  [{ at: "now" }, true],
  [{ now: "at" }, false],
  [7, false],
  [null, false],
  [new Date(0), false],
  [new Uint8Array([110, 111, 119]), false],
  [sql.json({ at: "now" }), true],
])("the present in %j: %s", (value, expected) => {
  expect(hasTimeWords(value)).toBe(expected);
});

test.each([
  ["select now() -- today", false],
  ['select "today" from now', false],
  ["select 'today'", true],
  ["select 'to' 'day'", true],
  ["select 'to'\n-- a comment\n'day'", true],
  ["select 'it''s snowing'", false],
  ["select E'\\156ow'", true],
  ["select 'a\\nb'", true],
  ["select U&'x'", true],
  ["select $a$ now $a$", true],
])("the present in a constant of %s: %s", (text, expected) => {
  expect(hasTimeLiteral(text)).toBe(expected);
});
