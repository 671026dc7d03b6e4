// `pgz-edge query` and what all commands share: exit codes, errors, help.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, url } from "./command-line.ts";

let cli: CommandLine;
beforeAll(() => void (cli = new CommandLine()), 120_000);
afterAll(() => cli.remove());

test.each([
  ["ndjson", '{"id":1,"name":"Grace"}\n{"id":2,"name":null}\n'],
  ["json", '[{"id":1,"name":"Grace"},{"id":2,"name":null}]'],
  ["csv", "id,name\n1,Grace\n2,\n"],
  ["columnar", '{"columns":["id","name"],"rows":[[1,"Grace"],[2,null]]}'],
  ["toon", '[?]{id,name}\n1,"Grace"\n2,null\n'],
])("rows as %s", async (format, text) => {
  const statement = "select * from (values (1, 'Grace'), (2, null)) v (id, name)";
  const { code, out, err } = await cli.run(["query", statement, "--format", format]);
  expect({ code, out: out.replaceAll("\r\n", "\n"), err }).toEqual({ code: 0, out: text, err: "" });
});

test("the values are text that the server takes for the parameters' types", async () => {
  const words = ["query", "select $1::int4 + 1 as n, $2::jsonb -> 'a' as j, $3 as t, $4::date as d"];
  const { code, out } = await cli.run([...words, "--", "-41", '{"a":[1]}', "héllo ‘x’", "2024-02-29"]);
  expect([code, out]).toEqual([0, '{"n":-40,"j":[1],"t":"héllo ‘x’","d":"2024-02-29"}\n']);
});

test("the SQL comes from standard input or a file", async () => {
  cli.project.write("query.sql", "select $1 as a -- of a file\n");
  for (const words of [["query"], ["query", "-"]])
    expect(await cli.run(words, { input: "select 7 as a" })).toEqual({ code: 0, out: '{"a":7}\n', err: "" });
  expect((await cli.run(["query", "--file", "query.sql", "of mine"])).out).toBe('{"a":"of mine"}\n');
  expect(await cli.run(["query", "--file", "nothing.sql"])).toMatchObject({ code: 64, out: "" });
});

test("several statements: what to use instead, by names that a shell has", async () => {
  const { code, err } = await cli.run(["query", "select 1; select 2"]);
  expect(code).toBe(1);
  expect(err).toContain("(42601)");
  expect(err).toContain("ADVICE:  query runs one statement: psql -f runs a file of several.");
});

