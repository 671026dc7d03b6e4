// Checks docs/from-postgres.md against both libraries: each row of its tables runs over postgres.js and over this
// driver, and both give the same result. So what the page says of postgres.js is true.
import { readFileSync } from "node:fs";
import { connect as connectSocket, type Socket } from "node:net";
import path from "node:path";
import postgres from "postgres-js";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Client, Pool, PoolOptions } from "../../js/index.ts";
import { connect as nodeSocket } from "../../js/runtime/node.ts";
import { testServers } from "../integration/servers.ts";
import { QUERIES, SCHEMA, SESSIONS, type Postgres } from "./from-postgres.ts";
import { read, root } from "./repository.ts";

const { connect, createPool, sql } = (await import(
  "../../dist/node.js" as string
)) as typeof import("../../js/index.ts");

const server = testServers().servers.find(({ own }) => own)!;
const { host, port, database, user, password, caPem } = server;

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- postgres.js keeps the types of values in a parameter
type TheirOptions = postgres.Options<any>;
type OurOptions = Partial<PoolOptions>;

const theirsWith = (options: TheirOptions = {}): Postgres =>
  postgres({
    ...{ host, port, database, username: user, password, ssl: false, max: 2, onnotice: () => {} },
    ...options,
    connection: { search_path: SCHEMA, ...options.connection },
  });
const place = { host, port, database, user, password, sslmode: "disable", startup: { search_path: SCHEMA } } as const;
const oursWith = (options: OurOptions = {}): Pool => createPool({ ...place, max: 2, ...options } as PoolOptions);

let theirs: Postgres;
let ours: Pool;
let client: Client;
const admin = theirsWith();

beforeAll(async () => {
  await admin.unsafe(`drop schema if exists ${SCHEMA} cascade; create schema ${SCHEMA};
    create table ${SCHEMA}.users (id int4 primary key, name text, active bool not null default true)`);
  client = await connect(place);
});
afterAll(async () => {
  await client.close();
  await admin.unsafe(`drop schema ${SCHEMA} cascade`);
  await admin.end();
});

const asItWas = () =>
  admin.unsafe(`delete from ${SCHEMA}.users; insert into ${SCHEMA}.users values (1, 'Ada'), (2, 'Bob'), (3, 'Cleo')`);
beforeEach(async () => {
  theirs = theirsWith();
  ours = oursWith();
});
afterEach(async () => {
  await theirs.end();
  await ours.close();
});

const PAGE = read("docs/from-postgres.md");

/** Returns the left cells of the table under that heading. */
function rowsBelow(heading: string): string[] {
  const section = PAGE.split(`\n## ${heading}\n`)[1]!.split("\n## ")[0]!;
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  return rows.slice(1).map((line) => /^\| (.*?) \| /.exec(line)![1]!);
}

describe.each([
  ["Queries", QUERIES],
  ["Transactions, sessions, COPY, LISTEN", SESSIONS],
])("%s", (heading, pairs) => {
  test("each row of the page's tables has a test", () =>
    expect(Object.keys(pairs).sort()).toEqual(rowsBelow(heading).sort()));

  test.each(Object.entries(pairs))("%s", async (_, pair) => {
    await asItWas();
    expect(await pair.theirs(theirs)).toEqual(pair.gives);
    await asItWas();
    expect(await pair.ours(ours, client)).toEqual(pair.gives);
  });
});

// -- options ---------------------------------------------------------------------------------------------------------

/** Options of both sides, and what a query then returns. */
interface Setting {
  readonly theirs: TheirOptions;
  readonly ours: OurOptions;
  /** Only the first column of the first row is compared. */
  readonly query: string;
  readonly gives: unknown;
}

const backend = (column: string) => `select ${column} from pg_stat_activity where pid = pg_backend_pid()`;
const isTls = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
/** Leaves out the statement of docs/queries.md#the-first-run-of-a-statement. */
const prepared = "select count(*)::int4 as n from pg_prepared_statements where name <> 'pgz_first_run'";
const socketOf = (address: { host: string[]; port: number[] }) =>
  new Promise<Socket>((resolve) => {
    const socket = connectSocket(address.port[0]!, address.host[0]!, () => resolve(socket));
  });
const aDate = "select date '2024-02-29' as value";
/** A parser and a serializer for a type, which mark its text. */
const marked = { to: 1082, from: [1082], serialize: String, parse: (text: string) => `<${text}>` };

