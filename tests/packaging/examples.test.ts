// Runs the examples of the docs that say "ts run", each in a schema of its own. An example gets `client` and `db`,
// which are the same client, and whatever it imports; its `connect` and `createPool` go to the test server, whatever
// URL it names. A Worker's `fetch` is called once.
import { transform } from "esbuild";
import { Kysely } from "kysely";
import { expect, test } from "vitest";
import type { Pool } from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";
import { fencesOf, pages } from "./fences.ts";

const pgz = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const otel = (await import("../../dist/otel.js" as string)) as typeof import("../../js/adapters/otel.ts");
const kysely = (await import("../../dist/kysely.js" as string)) as typeof import("../../js/adapters/kysely.ts");
const testing = (await import("../../dist/testing.js" as string)) as typeof import("../../js/testing.ts");
const examples = pages.flatMap(fencesOf).filter(({ language, rest }) => language === "ts" && rest === "run");

const TABLES = `create table users (id int4 primary key, name text, email text, active bool default true);
  insert into users (id, name) values (1, 'Ada'), (2, 'Bob'), (3, 'Cy');
  create table orders (id int4, user_id int4, total numeric, placed timestamptz);
  insert into orders values (1, 1, 9.5, now());
  create table visits (user_id int4, at timestamptz default now());
  create table stock (sku text, n int4 check (n >= 0));
  create table accounts (id int4, balance numeric);
  insert into accounts values (1, 1000), (2, 0)`;

test("every page about calls has examples that run", () => {
  const topics = [
    "batches",
    "bun",
    "copy",
    "deno",
    "from-postgres",
    "kysely",
    "testing",
    "listen",
    "node",
    "observer",
    "recipes",
  ];
  const more = ["pool", "queries", "quickstart", "scopes", "transactions", "workers"];
  const expected = ["README.md", ...[...topics, ...more].map((topic) => `docs/${topic}.md`)];
  expect(new Set(examples.map(({ page }) => page))).toEqual(new Set(expected));
});

test.each(examples)("$name runs", async ({ name, code }) => {
  const server = testServers().servers[0]!;
  const { host, port, database, user, password } = server;
  const schema = `example_${name.replace(/\W+/g, "_").toLowerCase()}`;
  const place = { host, port, database, user, password, sslmode: "disable" as const };
  const options = { ...place, startup: { search_path: schema } };
  const client = await pgz.connect(options);
  const pools: Pool[] = [];
  try {
    await client.simple(`drop schema if exists ${schema} cascade; create schema ${schema}; ${TABLES}`);
    const modules: Record<string, unknown> = {};
    for (const [, module] of code.matchAll(/^import .* from "(node:[^"]+)";$/gm))
      modules[module!] = await import(module!);
    const body = code
      .replace(/^import .* from "(pgz-edge|kysely)[^"]*";.*$/gm, "")
      .replace(/^import (.*) from "(node:[^"]+)";$/gm, 'const $1 = modules["$2"];')
      .replace("export default", "return");
    const { code: plain } = await transform(
      `async (client, db, pgz, modules, console) => { const { sql, unnest, conditional, connect, createClient, createPool, PostgresError, openTelemetry, Kysely, PgzDialect, withRollback } = pgz; { ${body} } }`,
      { loader: "ts", target: "es2022" },
    );
    const logged: unknown[] = [];
    const run = (0, eval)(plain.replace(/;\s*$/, "")) as (
      ...given: unknown[]
    ) => Promise<{ fetch: (request: Request, env: object) => Promise<Response> } | undefined>;
    const worker = await run(
      client,
      client,
      {
        ...pgz,
        ...otel,
        ...kysely,
        ...testing,
        Kysely,
        connect: (_: unknown, own: object) => pgz.connect({ ...options, ...own }),
        createPool: (_: unknown, own: object) => {
          pools.push(pgz.createPool(options, own));
          return pools.at(-1);
        },
      },
      modules,
      { log: (...values: unknown[]) => void logged.push(...values) },
    );
    if (worker !== undefined) {
      const response = await worker.fetch(new Request("http://localhost/"), { HYPERDRIVE: options });
      const lines = (await response.text()).split("\n").filter(Boolean);
      const rows = lines.flatMap((line) => JSON.parse(line) as { id: number } | { id: number }[]);
      expect(rows.map(({ id }) => id)).toEqual([2, 3]);
      await client.exec("alter table users rename to people");
      const failing = worker.fetch(new Request("http://localhost/"), { HYPERDRIVE: options });
      const { stack } = await failing.then(
        () => new Error("there is no such table"),
        (error: Error) => error,
      );
      expect(stack).toMatch(/LINE 1: select id, name from users where/);
      expect(stack, "the line of the Worker").toMatch(/at (async )?Object.fetch/);
    }
    // The example must print what its comments say.
    const promised = [...code.matchAll(/console\.log\([^\n]*\);\s*\/\/ ([^\n:]+)/g)].map(
      ([, text]) => JSON.parse(text!) as unknown,
    );
    for (const value of promised) expect(logged).toContainEqual(value);
    await client.simple(`drop schema ${schema} cascade`);
  } finally {
    for (const pool of pools) await pool.close();
    await client.close();
  }
});
