// `pgz-edge/testing` in the five runners, as a user has them: the packed package in a project of its own, two files of
// tests that use the same rows, and the runner's own command.
//
// Knows how each runner is started and what its hooks are called. Must not know how a test is rolled back.
import { spawn } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";
import { bin, Project } from "./project.ts";

const { connect } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const [server] = testServers().servers;
const url = `${server!.url.split("?")[0]}?sslmode=disable`;
const schema = `runners_${Math.random().toString(36).slice(2, 10)}`;
let project: Project;
let outside: Client;

beforeAll(async () => {
  project = new Project();
  for (const name of ["vitest", "jest", "pg-cursor"]) project.link(name);
  outside = await connect(url);
  await outside.simple(`create schema ${schema}; create table ${schema}.item (name text primary key)`);
});

afterAll(async () => {
  await outside?.exec(`drop schema if exists ${schema} cascade`);
  await outside?.close();
  project?.remove();
});

/**
 * The same test in each file: it inserts a row that must be gone in the next test, while the other file inserts the
 * same row.
 */
const BODY = `
const pool = createPool(process.env.DATABASE_URL, { startup: { search_path: "${schema}" } });
const db = rollbackEachTest(pool, hooks);
const facade = new pg.Pool({ connectionString: process.env.DATABASE_URL, options: "-c search_path=${schema}" });
const pgDb = rollbackEachTest(facade, hooks);

const count = async () => (await db.query("select count(*)::int4 as n from item")).rows[0].n;
const equal = (one, other) => {
  if (one !== other) throw new Error(one + " is not " + other);
};

for (const round of [1, 2])
  test("a user is made, round " + round, async () => {
    equal(await count(), 0);
    await db.transaction((tx) => tx.exec("insert into item values ('a')"));
    await db.exec("insert into item values ('a')").then(
      () => equal("taken", "refused"),
      (error) => equal(error.code, "23505"),
    );
    await db.query("select pg_sleep(0.05)");
    equal(await count(), 1);
  });

test("the facade begins and commits", async () => {
  const client = await pgDb.connect();
  await client.query("begin");
  await client.query("insert into item values ('a')");
  await client.query("commit");
  client.release();
  equal((await pgDb.query("select * from item")).rowCount, 1);
});

test("a function around the test", () =>
  withRollback(pool, async (own) => {
    await own.exec("insert into item values ('a')");
    equal((await own.query("select * from item")).rowCount, 1);
  }));
`;
const IMPORTS = `
import { createPool } from "pgz-edge";
import pg from "pgz-edge/pg";
import { rollbackEachTest, withRollback } from "pgz-edge/testing";
`;
const REQUIRES = `
const { createPool } = require("pgz-edge");
const pg = require("pgz-edge/pg").default;
const { rollbackEachTest, withRollback } = require("pgz-edge/testing");
const hooks = { beforeEach, afterEach, afterAll };
`;

interface Runner {
  /** The beginning of a file: it names the runner's own functions `test` and `hooks`. */
  readonly head: string;
  readonly suffix: string;
  readonly command: (folder: string, files: readonly string[]) => string[];
}

const of = (functions: string) => `import { ${functions} } from`;
const HOOKS = "const hooks = { beforeEach, afterEach, afterAll };";
const four = "afterAll, afterEach, beforeEach, test";

const runners: Record<string, Runner> = {
  vitest: {
    head: `${IMPORTS}${of(four)} "vitest";\n${HOOKS}`,
    suffix: "test.mjs",
    command: (folder) => [bin("vitest"), "run", "--root", folder],
  },
  jest: {
    head: REQUIRES,
    suffix: "test.cjs",
    command: (folder) => [bin("jest"), "--rootDir", folder, "--testMatch", "**/*.test.cjs"],
  },
  "node:test": {
    head: `${IMPORTS}import * as hooks from "node:test";\nconst { test } = hooks;`,
    suffix: "test.mjs",
    command: (_, files) => [process.execPath, "--test", ...files],
  },
  "deno test": {
    head: `${IMPORTS}import process from "node:process";\nconst { test } = Deno;\nconst hooks = Deno.test;`,
    suffix: "test.mjs",
    command: (_, files) => [bin("deno"), "test", "--allow-all", "--no-check", "--parallel", ...files],
  },
  "bun test": {
    head: `${IMPORTS}${of(four)} "bun:test";\n${HOOKS}`,
    suffix: "test.mjs",
    command: (_, files) => [bin("bun"), "test", ...files],
  },
};

/** The environment without what vitest and tests/run.mjs have set for this process. */
function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_|JEST|PGZ_|FORCE_COLOR)/.test(name));
  return { ...Object.fromEntries(own), NODE_ENV: "test", NO_COLOR: "1", DATABASE_URL: url };
}

function run(command: readonly string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command[0]!, command.slice(1), { cwd: project.folder, env: environment() });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += String(chunk)));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}

for (const [name, { head, suffix, command }] of Object.entries(runners))
  test(`${name}: each test starts from the rows found at the beginning of its file, with two files in parallel`, async () => {
    const folder = name.replace(/[ :]/g, "-");
    const files = ["one", "two"].map((file) => project.write(`${folder}/${file}.${suffix}`, head + BODY));
    const { code, output } = await run(command(project.at(folder), files));
    expect(output).toMatch(/\b8 (passed|pass)|pass 8\b/);
    expect(code).toBe(0);
    expect((await outside.query(`select * from ${schema}.item`)).rows).toEqual([]);
  });

for (const [name, { head, suffix, command }] of Object.entries(runners))
  test(`${name}: without pgz-edge/testing, a test finds what the previous test has left`, async () => {
    const folder = `${name.replace(/[ :]/g, "-")}-broken`;
    const broken = (head + BODY).replace("const db = rollbackEachTest(pool, hooks)", "const db = pool");
    const file = project.write(`${folder}/one.${suffix}`, broken);
    const { code, output } = await run(command(project.at(folder), [file]));
    await outside.exec(`truncate ${schema}.item`);
    expect(output).toMatch(/1 is not 0/);
    expect(code).not.toBe(0);
  });
