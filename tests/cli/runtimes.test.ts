// The command line in Bun and Deno: the same output, the same exit codes, and Ctrl-C stops the server's work too.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { bin } from "../packaging/project.ts";
import { until } from "../support/until.mjs";
import { ended, url, useClient, useCommandLine } from "./command-line.ts";

/** Not npm's launcher, which a Ctrl-C ends in another way. */
const deno = execFileSync(bin("deno"), ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim();

const cli = useCommandLine();
const db = useClient();

test.each([
  ["Bun", [bin("bun"), "--bun", "x", "pgz-edge"]],
  ["Deno", [deno, "run", "-A", "npm:@pgz-edge/cli"]],
])("%s", async (name, command) => {
  const run = (words: string[], options = {}) => cli.run(words, options, command);
  const rows = await run(["query", "select n from generate_series(1, $1::int4) n", "100000"]);
  expect([rows.code, rows.out.split("\n").length, rows.err]).toEqual([0, 100_001, ""]);
  expect(await run(["query", "select * from nothing"])).toEqual({
    code: 1,
    out: "",
    err:
      'ERROR:  relation "nothing" does not exist (42P01)\n' +
      "LINE 1: select * from nothing\n                      ^\n",
  });
  expect(await run(["query", "select 1", "--format", "xml"])).toMatchObject({ code: 64 });
  expect(await run(["ping", url.replace(/:\d+\//, ":1/")])).toMatchObject({ code: 2 });
  expect((await run(["doctor"])).out).toMatch(/^ok Server {7}PostgreSQL 1\d/);
  const table = `cli_${name.toLowerCase()}`;
  await db.exec(`drop table if exists ${table}`);
  await db.exec(`create table ${table} (id int, name text)`);
  expect(await run(["copy-in", table], { input: "name,id\nGrace,1\n" })).toMatchObject({ code: 0, err: "COPY 1\n" });
  expect(await run(["copy-out", table])).toEqual({ code: 0, out: "id,name\n1,Grace\n", err: "COPY 1\n" });
  const words = command.map((word) => `'${word}'`).join(" ");
  const files = await cli.shell(
    [
      `set -e; ${words} copy-out "select generate_series(2, 100000) as id" > ${table}.csv`,
      `${words} copy-in ${table} ${table}.csv`,
      `mkfifo ${table}.in ${table}.out`, // Bun's launcher does not pass on /dev/fd/63
      `(sleep 0.5; echo 0 > ${table}.in) & ${words} copy-in "${table}(id)" --no-header ${table}.in`,
      `wc -l < ${table}.out & ${words} copy-out ${table} -o ${table}.out; wait`,
      `echo 'select count(*)::int4 as n from ${table}' > ${table}.sql`,
      `${words} query --file ${table}.sql -o ${table}.json; cat ${table}.json`,
    ].join("; "),
  );
  expect(files).toEqual({
    code: 0,
    out: '100002\n{"n":100001}\n',
    err: "COPY 99999\nCOPY 99999\nCOPY 1\nCOPY 100001\n",
  });
  await db.exec(`drop table ${table}`);

  const head = await cli.shell(
    `${words} query "select generate_series(1, 1000000000) n" | head -1; echo \${PIPESTATUS[0]}`,
  );
  expect(head).toEqual({ code: 0, out: '{"n":1}\n141\n', err: "" });

  const PGAPPNAME = `cli in ${name} ${process.pid}`;
  const isThere = async () => {
    const text = "select 1 from pg_stat_activity where application_name = $1 and state = 'active'";
    return (await db.query({ text, values: [PGAPPNAME] })).rows.length > 0;
  };
  const child = cli.start(["query", "select pg_sleep(60)"], { env: { PGAPPNAME }, isGroup: true }, command);
  const result = ended(child);
  await until(isThere);
  process.kill(-child.pid!, "SIGINT");
  await until(async () => !(await isThere()));
  expect((await result).code).toBe(130);
});
