// `pgz-edge types` in a small project, from the packed tarball: its output compiles and satisfies --check, errors point
// at their place in the source, and no statement of the project runs.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { CommandLine, ended, plainUrl, servers, url } from "./command-line.ts";
import { bin } from "../packaging/project.ts";

const { connect } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const OUT = "src/pgz-edge.types.ts";
/** The schema of the statements below. */
const SCHEMA = `
  drop schema if exists cli_types cascade; create schema cli_types; set search_path = cli_types;
  create type mood as enum ('sad', 'ok');
  create type place as (street text, number float8);
  create table users (id int8 primary key generated always as identity, display_name text not null, email text,
    mood mood, home place, seen timestamptz, picture bytea, score numeric);
  create table orders (id int4 primary key, user_id int8 not null references users, note text);
  create sequence counter;
  create function count_up() returns int8 volatile language sql as 'select nextval(''cli_types.counter'')';
  insert into users (display_name) values ('Ann');`;
const path = (text: string) => `${text}${text.includes("?") ? "&" : "?"}options=-csearch_path%3Dcli_types`;

let cli: CommandLine;
beforeAll(async () => {
  cli = new CommandLine();
  cli.project.link("typescript");
  cli.project.write(
    "tsconfig.json",
    JSON.stringify({
      compilerOptions: {
        strict: true,
        // tests/packaging/types.test.ts checks the driver's own types.
        skipLibCheck: true,
        noEmit: true,
        target: "es2022",
        module: "nodenext",
        lib: ["es2023"],
        types: [],
        rewriteRelativeImportExtensions: true,
        paths: { "~/*": ["./src/*"] },
      },
      include: ["src"],
    }),
  );
});
beforeEach(async () => {
  rmSync(cli.project.at("src"), { recursive: true, force: true });
  const db = await connect(url);
  await db.simple(SCHEMA);
  await db.close();
});
afterAll(async () => {
  cli.remove();
  const db = await connect(url);
  await db.simple("drop schema if exists cli_types cascade");
  await db.close();
});

const types = (...words: string[]) => cli.run(["types", ...words], { env: { DATABASE_URL: path(url) } });
const written = () => readFileSync(cli.project.at(OUT), "utf8");
const source = (text: string, name = "users.ts") => cli.project.write(`src/${name}`, text);
/** Returns TypeScript's errors in the project. */
const compile = () =>
  promisify(execFile)(bin("tsc"), ["-p", cli.project.folder], { cwd: cli.project.folder }).then(
    () => "",
    (error: { stdout: string }) => error.stdout,
  );

const USERS = `
import { sql, type Client } from "pgz-edge";
import type { FindUser, ListOrders } from "./pgz-edge.types.js";

export async function find(db: Client, id: string): Promise<string | null> {
  const { rows } = await db.query(sql<FindUser>\`select id, display_name, email, mood, home from users where id = \${id}\`);
  const [user] = rows;
  const name: string = user!.display_name;
  const mood: "sad" | "ok" | null = user!.mood;
  // @ts-expect-error: it can be null
  const email: string = user!.email;
  return [name, mood, email, user?.home?.street].join();
}
export const orders = (db: Client) => db.query(sql<ListOrders>\`
  select o.id, u.display_name as user, o.note from orders o left join users u on u.id = o.user_id\`);
`;

