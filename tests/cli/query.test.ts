// `pgz-edge query`, and what all commands share: exit codes, errors, help.
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { driver, server, url, useCommandLine } from "./command-line.ts";

const withoutPassword = url.replace(/:[^:@/]*@/, "@");

const cli = useCommandLine();

test.each([
  ["ndjson", '{"id":1,"name":"Grace"}\n{"id":2,"name":null}\n'],
  ["json", '[{"id":1,"name":"Grace"},{"id":2,"name":null}]\n'],
  ["csv", "id,name\n1,Grace\n2,\n"],
  ["columnar", '{"columns":["id","name"],"rows":[[1,"Grace"],[2,null]]}\n'],
  ["toon", '[?]{id,name}\n1,"Grace"\n2,null\n'],
])("rows as %s", async (format, text) => {
  const statement = "select * from (values (1, 'Grace'), (2, null)) v (id, name)";
  const { code, out, err } = await cli.run(["query", statement, "--format", format]);
  expect({ code, out: out.replaceAll("\r\n", "\n"), err }).toEqual({ code: 0, out: text, err: "" });
});

test("values are text that the server converts to the parameters' types", async () => {
  const words = ["query", "select $1::int4 + 1 as n, $2::jsonb -> 'a' as j, $3 as t, $4::date as d"];
  const { code, out } = await cli.run([...words, "--", "-41", '{"a":[1]}', "héllo ‘x’", "2024-02-29"]);
  expect([code, out]).toEqual([0, '{"n":-40,"j":[1],"t":"héllo ‘x’","d":"2024-02-29"}\n']);
});

test("the SQL may come from standard input or a file", async () => {
  cli.project.write("query.sql", "select $1 as a -- of a file\n");
  for (const words of [["query"], ["query", "-"]])
    expect(await cli.run(words, { input: "select 7 as a" })).toEqual({ code: 0, out: '{"a":7}\n', err: "" });
  expect((await cli.run(["query", "--file", "query.sql", "of mine"])).out).toBe('{"a":"of mine"}\n');
  expect(await cli.run(["query", "--file", "nothing.sql"])).toMatchObject({ code: 64, out: "" });
});

test("certificates come from --ca, --cert and --key, or from libpq's variables", async () => {
  const { appUrl, caFile } = server!;
  const full = `${appUrl.split("?")[0]}?sslmode=verify-full`;
  const words = ["query", "select ssl from pg_stat_ssl where pid = pg_backend_pid()", "--url", full];
  const yes = { code: 0, out: '{"ssl":true}\n', err: "" };
  expect(await cli.run([...words, "--ca", caFile!])).toEqual(yes);
  expect(await cli.run(words, { env: { PGSSLROOTCERT: caFile! } })).toEqual(yes);
  expect(await cli.run(words)).toMatchObject({ code: 2, err: expect.stringContaining("TLS_FAILED") as string });
  const none = await cli.run([...words, "--ca", "nothing.pem"]);
  expect(none).toMatchObject({ code: 64, err: expect.stringContaining("The file of --ca cannot be read") as string });
  const inUrl = await cli.run(["query", "select 1", "--url", `${full}&sslrootcert=${caFile}`]);
  expect(inUrl).toMatchObject({ code: 64, err: expect.stringContaining("pass that by --ca") as string });

  // The server asks for no client certificate. A key that does not match its certificate shows that both are read.
  const folder = path.dirname(caFile!);
  const [cert, key] = [path.join(folder, "elsewhere.crt"), path.join(folder, "elsewhere.key")];
  const ca = ["--ca", caFile!];
  expect(await cli.run([...words, ...ca, "--cert", cert, "--key", key])).toEqual(yes);
  expect(await cli.run([...words, ...ca], { env: { PGSSLCERT: cert, PGSSLKEY: key } })).toEqual(yes);
  const strangers = await cli.run([...words, ...ca, "--cert", caFile!, "--key", key]);
  expect(strangers).toMatchObject({ code: 2, err: expect.stringMatching(/key/) as string });
});

test("a record is described before the statement runs, so nothing has run if its rows cannot be read", async () => {
  expect(await cli.run(["query", "select x from (values (1, 'a')) x"])).toMatchObject({
    code: 0,
    out: '{"x":{"f1":1,"f2":"a"}}\n',
  });
});

