// The tables of docs/from-postgres.md as code for both libraries: under a row's left cell are the code for postgres.js,
// the code for this driver, and the result of both. from-postgres.test.ts runs them.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type postgres from "postgres-js";
import { expect } from "vitest";
import type { Client, PgzError, Pool } from "../../js/index.ts";
import { pause, until } from "../support/until.mjs";

const { sql, unnest } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- postgres.js keeps the types of values in a parameter
export type Postgres = postgres.Sql<any>;

/** Both find the table `users`, with Ada, Bob and Cleo, by their search_path. */
export const SCHEMA = "from_postgres";

const ADA = { id: 1, name: "Ada" };
const NEW = { id: 7, name: "Grace" };
const USER = { ...NEW, name: "Ann" };
const HUNDREDS = Array.from({ length: 300 }, (_, index) => ({ id: 100 + index, name: `n${index}` }));
const ids = [1, 2];
const text = "select name from users where id = $1";
const SEVERAL = "select 1 as a; select 2 as b";
const plain = (rows: Iterable<object>) => [...rows].map((row) => ({ ...row }));

const STATE =
  "select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as read";
const settingsOf = ([row]: readonly object[]) => Object.values(row!) as string[];

async function settled(sending: PromiseLike<unknown>): Promise<string> {
  await sending;
  return "sent";
}

function fileOf(text: string): string {
  const file = path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, `from-postgres-${process.pid}.sql`);
  writeFileSync(file, text);
  return file;
}

/** One row of a table: the code of each side, and the result of both. */
export interface Pair {
  readonly theirs: (sql: Postgres) => Promise<unknown>;
  readonly ours: (db: Pool, client: Client) => Promise<unknown>;
  readonly gives: unknown;
}

