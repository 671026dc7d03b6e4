// `pgz-edge copy-out` and `copy-in`: what is stored and written, progress on standard error, flat memory.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { afterAll, beforeEach, expect, test } from "vitest";
import { inTime, pause } from "../support/until.mjs";
import { ended, useClient, useCommandLine } from "./command-line.ts";

const cli = useCommandLine();
const db = useClient();
afterAll(() => db.exec("drop table if exists cli_users"));
beforeEach(async () => {
  await db.exec("drop table if exists cli_users");
  await db.exec("create unlogged table cli_users (id int primary key, name text, note text)");
  await db.exec(String.raw`insert into cli_users values (1, 'Grace', null), (2, E'a "b",\nc', '')`);
});

const CSV = 'id,name,note\n1,Grace,\n2,"a ""b"",\nc",""\n';

test("a table, a query and a COPY are copied out", async () => {
  expect(await cli.run(["copy-out", "cli_users"])).toEqual({ code: 0, out: CSV, err: "COPY 2\n" });
  expect((await cli.run(["copy-out", "cli_users(id)", "--no-header"])).out).toBe("1\n2\n");
  expect((await cli.run(["copy-out", 'public."cli_users"', "-f", "text"])).out).toBe(
    String.raw`1	Grace	\N` + "\n" + String.raw`2	a "b",\nc	` + "\n",
  );
  expect((await cli.run(["copy-out", "select id from cli_users where id > 1 -- mine"])).out).toBe("id\n2\n");
  expect((await cli.run(["copy-out", "with x as (select 1 as a) table x"])).out).toBe("a\n1\n");
  expect((await cli.run(["copy-out", "copy (select 1, 2) to stdout (delimiter ';')"])).out).toBe("1;2\n");
  const binary = await cli.shell("pgz-edge copy-out cli_users -f binary | head -c 6");
  expect(binary.out).toBe("PGCOPY");
});

test("a file is copied in, and copies out unchanged", async () => {
  cli.project.write("users.csv", CSV);
  await db.exec("delete from cli_users");
  expect(await cli.run(["copy-in", "cli_users", "users.csv"])).toEqual({ code: 0, out: "", err: "COPY 2\n" });
  expect((await cli.run(["copy-out", "cli_users"])).out).toBe(CSV);
  // Too long for the name of a file.
  expect(await cli.run(["copy-in", `copy no_such_table from stdin ${" ".repeat(300)}`, "users.csv"])).toMatchObject({
    err: expect.stringContaining('relation "no_such_table" does not exist') as string,
  });
  expect(await cli.run(["copy-in", "users.csv", "cli_users"])).toMatchObject({
    code: 64,
    err: expect.stringContaining("pass the table, and then the file") as string,
  });
  // A table may have the name of a file, or of a folder.
  cli.project.write("cli_file", CSV);
  expect(await cli.run(["copy-in", "cli_file", "-"], { input: CSV })).toMatchObject({
    err: expect.stringContaining('relation "cli_file" does not exist') as string,
  });
  cli.project.write("cli_users/users.csv", CSV);
  expect(await cli.run(["copy-in", "cli_users", "absent.csv"])).toMatchObject({
    err: expect.stringContaining("absent.csv") as string,
  });
  for (const format of ["text", "binary"]) {
    const { code, err } = await cli.shell(
      `set -o pipefail; pgz-edge copy-out cli_users -f ${format} > users.${format} &&
       pgz-edge query "delete from cli_users" && pgz-edge copy-in cli_users -f ${format} < users.${format}`,
    );
    expect([format, code, err]).toEqual([format, 0, "COPY 2\nDELETE 2\nCOPY 2\n"]);
    expect((await cli.run(["copy-out", "cli_users"])).out).toBe(CSV);
  }
});

test("the first line of csv names the columns", async () => {
  const input = '\ufeffnote,"id"\r\nhello,7\r\n';
  expect(await cli.run(["copy-in", "cli_users"], { input })).toMatchObject({ code: 0 });
  expect(await cli.run(["copy-in", 'cli_users(id, "name")'], { input: "ID,name\n8,Ada\n" })).toMatchObject({ code: 0 });
  expect(await cli.run(["copy-in", "cli_users (note, id)", "--no-header"], { input: "x,9\n" })).toMatchObject({
    code: 0,
  });
  // A row would be lost, or values stored under wrong columns.
  for (const input of ["name,id\n9,10\n", "20,x\n21,y\n", "id,email\n22,z\n"])
    expect(await cli.run(["copy-in", "cli_users (id, name)"], { input })).toMatchObject({
      code: 64,
      err: expect.stringContaining('The first line of the data is not "id,name": pass --no-header if it is a row'),
    });
  const { rows } = await db.query("select * from cli_users where id > 6 order by id", { rowMode: "array" });
  expect(rows).toEqual([
    [7, null, "hello"],
    [8, "Ada", null],
    [9, null, "x"],
  ]);
  const unknown = await cli.run(["copy-in", "cli_users"], { input: "id,nmae\n10,x\n" });
  expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining('column "nmae"') });
  // The server cuts a long name here exactly as it did when the table was made.
  await db.exec(`create table cli_long ("${"n".repeat(70)}" int4)`);
  expect(await cli.run(["copy-in", "cli_long"], { input: `${"n".repeat(70)}\n10\n` })).toMatchObject({ code: 0 });
});

