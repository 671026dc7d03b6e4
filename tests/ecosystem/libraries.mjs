// Libraries that import `pg` themselves, each doing its main job over pgz-edge/pg: `make test-ecosystem`.
//
// They are installed in .cache/ecosystem/libraries as an application would do it: `pg` is `pgz-edge-pg`
// (js/adapters/pg-alias), also for their dependencies. Prints a line per library. Fails if a library fails. More jobs
// are in libraries-services.mjs and libraries-queries.mjs. A name as an argument runs only that job; `--installed`
// keeps the existing installation.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { magicLink } from "./auth-js.mjs";
import * as queries from "./libraries-queries.mjs";
import * as services from "./libraries-services.mjs";
import { cursors, queryStreams } from "./row-jobs.mjs";
import { startServers } from "../servers/index.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = path.join(root, ".cache/ecosystem/libraries");
const LIBRARIES = {
  knex: "3.3.0",
  typeorm: "1.1.1",
  sequelize: "6.37.8",
  "pg-promise": "12.7.1",
  "pg-boss": "12.38.0",
  "pg-cursor": "2.22.0",
  "pg-query-stream": "4.17.0",
  "graphile-worker": "0.18.0",
  "node-pg-migrate": "9.0.0",
  "better-auth": "1.7.25",
  "@auth/pg-adapter": "1.11.3",
  "@auth/core": "0.41.3",
  objection: "3.1.5",
  "@mikro-orm/core": "7.2.1",
  "@mikro-orm/postgresql": "7.2.1",
  "pg-copy-streams": "7.0.0",
  "reflect-metadata": "0.2.2",
  ...services.LIBRARIES,
  ...queries.LIBRARIES,
};