test("an error of the server: as psql shows it, exit code 1, no stack", async () => {
  const { code, out, err } = await cli.run(["query", "select *\nfrom nothing"]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toBe('ERROR:  relation "nothing" does not exist (42P01)\nLINE 2: from nothing\n             ^\n');
  expect((await cli.run(["query", "select 1/0", "--debug"])).err).toMatch(/\n\s+at .*query/);
  const hinted = await cli.run(["query", "select lengthh('a')"]);
  expect(hinted.err).toMatch(/^HINT: {2}No function matches/m);
});

test("the command tag and notices go to standard error", async () => {
  const done = await cli.run(["query", "create temp table t as select generate_series(1, 3)"]);
  expect(done).toEqual({ code: 0, out: "", err: "SELECT 3\n" });
  expect((await cli.run(["query", "do $$ begin raise notice 'hey'; end $$"])).err).toBe("NOTICE:  hey\nDO\n");
});

test("a limit fails, or ends the output with a mark", async () => {
  const words = ["query", "select n from generate_series(1, 100000) n", "--max-rows", "2"];
  expect(await cli.run(words)).toMatchObject({ code: 1, err: expect.stringContaining("RESPONSE_TOO_LARGE") });
  const cut = "Cut at 2 rows: there is more.\n";
  expect(await cli.run([...words, "--truncate"])).toEqual({
    code: 0,
    out: '{"n":1}\n{"n":2}\n{"$truncated":{"limit":"rows","value":2,"rows":2}}\n',
    err: cut,
  });
  expect(await cli.run([...words, "--truncate", "-f", "csv"])).toEqual({ code: 0, out: "n\r\n1\r\n2\r\n", err: cut });
  expect(await cli.run(["query", "select repeat('x', 5000)", "--max-bytes", "4kB"])).toMatchObject({ code: 1 });
  const late = await cli.run(["query", "select pg_sleep(20)", "--timeout", "300ms"]);
  expect(late).toMatchObject({ code: 1, err: expect.stringContaining("QUERY_TIMEOUT") });
});

test("a file is there whole or not at all", async () => {
  const words = ["query", "select n from generate_series(1, 200000) n"];
  expect(await cli.run([...words, "-o", "whole.ndjson"])).toEqual({ code: 0, out: "", err: "" });
  expect(readFileSync(cli.project.at("whole.ndjson"), "utf8").split("\n").length).toBe(200_001);
  expect(await cli.run([...words, "-o", "half.ndjson", "--max-rows", "150000"])).toMatchObject({ code: 1 });
  expect(existsSync(cli.project.at("half.ndjson"))).toBe(false);
  expect(readdirSync(cli.project.folder).filter((name) => name.endsWith(".part"))).toEqual([]);
  expect(await cli.run([...words, "-o", "no/such/folder"])).toMatchObject({ code: 64 });
});

const refused = url.replace(/:\d+\//, ":1/");
const wrongPassword = url.replace(/:[^:@]*@/, ":geheim@");
test.each([
  ["nobody listens", refused, 2, "CONNECT_FAILED"],
  ["a wrong password", wrongPassword, 2, "28P01"],
  ["a database that is not there", url.replace(/\/[^/?]*\?/, "/nothing_here?"), 2, "3D000"],
  ["no URL at all", "geheim", 64, "URL"],
  ["an unknown parameter", `${wrongPassword}&geheim=1`, 64, "pgz-edge help query"],
])("%s", async (_, where, code, text) => {
  const { code: found, out, err } = await cli.run(["query", "select 1", "--url", where]);
  expect([found, out]).toEqual([code, ""]);
  expect(err).toContain(text);
  expect(err).not.toMatch(/geheim@|:geheim/);
});

test("wrong usage is 64, and no password is repeated", async () => {
  const lines = [
    [],
    [wrongPassword],
    ["--url", wrongPassword],
    ["help", wrongPassword],
    ["query", "select 1", `--ulr=${wrongPassword}`],
    ["query", "select 1", `--debug=${wrongPassword}`],
    ["query", "select 1", "--url"],
    ["query", "select 1", "--url", ""],
    ["query", "select 1", "--format", "xml"],
    ["query", "select 1", "--max-rows", "many"],
    ["query", "select 1", "--timeout", "soon"],
    ["query", "select 1", "--no-header"],
  ];
  for (const words of lines) {
    const { code, out, err } = await cli.run(words);
    expect([words, code, out]).toEqual([words, 64, ""]);
    expect(err).toMatch(/^pgz-edge: .*\nTry "pgz-edge help( \w+)?"\.\n$/);
    expect(err).not.toContain("geheim");
  }
});

test("where to connect: --url, then DATABASE_URL, then the variables of libpq", async () => {
  const { hostname, port, username, password, pathname } = new URL(url);
  const variables = {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
    PGDATABASE: pathname.slice(1),
    PGSSLMODE: "disable",
  };
  const words = ["query", "select 1 as a"];
  const yes = { code: 0, out: '{"a":1}\n', err: "" };
  expect(await cli.run(words, { env: { DATABASE_URL: undefined, ...variables } })).toEqual(yes);
  expect(await cli.run([...words, "--url", url], { env: { DATABASE_URL: refused } })).toEqual(yes);
  expect(await cli.run(words, { env: { DATABASE_URL: refused, ...variables } })).toMatchObject({ code: 2 });
  const none = await cli.run(words, { env: { DATABASE_URL: undefined } });
  expect(none).toMatchObject({ code: 64, err: expect.stringContaining("pass --url, or set DATABASE_URL") });
});

test("help and version", async () => {
  const { version } = JSON.parse(readFileSync(cli.project.at("node_modules/pgz-edge/package.json"), "utf8")) as {
    version: string;
  };
  expect(await cli.run(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
  const help = await cli.run(["help"]);
  expect(help).toEqual(await cli.run(["--help"]));
  expect(help).toMatchObject({ code: 0, err: "" });
  const names = [...help.out.matchAll(/^ {2}([a-z][a-z-]*) {2,}\w/gm)].map(([, name]) => name!);
  expect(names).toContain("query");
  for (const name of names.filter((one) => one !== "help")) {
    const { code, out } = await cli.run(["help", name]);
    expect([name, code, out.startsWith(`Usage: pgz-edge ${name}`)]).toEqual([name, 0, true]);
    expect((await cli.run([name, "--help"])).out).toBe(out);
  }
  expect(Math.max(...help.out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(120);
});

test("docs/cli.md has each command, option and exit code that the help has", async () => {
  const page = readFileSync(new URL("../../docs/cli.md", import.meta.url), "utf8");
  const own = ["query", "copy-in", "copy-out", "ping", "doctor"];
  for (const name of own) {
    expect(page).toMatch(new RegExp(`^## .*\`${name}\``, "m"));
    const { out } = await cli.run(["help", name]);
    const options = [...out.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, option]) => option!);
    expect(options.length).toBeGreaterThan(4);
    expect([name, options.filter((option) => option !== "--help" && !page.includes(`${option}`))]).toEqual([name, []]);
  }
  const [, codes = ""] = /Exit codes: ([^]*?)\./.exec((await cli.run(["help"])).out) ?? [];
  const [, table = ""] = /## Exit codes\n\n([^]*?)\n\n/.exec(page) ?? [];
  const numbers = (text: string) =>
    [...text.matchAll(/\b\d+\b/g)].map(([number]) => Number(number)).sort((a, b) => a - b);
  expect(numbers(table)).toEqual(numbers(codes));
  expect(numbers(table)).toEqual([0, 1, 2, 64, 129, 130, 141, 143]);
});