test("a header that the command line cannot use is refused before anything is sent", async () => {
  await db.exec("delete from cli_users");
  // The line ends of old spreadsheets.
  expect(await cli.run(["copy-in", "cli_users"], { input: "name,id\rGrace,1\rAda,2\r" })).toMatchObject({ code: 0 });
  expect((await cli.run(["copy-out", "cli_users"])).out).toBe("id,name,note\n1,Grace,\n2,Ada,\n");
  const semicolons = { input: "id;name\n3;Eva\n" };
  const { code, err } = await cli.run(["copy-in", "cli_users"], semicolons);
  expect([code, err]).toEqual([64, expect.stringContaining("(format csv, header, delimiter ';')")]);
  const copy = "copy cli_users (id, name) from stdin (format csv, header, delimiter ';')";
  expect(await cli.run(["copy-in", copy], semicolons)).toMatchObject({ code: 0 });
  const input = Buffer.from("id,n\xe4me\n4,x\n", "latin1");
  expect(await cli.run(["copy-in", "cli_users"], { input })).toMatchObject({
    code: 64,
    err: expect.stringContaining("The first line is not UTF-8."),
  });
  // The server knows the line numbers after the header.
  const later = await cli.run(["copy-in", "cli_users"], { input: Buffer.from("id,name\n4,M\xfcller\n", "latin1") });
  expect(later).toMatchObject({ code: 1, err: expect.stringContaining("COPY cli_users, line 2") });
});

test("a file that cannot be read is wrong usage, in each format", async () => {
  const server = createServer().listen(cli.project.at("socket")); // root can read every other file
  await new Promise((resolve) => server.once("listening", resolve));
  for (const words of [["cli_users"], ["cli_users", "-f", "text"], ["cli_users(id)"]]) {
    const { code, err } = await cli.run(["copy-in", ...words, "socket"]);
    expect([code, err]).toEqual([64, expect.stringMatching(/^pgz-edge: The file cannot be read: \w+.*\nTry .*\n$/)]);
  }
  server.close();
});

test("a named pipe is copied in, as soon as data are written to it", async () => {
  await db.exec("delete from cli_users");
  const line =
    'pgz-edge copy-in cli_users -f text <(sleep 0.2; printf "1\\ta\\tb\\n"; sleep 0.2; printf "2\\ta\\tb\\n")';
  expect(await cli.shell(line)).toEqual({ code: 0, out: "", err: "COPY 2\n" });
  const named = 'mkfifo named; (sleep 1; echo 3,x > named) & pgz-edge copy-in "cli_users(id, name)" named --no-header';
  expect(await cli.shell(named)).toEqual({ code: 0, out: "", err: "COPY 1\n" });
  expect(await cli.shell("pgz-edge copy-in cli_users -f text <(true)")).toMatchObject({ err: "COPY 0\n" });
});

test("a refused copy ends at once while its pipe is silent", async () => {
  const refused = cli.shell("pgz-edge copy-in nothing_here <(echo id; exec sleep 60 2> /dev/null)");
  const { code, err } = await inTime(refused); // not only when the pipe ends
  expect([code, err]).toEqual([1, expect.stringContaining("42P01")]);
});

test("when the server refuses data, the error names the line and nothing is stored", async () => {
  const input = "id,name\n5,five\nx,six\n";
  expect(await cli.run(["copy-in", "cli_users"], { input })).toEqual({
    code: 1,
    out: "",
    err:
      "Nothing was stored.\n" +
      'ERROR:  invalid input syntax for type integer: "x" (22P02)\nCONTEXT:  COPY cli_users, line 3, column id: "x"\n',
  });
  expect((await db.query("select count(*)::int4 as n from cli_users")).rows).toEqual([{ n: 2 }]);
});

test("wrong usage of copy-in and copy-out is refused", async () => {
  for (const words of [
    ["copy-out"],
    ["copy-out", "two words"],
    ["copy-out", "cli_users", "other"],
    ["copy-out", "cli_users", "-f", "xml"],
    ["copy-out", "cli_users", "--progress", "--no-progress"],
    ["copy-in", "select 1", "users.csv"],
    ["copy-in", "cli_users", "no such file"],
    ["copy-in", "cli_users", "."],
    ["copy-in", "cli_users", "a", "b"],
  ])
    expect([words, (await cli.run(words)).code]).toEqual([words, 64]);
  expect(await cli.run(["copy-in", "cli_users"], { input: "" })).toMatchObject({ code: 64 });
  expect(await cli.run(["copy-out", "nothing_here", "-o", "nothing.csv"])).toMatchObject({ code: 1 });
  expect(await cli.run(["copy-out", "cli_users", "-o", "nothing.csv", "--url", "geheim"])).toMatchObject({ code: 64 });
  expect(readdirSync(cli.project.folder).filter((name) => name.startsWith("nothing.csv"))).toEqual([]);
});