test("the written types compile, and --check agrees until the schema changes, and then names the change", async () => {
  source(USERS);
  expect(await types("--check")).toMatchObject({ code: 1 });
  expect(existsSync(cli.project.at(OUT))).toBe(false);
  const { code, out, err } = await types();
  expect({ code, out, err }).toEqual({
    code: 0,
    out: "",
    err: `2 templates were described.\n${OUT} was written.\n`,
  });
  expect(written()).toBe(`/* eslint-disable */
// Written by \`pgz-edge types\` from the project's sql templates: run it again instead of editing.
import type * as pgz from "pgz-edge";

/** cli_types.mood */
export type Mood = "sad" | "ok";

/** cli_types.place */
export interface Place {
  street: string | null;
  number: number | "NaN" | "Infinity" | "-Infinity" | null;
}

/**
 * src/users.ts
 * Takes $1 int8.
 */
export interface FindUser extends pgz.Takes<[pgz.Parameter<"int8">]> {
  id: string;
  display_name: string;
  email: string | null;
  mood: Mood | null;
  home: Place | null;
}

/**
 * src/users.ts
 */
export interface ListOrders {
  id: number;
  user: string | null;
  note: string | null;
}
`);
  expect(await compile()).toBe("");
  expect(await types()).toMatchObject({ code: 0, err: expect.stringContaining("is unchanged") as string });
  expect(await types("--check")).toMatchObject({ code: 0 });
  const db = await connect(path(url));
  await db.simple("delete from users; alter table users alter email set not null, alter display_name drop not null");
  await db.close();
  const before = written();
  const red = await types("--check");
  expect(red.code).toBe(1);
  expect(red.err).toContain(`src/users.ts:6:35: error: FindUser is different in ${OUT}:
  -   display_name: string;
  -   email: string | null;
  +   display_name: string | null;
  +   email: string;
`);
  expect(red.err).not.toContain("ListOrders");
  expect(written()).toBe(before);
  await types();
  expect(await compile()).toContain("src/users.ts(8,9): error TS2322");
});

test("--check compares the file byte for byte, except its line ends", async () => {
  source(`import { sql } from "pgz-edge";\nexport const q = sql<Row>\`select id, display_name from users\`;`);
  await types();
  const right = written();
  for (const [text, code] of [
    [right.replaceAll("\n", "\r\n"), 0],
    [right.replace(/( {2}id: .*\n)( {2}display_name: .*\n)/, "$2$1"), 1],
    [`${right}\n/**\n * stale\n */\nexport interface Row {\n  id: string;\n  display_name: string;\n}\n`, 1],
    [`${right}// more\n`, 1],
  ] as const) {
    cli.project.write(OUT, text);
    const checked = await types("--check");
    expect([checked.code, checked.err.includes("error:")]).toEqual([code, code === 1]);
  }
});

test("a row type that is imported through an alias or another file is written too", async () => {
  source(`export type { Kept, Old as Renamed } from "./pgz-edge.types.js";\nexport * from "./more.js";`, "rows.ts");
  source(`export * from "./pgz-edge.types.js";\nexport * from "./rows.js";`, "more.ts");
  source(`export interface Mine { id: string }\nexport interface Own { id: string }`, "own.ts");
  source(`import { sql } from "pgz-edge";
import type { Aliased } from "~/pgz-edge.types.js";
import type { Kept, Renamed as Other } from "./rows.js";
import type { Starred } from "~/more.js";
import type { Mine } from "~/own.js";
export type { Mine };
export const all = [
  sql<Aliased>\`select 1 as a\`, sql<Kept>\`select 2 as b\`, sql<Other>\`select 3 as c\`, sql<Starred>\`select 4 as d\`,
  sql<Mine>\`select id from users\`,
];
`);
  const names = () => [...written().matchAll(/export interface (\w+)/g)].map(([, name]) => name);
  for (const round of ["was written", "is unchanged"]) {
    expect(await types()).toMatchObject({ code: 0, err: expect.stringContaining(round) as string });
    // Before the first run it is not known that a name from `export *` will exist.
    expect(names()).toEqual(["Aliased", "Kept", "Old", "Starred"]);
  }
  expect(await compile()).toBe("");
});

test("a value in quotes or in a comment is not a parameter", async () => {
  source(`import { sql } from "pgz-edge";
export const all = [
  sql\`select id from users where email = '\${"a"}'\`,
  sql<Row>\`select id from users where id = \${1} -- and not \${2}\`,
];
`);
  const { code, err } = await types();
  expect(code).toBe(1);
  expect(err.split("\n").filter((line) => line.includes("error:"))).toEqual([
    "src/users.ts:3:3: error: it has 1 values, and the SQL takes 0: one is in quotes or in a comment.",
    "src/users.ts:4:3: error: it has 2 values, and the SQL takes 1: one is in quotes or in a comment.",
  ]);
});