test("several statements are refused with advice that a shell user can follow", async () => {
  const { code, err } = await cli.run(["query", "select 1; select 2"]);
  expect(code).toBe(1);
  expect(err).toContain("(42601)");
  expect(err).toContain("ADVICE:  Pass one statement: psql -f runs a file of several.");
});

test.each([
  ["a COPY", "copy (select 1) to stdout", "copy-out runs a COPY … TO STDOUT, copy-in a COPY … FROM STDIN."],
  ["a list", "select 1 where 1 in $1", "A list is one value: write = any($1), and pass it as {1,2,3}."],
  ["a name", "select * from $1", "A value cannot be a name: write tables and columns into the SQL itself."],
  ["a dot in a name", 'select * from "public.none"', 'A dot is part of a quoted name: write "schema"."table".'],
  ["a type", "select $1", undefined],
  ["SET", "set work_mem = $1", "SET takes no parameters: select set_config('name', $1, false)."],
])("what to use instead, by no names of JavaScript: %s", async (_, text, advice) => {
  const { err } = await cli.run(["query", text, ...(text.includes("$1") ? ["7"] : [])]);
  expect(/^ADVICE: {2}(.*)$/m.exec(err)?.[1]).toBe(advice);
  expect(err).not.toMatch(/copyFrom|copyTo|sql\.|\(\)/);
});

test("a repeated column name is reported, and tables can be piped too", async () => {
  const words = ["query", "select 1 as id, 2 as id"];
  const twice = "Each row has two values named id, and readers keep the last. Give one an alias.\n";
  expect(await cli.run(words)).toEqual({ code: 0, out: '{"id":1,"id":2}\n', err: twice });
  expect(await cli.run([...words, "-f", "json"])).toEqual({ code: 0, out: '[{"id":1,"id":2}]\n', err: twice });
  expect(await cli.run([...words, "-f", "csv"])).toEqual({ code: 0, out: "id,id\r\n1,2\r\n", err: "" });
  expect((await cli.run([...words, "-f", "table"])).out).toBe(" id | id\n----+----\n  1 |  2\n(1 row)\n");
});