const OPTIONS: Record<string, Setting> = {
  "`host`, `port`, `database`, `password`": {
    theirs: { password: () => password },
    ours: { password: () => password },
    query: "select current_database() as name",
    gives: { name: database },
  },
  "`username`": { theirs: {}, ours: {}, query: "select current_user::text as name", gives: { name: user } },
  "`path`": {
    theirs: { path: `${server.socketFolder}/.s.PGSQL.${port}` },
    ours: { host: server.socketFolder! },
    query: backend("client_addr as address"),
    gives: { address: null },
  },
  '`ssl: "require"`, `ssl: { ca }`': {
    theirs: { ssl: { ca: caPem! } },
    ours: { sslmode: "verify-full", ca: caPem! },
    query: isTls,
    gives: { ssl: true },
  },
  "`max`, `idle_timeout`, `max_lifetime`": {
    theirs: { max: 1, idle_timeout: 20, max_lifetime: 600 },
    ours: { max: 1, idleTimeout: 20_000, maxLifetime: 600_000 },
    query: "select 1 as n",
    gives: { n: 1 },
  },
  "`connect_timeout`": {
    theirs: { connect_timeout: 5 },
    ours: { connectTimeout: 5_000 },
    query: "select 1 as n",
    gives: { n: 1 },
  },
  "`prepare: false`": { theirs: { prepare: false }, ours: { prepare: "unnamed" }, query: prepared, gives: { n: 0 } },
  "`fetch_types: false`": {
    theirs: { fetch_types: false },
    ours: {},
    query: "select 1 as n",
    gives: { n: 1 },
  },
  "`types: { bigint: postgres.BigInt }`": {
    theirs: { types: { bigint: postgres.BigInt } },
    ours: { int8: "bigint" },
    query: "select 9007199254740993 as big",
    gives: { big: 9007199254740993n },
  },
  "`types` with `parse`": {
    theirs: { types: { date: marked } },
    ours: { types: { date: (value) => `<${String(value)}>` } },
    query: aDate,
    gives: { value: "<2024-02-29>" },
  },
  "`transform: postgres.camel`": {
    theirs: { transform: postgres.camel },
    ours: { columnNames: "camelCase" },
    query: "select 1 as created_at",
    gives: { createdAt: 1 },
  },
  "`connection: { application_name }`": {
    theirs: { connection: { application_name: "moved", work_mem: "5MB" } as TheirOptions["connection"] & object },
    ours: { applicationName: "moved", startup: { search_path: SCHEMA, work_mem: "5MB" } },
    query: "select current_setting('application_name') as name, current_setting('work_mem') as memory",
    gives: { name: "moved", memory: "5MB" },
  },
  "`target_session_attrs`": {
    theirs: { target_session_attrs: "read-write" },
    ours: { targetSessionAttrs: "read-write" },
    query: "select pg_is_in_recovery() as standby",
    gives: { standby: false },
  },
  "`socket`": {
    theirs: { socket: socketOf } as TheirOptions,
    ours: { connect: (options) => nodeSocket(options) },
    query: "select 1 as n",
    gives: { n: 1 },
  },
};

/** Returns the last result: a statement gets its name, if any, in its second run. */
async function thrice<T>(run: () => Promise<T>): Promise<T> {
  await run();
  await run();
  return await run();
}

/** These options have a test of their own below. */
const CALLED = ["`transform: { undefined: null }`", "`onnotice`, `onparameter`", "`debug`"];