test("types of the database get names of their own", async () => {
  const db = await connect(path(url));
  await db.simple(`create type date as enum ('never'); create table "Record" (id int4, at cli_types.date);
    create type "x*/ y" as enum ('a'); create type user_role as enum ('a'); create type "userRole" as enum ('b')`);
  await db.close();
  source(`import { sql } from "pgz-edge";
import type { Row } from "./pgz-edge.types.js";
export const q = sql<Row>\`select 'never'::cli_types.date as d, null::"Record" as r, row(1) as s, 'a'::"x*/ y" as x,
  'a'::user_role as u\`;`);
  expect(await types("--dates", "date")).toMatchObject({ code: 0 });
  expect(await compile()).toBe("");
  expect(written()).toContain('/** cli_types.x* / y */\nexport type XY = "a";');
  expect(written()).toContain(
    "  d: CliTypesDate;\n  r: CliTypesRecord | null;\n  s: Record<string, unknown>;\n  x: XY;\n",
  );
  source(`import { sql } from "pgz-edge";
export const q = sql<Row>\`select 'a'::user_role as a, 'b'::"userRole" as b\`;`);
  const { code, err } = await types();
  expect(code).toBe(64);
  expect(err).toMatch(/No name is left for the type cli_types\.(user_role|userRole)/);
});

test("errors of the server point at their place in the source, whatever comes before it", async () => {
  source(`import { sql as query } from "pgz-edge";
const fragment = query\`user_id = \${1} and nothing = 2\`;
export const all = [
  query\`select 'é😀\\t', nope from users\`,
  query<Row>\`
    select id from users where id = \${7}
    and \${fragment}\`,
  query\`selec 1\`,
  query\`select id
    form users\`,
  query\`select 1 as fine\`,
];
`);
  const { code, err } = await types();
  expect(code).toBe(1);
  expect(err.split("\n").filter((line) => line.includes("error:"))).toEqual([
    expect.stringMatching(/^src\/users\.ts:2:24: error: column "user_id" does not exist \(42703\)/),
    expect.stringMatching(/^src\/users\.ts:4:25: error: column "nope" does not exist \(42703\)/),
    'src/users.ts:10:10: error: syntax error at or near "users" (42601)',
  ]);
  expect(existsSync(cli.project.at(OUT))).toBe(false);
});

test("fragments, helpers and conditions with known text are resolved", async () => {
  source(
    `import { sql } from "pgz-edge";\nexport const open = sql\`note is null\`;\nexport const TABLE = "orders";`,
    "parts.ts",
  );
  source(`import * as pgz from "pgz-edge";
import { sql, unnest as rowsOf } from "pgz-edge";
import { open, TABLE as table } from "./parts.js";
const INT = "int8";
const TYPES = { id: INT, "note": sql\`text\` } as const satisfies Record<string, unknown>;
const columns = sql\`id, \${sql.identifier("note")}\`;
export const of = (ids: number[], isOpen: boolean, rows: { id: number }[]) => [
  sql<A>\`select \${columns} from \${sql.identifier(table)} where id in \${sql.in(ids)} \${isOpen ? sql\`and \${open}\` : sql\`\`}\`,
  sql<B>\`insert into orders \${sql.values(rows, "id", "user_id")} returning id\`,
  sql<C>\`update orders set \${sql.set({ note: "x" })} where \${sql.join([open, sql\`id = \${1}\`], sql\` and \`)} returning note\`,
  pgz.sql<D>\`select \${sql.json({ a: 1 })}::jsonb as j, \${isOpen}0 as n, \${[sql\`1 as a,\`, sql\`2 as b\`]}\`,
  sql<E>\`select \${isOpen ? sql\`note\` : sql\`'x' as note\`} from orders\`,
  sql<F>\`insert into orders (user_id, note) \${pgz.unnest([], { user_id: "int4", n$1: "text" })} returning id\`,
  sql<G>\`update orders o set note = r.note from \${rowsOf([], TYPES)} r where o.id = r.id returning o.id, r.note\`,
];
`);
  const { err, code } = await types();
  expect({ code, err }).toMatchObject({ code: 1 });
  // 0 after a parameter is a syntax error, as it is at run time.
  expect(err).toMatch(/src\/users\.ts:11:\d+: error: syntax error at or near "0"/);
  source(readFileSync(cli.project.at("src/users.ts"), "utf8").replace("}0 as n", "}::bool as n"));
  expect(await types()).toMatchObject({ code: 0 });
  const rows = Object.fromEntries(
    [...written().matchAll(/export interface (\w+)[^{]* \{\n([^}]*)\}/g)].map(([, name, body]) => [
      name,
      body!.replace(/\s+/g, " ").trim(),
    ]),
  );
  expect(rows).toEqual({
    A: "id: number; note: string | null;",
    B: "id: number;",
    C: "note: string | null;",
    D: "j: unknown; n: boolean | null; a: number; b: number;",
    E: "note: string | null;",
    F: "id: number;",
    G: "id: number; note: string | null;",
  });
});