test("without arguments the command prints its help, and SQL without a command gets advice", async () => {
  const { code, out, err } = await cli.run([]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(/^pgz-edge: PostgreSQL on the command line\.[^]*\n {2}query /);
  for (const [text, command] of [
    ["select 1", "query"],
    ["/* a comment */ Select 1", "query"],
    ["copy t to stdout", "copy-out"],
  ] as const) {
    const told = await cli.run([text]);
    expect([told.code, told.err]).toEqual([
      64,
      expect.stringContaining(`SQL comes after a command: pgz-edge ${command} "…".`),
    ]);
  }
  expect((await cli.run(["my select"])).err).toContain("Unknown command: the commands are");
});

test.each([
  [["qeury", "select 1"], 'Unknown command "qeury": did you mean query?'],
  [["copy_in", "t"], "did you mean copy-in?"],
  [["psql"], 'Unknown command "psql": the commands are query, '],
  [["query", "select 1", "--fromat", "csv"], "Unknown option --fromat: did you mean --format?"],
  [["changes", "--slot", "s", "--publicaton", "p"], "did you mean --publication?"],
  [["query", "-c", "select 1"], 'The SQL is the first value: pgz-edge query "select 1".'],
  [["query", "\\d users"], "\\d and other commands with a backslash are psql's."],
  [["query", "select 1", "--xyz"], "Unknown option '--xyz'"],
  [["changes", "--int8", "string"], "Unknown option '--int8'"],
])("%j is answered with what to write", async (words, told) => {
  expect(await cli.run(words)).toMatchObject({ code: 64, err: expect.stringContaining(told) as string });
});

test("a missing file is named, and a text that is not a path is not repeated", async () => {
  const missing = await cli.run(["copy-in", "t", "data/nothing.csv"]);
  expect(missing).toMatchObject({
    code: 64,
    err: expect.stringContaining("The file data/nothing.csv cannot be read: ENOENT"),
  });
  const unwritten = await cli.run(["query", "select 1", "-o", "no/such/folder.ndjson"]);
  expect(unwritten.err).toContain("The file no/such/folder.ndjson cannot be written");
  expect((await cli.run(["copy-in", "t", "s3cret!?"])).err).not.toContain("s3cret");
});

test("SQL that is empty or not UTF-8 is not run", async () => {
  const input = Buffer.from("select 'M\xfcller' as name", "latin1");
  const refused = { code: 64, out: "", err: expect.stringContaining("The SQL is not UTF-8.") as string };
  writeFileSync(cli.project.at("latin1.sql"), input);
  expect(await cli.run(["query", "--file", "latin1.sql"])).toEqual(refused);
  expect(await cli.run(["query"], { input })).toEqual(refused);
  expect((await cli.run(["query"], { input: "\ufeffselect 'ü' as a" })).out).toBe('{"a":"ü"}\n');
  const empty = { code: 64, err: expect.stringContaining("The SQL is empty.") as string };
  for (const words of [
    ["query", ""],
    ["query", " \n"],
    ["query", "-"],
  ])
    expect(await cli.run(words, { input: "" })).toMatchObject(empty);
});

test("an error of the server looks as in psql, with exit code 1 and no stack", async () => {
  const { code, out, err } = await cli.run(["query", "select *\nfrom nothing"]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toBe('ERROR:  relation "nothing" does not exist (42P01)\nLINE 2: from nothing\n             ^\n');
  expect((await cli.run(["query", "select 1/0", "--debug"])).err).toMatch(/\n\s+at .*query/);
  const hinted = await cli.run(["query", "select length(1)"]);
  expect(hinted.err).toMatch(/^HINT: {2}.*type casts/m);
});

test("the command tag and notices go to standard error", async () => {
  const done = await cli.run(["query", "create temp table t as select generate_series(1, 3)"]);
  expect(done).toEqual({ code: 0, out: "", err: "SELECT 3\n" });
  expect((await cli.run(["query", "do $$ begin raise notice 'hey'; end $$"])).err).toBe("NOTICE:  hey\nDO\n");
});

test("a limit fails the command, or ends the output with a mark", async () => {
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
  const late = await cli.run(["query", "select pg_sleep(60)", "--timeout", "300ms"]);
  expect(late).toMatchObject({ code: 1, err: expect.stringContaining("QUERY_TIMEOUT") });
});

test("when a statement is cut off, the error says whether it took effect", async () => {
  const db = await driver.connect(url);
  await db.exec("create table cli_effects (n int primary key)");
  const unknown = expect.stringContaining("The statement may have taken effect: it is not known.\n") as string;
  const insert = (rows: string) => `insert into cli_effects ${rows} returning n`;
  const three = insert("select count(*) + generate_series(1, 3) from cli_effects");
  try {
    expect(await cli.run(["query", three, "--max-rows", "2"])).toMatchObject({ code: 1, err: unknown });
    expect(await cli.run(["query", three, "--max-rows", "2", "--truncate"])).toMatchObject({ code: 0, err: unknown });
    const full = await cli.shell(`ulimit -f 0; pgz-edge query "${insert("values (77)")}" -o effects.ndjson`);
    expect([full.code, full.err]).toEqual([1, expect.stringMatching(/^The statement (has|may have) taken effect/)]);
    const slow = insert("select 0 from pg_sleep(60)");
    const inTime = (timeout: string) => cli.run(["query", slow, "--timeout", timeout]);
    // On a busy machine a short time ends before the statement has left.
    let late = await inTime("300ms");
    for (const longer of ["3s", "30s"]) if (!late.err.includes("taken effect")) late = await inTime(longer);
    expect(late).toMatchObject({ code: 1, err: unknown });
    // A statement that fails at the server, or never arrives, has changed nothing; a statement that only reads never
    // does.
    for (const words of [[insert("values ('x')")], [insert("values (1)"), "--url", refused]])
      expect((await cli.run(["query", ...words])).err).not.toContain("taken effect");
    const reads = ["query", "-- into\nselect generate_series(1, 9)", "--max-rows", "2"];
    expect((await cli.run(reads)).err).not.toContain("taken effect");
  } finally {
    await db.exec("drop table cli_effects");
    await db.close();
  }
});

/** Limits a file to 64 kB, as on a full disk: one write is cut, and the next fails. */
const LITTLE = "ulimit -f 64;";

test("a full disk is a failure", async () => {
  const large = `"select repeat('x', 70000) as a"`;
  for (const line of [`query ${large}`, `copy-out ${large}`]) {
    const { code, err } = await cli.shell(`${LITTLE} pgz-edge ${line} > full.txt`);
    expect([code, err]).toEqual([1, expect.stringMatching(/^ERROR: {2}Standard output cannot be written: EFBIG/)]);
    expect((await cli.shell(`${LITTLE} pgz-edge ${line} -o full.part.txt`)).code).toBe(1);
    expect(existsSync(cli.project.at("full.part.txt"))).toBe(false);
    expect((await cli.shell(`echo before > all.txt; pgz-edge ${line} >> all.txt`)).code).toBe(0);
    const lines = readFileSync(cli.project.at("all.txt"), "utf8").split("\n");
    expect([lines[0], lines.at(-2)!.match(/x+/)![0].length, lines.at(-1)]).toEqual(["before", 70_000, ""]);
  }
});

test("-o keeps the kind of its path: a link, a mode, a pipe, standard output", async () => {
  const at = (name: string) => cli.project.at(name);
  const out = (name: string) => cli.run(["query", "select 1 as a", "-o", name]);
  cli.project.write("kept/target.json", "old");
  symlinkSync("kept/target.json", at("link.json"));
  symlinkSync("link.json", at("link-to-link.json"));
  symlinkSync("kept/new.json", at("to-nothing.json"));
  chmodSync(at("kept/target.json"), 0o600);
  expect(await out("link-to-link.json")).toEqual({ code: 0, out: "", err: "" });
  expect(readFileSync(at("kept/target.json"), "utf8")).toBe('{"a":1}\n');
  expect(statSync(at("kept/target.json")).mode & 0o777).toBe(0o600);
  expect((await out("to-nothing.json")).code).toBe(0);
  expect(readFileSync(at("kept/new.json"), "utf8")).toBe('{"a":1}\n');
  for (const name of ["link.json", "link-to-link.json", "to-nothing.json"])
    expect(lstatSync(at(name)).isSymbolicLink()).toBe(true);
  expect(readdirSync(at("kept"))).toEqual(["new.json", "target.json"]);

  // Never /dev/stdout: a test that fails as root would replace it.
  symlinkSync("/proc/self/fd/1", at("stdout"));
  for (const to of ["| cat", "> out.txt; cat out.txt"])
    expect((await cli.shell(`pgz-edge query "select 1 as a" -o stdout ${to}`)).out).toBe('{"a":1}\n');
  expect(lstatSync(at("stdout")).isSymbolicLink()).toBe(true);
  const large = `pgz-edge query "select repeat('x', 1000) from generate_series(1, 1000)"`;
  const pipe = await cli.shell(`mkfifo pipe; (sleep 1; wc -l < pipe) & ${large} -o pipe; wait; ls -l pipe`);
  expect(pipe).toMatchObject({ code: 0, out: expect.stringMatching(/^1000\np/), err: "" });
});

test("an output file is complete or does not exist", async () => {
  const words = ["query", "select n from generate_series(1, 200000) n"];
  expect(await cli.run([...words, "-o", "whole.ndjson"])).toEqual({ code: 0, out: "", err: "" });
  expect(readFileSync(cli.project.at("whole.ndjson"), "utf8").split("\n").length).toBe(200_001);
  expect(await cli.run([...words, "-o", "half.ndjson", "--max-rows", "150000"])).toMatchObject({ code: 1 });
  expect(existsSync(cli.project.at("half.ndjson"))).toBe(false);
  expect(readdirSync(cli.project.folder).filter((name) => name.endsWith(".part"))).toEqual([]);
  expect(await cli.run([...words, "-o", "no/such/folder"])).toMatchObject({ code: 64 });
});

test("-o never writes through a link with the name of its part file", async () => {
  const at = (name: string) => cli.project.at(name);
  cli.project.write("victim.txt", "mine");
  // `exec` keeps the shell's process number, so the predictable name is known beforehand.
  const planted = await cli.shell(
    `ln -s victim.txt planted.ndjson.$$.part && exec pgz-edge query "select 1 as a" -o planted.ndjson`,
  );
  expect(planted).toEqual({ code: 0, out: "", err: "" });
  expect(readFileSync(at("victim.txt"), "utf8")).toBe("mine");
  expect(lstatSync(at("planted.ndjson")).isFile()).toBe(true);
  expect(readFileSync(at("planted.ndjson"), "utf8")).toBe('{"a":1}\n');
  for (const name of readdirSync(cli.project.folder)) if (name.endsWith(".part")) unlinkSync(at(name));
});

test("three processes with one number, as in three containers, leave one complete file", async () => {
  const sameNumber = "--import=data:text/javascript,Object.defineProperty(process,'pid',{value:7})";
  const run = (letter: string) =>
    cli.run(["query", `select repeat('${letter}', 1000) as a from generate_series(1, 20000)`, "-o", "shared.ndjson"], {
      env: { NODE_OPTIONS: sameNumber },
    });
  for (const ended of await Promise.all(["a", "b", "c"].map(run))) expect(ended).toEqual({ code: 0, out: "", err: "" });
  const lines = readFileSync(cli.project.at("shared.ndjson"), "utf8").trimEnd().split("\n");
  expect([lines.length, new Set(lines).size]).toEqual([20_000, 1]);
  expect(readdirSync(cli.project.folder).filter((name) => name.endsWith(".part"))).toEqual([]);
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

test("wrong usage exits with 64, and repeats no password", async () => {
  const lines = [
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
    ["query", "select 1", "-o", ""],
    ["query", wrongPassword, "select 1"],
    ["query", "host=h password=geheim", "select 1"],
    ["query", "--file", wrongPassword],
    ["query", "select 1", "-o", wrongPassword],
    ["copy-in", wrongPassword, "t", "t.csv"],
    ["copy-in", "t", wrongPassword],
    ["copy-out", wrongPassword],
    ["copy-out", "t", "-o", wrongPassword],
    ["types", wrongPassword],
    ["types", "--out", wrongPassword],
    ["query", "select 1", `--${wrongPassword}`],
  ];
  for (const words of lines) {
    const { code, out, err } = await cli.run(words);
    expect([words, code, out]).toEqual([words, 64, ""]);
    expect(err).toMatch(/^pgz-edge: .*\nTry "pgz-edge help( [a-z-]+)?"\.\n$/);
    expect(err).not.toContain("geheim");
  }
});

test.each([
  [["copy-in", "t", "data.csv", "-h", "localhost"], "Say where to connect to by --url,"],
  [["query", "select 1", "-U", "grace"], "Say where to connect to by --url,"],
  [["query", "-f", "report.sql"], "--file reads the SQL of a file."],
  [["query", "select", "1"], 'Put the SQL in quotes: pgz-edge query "select 1".'],
  [["query", "-- mine\nselect 1"], "put -- in front of it"],
  [["query", "select $1", "-1"], "put -- in front of it"],
  [["query", "select * from t where a = ", "1"], "put the SQL in single quotes"],
  [["query", "--file", ""], "The name of the file is empty"],
  [["query", "select 1", "--url", "postgres://localhost/a"], "No user: write postgres://user@host/database"],
  [["query", "select 1", "--url", wrongPassword, "--file", wrongPassword], "Pass a URL with --url."],
])("what was meant is said: %j", async (words, text) => {
  const { code, out, err } = await cli.run(words, { env: { PGUSER: undefined } });
  expect([code, out, err]).toEqual([64, "", expect.stringContaining(text)]);
});

test("a missing password is an error that says where it was looked for", async () => {
  const { code, err } = await cli.run(["query", "select 1", "--url", withoutPassword]);
  expect([code, err]).toEqual([2, expect.stringContaining("(PASSWORD_MISSING)\nADVICE:  Put it into DATABASE_URL")]);
  expect(err).toContain("~/.pgpass");
});

test("a password comes from a password file that only its owner may read", async () => {
  const passfile = cli.project.at("passfile");
  writeFileSync(passfile, `*:*:*:*:${decodeURIComponent(new URL(url).password)}\n`, { mode: 0o600 });
  const words = ["query", "select 1 as a", "--url"];
  const yes = { code: 0, out: '{"a":1}\n', err: "" };
  expect(await cli.run([...words, withoutPassword], { env: { PGPASSFILE: passfile } })).toEqual(yes);
  const named = `${withoutPassword}${withoutPassword.includes("?") ? "&" : "?"}passfile=${encodeURIComponent(passfile)}`;
  expect(await cli.run([...words, named])).toEqual(yes);
  chmodSync(passfile, 0o644);
  const { code, err } = await cli.run([...words, named]);
  expect([code, err]).toEqual([2, expect.stringMatching(/^WARNING: {2}Password file .* is ignored: .*0600/)]);
});

test("the server comes from --url, then DATABASE_URL, then the variables of libpq", async () => {
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

test("help and version are printed", async () => {
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

test("docs/cli.md has each command, option and exit code of the help", async () => {
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
