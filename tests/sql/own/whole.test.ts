// Uses the whole driver, its adapters and its command line as a superuser whose search_path leads to a stranger's traps
// (traps.ts): none fires. It sees statements that are on no list, too, if one of these calls sends them.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Client as Agent } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client } from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import type * as driver from "../../../js/index.ts";
import type * as ofChanges from "../../../js/changes.ts";
import type * as ofCluster from "../../../js/cluster.ts";
import type * as ofTesting from "../../../js/testing.ts";
import { testServers } from "../../integration/servers.ts";
import { namedByOwn } from "./named.ts";
import { setTraps } from "./traps.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const load = async (name: string): Promise<unknown> => await import(`../../../dist/${name}.js`);
const { connect, createPool, sql } = (await load("node")) as typeof driver;
const { changes } = (await load("changes")) as typeof ofChanges;
const { createCluster } = (await load("cluster")) as typeof ofCluster;
const { withRollback } = (await load("testing")) as typeof ofTesting;

const servers = testServers().servers.filter(({ own }) => own);

describe.each(servers)("$name", ({ superuserUrl, log, major }) => {
  const database = `whole_${Math.random().toString(36).slice(2)}`;
  const at = (options: string): string => {
    const url = new URL(superuserUrl);
    url.pathname = database;
    // In such a URL a plus is no space.
    url.search = `sslmode=disable&options=${encodeURIComponent(options)}`;
    return url.href;
  };
  const url = at("-c search_path=traps");
  const fired = () => readFileSync(log!, "utf8").split(`a trap fired in ${database}`).length - 1;

  beforeAll(async () => {
    const admin = new Client({ connectionString: superuserUrl });
    await admin.connect();
    await admin.query(`create database ${database}`);
    await admin.end();
    const owner = new Client({ connectionString: at("") });
    await owner.connect();
    await setTraps(owner, await namedByOwn(owner, major));
    await owner.query(`
      create type traps.pair as (a int, b traps.mood);
      create table traps.rows (id int primary key, pair traps.pair, moods traps.mood[], span int4range);
      insert into traps.rows values (1, (1, 'a'), '{a}', '[1,2]');
      create view traps.shown as select id from traps.rows;
      create publication p for table traps.rows where (id >= 0)`);
    await owner.end();
  });

  test("the operator of an ordinary user does not make that user a superuser", async () => {
    const mallory = `mallory_${Math.random().toString(36).slice(2)}`;
    await using admin = await connect(at(""));
    await admin.simple(`create role ${mallory}; create schema theirs authorization ${mallory};
      set role ${mallory};
      create function theirs.ge(a oid, b int4) returns bool language plpgsql as $$ begin
        if current_setting('is_superuser') = 'on' then alter role ${mallory} superuser; end if;
        return a operator(pg_catalog.>=) b::oid; end $$;
      create operator theirs.>= (leftarg = oid, rightarg = int4, procedure = theirs.ge);
      reset role`);
    for (const firstRun of ["text", "describe"] as const) {
      await using victim = await connect(at("-c search_path=theirs"), { firstRun });
      await victim.query(sql`select ${"x"}::text as t`);
      await victim.query("select pair, moods, row(pair, 1) as r from traps.rows");
    }
    const { rows } = await admin.query("select rolsuper from pg_roles where rolname = $1", [mallory]);
    expect(rows).toEqual([{ rolsuper: false }]);
    await admin.simple(`drop owned by ${mallory}; drop role ${mallory}`);
  });

  test.each(["text", "describe"] as const)("calls with firstRun %s", async (firstRun) => {
    await using pool = createPool(url, { max: 2, reset: "always", firstRun });
    await pool.query(sql`select ${7}::int as n, ${8n}::bigint as i, ${"x"}::text as t, ${true}::bool as b,
      ${new Date(0)}::timestamptz as m, ${new Uint8Array(2)}::bytea as y, ${{ a: 1 }}::jsonb as j, ${null}::int as z`);
    await pool.query("select id, pair, moods, span from rows");
    await pool.query("select row(pair, moods) as r, array[pair] as p from rows");
    await pool.query("select moods from rows", { types: { mood: (text: string) => text } } as never);
    await pool.transaction(async (tx) => {
      await tx.query(sql`select ${1}::int as n`);
      await tx.transaction((nested) => nested.query(sql`select pair from rows where id = ${1}`));
    });
    await pool.batch([sql`select ${1}::int as n`, sql`select moods from rows where id = ${1}`]);
    const scope = pool.scope({ settings: { "app.tenant": 7, search_path: "traps" }, role: "pg_monitor" });
    await scope.query(sql`select ${"t"}::text as t`);
    await scope.transaction((tx) => tx.query("select 1 as n"));
    for await (const row of pool.rows("select id, pair from rows")) void row;
    for await (const some of pool.cursor("select id, moods from rows", 1)) void some;
    await pool.copyFromRows("rows", ["id", "moods"], [[firstRun === "text" ? 2 : 3, ["a"]]]);
    for await (const row of pool.copyToRows("select id from rows")) void row;
    await new Response(await pool.stream("select id, pair from rows")).text();
    await pool.notify("c", "p");
    await using lease = await pool.acquire();
    await lease.query("select set_config('app.a', 'b', false)");
    expect(fired()).toBe(0);
  });

  test("a cluster, a test's transaction, a snapshot", async () => {
    await using cluster = createCluster([at("-c search_path=traps")]);
    await cluster.query(sql`select ${"x"}::text as t`);
    await cluster.transaction((tx) => tx.query("select 1 as n"));
    await cluster.reads.query("select moods from rows");

    await using pool = createPool(url);
    await withRollback(pool, async (db) => {
      await db.query("insert into rows (id) values (10)");
      await db.scope({ settings: { "app.a": "b" } }).query("select 1 as n");
    });

    const slot = database.slice(0, 20);
    const kinds: string[] = [];
    for await (const change of changes(pool, {
      slot,
      publication: "p",
      createSlot: "temporary",
      snapshot: true,
      trustTables: true,
    })) {
      kinds.push(change.kind);
      if (change.kind === "snapshot") break;
    }
    expect(kinds).toContain("insert");
    expect(fired()).toBe(0);
  });

  test("the command line", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-own-"));
    try {
      symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"));
      writeFileSync(
        path.join(folder, "a.ts"),
        'import { sql } from "pgz-edge";\nexport const q = sql<Row>`select pair, moods, span, id from rows`;',
      );
      const main = path.join(root, "dist/cli/main.js");
      const env = { ...process.env, DATABASE_URL: url, NO_COLOR: "1" } as Record<string, string>;
      const run = (...words: string[]) =>
        new Promise<string>((done) => {
          execFile(process.execPath, [main, ...words], { cwd: folder, env }, (_, out, err) => done(out + err));
        });
      expect(await run("doctor")).toContain("Settings");
      expect(await run("query", "select pair, moods from rows")).toContain("moods");
      expect(await run("copy-out", "rows", "--progress")).toContain("moods");
      expect(await run("query", "select moods from rows", "--format", "csv")).toContain("a");
      expect(await run("types", "a.ts", "--out", "b.ts")).toMatch(/^1 template/m);
      const agent = await agentOf(main, env);
      expect(await agent.ask("list_tables", {})).toContain("rows");
      expect(await agent.ask("describe_table", { table: "rows" })).toContain("moods");
      expect(await agent.ask("describe_query", { sql: "select pair from rows" })).toContain("pair");
      expect(await agent.ask("query", { sql: "select moods from rows" })).toContain("moods");
      await agent.close();
      // pg_get_viewdef looks for operators on the path. Traps that come before pg_catalog win also for exact types.
      const earlier = { ...env, DATABASE_URL: at("-c search_path=traps,pg_catalog") };
      const other = await agentOf(main, earlier);
      expect(await other.ask("describe_table", { table: "shown" })).toContain("SELECT");
      await other.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect(fired()).toBe(0);
  });
});

/** The official SDK's own client of `pgz-edge mcp`. */
async function agentOf(main: string, env: Record<string, string>) {
  const agent = new Agent({ name: "tests", version: "1" });
  const args = [main, "mcp", "--allow-superuser"];
  await agent.connect(new StdioClientTransport({ command: process.execPath, args, env, stderr: "ignore" }));
  return {
    ask: async (name: string, given: Record<string, unknown>) =>
      JSON.stringify(await agent.callTool({ name, arguments: given })),
    close: () => agent.close(),
  };
}
