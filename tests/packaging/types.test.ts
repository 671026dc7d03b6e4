// The tarball's types are found and right for each TypeScript, module system and set of libraries that a project may
// have, without skipLibCheck; and linters of packages accept them.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isRelease } from "../support/release.ts";
import { Project } from "./project.ts";

const child = fileURLToPath(new URL("types-child.mjs", import.meta.url));
const COMMONJS = `
  import { connect, createPool, sql, unnest, PostgresError } from "pgz-edge";
  import type { Client, ClientOptions, Query, QueryInput, SqlValue } from "pgz-edge";
  import { SQLSTATES } from "pgz-edge/sqlstates";
  import { installRuntime } from "pgz-edge/slim";
  import wasm from "pgz-edge/pgz_edge_bg.wasm";
  import { webSocket } from "pgz-edge/websocket";
  import { dsqlPassword, rdsPassword } from "pgz-edge/aws";

  export async function main(): Promise<unknown> {
    const db: Client = await connect("postgres://u@h/d");
    const { rows } = await db.query<{ id: number }>(sql\`select 1 as id\`);
    const id: number | undefined = rows[0]?.id;
    const bytes: Uint8Array = await db.json("select 1");
    const code: string = SQLSTATES.division_by_zero;
    await createPool("x", { max: 3, password: rdsPassword({ region: "eu-west-1" }) }).close();
    for (const password of [dsqlPassword(), ({ host }: { host: string }) => host, () => ({ password: "x", expiresAt: 2e12 })])
      await createPool("x", { password }).close();
    const arrays: unknown[][] = (await db.query("select 1", { rowMode: "array" })).rows;
    const options: ClientOptions = { debug: true };
    // @ts-expect-error: a row has no such member
    rows[0]?.nothing;
    return [id, arrays, options, webSocket("wss://proxy"), bytes, code, installRuntime, PostgresError, wasm];
  }`;
