// Jobs for libraries.mjs: libraries that store sessions, limits, caches and checkpoints in a database, or listen to it.
//
// It knows the purpose of each library, and uses it for that. It must not know how they are installed, nor that there
// is a facade: the same jobs pass over `pg` itself.
import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { logFile } from "../servers/index.mjs";
import { newCluster, prepare, run } from "../servers/postgres.mjs";

export const LIBRARIES = {
  "@fastify/postgres": "6.1.0",
  fastify: "5.12.8",
  "connect-pg-simple": "10.0.0",
  "express-session": "1.19.0",
  "rate-limiter-flexible": "11.4.0",
  "@keyv/postgres": "2.2.3",
  keyv: "5.6.0",
  "pg-listen": "1.7.0",
  "@langchain/langgraph-checkpoint-postgres": "1.0.5",
  "@langchain/langgraph-checkpoint": "1.2.2",
  "@langchain/core": "1.4.0",
  "pg-logical-replication": "2.5.0",
};

/** A job receives the URL of a superuser. */
export const jobs = ({ require, esm, inSchema }) => ({
  /** Its routes with `transact` begin, and commit or roll back. So does `transact` itself, by callbacks. */
  async "@fastify/postgres"(url) {
    await inSchema(url, "fastify", async (pool, options) => {
      await pool.query("create table users (id serial primary key, name text unique)");
      const app = require("fastify")();
      try {
        await app.register(require("@fastify/postgres"), options);
        app.get("/users/:id", async ({ params }) => {
          const { rows } = await app.pg.query("select id, name from users where id = $1", [params.id]);
          return rows;
        });
        app.post("/users/:name", { pg: { transact: true } }, async ({ pg, params }) => {
          await pg.query("insert into users (name) values ($1)", [params.name]);
          if (params.name === "Eve") throw new Error("undo");
          return "made";
        });
        const post = async (name) => (await app.inject({ method: "POST", url: `/users/${name}` })).statusCode;
        assert.deepEqual([await post("Ann"), await post("Eve"), await post("Ann")], [200, 500, 500]);
        assert.deepEqual((await app.inject("/users/1")).json(), [{ id: 1, name: "Ann" }]);
        const twice = app.pg.transact(async (client) => {
          await client.query("insert into users (name) values ('Bob')");
          await client.query("insert into users (name) values ('Ann')");
        });
        await assert.rejects(twice, { code: "23505", constraint: "users_name_key" });
        assert.deepEqual((await pool.query("select name from users")).rows, [{ name: "Ann" }]);
      } finally {
        await app.close();
      }
    });
  },

  async "connect-pg-simple"(url) {
    await inSchema(url, "sessions", async (pool) => {
      const Store = require("connect-pg-simple")(require("express-session"));
      const store = new Store({
        pool,
        schemaName: "sessions",
        createTableIfMissing: true,
        pruneSessionInterval: false,
      });
      const ask = (method, ...given) =>
        new Promise((resolve, reject) =>
          store[method](...given, (error, got) => (error ? reject(error) : resolve(got))),
        );
      const until = (seconds) => ({ expires: new Date(Date.now() + seconds * 1000).toISOString() });
      const count = async () => (await pool.query("select count(*)::int4 as n from session")).rows[0].n;
      const ann = { cookie: until(60), user: "Ann", cart: [1, { two: "zwei" }] };
      try {
        await ask("set", "a", ann);
        await ask("set", "a", { ...ann, visits: 2 });
        assert.deepEqual(await ask("get", "a"), { ...ann, visits: 2 });
        await ask("set", "old", { cookie: until(-60) });
        assert.equal(await ask("get", "old"), undefined);
        await ask("touch", "a", { cookie: until(7200) });
        const { rows } = await pool.query("select expire > now() + '1 hour' as later from session where sid = 'a'");
        assert.deepEqual(rows, [{ later: true }]);
        assert.equal(await count(), 2);
        await ask("pruneSessions");
        assert.equal(await count(), 1);
        await ask("destroy", "a");
        assert.equal(await ask("get", "a"), undefined);
        assert.equal(await count(), 0);
      } finally {
        await store.close();
      }
    });
  },

  async "rate-limiter-flexible"(url) {
    await inSchema(url, "limits", async (pool) => {
      const { RateLimiterPostgres } = require("rate-limiter-flexible");
      const options = { storeClient: pool, schemaName: "limits", tableName: "limits", points: 3, duration: 60 };
      const limiter = await new Promise((resolve, reject) => {
        const made = new RateLimiterPostgres({ ...options, clearExpiredByTimeout: false }, (error) =>
          error ? reject(error) : resolve(made),
        );
      });
      const taken = await Promise.all([limiter.consume("ann"), limiter.consume("ann"), limiter.consume("ann")]);
      assert.deepEqual(taken.map(({ consumedPoints }) => consumedPoints).sort(), [1, 2, 3]);
      const refused = await limiter.consume("ann").then(assert.fail, (result) => result);
      assert.equal(refused.remainingPoints, 0);
      assert.ok(refused.msBeforeNext > 0 && refused.msBeforeNext <= 60_000, `${refused.msBeforeNext}`);
      assert.equal((await limiter.consume("bob", 2)).remainingPoints, 1);
      assert.equal((await limiter.reward("ann", 2)).consumedPoints, 2);
      assert.equal(await limiter.delete("ann"), true);
      assert.equal(await limiter.get("ann"), null);
      await limiter.block("bob", 1);
      await assert.rejects(limiter.consume("bob"), (result) => result.consumedPoints > 3);
      await wait(1050);
      assert.equal((await limiter.consume("bob")).consumedPoints, 1);
    });
  },

  async "@keyv/postgres"(url) {
    await inSchema(url, "cache", async (pool) => {
      const { default: Keyv } = await esm("keyv");
      const { KeyvPostgres } = await esm("@keyv/postgres");
      const keyv = new Keyv({ store: new KeyvPostgres({ uri: url, schema: "cache" }), namespace: "n" });
      const failures = [];
      keyv.on("error", (error) => failures.push(error));
      try {
        await keyv.set("ann", { a: [1, "zwei", null], quote: "it's \\" });
        assert.deepEqual(await keyv.get("ann"), { a: [1, "zwei", null], quote: "it's \\" });
        await keyv.set("short", 1, 500);
        assert.equal(await keyv.get("short"), 1);
        await wait(550);
        assert.equal(await keyv.get("short"), undefined);
        await keyv.setMany(Array.from({ length: 25 }, (_, i) => ({ key: `k${i}`, value: i })));
        assert.deepEqual(await keyv.getMany(["k24", "none", "k0"]), [24, undefined, 0]);
        const found = [];
        for await (const [, value] of keyv.iterator("n")) found.push(value);
        assert.equal(found.length, 26);
        assert.deepEqual(
          [await keyv.delete("ann"), await keyv.delete("ann"), await keyv.has("k3")],
          [true, false, true],
        );
        await keyv.clear();
        assert.equal((await pool.query("select count(*)::int4 as n from cache.keyv")).rows[0].n, 0);
        assert.deepEqual(failures, []);
      } finally {
        await keyv.disconnect();
      }
    });
  },

  /** The server ends its client meanwhile, and it listens again. */
  async "pg-listen"(url) {
    const createSubscriber = require("pg-listen").default;
    const subscriber = createSubscriber({ connectionString: url }, { retryInterval: 100, paranoidChecking: false });
    const client = new (require("pg").Client)(url);
    const failures = [];
    subscriber.events.on("error", (error) => failures.push(error));
    const heard = () => new Promise((resolve) => subscriber.notifications.once("It's a channel", resolve));
    await client.connect();
    try {
      await subscriber.connect();
      await subscriber.listenTo("It's a channel");
      let next = heard();
      await subscriber.notify("It's a channel", { text: "it's \\ here" });
      assert.deepEqual(await next, { text: "it's \\ here" });

      const again = new Promise((resolve) => subscriber.events.once("connected", resolve));
      const shot = "select pg_terminate_backend(pid) as shot from pg_stat_activity where query like 'NOTIFY %channel%'";
      assert.deepEqual((await client.query(shot)).rows, [{ shot: true }]);
      await again;
      next = heard();
      await client.query("select pg_notify($1, $2)", ["It's a channel", '{"text": "again"}']);
      assert.deepEqual(await next, { text: "again" });
      await subscriber.unlistenAll();
      assert.deepEqual(failures, []);
    } finally {
      await subscriber.close();
      await client.end();
    }
  },

  /** Checkpoints of a thread and the writes of its tasks, all in bytea; and its store, with a row that expires. */
  async "@langchain/langgraph-checkpoint-postgres"(url) {
    const { PostgresSaver } = await esm("@langchain/langgraph-checkpoint-postgres");
    const { PostgresStore } = await esm("@langchain/langgraph-checkpoint-postgres/store");
    const { emptyCheckpoint, uuid6 } = await esm("@langchain/langgraph-checkpoint");
    await inSchema(url, "langgraph", async () => {
      const saver = PostgresSaver.fromConnString(url, { schema: "langgraph" });
      const store = PostgresStore.fromConnString(url, { schema: "langgraph" });
      try {
        await saver.setup();
        await saver.setup();
        const thread = { configurable: { thread_id: "t", checkpoint_ns: "" } };
        const made = (step, values) => ({
          ...emptyCheckpoint(),
          id: uuid6(step),
          channel_values: values,
          channel_versions: Object.fromEntries(Object.keys(values).map((key) => [key, step])),
        });
        const [one, two] = [made(1, { text: "ä\u{1f600}", bytes: Uint8Array.of(0, 255) }), made(2, { text: "two" })];
        const first = await saver.put(thread, one, { source: "input", step: 1 }, one.channel_versions);
        await saver.putWrites(first, [["text", { nested: [1, "zwei"] }]], "task");
        await saver.put(first, two, { source: "loop", step: 2 }, two.channel_versions);

        const latest = await saver.getTuple(thread);
        assert.deepEqual([latest.checkpoint.id, latest.checkpoint.channel_values], [two.id, { text: "two" }]);
        assert.equal(latest.parentConfig.configurable.checkpoint_id, one.id);
        const before = await saver.getTuple(first);
        const { text, bytes } = before.checkpoint.channel_values;
        assert.deepEqual([text, [...bytes]], ["ä\u{1f600}", [0, 255]]);
        assert.deepEqual(before.pendingWrites, [["task", "text", { nested: [1, "zwei"] }]]);
        const steps = [];
        for await (const { metadata } of saver.list(thread)) steps.push(metadata.step);
        for await (const { metadata } of saver.list(thread, { filter: { source: "input" } })) steps.push(metadata.step);
        assert.deepEqual(steps, [2, 1, 1]);
        await saver.deleteThread("t");
        assert.equal(await saver.getTuple(thread), undefined);

        await store.setup();
        await store.put(["users", "ann"], "food", { likes: "cheese", n: 3 });
        const { value, createdAt } = await store.get(["users", "ann"], "food");
        assert.deepEqual(value, { likes: "cheese", n: 3 });
        assert.ok(createdAt instanceof Date);
        const found = await store.search(["users"], { filter: { n: { $gt: 2 } } });
        assert.deepEqual(
          found.map(({ key }) => key),
          ["food"],
        );
        await store.delete(["users", "ann"], "food");
        assert.equal(await store.get(["users", "ann"], "food"), null);
        await store.put(["users", "ann"], "soon over", {}, undefined, { ttl: 0.3 / 60 });
        await wait(350);
        assert.equal(await store.get(["users", "ann"], "soon over"), null);
        assert.equal(await store.sweepExpiredItems(), 1);
      } finally {
        await store.stop();
        await saver.end();
      }
    });
  },

  /** It needs `wal_level = logical`, so this job has its own server. */
  async "pg-logical-replication"() {
    const { LogicalReplicationService, PgoutputPlugin } = require("pg-logical-replication");
    const extra = { wal_level: "logical" };
    const { descriptor, stop } = await run(await newCluster(18), { log: logFile("logical"), extra, prepare });
    const url = descriptor.superuserUrl;
    const pool = new (require("pg").Pool)({ connectionString: url });
    const service = new LogicalReplicationService({ connectionString: url }, { flowControl: { enabled: true } });
    try {
      await pool.query("create table users (id int4 primary key, name text)");
      await pool.query("create publication everything for table users");
      await pool.query("select pg_create_logical_replication_slot('ours', 'pgoutput')");
      const seen = [];
      const failures = [];
      service.on("error", (error) => failures.push(error));
      const committed = (times) =>
        new Promise((resolve) =>
          service.on("data", (lsn, { tag, new: row, old, key }) => {
            seen.push(row?.name ?? (old ?? key)?.id ?? tag);
            if (tag === "commit" && --times === 0) resolve(lsn);
          }),
        );
      const plugin = () => new PgoutputPlugin({ protoVersion: 1, publicationNames: ["everything"] });
      const all = committed(3);
      let over = service.subscribe(plugin(), "ours");
      await pool.query("insert into users select i, 'user ' || i from generate_series(1, 2) i");
      await pool.query("begin; insert into users values (3, 'never'); rollback");
      await pool.query("update users set name = 'Ann' where id = 1");
      await pool.query("delete from users where id = 2");
      const lsn = await all;
      const rows = ["begin", "relation", "user 1", "user 2", "commit", "begin", "Ann", "commit", "begin", 2, "commit"];
      assert.deepEqual(seen, rows);
      const flushed = "select confirmed_flush_lsn >= $1 as done from pg_replication_slots where slot_name = 'ours'";
      while (!(await pool.query(flushed, [lsn])).rows[0].done) await wait(20);
      await service.stop();
      await over;

      seen.length = 0;
      service.removeAllListeners("data");
      const more = committed(1);
      over = service.subscribe(plugin(), "ours", lsn);
      await pool.query("insert into users values (4, 'later')");
      await more;
      assert.deepEqual(seen, ["begin", "relation", "later", "commit"]);
      await service.destroy();
      await over;
      assert.deepEqual(failures, []);
    } finally {
      await service.destroy();
      await pool.end();
      await stop();
    }
  },
});