test("only the driver's own tag counts, through another file too, whatever a project calls its files", async () => {
  source("export const sql = <T>(text: TemplateStringsArray): T | string => text.join();", "js/sql.ts");
  source('export { sql as query } from "pgz-edge";', "driver.ts");
  source('export { sql as required } from "pgz-edge";', "driver.cts"); // resolves to what CommonJS gets
  source(`import { sql } from "./js/sql.js";
import { query } from "./driver.js";
import { required } from "./driver.cjs";
export const all = [
  sql<Theirs>\`no SQL at all\`,
  query<Ours>\`select id from orders\`,
  required<OursToo>\`select note from orders\`,
];
`);
  const { code, err } = await types();
  expect({ code, err }).toEqual({ code: 0, err: `2 templates were described.\n${OUT} was written.\n` });
  expect(written()).toContain("export interface OursToo");
});

test("types of unnest that the driver refuses, or that may change, are an error of their place", async () => {
  source(`import { sql, unnest } from "pgz-edge";
const types = { id: "int4" };
export const all = [
  sql<A>\`select id from \${unnest([], { id: "int4[]" })} r\`,
  sql<B>\`select id from \${unnest([], {})} r\`,
  sql<C>\`select id from \${unnest([], types)} r\`,
];
`);
  const { code, err } = await types();
  expect(code).toBe(1);
  expect(err.split("\n").filter((line) => line.includes("error:"))).toEqual([
    expect.stringMatching(/^src\/users\.ts:4:\d+: error: .*has arrays/),
    expect.stringMatching(/^src\/users\.ts:5:\d+: error: .*the type of each column/),
    expect.stringMatching(/^src\/users\.ts:6:\d+: error: .*as const/),
  ]);
});