/** Keyed by the left cell of the page's row. */
export const QUERIES: Record<string, Pair> = {
  "``await sql`…` `` gives an array with `count`, `columns`, `command`": {
    theirs: async (sql) => {
      const rows = await sql`select id, name from users where id = ${1}`;
      return [plain(rows), rows.count, rows.columns.map(({ name }) => name), rows.command];
    },
    ours: async (db) => {
      const { rows, rowCount, fields, command } = await db.query`select id, name from users where id = ${1}`;
      return [rows, rowCount, fields.map(({ name }) => name), command];
    },
    gives: [[ADA], 1, ["id", "name"], "SELECT"],
  },
  "``const [user] = await sql`…` ``": {
    theirs: async (sql) => {
      const [user] = await sql`select id, name from users where id = ${1}`;
      return { ...user };
    },
    ours: (db) => db.first`select id, name from users where id = ${1}`,
    gives: ADA,
  },
  "runs when it is awaited; `.execute()` at once": {
    theirs: async (sql) => {
      void sql`insert into users values (7, 'never awaited')`;
      await pause(50);
      const before = (await sql`select 1 from users where id = 7`).count;
      void sql`insert into users values (8, 'executed')`.execute();
      await until(async () => (await sql`select 1 from users where id = 8`).count === 1);
      return [before === 0 && "waits", 1];
    },
    ours: async (db) => {
      void db.exec(sql`insert into users values (8, 'at once')`);
      await until(async () => (await db.query`select 1 from users where id = 8`).rowCount === 1);
      return ["waits", 1];
    },
    gives: ["waits", 1],
  },
  "``${ sql`…` }`` in a template": {
    theirs: async (sql) => plain(await sql`select id, name from users where ${sql`id = ${1}`}`),
    ours: async (db) => (await db.query(sql`select id, name from users where ${sql`id = ${1}`}`)).rows,
    gives: [ADA],
  },
  '`sql("users")`, `sql("app.users")`': {
    theirs: async (sql) =>
      (await sql`select 1 from ${sql("users")}`).count + (await sql`select 1 from ${sql(`${SCHEMA}.users`)}`).count,
    ours: async (db) => {
      const short = await db.query(sql`select 1 from ${sql.identifier("users")}`);
      const long = await db.query(sql`select 1 from ${sql.identifier(SCHEMA, "users")}`);
      return short.rows.length + long.rows.length;
    },
    gives: 6,
  },
  '`sql(["id", "name"])` for columns': {
    theirs: async (sql) => plain(await sql`select ${sql(["id", "name"])} from users where id = 1`),
    ours: async (db) => {
      const columns = ["id", "name"];
      const list = sql.join(columns.map((name) => sql.identifier(name)));
      return (await db.query(sql`select ${list} from users where id = 1`)).rows;
    },
    gives: [ADA],
  },
  '`insert into users ${ sql(rows, "id", "name") }`': {
    theirs: async (sql) => (await sql`insert into users ${sql([NEW], "id", "name")} returning id`).count,
    ours: async (db) =>
      (await db.query(sql`insert into users ${sql.values([NEW], "id", "name")} returning id`)).rowCount,
    gives: 1,
  },
  "the same with hundreds of rows": {
    theirs: async (sql) => (await sql`insert into users ${sql(HUNDREDS, "id", "name")} returning id`).count,
    ours: async (db) => {
      const rows = unnest(HUNDREDS, { id: "int4", name: "text" });
      return (await db.query(sql`insert into users (id, name) ${rows} returning id`)).rowCount;
    },
    gives: 300,
  },
  '`update users set ${ sql(user, "name") }`': {
    theirs: async (sql) => plain(await sql`update users set ${sql(USER, "name")} where id = 1 returning id, name`),
    ours: async (db) =>
      (await db.query(sql`update users set ${sql.set(USER, "name")} where id = 1 returning id, name`)).rows,
    gives: [{ id: 1, name: "Ann" }],
  },
  "`where id in ${ sql(ids) }`": {
    theirs: async (sql) => (await sql`select 1 from users where id in ${sql(ids)}`).count,
    ours: async (db) => {
      const inList = await db.query(sql`select 1 from users where id in ${sql.in(ids)}`);
      const any = await db.query(sql`select 1 from users where id = any(${ids})`);
      expect(any.rowCount).toBe(inList.rowCount);
      return inList.rowCount;
    },
    gives: 2,
  },
  '`(values ${ sql([[1, "x"]]) })`': {
    theirs: async (sql) => plain(await sql`select * from (values ${sql([[1, "x"]])}) as t (a, b)`),
    ours: async (db) => {
      const { rows } = await db.query<{ a: string; b: string }>(
        sql`select * from (${sql.values([[1, "x"]])}) as t (a, b)`,
      );
      return rows;
    },
    gives: [{ a: "1", b: "x" }],
  },
  "`sql.json(value)`": {
    theirs: async (sql) => plain(await sql`select ${sql.json({ a: [1] })}::jsonb as j`),
    ours: async (db) => (await db.query(sql`select ${sql.json({ a: [1] })}::jsonb as j`)).rows,
    gives: [{ j: { a: [1] } }],
  },
  "`sql.array([1, 2])`": {
    theirs: async (sql) => {
      await sql`select 1`; // in the first statement of a connection postgres.js does not know the types of arrays yet
      return plain(await sql`select ${sql.array([1, 2])}::int4[] as a`);
    },
    ours: async (db) => (await db.query(sql`select ${[1, 2]}::int4[] as a`)).rows,
    gives: [{ a: [1, 2] }],
  },
  "`sql.typed(value, oid)`": {
    theirs: async (sql) => plain(await sql`select ${sql.typed(1 as never, 23)} as n`),
    ours: async (db) => (await db.query(sql`select ${1}::int4 as n`)).rows,
    gives: [{ n: 1 }],
  },
  "`sql.unsafe(text)` in a template": {
    theirs: async (sql) => (await sql`select 1 from users where ${sql.unsafe("id = 1")}`).count,
    ours: async (db) => (await db.query(sql`select 1 from users where ${sql.unsafe("id = 1")}`)).rowCount,
    gives: 1,
  },
  "`sql.unsafe(text, values)`": {
    theirs: async (sql) => plain(await sql.unsafe(text, [1])),
    ours: async (db) => (await db.query(text, [1])).rows,
    gives: [{ name: "Ada" }],
  },
  "`sql.file(path, values)`": {
    theirs: async (sql) => plain(await sql.file(fileOf(text), [1])),
    ours: async (db) => (await db.query(readFileSync(fileOf(text), "utf8"), [1])).rows,
    gives: [{ name: "Ada" }],
  },
  "`sql.unsafe(text)`, `sql.file(path)` without values: one statement or several": {
    theirs: async (sql) => {
      const several = async (results: PromiseLike<unknown>) => ((await results) as object[][]).map(plain);
      return [...(await several(sql.unsafe(SEVERAL))), ...(await several(sql.file(fileOf(SEVERAL))))];
    },
    ours: async (db) => {
      const results = [await db.simple(SEVERAL), await db.simple(readFileSync(fileOf(SEVERAL), "utf8"))];
      return results.flat().map(({ rows }) => rows);
    },
    gives: [[{ a: 1 }], [{ b: 2 }], [{ a: 1 }], [{ b: 2 }]],
  },
  "`.values()`": {
    theirs: async (sql) => [...(await sql`select id, name from users where id = 1`.values())],
    ours: async (db) => (await db.query(sql`select id, name from users where id = 1`, { rowMode: "array" })).rows,
    gives: [[1, "Ada"]],
  },
  "`.raw()`": {
    theirs: async (sql) => String((await sql`select name from users where id = 1`.raw())[0]![0]),
    ours: async (db) =>
      (await new Response(await db.copyTo("copy (select name from users where id = 1) to stdout")).text()).trim(),
    gives: "Ada",
  },
  "`.simple()`": {
    theirs: async (sql) => (await sql`select 1 as a; select 2 as b`.simple()).map((rows) => plain(rows as object[])),
    ours: async (db) => (await db.simple(SEVERAL)).map(({ rows }) => rows),
    gives: [[{ a: 1 }], [{ b: 2 }]],
  },
  "`.describe()`": {
    theirs: async (sql) => {
      const { types, columns } = await sql.unsafe(text, [1]).describe();
      return [types, columns.map(({ name }) => name)];
    },
    ours: async (db) => {
      const { parameterTypes, fields } = await db.describe(text);
      return [parameterTypes, fields.map(({ name }) => name)];
    },
    gives: [[23], ["name"]],
  },
  "`.forEach(fn)`": {
    theirs: async (sql) => {
      const seen: unknown[] = [];
      await sql`select id from users order by id`.forEach(({ id }) => void seen.push(id));
      return seen;
    },
    ours: async (db) => {
      const seen: unknown[] = [];
      for await (const { id } of db.rows<{ id: number }>(sql`select id from users order by id`)) seen.push(id);
      return seen;
    },
    gives: [1, 2, 3],
  },
  "`.cursor(100)`": {
    theirs: async (sql) => {
      const sizes: number[] = [];
      for await (const rows of sql`select id from users`.cursor(2)) sizes.push(rows.length);
      return sizes;
    },
    ours: async (db) => {
      const sizes: number[] = [];
      for await (const rows of db.cursor(sql`select id from users`, 2)) sizes.push(rows.length);
      const batches: number[] = [];
      for await (const rows of db.rows(sql`select id from users`).batches(2)) batches.push(rows.length);
      expect(batches).toEqual(sizes);
      return sizes;
    },
    gives: [2, 1],
  },
  "`.cancel()`": {
    theirs: async (sql) => {
      const query = sql`select pg_sleep(30)`.execute();
      const failed = query.catch(({ code }: { code: string }) => code);
      await pause(100);
      query.cancel();
      return await failed;
    },
    ours: async (db) => {
      const abort = new AbortController();
      const failed = db.query(sql`select pg_sleep(30)`, { signal: abort.signal }).catch((error: PgzError) => error);
      await pause(100);
      abort.abort();
      expect(await failed).toMatchObject({ name: "AbortError" });
      const late = await db.query(sql`select pg_sleep(30)`, { timeout: 100 }).catch((error: PgzError) => error);
      expect(late).toMatchObject({ code: "QUERY_TIMEOUT" });
      return "57014";
    },
    gives: "57014",
  },
  none: {
    theirs: (sql) => Promise.resolve("stream" in sql || "respond" in sql ? "there" : '{"id":1}\n'),
    ours: async (db) => await (await db.respond(sql`select id from users where id = 1`)).text(),
    gives: '{"id":1}\n',
  },
};

