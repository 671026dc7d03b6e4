// What a user at a terminal sees. `script` of util-linux gives the command a terminal.
import { expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { driver, ended, url, useCommandLine } from "./command-line.ts";

const cli = useCommandLine();

/** Runs in a terminal: standard input, output and error are the same device. */
const inTerminal = (line: string, env = {}) =>
  cli.start([], { env, stdin: "open" }, ["script", "-qefc", `node_modules/.bin/${line}`, "/dev/null"]);

async function seen(line: string): Promise<{ code: number | string | null; text: string }> {
  const { code, out } = await ended(inTerminal(line));
  return { code, text: out.replaceAll("\r\n", "\n") };
}

test("JSON ends with a newline, so that the prompt is on a line of its own", async () => {
  expect(await seen('pgz-edge query "select 1 as a" --format json')).toEqual({ code: 0, text: '[{"a":1}]\n' });
  expect(await seen('pgz-edge query "select 1 as a" --format ndjson')).toEqual({ code: 0, text: '{"a":1}\n' });
});

test("rows are a table, or records when the table is wider than the terminal", async () => {
  const text = " n | t\n---+---\n 1 | x\n 2 |\n(2 rows)\n";
  expect(await seen("pgz-edge query \"values (1, 'x'), (2, null)\"")).toMatchObject({ code: 0 });
  expect(await seen("pgz-edge query \"select * from (values (1, 'x'), (2, null)) v (n, t)\"")).toEqual({
    code: 0,
    text,
  });
  const wide = await seen("pgz-edge query \"select 1 as n, repeat('x', 300) as t\"");
  expect(wide.text).toBe(`-[ RECORD 1 ]\nn | 1\nt | ${"x".repeat(300)}\n(1 row)\n`);
  expect(await seen('pgz-edge query "create temp table t ()"')).toEqual({ code: 0, text: "CREATE TABLE\n" });
  // A file is for programs, so it has no table.
  expect((await seen('pgz-edge query "select 1 as a" -o a.ndjson; cat a.ndjson')).text).toContain('{"a":1}');
});

test("an error comes with its exit code", async () => {
  const { code, text } = await seen('pgz-edge query "select * from nothing"');
  expect(code).toBe(1);
  expect(text).toContain('relation "nothing" does not exist (42P01)\nLINE 1: select * from nothing\n');
});

test("without SQL the command does not wait for input", async () => {
  expect(await seen("pgz-edge query")).toMatchObject({ code: 64, text: expect.stringContaining("Pass the SQL") });
  expect(await seen("pgz-edge copy-in t")).toMatchObject({ code: 64, text: expect.stringContaining("Pass a file") });
});

test("a progress line is overwritten in place, and cleared at the end", async () => {
  const line = 'pgz-edge copy-out "select generate_series(1, 60) n, pg_sleep(0.02)" -o slow.csv';
  const { code, text } = await seen(line);
  expect(code).toBe(0);
  const [first, ...others] = text.split("\r\x1b[K");
  expect([first, others.length > 2]).toEqual(["", true]);
  expect(others.at(-1)).toMatch(/^60 rows, \d+ B in \d\.\d s, \d+ B\/s\n$/);
  for (const one of others.slice(0, -1)) expect(one).toMatch(/^(\d+ rows?, )?[\d.]+ k?B, [\d.]+ k?B\/s$|^$/);
  expect((await seen(`${line} --no-progress`)).text).toBe("COPY 60\n");
  // Output that goes to the terminal itself is not mixed with progress.
  expect((await seen('pgz-edge copy-out "select 1 as a, pg_sleep(0.3)"')).text).toBe('a,pg_sleep\n1,""\nCOPY 1\n');
});

test("Ctrl-C at the keyboard cancels the query", async () => {
  const db = await driver.connect(url);
  const PGAPPNAME = `keyboard ${process.pid}`;
  const isThere = async () => {
    const { rows } = await db.query({
      text: "select 1 from pg_stat_activity where application_name = $1",
      values: [PGAPPNAME],
    });
    return rows.length > 0;
  };
  const child = inTerminal('pgz-edge query "select pg_sleep(60)"', { PGAPPNAME });
  const result = ended(child);
  await until(isThere);
  child.stdin!.write("\x03");
  const { code, out } = await result;
  expect({ code, out }).toEqual({ code: 130, out: "^CInterrupted: the server was told to stop.\r\n" });
  expect(await isThere()).toBe(false);
  await db.close();
});

// -- texts of a server ------------------------------------------------------------------------------------------------

/** Sets the window's title, moves the cursor by a C1 character, turns the line around, deletes, and returns. */
const HOSTILE = "\r\x1b]0;owned\x07\x9b2J\u202e\u2066\x7f";
const MADE = [...HOSTILE].map((one) => `chr(${one.codePointAt(0)})`).join("||");
const NAME = `U&"${[...HOSTILE].map((one) => `\\${one.codePointAt(0)!.toString(16).padStart(4, "0")}`).join("")}"`;
/** A database that does not exist. */
const NO_DATABASE = url.replace(/\/\w+\?/, `/${encodeURIComponent(HOSTILE)}?`);
const NO_ROLE = url.replace(/\/\/\w+/, `//${encodeURIComponent(HOSTILE)}`);
const raising = (how: string) => `query 'do $do$ begin ${how}; end $do$'`;

const LINES: Readonly<Record<string, string>> = {
  "an error": `query 'select (${MADE})::int'`,
  "a notice": raising(`raise notice $$%$$, ${MADE}`),
  "detail and hint": raising(`raise $$a$$ using detail = ${MADE}, hint = ${MADE}`),
  "a context": raising(`execute $$select 1/0 /* $$||${MADE}||$$*/$$`),
  "an excerpt": 'query "select \\"$HOSTILE\\""',
  "a column and a cell": `query 'select ${MADE} as ${NAME}, ${MADE}'`,
  "csv of a query": `query 'select ${MADE} as ${NAME}' --format csv`,
  toon: `query 'select ${MADE} as ${NAME}' --format toon`,
  json: `query 'select ${MADE} as ${NAME}' --format json`,
  ndjson: `query 'select ${MADE} as ${NAME}' --format ndjson`,
  "a terminal by its name": `query 'select ${MADE} as x' --format csv -o /dev/tty`,
  "copy-out": `copy-out 'select ${MADE} as ${NAME}'`,
  "copy-out in text": `copy-out 'select ${MADE}' --format text`,
  "copy-in": "copy-in terminal_n hostile.csv",
  types: "types hostile.ts",
  changes: `changes --slot a --publication b --url '${NO_ROLE}'`,
  ping: `ping '${NO_DATABASE}'`,
  doctor: `doctor '${NO_DATABASE}'`,
  mcp: `mcp --url '${NO_DATABASE}'`,
};

test("no text of a server moves the cursor or sets the title of a terminal", async () => {
  cli.project.link("typescript");
  cli.project.link("@modelcontextprotocol/sdk");
  cli.project.write("hostile.csv", `n\n"${HOSTILE}"\n`);
  cli.project.write("hostile.ts", `import { sql } from "pgz-edge";\nsql\`select "${HOSTILE}"\`;\n`);
  const db = await driver.connect(url);
  await db.simple("drop table if exists terminal_n; create table terminal_n (n int)");
  const seenIn = async ([what, line]: readonly [string, string]) => {
    const { out } = await ended(inTerminal(`pgz-edge ${line}`, { HOSTILE }));
    const text = out.replaceAll(/\r+\n/g, "\n").replaceAll("\r\x1b[K", "");
    expect.soft({ what, controls: text.match(/[^\P{C}\n\t]/gu) ?? [] }, text).toEqual({ what, controls: [] });
    expect.soft(text, what).toContain("owned");
  };
  await Promise.all(Object.entries(LINES).map(seenIn));
  await db.simple("drop table terminal_n");
  await db.close();
});

test("a pipe and a file get the exact text", async () => {
  const line = `pgz-edge query 'select ${MADE} as x' --format csv`;
  const exact = `x\r\n"${HOSTILE}"\r\n`;
  expect((await cli.shell(`${line} | cat; ${line} -o hostile.csv; cat hostile.csv`)).out).toBe(exact + exact);
});