/** Returns the peak memory of the process in bytes, from now to its end. */
async function peak(pid: number, isOver: () => boolean): Promise<number> {
  let most = 0;
  while (!isOver()) {
    try {
      const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
      most = Math.max(most, 1_024 * Number(kilobytes ?? 0));
    } catch {
      break; // the process has ended
    }
    await pause(10);
  }
  return most;
}

async function measured(words: string[], readsLate = 0) {
  const child = cli.start(words);
  let isOver = false;
  const memory = peak(child.pid!, () => isOver);
  if (readsLate) await pause(readsLate);
  let bytes = 0;
  child.stdout!.on("data", (piece: Buffer) => (bytes += piece.length));
  const { code, err } = await ended(child, { readsOut: false });
  isOver = true;
  return { code, err, bytes, memory: await memory };
}

test("a copy of 200 MB in both directions reports progress, and its memory does not grow", async () => {
  const rows = (count: number) =>
    `select n as id, repeat('x', 1000) as name, '' as note from generate_series(1, ${count}) n`;
  const small = await measured(["copy-out", rows(1)]);
  const out = await measured(["copy-out", rows(200_000), "--progress"], 500);
  expect([out.code, out.bytes > 200_000_000]).toEqual([0, true]);
  expect(out.memory - small.memory).toBeLessThan(100_000_000);
  expect(out.err).toMatch(/^200,000 rows, 202 MB in [\d.]+ s, [\d.]+ [kM]?B\/s\n$/m);

  expect((await cli.run(["copy-out", rows(200_000), "-o", "large.csv"])).code).toBe(0);
  expect(statSync(cli.project.at("large.csv")).size).toBe(out.bytes);
  await db.exec("delete from cli_users");
  const into = await measured(["copy-in", "cli_users", "large.csv", "--progress"]);
  expect([into.code, into.memory - small.memory < 100_000_000]).toEqual([0, true]);
  const lines = into.err.trimEnd().split("\n");
  expect(lines.at(-1)).toMatch(/^200,000 rows, 202 MB in [\d.]+ m?i?n?s?, [\d.]+ [kM]?B\/s$/);
  for (const line of lines.slice(0, -1))
    expect(line).toMatch(/^[\d.]+ [kM]?B of 202 MB, [\d.]+ [kM]?B\/s(, [\d.]+ (s|min) left)?$/);
  expect((await db.query("select count(*)::int4 as n, sum(id) from cli_users")).rows).toEqual([
    { n: 200_000, sum: "20000100000" },
  ]);
});

test("a copy of a table reports the time left, estimated from the server's statistics", async () => {
  await db.exec("insert into cli_users select n, repeat('y', 1000) from generate_series(10, 60000) n");
  await db.exec("analyze cli_users");
  // A slow reader leaves time for the estimate to appear.
  const child = cli.start(["copy-out", "cli_users", "--progress"]);
  child.stdout!.on("data", () => {
    child.stdout!.pause();
    setTimeout(() => child.stdout!.resume(), 4);
  });
  const { code, err } = await ended(child, { readsOut: false });
  expect(code).toBe(0);
  expect(err).toMatch(/^[\d,]+ rows, [\d.]+ MB, [\d.]+ MB\/s, about [\d.]+ s left$/m);
});

test("csv of a query with arrays copies back in, value by value", async () => {
  await db.simple(`drop table if exists cli_arrays; create table cli_arrays (id int4, n int8[], deep int4[][],
    words text[], docs jsonb[], times timestamptz[], flags bool[], raw bytea[], ranges int4range[], note text, doc jsonb)`);
  await db.simple(String.raw`insert into cli_arrays values
    (1, '{9007199254740993,NULL,-1}', '{{1,2},{3,NULL}}', array['a,b', 'q"uo\te', 'NULL', '', null, E'two\r\nlines', 'é{}'],
      array['{"a":[1,"x"]}', '[1,[2]]', '"t\""', 'null', '7']::jsonb[], array['2024-02-29 12:00:00.123456+00']::timestamptz[],
      '{t,f}', array['\x00ff']::bytea[], array['[1,5)', 'empty']::int4range[], '[1]', '[1,2]'),
    (2, '{}', null, '{}', '{}', '{}', '{}', '{}', '{}', '', null),
    (3, null, null, null, null, null, null, null, null, null, '{}')`);
  const state = "select json_agg(a order by id)::text as all from cli_arrays a";
  const before = (await db.query(state)).rows;
  for (const header of [[], ["--no-header"]]) {
    const words = ["query", "select * from cli_arrays where id < $1", "9", "-f", "csv", ...header, "-o", "arrays.csv"];
    expect(await cli.run(words)).toMatchObject({ code: 0, err: "" });
    await db.exec("truncate cli_arrays");
    expect(await cli.run(["copy-in", "cli_arrays", "arrays.csv", ...header])).toMatchObject({ code: 0 });
    expect((await db.query(state)).rows).toEqual(before);
  }
  await db.exec("drop table cli_arrays");
});