describe("Options", () => {
  test("each row of the table of options has a test", () =>
    expect([...Object.keys(OPTIONS), ...CALLED].sort()).toEqual(rowsBelow("Options").sort()));

  test.each(Object.entries(OPTIONS))("%s", async (_, setting) => {
    const their = theirsWith(setting.theirs);
    const rows = await thrice(async () => [...(await their`${their.unsafe(setting.query)}`)]);
    await their.end();
    expect({ ...rows[0] }).toEqual(setting.gives);
    await using our = oursWith(setting.ours);
    expect((await thrice(() => our.query(setting.query))).rows[0]).toEqual(setting.gives);
  });

  test("without `prepare: false` both libraries name a statement that runs again", async () => {
    const rows = await thrice(async () => [...(await theirs`${theirs.unsafe(prepared)}`)]);
    expect(rows[0]!["n"]).toBeGreaterThan(0);
    expect((await thrice(() => ours.query(prepared))).rows[0]!["n"]).toBeGreaterThan(0);
  });

  test("`transform: { undefined: null }`: postgres.js sends NULL, and undefined is refused here", async () => {
    const Ada: { nickname?: string } = {};
    const their = theirsWith({ transform: { undefined: null } });
    expect({ ...(await their`select ${Ada.nickname as never}::int4 as n`)[0] }).toEqual({ n: null });
    await their.end();
    await expect(async () => await ours.query(sql`select ${Ada.nickname as never}::text as n`)).rejects.toMatchObject({
      code: "INVALID_PARAMETER",
    });
    expect((await ours.query(sql`select ${Ada.nickname ?? null}::text as n`)).rows).toEqual([{ n: null }]);
  });

  test("`onnotice` and `onparameter` are told of notices and settings", async () => {
    const heard: string[][] = [[], []];
    const [theirEvents, ourEvents] = heard as [string[], string[]];
    const events = (seen: string[]) => ({
      notice: ({ message }: { message?: string | undefined }) => void seen.push(message!),
      parameter: (name: string, value: string) => name === "application_name" && seen.push(`${name}=${value}`),
    });
    const [their, our] = [events(theirEvents), events(ourEvents)];
    const theirSql = theirsWith({
      onnotice: their.notice,
      onparameter: (name: string, value: unknown) => their.parameter(name, String(value)),
    });
    await theirSql.unsafe(TELLS);
    await theirSql.end();
    const observer = {
      onNotice: our.notice,
      onParameterChange: ({ name, value }: { name: string; value: string }) => void our.parameter(name, value),
    };
    await using ourPool = oursWith({ observer });
    await ourPool.simple(TELLS);
    for (const events of heard) expect(events).toEqual(expect.arrayContaining(["application_name=moved", "hello"]));
  });

  test("`debug`", async () => {
    const seen: string[] = [];
    const their = theirsWith({ debug: (_, query) => void seen.push(query) });
    await their`select ${1}::int4 as theirs`;
    await their.end();
    expect(seen).toContain("select $1::int4 as theirs");
    const lines: string[] = [];
    const started: string[] = [];
    const observer = { onQueryStart: ({ text }: { text: string }) => void started.push(text) };
    await using our = oursWith({ observer, debug: (line) => void lines.push(line) });
    await our.query(sql`select ${1}::int4 as ours`);
    expect(started).toContain("select $1::int4 as ours");
    expect(lines.join("\n")).toContain("Parse");
  });
});

const TELLS = "set application_name = 'moved'; do $$ begin raise notice 'hello'; end $$";

// -- what differs ----------------------------------------------------------------------------------------------------