test("a value of a wrong type does not compile, and a promise never does", async () => {
  source(`import { sql } from "pgz-edge";
import type { Find, Set, Mixed, Twice } from "./pgz-edge.types.js";
const isOpen = Math.random() > 2;
export const find = (id: number, seen: Date, names: string[]) => [
  sql<Find>\`select id from users where id = \${id} and seen > \${seen} and display_name = any(\${names})\`,
  sql<Set>\`update users set home = \${null}, mood = \${"ok"} where score > \${1.5} returning id\`,
  sql<Mixed>\`select id from users where \${sql\`id = \${id}\`} \${isOpen ? sql\`and email = \${"x"}\` : sql\`\`} limit \${5}\`,
  sql<Twice>\`select 1 as n where \${true}\`, sql<Twice>\`select 2 as n where \${1}::int4 = \${isOpen ? 1 : 2}::int4\`,
];
`);
  expect(await types()).toMatchObject({ code: 0 });
  const takes = Object.fromEntries(
    [...written().matchAll(/export interface (\w+) extends pgz\.Takes<(.*)> \{/g)].map(([, name, list]) => [
      name,
      list!.replaceAll("pgz.Parameter", ""),
    ]),
  );
  expect(takes).toEqual({
    Find: '[<"int8">, <"timestamptz">, <"text[]">]',
    Set: '[<"place">, <"mood">, <"numeric">]',
    Mixed: '[unknown, unknown, <"int8">]',
    Twice: '[<"bool">] | [<"int4">, <"int4">]',
  });
  expect(await compile()).toBe("");
  const right = readFileSync(cli.project.at("src/users.ts"), "utf8");
  const mistakes = [
    ["${id} and", "${Promise.resolve(id)} and"],
    ["${id} and", "${seen} and"],
    ["${seen}", "${true}"],
    ["${names}", "${[seen]}"],
    ["${null}", "${undefined}"],
    ['${"ok"}', "${{ mood: 1 }}"],
    ["${1.5}", "${new Promise<number>(() => {})}"],
    ["where ${true}", "where ${id}"],
  ] as const;
  // All in one run of the compiler, which starts for seconds.
  for (const [index, [value, wrong]] of mistakes.entries()) source(right.replace(value, wrong), `wrong-${index}.ts`);
  const errors = await compile();
  for (const [index, [, wrong]] of mistakes.entries())
    expect(errors, wrong).toMatch(new RegExp(`src/wrong-${index}\\.ts\\(\\d+,\\d+\\): error TS(2345|2322|2353)`));
  expect(errors).not.toContain("src/users.ts");
  for (const index of mistakes.keys()) rmSync(cli.project.at(`src/wrong-${index}.ts`));
  expect(await types("--parameters", "any")).toMatchObject({ code: 0 });
  expect(written()).not.toContain("pgz.");
});

test("a wrong template does not stop the others, and its row type stays unchanged", async () => {
  const of = (good: string, bad: string) =>
    source(
      `import { sql } from "pgz-edge";
export const all = [sql<Good>\`select \${good} as a\`, sql<Bad>\`\${bad}\`];`
        .replace("${good}", good)
        .replace("${bad}", bad),
    );
  of("1", "select mood, home from users");
  expect(await types()).toMatchObject({ code: 0 });
  const bad = /export interface Bad \{[^}]*\}/.exec(written())![0];
  of("'x'", "select mood, homee from users");
  expect(await types()).toMatchObject({ code: 1, err: expect.stringContaining("was written") as string });
  expect(written()).toContain("export interface Good {\n  a: string;\n}");
  expect(written()).toContain(bad);
  expect(written()).toMatch(/export type Mood = [^]*export interface Place /);
  expect(await types("--check")).toMatchObject({ code: 1 });
  of("'x'", "select id from users");
  expect(await types()).toMatchObject({ code: 0 });
  expect(written()).not.toContain("Mood");
});

test("--watch writes again when a source changes, until Ctrl-C", async () => {
  source(`import { sql } from "pgz-edge";\nexport const q = sql<Row>\`select 1 as a\`;`);
  const child = cli.start(["types", "--watch"], { env: { DATABASE_URL: path(url) } });
  const result = ended(child);
  const has = (text: string) => () => existsSync(cli.project.at(OUT)) && written().includes(text);
  await until(has("  a: number;"));
  source(`import { sql } from "pgz-edge";\nexport const q = sql<Row>\`select 'x' as b\`;`);
  await until(has("  b: string;"));
  source(`import { sql } from "pgz-edge";\nexport const r = sql<More>\`select true as c\`;`, "more.ts");
  await until(has("export interface More"));
  child.kill("SIGINT");
  const { code, err } = await result;
  expect(code).toBe(130);
  // There is one run for each change: the tool's own file is not a source.
  expect(err.match(/Waiting for a source to change/g)!.length).toBeLessThanOrEqual(5);
  expect(await types("--watch", "--check")).toMatchObject({ code: 64 });
});