export const SESSIONS: Record<string, Pair> = {
  "`sql.begin(async (sql) => …)`": {
    theirs: async (sql) => await sql.begin(async (sql) => (await sql`select 1 as n`)[0]!["n"]),
    ours: async (db) => await db.transaction(async (tx) => (await tx.query(sql`select 1 as n`)).rows[0]!["n"]),
    gives: 1,
  },
  '`sql.begin("isolation level serializable read only", …)`': {
    theirs: async (sql) =>
      await sql.begin("isolation level serializable read only", async (sql) =>
        settingsOf(plain(await sql.unsafe(STATE))),
      ),
    ours: async (db) =>
      await db.transaction(async (tx) => settingsOf((await tx.query(STATE)).rows), {
        isolation: "serializable",
        readOnly: true,
        retry: 2,
      }),
    gives: ["serializable", "on"],
  },
  "`sql.begin((sql) => [sql`…`, sql`…`])`": {
    theirs: async (sql) =>
      (await sql.begin((sql) => [sql`select 1 as a`, sql`select 2 as b`])).map((rows) => plain(rows)),
    ours: async (db) => (await db.batch([sql`select 1 as a`, sql`select 2 as b`])).map(({ rows }) => rows),
    gives: [[{ a: 1 }], [{ b: 2 }]],
  },
  "`sql.savepoint(fn)`": {
    theirs: async (sql) =>
      await sql.begin(async (sql) => {
        await sql.savepoint((sql) => sql`select nothing`).catch(() => {});
        return (await sql`select 1 from users`).count;
      }),
    ours: async (db) =>
      await db.transaction(async (tx) => {
        await tx.transaction((inner) => inner.query(sql`select nothing`)).catch(() => {});
        return (await tx.query(sql`select 1 from users`)).rowCount;
      }),
    gives: 3,
  },
  "`sql.reserve()`, `reserved.release()`": {
    theirs: async (sql) => {
      const reserved = await sql.reserve();
      await reserved`set statement_timeout = 1234`;
      const [row] = await reserved`show statement_timeout`;
      await reserved`reset statement_timeout`;
      reserved.release();
      return { ...row };
    },
    ours: async (db) => {
      await using lease = await db.acquire();
      await lease.exec("set statement_timeout = 1234");
      return (await lease.query("show statement_timeout")).rows[0];
    },
    gives: { statement_timeout: "1234ms" },
  },
  "``sql`copy … from stdin`.writable()``": {
    theirs: async (sql) => {
      await pipeline(Readable.from(["7\tGrace\n"]), await sql`copy users (id, name) from stdin`.writable());
      return (await sql`select name from users where id = 7`)[0]!["name"];
    },
    ours: async (db) => {
      await db.copyFrom("copy users (id, name) from stdin", ["7\tGrace\n"]);
      return (await db.query(sql`select name from users where id = 7`)).rows[0]!["name"];
    },
    gives: "Grace",
  },
  "``sql`copy … to stdout`.readable()``": {
    theirs: async (sql) => {
      const pieces = (await sql`copy (select name from users where id = 1) to stdout`.readable()).toArray();
      return Buffer.concat((await pieces) as Buffer[]).toString();
    },
    ours: async (db) =>
      await new Response(await db.copyTo("copy (select name from users where id = 1) to stdout")).text(),
    gives: "Ada\n",
  },
  "`sql.listen(channel, fn, onlisten)`": {
    theirs: async (sql) => {
      let hear: (payload: string) => void;
      const heard = new Promise<string>((resolve) => (hear = resolve));
      await sql.listen("moving", (payload) => hear(payload));
      await sql.notify("moving", "hello");
      return await heard;
    },
    ours: async (db) => {
      const news = await db.listen("moving");
      await db.notify("moving", "hello");
      let heard: string | undefined;
      for await (const { payload } of news) {
        heard = payload;
        break;
      }
      return heard;
    },
    gives: "hello",
  },
  "`sql.notify(channel, payload)`": {
    theirs: (sql) => settled(sql.notify("moving", "nobody listens")),
    ours: (db) => settled(db.notify("moving", "nobody listens")),
    gives: "sent",
  },
  "`sql.subscribe(…)`": {
    theirs: (sql) => Promise.resolve(typeof sql.subscribe),
    ours: (db) => Promise.resolve("subscribe" in db ? "there" : "function"),
    gives: "function",
  },
  "`sql.parameters`": {
    theirs: async (sql) => {
      await sql`select 1`;
      return sql.parameters["server_encoding"];
    },
    ours: (_, client) => Promise.resolve(client.parameterStatus("server_encoding")),
    gives: "UTF8",
  },
  "`sql.end({ timeout: 5 })`": {
    theirs: async (sql) => {
      const last = sql`select 1 as n, pg_sleep(0.1)`.execute();
      await sql.end({ timeout: 5 });
      return (await last)[0]!["n"];
    },
    ours: async (db) => {
      const last = db.query(sql`select 1 as n, pg_sleep(0.1)`);
      await db.drain();
      return (await last).rows[0]!["n"];
    },
    gives: 1,
  },
};