describe("What differs", () => {
  const TIMES =
    "select date '2024-02-29' as d, timestamp '2024-02-29 01:02:03.456789' as t, now() as z, 1::int8 as i, 1.50 as n";

  test("dates: postgres.js gives `Date`, and this driver texts with microseconds unless `dates` says otherwise", async () => {
    const [row] = await theirs.unsafe(TIMES);
    expect([row!["d"], row!["t"], row!["z"]].every((value) => value instanceof Date)).toBe(true);
    expect([row!["i"], row!["n"]]).toEqual(["1", "1.50"]);
    const { rows } = await ours.query(TIMES);
    expect(rows[0]).toMatchObject({ d: "2024-02-29", t: "2024-02-29T01:02:03.456789", i: "1", n: "1.50" });
    const [dates] = (await ours.query(TIMES, { dates: "date" })).rows;
    expect([dates!["d"], dates!["t"], dates!["z"]].every((value) => value instanceof Date)).toBe(true);
  });

  test("errors: both give a PostgresError with the SQLSTATE, with other names of fields", async () => {
    await asItWas();
    const insert = "insert into users values (1, 'again')";
    const their = await theirs.unsafe(insert).catch((error: object) => error);
    expect(their).toMatchObject({
      name: "PostgresError",
      code: "23505",
      constraint_name: "users_pkey",
      table_name: "users",
    });
    const our = await ours.query(insert).catch((error: object) => error);
    expect(our).toMatchObject({ name: "PostgresError", code: "23505", constraint: "users_pkey", table: "users" });
    const column = "insert into users values (null, 'nobody')";
    expect(await theirs.unsafe(column).catch((error: object) => error)).toMatchObject({ column_name: "id" });
    expect(await ours.query(column).catch((error: object) => error)).toMatchObject({ column: "id" });
  });

  test("a pool gives each call a connection of its own", async () => {
    const pids = "select pg_backend_pid() as pid, pg_sleep(0.2)";
    const their = await Promise.all([theirs.unsafe(pids), theirs.unsafe(pids)]);
    expect(new Set(their.map(([row]) => row!["pid"])).size).toBe(2);
    const our = await Promise.all([ours.query(pids), ours.query(pids)]);
    expect(new Set(our.map(({ rows }) => rows[0]!["pid"])).size).toBe(2);
  });

  test("with all connections in use a call waits; postgres.js sends it at once, as this driver does with `pipelining`", async () => {
    const [slow, quick] = ["select 1 as slow, pg_sleep(0.2)", "select 2 as quick"];
    const both = async (run: (text: string) => PromiseLike<unknown>) => {
      await run("select 0"); // opens the connection
      await Promise.all([run(slow), run(quick)]);
    };
    const sent: string[] = [];
    const their = theirsWith({ max: 1, debug: (_, query) => void sent.push(query) });
    await both((text) => their.unsafe(text).then((rows) => rows[0]!["slow"] && sent.push("answered")));
    expect(sent.slice(-3)).toEqual([slow, quick, "answered"]);
    await their.end();
    for (const [options, isAtOnce] of [
      [{}, false],
      [{ pipelining: 10 }, true],
    ] as const) {
      const lines: string[] = [];
      await using our = oursWith({ max: 1, debug: (line) => void lines.push(line), ...options });
      await both((text) => our.query(text));
      const at = (words: RegExp, from = 0) => lines.findIndex((line, index) => index > from && words.test(line));
      const answered = at(/<.* DataRow/, at(/>.*slow/));
      expect(at(/>.*quick/) < answered, lines.join("\n")).toBe(isAtOnce);
    }
  });

  test("an empty list: `in` finds nothing in postgres.js and is refused here; `any` finds nothing in both", async () => {
    const none: number[] = [];
    expect((await theirs`select 1 from users where id in ${theirs(none)}`).count).toBe(0);
    expect((await theirs`select 1 from users where id = any(${none}::int4[])`).count).toBe(0);
    expect(() => sql`select 1 from users where id in ${sql.in(none)}`).toThrow(
      expect.objectContaining({ code: "INVALID_QUERY" }) as Error,
    );
    expect((await ours.query(sql`select 1 from users where id = any(${none})`)).rowCount).toBe(0);
  });

  test("a text for json is a JSON string in postgres.js and JSON's text here; sql.json is the same in both", async () => {
    const text = '{"a":1}';
    const typeOf = (value: string) => `select jsonb_typeof(${value}::jsonb) as kind`;
    expect({ ...(await theirs.unsafe(typeOf("$1"), [text]))[0] }).toEqual({ kind: "string" });
    expect({ ...(await theirs.unsafe(typeOf("$1"), ["hello"]))[0] }).toEqual({ kind: "string" });
    expect((await ours.query(typeOf("$1"), [text])).rows).toEqual([{ kind: "object" }]);
    await expect(ours.query(typeOf("$1"), ["hello"])).rejects.toMatchObject({ code: "22P02" });
    expect({ ...(await theirs`select jsonb_typeof(${theirs.json("hello")}::jsonb) as kind`)[0] }).toEqual({
      kind: "string",
    });
    expect((await ours.query(sql`select jsonb_typeof(${sql.json("hello")}::jsonb) as kind`)).rows).toEqual([
      { kind: "string" },
    ]);
  });

  test("LISTEN: postgres.js has one connection for all channels; here each has its own beside the pool's", async () => {
    const listening = async (name: string) =>
      (
        await admin.unsafe("select 1 from pg_stat_activity where application_name = $1 and query ilike 'listen%'", [
          name,
        ])
      ).count;
    const their = theirsWith({ connection: { application_name: "their listeners" } });
    for (const channel of ["one", "two"]) await their.listen(channel, () => {});
    expect(await listening("their listeners")).toBe(1);
    await their.end();
    await using our = oursWith({ max: 1, applicationName: "our listeners" });
    const listeners = [await our.listen("one"), await our.listen("two")];
    expect(await listening("our listeners")).toBe(2);
    expect((await our.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
    for (const listener of listeners) await listener.close();
  });

  test("on Workers: postgres.js imports Node's modules", () => {
    const folder = path.join(root, "node_modules/postgres-js");
    const { exports } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8")) as {
      exports: { workerd: string };
    };
    const connection = path.join(folder, path.dirname(exports.workerd), "connection.js");
    expect(readFileSync(connection, "utf8")).toMatch(/from 'node:stream'/);
  });
});
