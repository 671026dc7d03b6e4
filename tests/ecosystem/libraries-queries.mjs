// Jobs for libraries.mjs: libraries that build queries, and libraries that migrate.
//
// It knows the purpose of each library, and uses it for that. It must not know how they are installed, nor that there
// is a facade: the same jobs pass over `pg` itself.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

export const LIBRARIES = {
  slonik: "47.3.2", // 48 and later need Node 24
  zod: "3.25.76",
  "pg-format": "1.0.4",
  massive: "6.11.3",
  "@databases/pg": "6.1.0",
  zapatos: "6.6.1",
  "pg-tx": "1.0.1",
  postgraphile: "4.14.1", // 5 needs Node 22
  graphql: "15.11.0",
  postgrator: "8.0.0",
  umzug: "3.8.3",
};

/** A job receives the URL of a superuser. `folder` is for its own files. */
export const jobs = ({ require, esm, folder, inSchema }) => ({
  async slonik(url) {
    const { createPool, sql, UniqueIntegrityConstraintViolationError } = await esm("slonik");
    const { createPgDriverFactory } = await esm("@slonik/pg-driver");
    const { z } = await esm("zod");
    const pool = await createPool(url, { driverFactory: createPgDriverFactory(), maximumPoolSize: 2 });
    const user = sql.type(z.object({ id: z.number(), name: z.string(), at: z.number() }));
    try {
      await pool.query(sql.unsafe`create schema slonik`);
      await pool.query(sql.unsafe`create table slonik.users (id serial, name text unique, at timestamptz)`);
      const at = Date.UTC(2024, 1, 29, 12);
      const people = [
        ["Ann", new Date(at).toISOString()],
        ["Bob", new Date(at + 1).toISOString()],
      ];
      const rows = sql.unnest(people, ["text", "timestamptz"]);
      await pool.query(sql.unsafe`insert into slonik.users (name, at) select * from ${rows}`);
      const all = user`select id, name, at from slonik.users order by id`;
      assert.deepEqual(await pool.any(all), [
        { id: 1, name: "Ann", at },
        { id: 2, name: "Bob", at: at + 1 },
      ]);
      assert.equal(await pool.oneFirst(sql.unsafe`select 9007199254740993::int8::text`), "9007199254740993");
      await assert.rejects(
        pool.query(sql.unsafe`insert into slonik.users (name) values ('Ann')`),
        (error) => error instanceof UniqueIntegrityConstraintViolationError && error.constraint === "users_name_key",
      );
      const undone = pool.transaction(async (transaction) => {
        await transaction.query(sql.unsafe`delete from slonik.users`);
        throw new Error("undo");
      });
      await assert.rejects(undone, /undo/);
      const streamed = [];
      await pool.stream(all, (stream) =>
        stream.on("data", ({ data, fields }) => streamed.push([data.name, fields.length])),
      );
      assert.deepEqual(streamed, [
        ["Ann", 3],
        ["Bob", 3],
      ]);
    } finally {
      await pool.query(sql.unsafe`drop schema if exists slonik cascade`);
      await pool.end();
    }
  },

  /** What it has formatted into a text comes back unchanged. */
  async "pg-format"(url) {
    const format = require("pg-format");
    await inSchema(url, "format", async (pool) => {
      const rows = [
        [1, "it's \\ 'quoted'", true],
        [2, null, false],
      ];
      await pool.query(format("create table %I (id int4, %I text, yes bool)", "Users", 'a "b"'));
      await pool.query(format("insert into %I values %L", "Users", rows));
      const read = format("select * from %I where id in (%L) order by %s", "Users", [1, 2], "id");
      assert.deepEqual((await pool.query({ text: read, rowMode: "array" })).rows, rows);
      const one = format("select %L::timestamptz as at, %L::jsonb as facts", new Date(0), { a: ["it's"] });
      assert.deepEqual((await pool.query(one)).rows, [{ at: new Date(0), facts: { a: ["it's"] } }]);
    });
  },

  async massive(url) {
    await inSchema(url, "massive", async (pool) => {
      await pool.query(
        `create table users (id serial primary key, name text unique, facts jsonb);
       create view old as select * from users where id < 3;
       create function twice(n int4) returns int4 language sql as 'select n * 2';`,
      );
      const db = await require("massive")(
        { connectionString: url },
        { allowedSchemas: ["massive"], scripts: path.join(folder, "none"), enhancedFunctions: true },
        { noWarnings: true },
      );
      try {
        const { users } = db.massive;
        const facts = { likes: [{ food: "cheese" }] };
        const ann = await users.insert({ name: "Ann", facts });
        assert.deepEqual(ann, { id: 1, name: "Ann", facts });
        assert.deepEqual(await users.find({ "facts.likes[0].food": "cheese" }, { fields: ["name"] }), [
          { name: "Ann" },
        ]);
        await assert.rejects(users.insert({ name: "Ann" }), { code: "23505", constraint: "users_name_key" });
        const undone = db.withTransaction(async (tx) => {
          await tx.massive.users.update({ id: 1 }, { name: "Bob" });
          throw new Error("undo");
        });
        await assert.rejects(undone, /undo/);
        assert.deepEqual(await db.massive.old.findOne({ id: 1 }, { fields: ["name"] }), { name: "Ann" });
        assert.equal(await db.massive.twice(21), 42);
        const streamed = [];
        for await (const { n } of await db.query("select generate_series(1, 500) as n", [], { stream: true }))
          streamed.push(n);
        assert.equal(streamed.length, 500);
      } finally {
        await db.instance.$pool.end();
      }
    });
  },

  async "@databases/pg"(url) {
    const { default: connect, sql, isSQLError, SQLErrorCode } = require("@databases/pg");
    await inSchema(url, "databases", async () => {
      const db = connect({ connectionString: url, schema: "databases", bigIntMode: "bigint" });
      try {
        await db.query([
          sql`create table users (id int8 primary key, name text unique, day date)`,
          sql`insert into users values (9007199254740993, ${"Ann"}, '2024-02-29')`,
        ]);
        const all = sql`select id, name, day from users order by id`;
        assert.deepEqual(await db.query(all), [{ id: 9007199254740993n, name: "Ann", day: new Date(2024, 1, 29) }]);
        await assert.rejects(
          db.query(sql`insert into users values (1, 'Ann')`),
          (error) => isSQLError(error) && error.code === SQLErrorCode.UNIQUE_VIOLATION,
        );
        const undone = db.tx(async (tx) => {
          await tx.query(sql`delete from users`);
          throw new Error("undo");
        });
        await assert.rejects(undone, /undo/);
        assert.equal((await db.query(all)).length, 1);
        let sum = 0;
        for await (const { n } of db.queryStream(sql`select n from generate_series(1, 1000) n`)) sum += n;
        assert.equal(sum, 500_500);
      } finally {
        await db.dispose();
      }
    });
  },

  async zapatos(url) {
    const db = require("zapatos/db");
    await inSchema(url, "zapatos", async (pool) => {
      await pool.query("create table users (id serial primary key, name text unique, facts jsonb, at timestamptz)");
      const at = new Date("2024-02-29T12:00:00Z");
      const ann = await db.insert("users", { name: "Ann", facts: db.param({ a: [1] }), at }).run(pool);
      assert.deepEqual(ann, { id: 1, name: "Ann", facts: { a: [1] }, at: "2024-02-29T12:00:00+00:00" });
      await assert.rejects(db.insert("users", { name: "Ann" }).run(pool), (error) =>
        db.isDatabaseError(error, "IntegrityConstraintViolation_UniqueViolation"),
      );
      const both = [
        { name: "Ann", at: null },
        { name: "Bob", at },
      ];
      const upserted = await db.upsert("users", both, "name", { updateColumns: ["at"] }).run(pool);
      assert.deepEqual(
        upserted.map(({ name, $action }) => [name, $action]),
        [
          ["Ann", "UPDATE"],
          ["Bob", "INSERT"],
        ],
      );
      const read = db.sql`select ${"name"} from ${"users"} where ${{ at }}`;
      assert.deepEqual(await read.run(pool), [{ name: "Bob" }]);
      const undone = db.serializable(pool, async (txn) => {
        await db.deletes("users", {}).run(txn);
        throw new Error("undo");
      });
      await assert.rejects(undone, /undo/);
      assert.equal(await db.count("users", db.all).run(pool), 2);
    });
  },

  async "pg-tx"(url) {
    const { default: tx } = require("pg-tx");
    await inSchema(url, "tx", async (pool) => {
      await pool.query("create table notes (text text, x int4 unique deferrable initially deferred)");
      const write = (text, x) => (db) => db.query("insert into notes values ($1, $2)", [text, x]);
      let kept;
      await tx(pool, async (db) => {
        kept = db;
        await write("outer", 1)(db);
        await tx(db, write("inner", 2));
        const undone = tx(db, async (inner) => {
          await write("undone", 3)(inner);
          throw new Error("undo");
        });
        await assert.rejects(undone, /undo/);
        await assert.rejects(
          tx(db, (inner) => inner.query("select 1 / 0")),
          { code: "22012" },
        );
      });
      await assert.rejects(async () => kept.query("select 1"), /already released/);
      await assert.rejects(tx(pool, write("late", 1)), { code: "23505" });
      await tx(pool, write("forced", 4), true);
      const { rows } = await pool.query({ text: "select * from notes order by x", rowMode: "array" });
      assert.deepEqual(rows, [
        ["outer", 1],
        ["inner", 2],
      ]);
    });
  },

  /** It names its statements, and deallocates all but the two that it used last. */
  async postgraphile(url) {
    process.env.POSTGRAPHILE_PREPARED_STATEMENT_CACHE_SIZE = "2";
    const { createPostGraphileSchema, withPostGraphileContext } = require("postgraphile");
    const { graphql } = require("graphql");
    await inSchema(url, "graph", async (pool) => {
      await pool.query(
        `create table users (id serial primary key, name text unique not null, born timestamptz, tags text[]);
       create table pets (id serial primary key, owner int4 not null references users, name text);
       create index on pets (owner);
       create function me() returns text language sql stable as $$ select current_setting('app.user') $$;
       insert into users (name, born, tags) values ('Ann', '2024-02-29T12:00:00Z', '{a,b}'), ('Bob', null, null);
       insert into pets (owner, name) values (1, 'Tom'), (1, 'Rex');`,
      );
      const schema = await createPostGraphileSchema(pool, ["graph"]);
      const options = { pgPool: pool, pgSettings: { "app.user": "it's me" } };
      const ask = (text, variables) =>
        withPostGraphileContext(options, async (context) =>
          plain(await graphql(schema, text, undefined, { ...context }, variables)),
        );
      const people = `query ($name: String!) { me userByName(name: $name) { name born tags
      petsByOwner(orderBy: NAME_ASC) { totalCount nodes { name } } } }`;
      const pets = { totalCount: 2, nodes: [{ name: "Rex" }, { name: "Tom" }] };
      const ann = { name: "Ann", born: "2024-02-29T12:00:00+00:00", tags: ["a", "b"], petsByOwner: pets };
      const make = "mutation ($name: String!) { createUser(input: { user: { name: $name } }) { user { id name } } }";
      for (const [id, name] of [
        [3, "Cid"],
        [4, "Dan"],
      ]) {
        assert.deepEqual(await ask(people, { name: "Ann" }), { data: { me: "it's me", userByName: ann } });
        assert.deepEqual(await ask(people, { name: "Eve" }), { data: { me: "it's me", userByName: null } });
        assert.deepEqual(await ask(make, { name }), { data: { createUser: { user: { id, name } } } });
      }
      const { data, errors } = await ask(make, { name: "Ann" });
      assert.deepEqual([data, errors.length], [{ createUser: null }, 1]);
      assert.match(errors[0].message, /duplicate key value violates unique constraint "users_name_key"/);
      assert.deepEqual(await ask("{ allUsers { totalCount } }"), { data: { allUsers: { totalCount: 4 } } });
      const kept = await pool.query("select count(*)::int4 as n from pg_prepared_statements");
      assert.deepEqual([pool.totalCount, kept.rows], [1, [{ n: 2 }]]);
    });
  },

  async postgrator(url) {
    await inSchema(url, "postgrator", async (pool) => {
      const { default: Postgrator } = await esm("postgrator");
      const migrations = path.join(folder, "postgrator");
      mkdirSync(migrations, { recursive: true });
      const files = {
        "1.do.users.sql": "create table users (id int4); insert into users values (1), (2);",
        "1.undo.users.sql": "drop table users;",
        "2.do.name.sql": "alter table users add column name text; update users set name = 'user ' || id;",
        "2.undo.name.sql": "alter table users drop column name;",
        "3.do.broken.sql": "create table half (id int4); select 1 / 0;",
        "3.undo.broken.sql": "drop table half;",
      };
      for (const [name, text] of Object.entries(files)) writeFileSync(path.join(migrations, name), `${text}\n`);
      const postgrator = new Postgrator({
        driver: "pg",
        migrationPattern: path.join(migrations, "*"),
        schemaTable: "postgrator.versions",
        execQuery: (text) => pool.query(text),
        execSqlScript: (text) => pool.query(text),
      });
      assert.equal((await postgrator.migrate("2")).length, 2);
      const { rows } = await pool.query("select id, name from users order by id");
      assert.deepEqual(rows, [
        { id: 1, name: "user 1" },
        { id: 2, name: "user 2" },
      ]);
      await assert.rejects(postgrator.migrate("3"), { code: "22012" });
      assert.deepEqual((await pool.query("select to_regclass('half') as half")).rows, [{ half: null }]);
      assert.equal(await postgrator.getDatabaseVersion(), 2);
      await postgrator.migrate("0");
      assert.equal(await postgrator.getDatabaseVersion(), 0);
      assert.deepEqual((await pool.query("select to_regclass('users') as users")).rows, [{ users: null }]);
    });
  },

  /** It has no storage for pg, so the job has a storage of the form in its readme. */
  async umzug(url) {
    const { Umzug } = require("umzug");
    await inSchema(url, "umzug", async (pool) => {
      await pool.query("create table done (name text primary key)");
      const storage = {
        executed: async () => (await pool.query("select name from done order by name")).rows.map(({ name }) => name),
        logMigration: ({ name, context }) => context.query("insert into done values ($1)", [name]),
        unlogMigration: ({ name, context }) => context.query("delete from done where name = $1", [name]),
      };
      const migrations = [
        {
          name: "1",
          up: ({ context }) => context.query("create table users (name text unique)"),
          down: ({ context }) => context.query("drop table users"),
        },
        {
          name: "2",
          up: ({ context }) => context.query("insert into users values ('Ann'); insert into users values ('Ann')"),
        },
      ];
      const client = await pool.connect();
      const umzug = new Umzug({ migrations, storage, context: client, logger: undefined });
      try {
        await umzug.up({ to: "1" });
        assert.deepEqual(
          (await umzug.executed()).map(({ name }) => name),
          ["1"],
        );
        await assert.rejects(umzug.up(), ({ name, cause }) => name === "MigrationError" && cause.code === "23505");
        assert.deepEqual(
          (await umzug.pending()).map(({ name }) => name),
          ["2"],
        );
        assert.deepEqual((await client.query("select * from users")).rows, []);
        await umzug.down();
        assert.deepEqual(await umzug.executed(), []);
        assert.deepEqual((await client.query("select to_regclass('users') as users")).rows, [{ users: null }]);
      } finally {
        client.release();
      }
    });
  },
});

/** Results of GraphQL have no prototypes. */
const plain = (result) => JSON.parse(JSON.stringify(result));
