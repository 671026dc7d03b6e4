// Libraries that import `pg` themselves, each doing its main job over pgz-edge/pg: `make test-ecosystem`.
//
// They are installed in .cache/ecosystem/libraries as an application would: `pg` is `pgz-edge-pg`
// (js/adapters/pg-alias), also for what they depend on. Prints a line per library; fails where one does.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
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
  "reflect-metadata": "0.2.2",
};

function install() {
  mkdirSync(folder, { recursive: true });
  const own = { pg: `file:${path.join(root, "js/adapters/pg-alias")}`, "pgz-edge": `file:${root}` };
  const overrides = { pg: "$pg", "pgz-edge": "$pgz-edge" };
  const manifest = { private: true, dependencies: { ...LIBRARIES, ...own }, overrides };
  writeFileSync(path.join(folder, "package.json"), JSON.stringify(manifest, undefined, 2));
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

  async "pg-cursor"(url) {
    const Cursor = require("pg-cursor");
    const client = new (require("pg").Client)(url);
    await client.connect();
    const cursor = client.query(new Cursor("select i from generate_series(1, $1) i", [250]));
    const sizes = [];
    for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100)) sizes.push(rows.length);
    assert.deepEqual(sizes, [100, 100, 50]);
    const left = client.query(new Cursor("select i from generate_series(1, 1000000) i"));
    assert.deepEqual(await left.read(1), [{ i: 1 }]);
    await left.close();
    await assert.rejects(client.query(new Cursor("select 1/0")).read(1), { code: "22012" });
    assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
    await client.end();
  },

  async "pg-query-stream"(url) {
    const QueryStream = require("pg-query-stream");
    const pool = new (require("pg").Pool)({ connectionString: url });
    const client = await pool.connect();
    let count = 0;
    for await (const { i } of client.query(new QueryStream("select i from generate_series(1, 10000) i")))
      count += i === count + 1;
    assert.equal(count, 10_000);
    for await (const { i } of client.query(new QueryStream("select i from generate_series(1, 10000) i")))
      if (i === 5) break;
    assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
    client.release();
    await pool.end();
  },

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
};

function quiet() {
  const { Logger } = require("graphile-worker");
  return new Logger(() => () => {});
}

const within = (work) =>
  Promise.race([work, new Promise((_, reject) => setTimeout(reject, 20_000, new Error("out of time")).unref())]);

assert.equal(JSON.parse(readFileSync(require.resolve("pg/package.json"), "utf8")).name, "pgz-edge-pg");
const { servers, stop } = await startServers({ majors: [18], databaseUrl: undefined });
let failed = 0;
try {
  const only = process.argv.slice(2).find((argument) => argument in jobs);
  for (const [name, job] of Object.entries(jobs)) {
    if (only && name !== only) continue;
    const outcome = await within(job(servers[0].superuserUrl ?? servers[0].url)).then(
      () => "ok",
      (error) => (failed++, error.stack),
    );
    console.log(`${name} ${LIBRARIES[name]}: ${outcome}`);
  }
} finally {
  await stop();
}
console.log(`${Object.keys(jobs).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
