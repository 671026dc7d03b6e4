// The tarball's types, found and right for each TypeScript, module system and set of libraries that a project may have,
// without skipLibCheck; and what linters of packages say of it.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Project } from "./project.ts";

const child = fileURLToPath(new URL("types-child.mjs", import.meta.url));
const COMMONJS = `
  import { connect, createPool, sql, PostgresError, type Client, type ClientOptions } from "pgz-edge";
  import { SQLSTATES } from "pgz-edge/sqlstates";
  import { installRuntime } from "pgz-edge/slim";
  import wasm from "pgz-edge/pgz_edge_bg.wasm";
  import { webSocket } from "pgz-edge/websocket";

  export async function main(): Promise<unknown> {
    const db: Client = await connect("postgres://u@h/d");
    const { rows } = await db.query<{ id: number }>(sql\`select 1 as id\`);
    const id: number | undefined = rows[0]?.id;
    const bytes: Uint8Array = await db.json("select 1");
    const code: string = SQLSTATES.division_by_zero;
    await createPool("x", { max: 3 }).close();
    const arrays: unknown[][] = (await db.query("select 1", { rowMode: "array" })).rows;
    const options: ClientOptions = { debug: true };
    // @ts-expect-error: a row has no such member
    rows[0]?.nothing;
    return [id, arrays, options, webSocket("wss://proxy"), bytes, code, installRuntime, PostgresError, wasm];
  }`;
const MODULE = `${COMMONJS}
  // Rows may be of an interface, a class or a literal, and no texts or numbers.
  interface User { readonly id: number; name?: string }
  const users: readonly User[] = [{ id: 1 }];
  class Point { x = 1 }
  export async function rows(db: Client): Promise<void> {
    const points = sql.values([new Point()], "x");
    await db.exec(sql\`insert into u \${sql.values(users)}, \${points}, \${sql.values([[1, "a"]])} \${sql.set(users[0]!)}\`);
    await db.copyFromRows("u", ["id"], users);
    // @ts-expect-error: a text is no row
    sql.values(["a"]);
    try { await db.stream("x"); } catch (error) { if (error instanceof PostgresError) users.at(Number(error.constraint)); }
    for await (const row of db.rows("select 1")) users.at(Object.keys(row).length);
  }`;
let project: Project;

beforeAll(() => {
  project = new Project();
  project.write("types.ts", MODULE);
  project.write("types.cts", COMMONJS);
  for (const name of ["@types/node", "undici-types", "@cloudflare/workers-types"]) project.link(name);
}, 120_000);
afterAll(() => project.remove());

test.each(["typescript-5.2", "typescript-5.4", "typescript-5.7", "typescript"])(
  "%s takes the types in each setting",
  { timeout: 120_000 },
  async (compiler) => {
    const { stdout } = await promisify(execFile)(process.execPath, [child, compiler, project.folder]);
    const { found } = JSON.parse(stdout) as { found: Record<string, string[]> };
    const settings = Object.keys(found);
    expect(settings.length).toBeGreaterThanOrEqual(8);
    expect(found).toEqual(Object.fromEntries(settings.map((setting) => [setting, []])));
  },
);

test("publint has nothing to say", async () => {
  const { messages } = await publint({ pkgDir: project.at("node_modules/pgz-edge"), pack: false });
  expect(messages).toEqual([]);
});

test("arethetypeswrong finds nothing, but that one part is for Workers, which have no require", async () => {
  const found = await checkPackage(createPackageFromTarballData(new Uint8Array(readFileSync(project.tarball))));
  const problems = found.types && "problems" in found ? found.problems : undefined;
  expect(problems?.map((problem) => [problem.kind, "entrypoint" in problem && problem.entrypoint])).toEqual([
    ["CJSResolvesToESM", "./otel/workers"],
  ]);
});