test("SQL known only at run time is an error in a typed template, and is listed otherwise", async () => {
  source(`import { sql, type Query } from "pgz-edge";
interface Mine { id: number }
export const find = (where: Query, name: string, fields: string[]) => [
  sql<Found>\`select id from users where \${where}\`,
  sql\`select id from users where \${where}\`,
  sql<Mine>\`select id from \${sql.identifier(name)}\`,
  sql\`select \${sql.join(fields.map((field) => sql.identifier(field)))} from users\`,
  sql\`\${where}\`,
];
const parts = [sql\`select 1 as a\`];
parts.push(sql\`, 2 as b\`);
const fixed = [sql\`select 1 as a\`, sql\`, 2 as b\`] as const;
export const lists = [sql\`\${parts}\`, sql<Fixed>\`\${fixed}\`];
`);
  const { code, err } = await types("--verbose");
  expect(code).toBe(1);
  expect(err).toContain("src/users.ts:4:43: error: Found cannot be known: a fragment that is only known at run time.");
  expect(err).toContain("src/users.ts:5:36: not checked: a fragment that is only known at run time.");
  expect(err).toContain("src/users.ts:6:45: not checked: a name or a text that is only known at run time.");
  expect(err).toContain("src/users.ts:7:16: not checked: sql.join of what is only known at run time.");
  expect(err).toContain("src/users.ts:13:29: not checked: an array that may be changed before it is used");
  expect(err).toMatch(
    /^2 templates were described, 1 are no statements that return rows, 5 are only known at run time/,
  );
  expect((await types()).err).not.toContain("not checked");
});

test("a name with two rows, a row without columns and a comment without its column are errors", async () => {
  source(`import { sql } from "pgz-edge";
export const all = [
  sql<One>\`select 1 as a\`,
  sql<One>\`select 2 as a\`,
  sql<One>\`select 'x' as a\`,
  sql<None>\`delete from orders\`,
  sql<Said>\`select email, -- @notnull e_mail
    1 as one from users\`,
];
`);
  const { code, err } = await types();
  expect(code).toBe(1);
  expect(err.split("\n").filter((line) => line.includes("error:"))).toEqual([
    "src/users.ts:5:3: error: One is another row at src/users.ts:3:3.",
    "src/users.ts:6:3: error: None would have no columns: the statement returns no rows.",
    'src/users.ts:7:3: error: a comment names the column "e_mail", which does not exist.',
  ]);
});

test("comments in the SQL override the inferred types", async () => {
  source(`import { sql } from "pgz-edge";
export const q = sql<Said>\`select email, -- @notnull email, "a b"
  null::int4 as "a b", id /* @nullable id */ from users\`;`);
  expect(await types()).toMatchObject({ code: 0 });
  expect(written()).toContain('  email: string;\n  "a b": number;\n  id: string | null;\n');
});