const MODULE = `${COMMONJS}
  import { changes } from "pgz-edge/changes";
  export const respond = (db: Client): Response =>
    changes(db, { slot: "s", publication: "p" }).respond({ headers: { "cache-control": "no-store" } });
  // Rows may be of an interface, a class or a literal, and no texts or numbers.
  interface User { readonly id: number; name?: string }
  const users: readonly User[] = [{ id: 1 }];
  class Point { x = 1 }
  export async function rows(db: Client): Promise<void> {
    const points = sql.values([new Point()], "x");
    const ids = sql\`\${sql.values(users, "id")}, \${sql.set(users[0]!, "id")}\`;
    await db.exec(sql\`insert into u \${ids}, \${points}, \${sql.values([[1, "a"]])} \${sql.set({ name: "a" })}\`);
    await db.exec\`delete from u where id = \${1}\`;
    for (const call of ["exec", "query", "json"] as const) await db[call]("select 1");
    // @ts-expect-error: no options of exec
    await db.exec(sql\`select 1\`, { rowMode: "array" });
    // @ts-expect-error: a value may be undefined
    await db.exec\`delete from u where id = \${users.at(0)?.name}\`;
    await db.copyFromRows("u", ["id"], users);
    await db.exec(sql\`insert into u \${unnest(users, { id: "int4" })} \${unnest([new Point()], { x: sql\`int4\` })}\`);
    const anything = [] as Record<string, SqlValue>[];
    unnest(anything, { id: "int4" });
    unnest([{ id: 1, name: "x" }], { id: "int4" });
    unnest(users, Object.fromEntries([["id", "int4"]]));
    unnest(sql.snakeCase(users), { id: "int4", name: "text" });
    // @ts-expect-error: a column may be missing
    unnest(users, { id: "int4", name: "text" });
    // @ts-expect-error: no such column
    unnest(users, { di: "int4" });
    // @ts-expect-error: a promise is no value
    unnest([] as Record<string, Promise<number>>[], { id: "int4" });
    // @ts-expect-error: a text is no row
    sql.values(["a"]);
    // @ts-expect-error: a column may be missing
    sql.values(users);
    // @ts-expect-error: no such column
    sql.set({ name: "a" }, "nmae");
    // @ts-expect-error: a value may be undefined
    sql.values([[1, undefined]]);
    try { await db.stream("x"); } catch (error) { if (error instanceof PostgresError) users.at(Number(error.constraint)); }
    for await (const row of db.rows("select 1")) users.at(Object.keys(row).length);
  }
  // A value of a template may be of any type of the user's, but none that the driver refuses.
  interface Row { readonly id: bigint; readonly tags: readonly string[]; readonly at: Date | null }
  declare const row: Row; declare const other: { any: any; unknown: unknown; text?: string; body: Record<string, SqlValue> };
  export const taken = [
    sql\`\${1} \${1n} \${"a"} \${true} \${null} \${new Date()} \${new Uint8Array(1)} \${[[1], null]} \${{ a: 1 }}\`,
    sql\`\${row} \${new Point()} \${row.tags} \${sql.json(other.unknown)} \${other.any} \${new Map([[1, 2]])}\`,
    sql\`\${sql.values([row])} \${sql.values(row, "at")} \${sql.values([other.body], "name")} \${sql.set(other.body)}\`,
    sql\`\${sql.values(sql.snakeCase([row]))} \${sql.set(sql.snakeCase(row), "id")} \${sql.join([sql\`a\`, 1])}\`,
    sql\`\${sql.set(row, ...(["id", "at"] as const))} \${sql.values(row.tags.map((tag) => [tag, 1]))} \${sql.in(row.tags)}\`,
  ];
  // @ts-expect-error
  sql\`\${undefined}\`;
  // @ts-expect-error
  sql\`\${other.text}\`;
  // @ts-expect-error
  sql\`\${other.unknown}\`;
  // @ts-expect-error
  sql\`\${Promise.resolve(1)}\`;
  // @ts-expect-error
  sql\`\${() => 1}\`;
  // @ts-expect-error
  sql\`\${Point}\`;
  // @ts-expect-error
  sql\`\${Symbol()}\`;
  // @ts-expect-error
  sql<User>\`\${other.text}\`;
  // @ts-expect-error
  sql\`\${sql.snakeCase({ a: () => 1 })}\`;
  // Helpers of the user's own, over any rows.
  export const insertAny = <Column extends string, Row extends Record<Column, SqlValue>>(rows: Row[], ...columns: Column[]): Query =>
    sql\`insert into t \${sql.values(rows, ...columns)}\`;
  export const insertSome = <Column extends "id" | "at">(rows: Row[], ...columns: Column[]): Query => sql.values(rows, ...columns);
  export const change = (patch: Partial<Row>, column: "id" | "tags"): Query[] => [sql.set(patch), sql.set(row, column)];
  export const changed = (name: string, age?: number): Query => sql.set({ ...(name && { name }), ...(age ? { age } : {}) });
  // @ts-expect-error
  export const first = (db: Client) => db.first\`\${db.query("select 1")}\`;
  // The row that a query says travels to each call; where none is said, all is as without.
  const user = sql<User>\`select id, name from users\`;
  const unsaid: Query = sql\`select 1\`;
  const one = <T>(db: Client, query: Query<T>): Promise<T | undefined> => db.query(query).then(({ rows }) => rows[0]);
  const all = async <T>(db: Client, query: QueryInput): Promise<T[]> => (await db.query<T>(query)).rows;
  const run = (db: Client, query: Query, input: QueryInput): Promise<unknown> => db.batch([query, input]);
  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  function is<Expected>() { return <Actual>(_: Actual, same: Same<Actual, Expected>): boolean => same; }
  export async function said(db: Client): Promise<unknown> {
    type Plain = Record<string, unknown>;
    is<User[]>()((await db.query(user)).rows, true);
    is<User[]>()((await db.query(user, { int8: "number" })).rows, true);
    is<unknown[][]>()((await db.query(user, { rowMode: "array" })).rows, true);
    is<User | undefined>()(await one(db, user), true);
    is<User[]>()(await all<User>(db, user), true);
    is<User[]>()((await (await db.prepare(user)).query()).rows, true);
    is<User[]>()((await (await db.prepare<User>("select")).query()).rows, true);
    is<User[]>()((await db.transaction((tx) => tx.last(user))).rows, true);
    is<User[]>()((await db.scope({ role: "x" }).query(user)).rows, true);
    is<User[]>()((await db.query((await db.prepare(user)).bind())).rows, true);
    for await (const row of db.rows(user)) is<User>()(row, true);
    for await (const rows of db.cursor(user, 7)) is<User[]>()(rows, true);
    for await (const row of db.copyToRows(user)) is<User>()(row, true);
    for (const { rows } of await db.simple(user)) is<User[]>()(rows, true);
    // In one line TypeScript 5.2 and 5.3 infer from the names on the left, too, and find no row.
    const several = await db.batch([user, unsaid, "select 1"]);
    const [users, plain, text] = several;
    is<User[]>()(users.rows, true);
    is<Plain[]>()(plain.rows, true);
    is<Plain[]>()(text.rows, true);
    const [settled] = await db.batch([user], { atomic: false });
    if (settled.status === "fulfilled") is<User[]>()(settled.value.rows, true);
    for (const { rows } of await db.batch([user].map((query) => query))) is<User[]>()(rows, true);
    for (const { rows } of await db.batch<User>([unsaid])) is<User[]>()(rows, true);
    for (const { rows } of await db.batch([unsaid, "select 1"])) is<Plain[]>()(rows, true);
    is<Plain[]>()((await db.query(unsaid)).rows, true);
    is<Plain[]>()((await db.query(sql\`select 1\`)).rows, true);
    is<Plain[]>()((await db.query({ text: "select 1", values: [] })).rows, true);
    is<User[]>()((await db.query<User>(unsaid)).rows, true);
    is<User[]>()((await db.query<User>(sql\`select 1\`)).rows, true);
    // @ts-expect-error: the query says another row
    await db.query<Point>(user);
    return run(db, user, user);
  }`;