function install() {
  mkdirSync(folder, { recursive: true });
  const own = { pg: `file:${path.join(root, "js/adapters/pg-alias")}`, "pgz-edge": `file:${root}` };
  const overrides = { pg: "$pg", "pgz-edge": "$pgz-edge" };
  const manifest = { private: true, dependencies: { ...LIBRARIES, ...own }, overrides };
  writeFileSync(path.join(folder, "package.json"), JSON.stringify(manifest, undefined, 2));
  // npm does not replace an installed package while its version stays the same.
  for (const ours of Object.keys(own))
    rmSync(path.join(folder, "node_modules", ours), { recursive: true, force: true });
  const options = ["install", "--install-links", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"];
  const { status } = spawnSync("npm", options, { cwd: folder, stdio: "inherit" });
  if (status !== 0) throw new Error("could not install the libraries");
}

if (!process.argv.includes("--installed")) install();
const require = createRequire(path.join(folder, "index.js"));

const jobs = {
  async knex(url) {
    const knex = require("knex")({ client: "pg", connection: url, pool: { min: 0, max: 2 } });
    try {
      await knex.schema.dropTableIfExists("k_users");
      await knex.schema.createTable("k_users", (table) => {
        table.increments("id");
        table.string("name").unique();
        table.jsonb("facts");
      });
      const [{ id }] = await knex("k_users")
        .insert({ name: "Ann", facts: { a: 1 } })
        .returning("id");
      await assert.rejects(knex("k_users").insert({ name: "Ann" }), { code: "23505" });
      await assert.rejects(
        knex.transaction(async (trx) => {
          await trx("k_users").where({ id }).update({ name: "Bob" });
          throw new Error("undo");
        }),
        /undo/,
      );
      assert.deepEqual(await knex("k_users").select("name", "facts"), [{ name: "Ann", facts: { a: 1 } }]);
      const rows = [];
      for await (const row of knex.select(knex.raw("generate_series(1, 500) as n")).stream()) rows.push(row.n);
      assert.equal(rows.length, 500);
    } finally {
      await knex.destroy();
    }
  },

  async typeorm(url) {
    require("reflect-metadata");
    const { DataSource, EntitySchema } = require("typeorm");
    const columns = {
      id: { type: "int", primary: true, generated: true },
      name: { type: "text" },
      at: { type: "timestamptz" },
    };
    const User = new EntitySchema({ name: "t_user", columns });
    const source = new DataSource({ type: "postgres", url, entities: [User], synchronize: true, parseInt8: true });
    await source.initialize();
    try {
      const users = source.getRepository("t_user");
      const at = new Date("2024-02-29T12:00:00Z");
      const { id } = await users.save({ name: "Ann", at });
      assert.deepEqual(await users.findOneBy({ id }), { id, name: "Ann", at });
      await source.transaction((manager) => manager.update("t_user", { id }, { name: "Bob" }));
      assert.equal((await users.findOneBy({ id })).name, "Bob");
      assert.equal(await users.count(), 1);
      assert.deepEqual(await source.query("select 1::int8 as n"), [{ n: 1 }]);
      await source.dropDatabase();
    } finally {
      await source.destroy();
      require("pg").defaults.parseInt8 = false;
    }
  },

  async sequelize(url) {
    const { Sequelize, DataTypes } = require("sequelize");
    const sequelize = new Sequelize(url, { logging: false, dialect: "postgres" });
    try {
      const User = sequelize.define("s_user", {
        name: { type: DataTypes.STRING, unique: true },
        tags: DataTypes.ARRAY(DataTypes.STRING),
      });
      await sequelize.sync({ force: true });
      const user = await User.create({ name: "Ann", tags: ["a", "b"] });
      await assert.rejects(User.create({ name: "Ann" }), { name: "SequelizeUniqueConstraintError" });
      await sequelize.transaction((transaction) => user.update({ name: "Bob" }, { transaction }));
      assert.deepEqual(
        (await User.findAll()).map(({ name, tags }) => [name, tags]),
        [["Bob", ["a", "b"]]],
      );
    } finally {
      await sequelize.close();
    }
  },

  async "pg-promise"(url) {
    const connected = [];
    const pgp = require("pg-promise")({ connect: ({ client }) => connected.push(client.serverVersion ?? "?") });
    const db = pgp(url);
    assert.deepEqual(await db.any("select n from generate_series(1, 9) n where n in ($1:csv)", [[1, 2]]), [
      { n: 1 },
      { n: 2 },
    ]);
    const { n } = await db.one("select ${n}::int4 as n", { n: 7 });
    assert.equal(n, 7);
    await assert.rejects(db.none("select 1"), { name: "QueryResultError" });
    const sum = await db.tx(async (t) => (await t.one("select 1 as a")).a + (await t.one("select 2 as b")).b);
    assert.equal(sum, 3);
    assert.deepEqual(await db.multi("select 1 as a; select 2 as b"), [[{ a: 1 }], [{ b: 2 }]]);
    assert.ok(connected.length > 0);
    await db.$pool.end();
  },

  async "pg-boss"(url) {
    const { PgBoss } = await import(pathToFileURL(path.join(folder, "node_modules/pg-boss/dist/index.js")).href);
    const boss = new PgBoss({ connectionString: url, schema: "facade_boss" });
    boss.on("error", () => {});
    await boss.start();
    try {
      await boss.createQueue("mail");
      const id = await boss.send("mail", { to: "ann" });
      const job = await new Promise(
        (resolve) => void boss.work("mail", { pollingIntervalSeconds: 0.5 }, async ([one]) => resolve(one)),
      );
      assert.deepEqual([job.id, job.data], [id, { to: "ann" }]);
    } finally {
      await boss.stop({ graceful: false });
    }
  },

  "pg-cursor": (url) => cursors(require("pg"), require("pg-cursor"), url),
  "pg-query-stream": (url) => queryStreams(require("pg"), require("pg-query-stream"), url),

  async "graphile-worker"(url) {
    const { run, quickAddJob } = require("graphile-worker");
    const options = { connectionString: url, schema: "facade_worker", noHandleSignals: true, logger: quiet() };
    let runner;
    const payload = new Promise((resolve) => {
      const taskList = { mail: async (given) => resolve(given) };
      void run({ ...options, taskList, pollInterval: 500 }).then((started) => {
        runner = started;
        return quickAddJob(options, "mail", { to: "ann" });
      });
    });
    assert.deepEqual(await payload, { to: "ann" });
    await runner.stop();
  },

  async "node-pg-migrate"(url) {
    const { runner } = await import(
      pathToFileURL(path.join(folder, "node_modules/node-pg-migrate/dist/bundle/index.js")).href
    );
    const dir = path.join(folder, "migrations");
    mkdirSync(dir, { recursive: true });
    writeFileSync(
      path.join(dir, "1700000000000_first.mjs"),
      'export const up = (pgm) => pgm.createTable("m_first", { id: "id" });\nexport const down = (pgm) => pgm.dropTable("m_first");\n',
    );
    const options = { databaseUrl: url, dir, migrationsTable: "facade_migrations", log: () => {}, count: 1 };
    assert.equal((await runner({ ...options, direction: "up" })).length, 1);
    assert.equal((await runner({ ...options, direction: "down" })).length, 1);
  },

  /** Sign-up, sign-in and a session, after its own migrations, which detect the kind of database. */
  async "better-auth"(url) {
    const { betterAuth } = await esm("better-auth");
    const { getMigrations } = await esm("better-auth/db/migration");
    const pool = new (require("pg").Pool)({ connectionString: url, options: "-c search_path=better_auth" });
    await pool.query("create schema better_auth");
    const options = {
      database: pool,
      secret: "a secret of thirty-two characters or more",
      baseURL: "http://localhost:3000",
      emailAndPassword: { enabled: true },
      telemetry: { enabled: false },
      logger: { disabled: true },
    };
    try {
      const { runMigrations, toBeCreated } = await getMigrations(options);
      assert.deepEqual(toBeCreated.map(({ table }) => table).sort(), ["account", "session", "user", "verification"]);
      await runMigrations();
      const { api } = betterAuth(options);
      const ann = { email: "ann@example.com", password: "correct horse", name: "Ann" };
      const { user } = await api.signUpEmail({ body: ann });
      await assert.rejects(api.signUpEmail({ body: ann }), { status: "UNPROCESSABLE_ENTITY" });
      await assert.rejects(api.signInEmail({ body: { ...ann, password: "wrong horse" } }), { status: "UNAUTHORIZED" });
      const signedIn = await api.signInEmail({ body: ann, returnHeaders: true });
      const headers = {
        cookie: signedIn.headers
          .getSetCookie()
          .map((cookie) => cookie.split(";")[0])
          .join("; "),
      };
      const session = await api.getSession({ headers: new Headers(headers) });
      assert.deepEqual([session.user.id, session.user.name], [user.id, "Ann"]);
      assert.ok(session.session.expiresAt instanceof Date);
      await api.signOut({ headers: new Headers(headers) });
      assert.equal(await api.getSession({ headers: new Headers(headers) }), null);
      assert.equal((await pool.query('select count(*)::int4 as n from "user"')).rows[0].n, 1);
    } finally {
      await pool.end();
    }
  },

  async "@auth/pg-adapter"(url) {
    const { Auth } = await esm("@auth/core");
    const { default: PostgresAdapter } = await esm("@auth/pg-adapter");
    const pool = new (require("pg").Pool)({ connectionString: url, options: "-c search_path=auth_js" });
    try {
      await magicLink(pool, "auth_js", Auth, PostgresAdapter);
    } finally {
      await pool.end();
    }
  },

  async objection(url) {
    const { Model } = require("objection");
    const knex = require("knex")({ client: "pg", connection: url });
    class Pet extends Model {
      static tableName = "o_pets";
    }
    class Person extends Model {
      static tableName = "o_people";
      static relationMappings = {
        pets: { relation: Model.HasManyRelation, modelClass: Pet, join: { from: "o_people.id", to: "o_pets.owner" } },
      };
    }
    Model.knex(knex);
    try {
      await knex.schema.createTable("o_people", (table) => (table.increments("id"), table.string("name").unique()));
      await knex.schema.createTable("o_pets", (table) => (table.string("name"), table.integer("owner")));
      const graph = { name: "Ann", pets: [{ name: "Rex" }, { name: "Tom" }] };
      Pet.idColumn = "name";
      await Person.query().insertGraph(graph);
      const [ann] = await Person.query()
        .withGraphFetched("pets(byName)")
        .modifiers({
          byName: (query) => query.orderBy("name"),
        });
      assert.deepEqual(
        ann.pets.map(({ name }) => name),
        ["Rex", "Tom"],
      );
      const again = Model.transaction((trx) => Person.query(trx).insert({ name: "Ann" }));
      await assert.rejects(again, { name: "UniqueViolationError" });
    } finally {
      await knex.destroy();
    }
  },

  async "@mikro-orm/postgresql"(url) {
    const { MikroORM, EntitySchema } = await esm("@mikro-orm/postgresql");
    const User = new EntitySchema({
      name: "MUser",
      properties: {
        id: { type: "number", primary: true },
        name: { type: "string", unique: true },
        at: { type: "Date", columnType: "timestamptz" },
      },
    });
    const orm = await MikroORM.init({ clientUrl: url, dbName: new URL(url).pathname.slice(1), entities: [User] });
    try {
      await orm.schema.create();
      const at = new Date("2024-02-29T12:00:00Z");
      const em = orm.em.fork();
      em.persist(em.create(User, { name: "Ann", at }));
      await em.flush();
      await assert.rejects(orm.em.fork().insert(User, { name: "Ann", at }), {
        name: "UniqueConstraintViolationException",
      });
      const undone = orm.em.fork().transactional(async (em) => {
        (await em.findOneOrFail(User, { name: "Ann" })).name = "Bob";
        await em.flush();
        throw new Error("undo");
      });
      await assert.rejects(undone, /undo/);
      const [{ name, at: found }] = await orm.em.fork().findAll(User);
      assert.deepEqual([name, found], ["Ann", at]);
    } finally {
      await orm.close(true);
    }
  },

  /** `from` is only written to. Streams that are read (`to`, `both`) fail with an error that names our package. */
  async "pg-copy-streams"(url) {
    const { from, to, both } = require("pg-copy-streams");
    const client = new (require("pg").Client)(url);
    await client.connect();
    await client.query("create temp table c_lines (i int4, t text)");
    const stream = client.query(from("copy c_lines from stdin"));
    for (let i = 1; i <= 20_000; i++)
      if (!stream.write(`${i}\t${"x".repeat(100)}\n`)) await new Promise((resolve) => stream.once("drain", resolve));
    await new Promise((resolve, reject) => stream.on("error", reject).on("finish", resolve).end());
    assert.equal(stream.rowCount, 20_000);
    for (const read of [to, both]) {
      const refused = new Promise((_, reject) => client.query(read("copy c_lines to stdout")).on("error", reject));
      await assert.rejects(refused, /use pgz-edge\/pg-copy-streams/);
    }
    const { rows } = await client.query("select sum(i) from c_lines");
    assert.deepEqual(rows, [{ sum: "200010000" }]);
    await client.end();
  },

  ...services.jobs({ require, esm, inSchema }),
  ...queries.jobs({ require, esm, folder, inSchema }),
};

/**
 * `work` receives a pool whose `search_path` is a new schema, and that pool's options. The schema is dropped at the
 * end.
 */
async function inSchema(url, schema, work) {
  const options = { connectionString: url, options: `-c search_path=${schema}` };
  const pool = new (require("pg").Pool)(options);
  try {
    await pool.query(`create schema ${schema}`);
    await work(pool, options);
  } finally {
    await pool.query(`drop schema if exists ${schema} cascade`).finally(() => pool.end());
  }
}

/** Returns what `import` finds from the folder. */
async function esm(name) {
  const file = path.join(folder, "import.mjs");
  writeFileSync(file, "export const load = (name) => import(name);\n");
  return (await import(pathToFileURL(file).href)).load(name);
}

function quiet() {
  const { Logger } = require("graphile-worker");
  return new Logger(() => () => {});
}

const within = (work) =>
  Promise.race([work, new Promise((_, reject) => setTimeout(reject, 20_000, new Error("out of time")).unref())]);

assert.equal(JSON.parse(readFileSync(require.resolve("pg/package.json"), "utf8")).name, "pgz-edge-pg");
const { servers, stop } = await startServers({ majors: [18], databaseUrl: "" });
let [passed, failed] = [0, 0];
try {
  const only = process.argv.slice(2).find((argument) => argument in jobs);
  for (const [name, job] of Object.entries(jobs)) {
    if (only && name !== only) continue;
    const outcome = await within(job(servers[0].superuserUrl ?? servers[0].url)).then(
      () => (passed++, "ok"),
      (error) => (failed++, error.stack),
    );
    console.log(`${name} ${LIBRARIES[name]}: ${outcome}`);
  }
} finally {
  await stop();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