test("options of the client change the types, on the command line or in package.json", async () => {
  const text = `import { sql } from "pgz-edge";
export const q = sql<Row>\`select id, display_name, seen, picture, score, array[id] as ids, array[seen] as times from users\`;`;
  cli.project.write("other/q.ts", text);
  const words = "--int8 bigint --numeric number --dates date --bytea hex --column-names camelCase".split(" ");
  expect(await types("other/*.{ts,tsx}", "--out", "other/rows.ts", ...words)).toMatchObject({ code: 0 });
  const rows = readFileSync(cli.project.at("other/rows.ts"), "utf8");
  expect(rows).toContain(`export interface Row {
  id: bigint;
  displayName: string;
  seen: Date | string | null;
  picture: string | null;
  score: number | null;
  ids: (bigint | null)[];
  times: (Date | string | null)[];
}`);
  cli.project.write(
    "other/t.ts",
    `import { sql } from "pgz-edge";
export const q = sql<Row>\`select seen, now() - seen as since from users\`;`,
  );
  expect(await types("other/t.ts", "--out", "other/t-rows.ts", "--dates", "temporal")).toMatchObject({ code: 0 });
  const temporal = readFileSync(cli.project.at("other/t-rows.ts"), "utf8");
  expect(temporal).toContain(
    "  seen: Temporal.Instant | string | null;\n  since: Temporal.Duration | string | null;\n",
  );
  rmSync(cli.project.at("other/t.ts"));
  rmSync(cli.project.at("other/t-rows.ts"));
  const manifest = JSON.parse(readFileSync(cli.project.at("package.json"), "utf8")) as object;
  const config = { files: ["other/*.ts"], out: "other/rows.ts", int8: "number", columnNames: "camelCase" };
  cli.project.write("package.json", JSON.stringify({ ...manifest, "pgz-edge": { types: config } }));
  try {
    expect(await types("--numeric", "number")).toMatchObject({ code: 0 });
    expect(readFileSync(cli.project.at("other/rows.ts"), "utf8")).toContain("  id: number;\n  displayName: string;\n");
    cli.project.write("package.json", JSON.stringify({ ...manifest, "pgz-edge": { types: { nothing: "x" } } }));
    expect(await types()).toMatchObject({ code: 64, err: expect.stringContaining('has "nothing"') as string });
  } finally {
    cli.project.write("package.json", JSON.stringify(manifest));
    rmSync(cli.project.at("other"), { recursive: true });
  }
});

test("no statement of the project runs, and the tool leaves nothing behind", async () => {
  source(`import { sql } from "pgz-edge";
export const all = [
  sql<A>\`insert into users (display_name) values ('Eve') returning id\`,
  sql<B>\`select count_up() as n, nextval('counter') as m\`,
  sql<C>\`delete from users returning id\`,
  sql<D>\`with gone as (delete from users returning id) select id from gone\`,
  sql\`delete from nothing\`,
];
`);
  const db = await connect(path(url));
  const state = "select (select json_agg(u) from users u) as users, last_value, is_called from counter";
  const { rows: before } = await db.query(state);
  expect((await types()).code).toBe(1);
  source(readFileSync(cli.project.at("src/users.ts"), "utf8").replace("  sql`delete from nothing`,\n", ""));
  expect(await types()).toMatchObject({ code: 0 });
  expect(written()).toContain("export interface B {\n  n: string | null;\n  m: string;\n}");
  expect((await db.query(state)).rows).toEqual(before);
  await db.close();
});

test("the tool works on each version of PostgreSQL, with the oldest TypeScript", async () => {
  source(`import { sql } from "pgz-edge";
export const q = sql<Row>\`select a.relname, b.relname as other from pg_class a left join pg_class b on b.oid = a.reltype\`;`);
  rmSync(cli.project.at("node_modules/typescript"));
  cli.project.link("typescript-5.2", "typescript");
  for (const { url: each } of servers) {
    const { code } = await cli.run(["types"], { env: { DATABASE_URL: plainUrl(each) } });
    expect(code).toBe(0);
    expect(written()).toContain("  relname: string;\n  other: string | null;\n");
  }
  rmSync(cli.project.at("node_modules/typescript"));
  cli.project.link("typescript");
});

test("without TypeScript, sources or a server the tool reports what is missing", async () => {
  source("export {};");
  expect(await cli.run(["types"], { env: { DATABASE_URL: "postgres://u@127.0.0.1:1/d" } })).toMatchObject({ code: 2 });
  expect(await types("nowhere/*.ts")).toMatchObject({
    code: 64,
    err: expect.stringContaining("No source file") as string,
  });
  expect(await types("--out", "")).toMatchObject({
    code: 64,
    err: expect.stringContaining("--out is empty") as string,
  });
  const empty = cli.project.at("node_modules/typescript");
  rmSync(empty);
  try {
    expect(await types()).toMatchObject({ code: 64, err: expect.stringContaining("npm install") as string });
    cli.project.link("typescript-7", "typescript");
    expect(await types()).toMatchObject({ code: 64, err: expect.stringContaining("5.2 to 6 can") as string });
    rmSync(empty);
  } finally {
    cli.project.link("typescript");
  }
});
