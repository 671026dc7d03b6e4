// The reader of SQL against the server, on random texts. The server's responses show how many statements a text
// contains and how each begins.
import fc from "fast-check";
import { beforeAll, afterAll, describe, expect, test } from "vitest";
import type { Client } from "../../js/index.ts";
import { firstWord, hasSeveral, SqlReader } from "../../js/util/sql-reader.ts";
import { runtime, testServers } from "../integration/servers.ts";

const { connect } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const { servers } = testServers();

/** `RUNS=100000 node tests/run.mjs node -- tests/sql` runs it for longer. */
const RUNS = Number(process.env["RUNS"] ?? 2_000);

/** Texts that begin, end or escape something, and texts that may be inside. */
const NOISE = [
  ...["'", "''", "'''", "\\", "\\'", "\\\\", "e'", "E'", "b'0'", "x'1f'", "N'", "U&'", '"', 'U&"', '"a"', '""'],
  ...[
    "$$",
    "$a$",
    "$b$",
    "$1",
    "$",
    "--",
    "--\n",
    "--\r",
    "/*",
    "*/",
    "/**/",
    "/*/",
    "*/*",
    ";",
    "\n",
    "\r",
    "\t",
    "\v",
  ],
  ...[" ", " ", "a", "é", "1", "1e", ".5", "0x1", "_", "(", ")", ",", "::text", "||", "-", "*", "uescape '!'"],
];
/** Statements without effect on each other, each with a tag of its own. */
const STARTS = [
  "select ",
  "show ",
  "values (",
  "table ",
  "set local x.y to ",
  "declare c cursor for select ",
  "listen ",
];
const ENDS = ["'", "';", '"', "$$", "$a$", "*/", "\n", ";", ")", "a;", "all;", "1;"];

const text = fc
  .array(
    fc.tuple(
      fc.constantFrom("", " ", "/* ; */", "-- ;\n", "/*/**/*/", ";"),
      fc.constantFrom(...STARTS),
      fc.array(fc.constantFrom(...NOISE), { maxLength: 4 }),
      fc.constantFrom(...ENDS),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((statements) => statements.map(([before, start, noise, end]) => before + start + noise.join("") + end).join(""));

/**
 * Literals that the server mostly accepts. The statement after each is only a statement if the literal ends where we
 * think.
 */
const literal = fc
  .tuple(
    fc.constantFrom("'", "E'", "e'", "U&'", "N'", "$$", "$a$", '1 as "', '1 as U&"', "/*", "--"),
    fc.array(fc.constantFrom("''", "\\'", "\\\\", "'", "$$", "$a$", ";", "--", "/*", "*/", '""', "\n", "x", " "), {
      maxLength: 4,
    }),
    fc.constantFrom("'", "'\n'", "'--c\n'", "$$", "$a$", '"', "*/1", "\n1"),
    fc.constantFrom("show all", "show all;select '\\'';'", "show all;select E'\\'' '\\';'", "listen a; select ';'"),
  )
  .map(([open, inside, close, behind]) => `select ${open}${inside.join("")}${close} ; ${behind}`);

function statementsOf(sql: string, backslashes: boolean): string[] {
  const reader = new SqlReader(sql, { backslashes });
  const words: string[] = [];
  for (let isFirst = true; reader.next() !== "end"; isFirst = reader.kind === "semicolon")
    if (isFirst && reader.kind !== "semicolon") words.push(reader.name);
  return words;
}

/** The first word of a statement with this tag, as far as STARTS needs it. */
const BEGINS: Readonly<Record<string, string>> = { "DECLARE CURSOR": "declare" };

describe.each(servers.filter(({ own }) => own))("$name", (server) => {
  let client: Client;
  beforeAll(async () => void (client = await connect({ ...addressOf(server), timeout: 30_000 })));
  afterAll(() => client.close());

  // From 19 on the setting cannot be turned off.
  const settings = [["on", false] as const, ...(server.major < 19 ? [["off", true] as const] : [])];
  describe.each(settings)("standard_conforming_strings %s", (setting, backslashes) => {
    beforeAll(async () => {
      await client.simple(`set standard_conforming_strings = ${setting}; set client_min_messages = error`);
    });

    test("statements and their first words are what the server ran", async () => {
      let accepted = 0;
      const several = { wanted: 0 };
      await fc.assert(
        fc.asyncProperty(fc.oneof(text, { arbitrary: literal, weight: 4 }), async (sql) => {
          const results = await client.simple(`begin;${sql}\n;rollback`).catch(() => undefined);
          await client.simple("rollback");
          if (!results) return; // mostly a syntax error: no statement ran, so there is nothing to compare
          const ran = results
            .map(({ command }) => command.toLowerCase())
            .filter((tag) => tag !== "")
            .slice(1, -1)
            .map((tag) => BEGINS[tag.toUpperCase()] ?? tag);
          accepted++;
          if (ran.length > 1) several.wanted++;
          // VALUES and TABLE are queries, and the server's tag for them is SELECT.
          const read = statementsOf(sql, backslashes).map((word) => (/^(values|table)$/.test(word) ? "select" : word));
          expect(read).toEqual(ran);
          if (!backslashes) expect(ran.length > 1 ? hasSeveral(sql) : true).toBe(true);
          if (read.length) expect(firstWord(sql)).toBe(statementsOf(sql, backslashes)[0]);
        }),
        { numRuns: RUNS },
      );
      console.log(
        `[sql] ${server.name}, ${setting}: the server ran ${accepted} of ${RUNS}, ${several.wanted} of several`,
      );
      expect(accepted).toBeGreaterThan(100);
      expect(several.wanted).toBeGreaterThan(30);
    });
  });
});

function addressOf({ host, port, database, user, password }: (typeof servers)[number]) {
  return { host, port, database, user, password, sslmode: "disable" as const };
}
