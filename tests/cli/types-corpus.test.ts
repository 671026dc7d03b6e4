// The column types and nullability that `pgz-edge types` infers for statements with known answers, on each version of
// PostgreSQL. Then the statements run, over data chosen to contradict the inference.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeAll, type Described } from "../../js/cli/types/describe.ts";
import { RowTypes, type Member } from "../../js/cli/types/row-types.ts";
import type { Client } from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";
import { testDatabase } from "../support/test-database.ts";
import { CORPUS, DATA, SCHEMA, schemaOf, type Statement } from "./types-corpus.ts";

const { createClient } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const PAGE = new URL("../../docs/sql-types.md", import.meta.url);
const NOTHING = { notNull: new Set<string>(), nullable: new Set<string>() };

/** Returns the columns as the author of the corpus has written them. */
function truth({ columns }: Statement): Member[] {
  return columns.split("; ").map((column) => {
    const [, name, type, isNull] = /^(.*?): (.*?)(\?)?$/.exec(column)!;
    return { name: name!, type: isNull ? `${type!} | null` : type! };
  });
}

/** Columns that the tool reports as nullable, although they cannot be NULL. */
const misses = new Map<string, Set<string>>();

describe.each(testServers().servers.map((server) => [server.major, server] as const))(
  "PostgreSQL %s",
  (major, server) => {
    const database = testDatabase(server, "types_corpus");
    const here = CORPUS.filter(({ since = 0 }) => since <= major);
    const found = new Map<string, Member[]>();
    let db: Client;
    let flights = 0;

    beforeAll(async () => {
      await database.create();
      const owner = createClient(database.superuserUrl);
      await owner.simple(SCHEMA);
      await owner.simple(schemaOf(major));
      await owner.simple(DATA);
      await owner.close();
      // A new session: functions that ran before are not parsed again.
      db = createClient(database.superuserUrl);
      const texts = here.map(({ sql }) => sql);
      await describeAll(db, texts, async (tx, described) => {
        flights = db.stats().flights;
        const refused = texts.filter((text) => described.get(text) instanceof Error);
        expect(refused.map((text) => [text, String(described.get(text))])).toEqual([]);
        const statements = described as ReadonlyMap<string, Described>;
        const types = await RowTypes.of(tx, [...statements.values()], {}, new Set());
        for (const [text, statement] of statements) found.set(text, types.members(statement, NOTHING));
      });
    });
    afterAll(async () => {
      await db.close();
      await database.drop();
    });

    test("many statements share a round trip, and one that is refused takes one more", async () => {
      // The round trips are the login, four of our own, one per hundred, and one per statement with new types: 27 for
      // 224.
      expect(flights).toBeLessThan(here.length / 4);
      const texts = ["select 1 as a", "select wrong", "select 2 as b", "select from where", "select 3 as c"];
      const told = await describeAll(db, texts, (_, described) => Promise.resolve(described));
      const names = texts.map((text) => {
        const answer = told.get(text)!;
        return "fields" in answer ? answer.fields.map(({ name }) => name).join() : answer.code;
      });
      expect(names).toEqual(["a", "42703", "b", "42601", "c"]);
    });

    test("a statement whose types must be asked for is described, whatever follows it", async () => {
      // Another application name is another server for the cache of types.
      const fresh = createClient(database.superuserUrl, { applicationName: "nothing is known" });
      const texts = ["select 'sad'::mood as m", "select wrong", "select row(1, null) as r", "select from where"];
      const told = await describeAll(fresh, texts, (_, described) => Promise.resolve(described));
      await fresh.close();
      expect(texts.map((text) => "fields" in told.get(text)!)).toEqual([true, false, true, false]);
    });

    test.each(here)("$sql", (statement) => {
      const names = truth(statement).map(({ name }) => name);
      const expected = truth(statement).filter(({ name }, index) => names.lastIndexOf(name) === index);
      const said = found.get(statement.sql)!;
      const strip = ({ name, type }: Member) => ({ name, type: type.replace(/ \| null$/, "") });
      expect(said.map(strip)).toEqual(expected.map(strip));
      for (const [index, { name, type }] of said.entries()) {
        const isTrue = expected[index]!.type;
        // The rule: a column that can be NULL is always reported as nullable.
        if (isTrue.endsWith("| null")) expect(`${name}: ${type}`).toBe(`${name}: ${isTrue}`);
        else if (type !== isTrue) misses.set(statement.sql, (misses.get(statement.sql) ?? new Set()).add(name));
      }
    });

    test.each(here.filter(({ runs }) => runs?.length !== 0))(
      "the rows of $sql have the inferred types",
      async ({ sql, runs = [[]] }) => {
        const rows: Record<string, unknown>[] = [];
        for (const values of runs) {
          const undone = new Error("undone");
          const run = db.transaction(async (tx) => {
            rows.push(...(await tx.query(sql, values)).rows);
            throw undone;
          });
          await expect(run).rejects.toBe(undone);
        }
        const members = found.get(sql)!;
        for (const row of rows) {
          expect(Object.keys(row)).toEqual(members.map(({ name }) => name));
          for (const { name, type } of members)
            expect([name, row[name], fits(row[name], type)]).toEqual([name, row[name], true]);
        }
      },
    );

    test("only for a superuser does the server keep the shown statement out of its log", async () => {
      const app = createClient(`${server.appUrl.split("?")[0]!}?sslmode=disable`);
      for (const [client, name] of [[db, "of_a_superuser"] as const, [app, "of_another"] as const])
        await describeAll(client, [`select 1 as ${name}_${major}`], () => Promise.resolve());
      await app.close();
      // The server writes a statement's tree to the log before it answers.
      const log = readFileSync(server.log!, "utf8");
      expect(log.includes(`:resname of_another_${major}`)).toBe(true);
      expect(log.includes(`of_a_superuser_${major}`)).toBe(false);
    });

    test("the corpus has the expected number of statements", () => expect(here.length).toBeGreaterThan(170));
  },
);

test("the columns that the tool does not recognise as never NULL are those of docs/sql-types.md", () => {
  const lines = [...misses].map(([sql, names]) => `${[...names].join(", ")} of: ${sql}`);
  const page = readFileSync(PAGE, "utf8");
  const [, block = ""] = /<!-- misses -->\n+```text\n([^]*?)```/.exec(page) ?? [];
  expect(lines.sort()).toEqual(block.trim().split("\n").sort());
  expect(page).toContain(`has ${CORPUS.length} statements`);
});

/** Returns whether a JavaScript value has the type that the tool writes. */
function fits(value: unknown, type: string): boolean {
  if (type === "unknown") return true;
  if (type.endsWith(" | null")) return value === null || fits(value, type.slice(0, -" | null".length));
  if (type.endsWith("[]")) {
    const element = type.slice(0, -2).replace(/^\((.*)\)$/, "$1");
    return Array.isArray(value) && value.every((item) => fits(item, element));
  }
  if (type === "Uint8Array") return value instanceof Uint8Array;
  if (type === "Mood") return ["sad", "ok", "elated", "happy"].includes(value as string);
  if (type === "Grade") return ["low", "high"].includes(value as string);
  if (/^(Record<.*>|Addr|Orgs)$/.test(type))
    return typeof value === "object" && value !== null && !Array.isArray(value);
  if (["string", "number", "boolean"].includes(type)) return typeof value === type;
  throw new Error(`The test does not know ${type}.`);
}