let project: Project;

beforeAll(() => {
  project = new Project();
  project.write("types.ts", MODULE);
  project.write("types.cts", COMMONJS);
  for (const name of ["@types/node", "undici-types", "@cloudflare/workers-types"]) project.link(name);
});
afterAll(() => project.remove());

// The oldest and the newest version; a release also runs those between them.
const between = isRelease ? ["typescript-5.4", "typescript-5.7"] : [];

test.each(["typescript-5.2", ...between, "typescript"])("%s accepts the types in each setting", async (compiler) => {
  const { stdout } = await promisify(execFile)(process.execPath, [child, compiler, project.folder]);
  const { found } = JSON.parse(stdout) as { found: Record<string, string[]> };
  const settings = Object.keys(found);
  expect(settings.length).toBeGreaterThanOrEqual(compiler === "typescript" || isRelease ? 8 : 2);
  expect(found).toEqual(Object.fromEntries(settings.map((setting) => [setting, []])));
});

test("publint has no complaint", async () => {
  const { messages } = await publint({ pkgDir: project.at("node_modules/pgz-edge"), pack: false });
  expect(messages).toEqual([]);
});

test("arethetypeswrong finds nothing except five entries that are ES modules only", async () => {
  const found = await checkPackage(createPackageFromTarballData(new Uint8Array(readFileSync(project.tarball))));
  const problems = found.types && "problems" in found ? found.problems : undefined;
  expect(problems?.map((problem) => [problem.kind, "entrypoint" in problem && problem.entrypoint])).toEqual([
    ["CJSResolvesToESM", "./otel/workers"],
    ["CJSResolvesToESM", "./vpc"],
    ["CJSResolvesToESM", "./changes"],
    ["CJSResolvesToESM", "./cluster"],
    ["CJSResolvesToESM", "./cache"],
  ]);
});
