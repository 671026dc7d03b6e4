// What code under test does in a transaction that is rolled back: written once, run on Node, Deno and Bun.
//
// Each case has a schema of its own with a table `item`, which must be empty at its end: `stored` asks a connection
// that is not the test's.
import type { Client, Pool } from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.ts";

const equal = assert.deepEqual;

/** The modules as the runtime has them. */
export interface Modules {
  readonly pgz: typeof import("../../js/index.ts");
  readonly testing: typeof import("../../js/adapters/testing.ts");
  readonly pg: typeof import("../../js/adapters/pg.ts");
  readonly drizzle: typeof import("../../js/adapters/drizzle.ts").drizzle;
  readonly drizzleOrm: typeof import("drizzle-orm");
  readonly drizzlePg: typeof import("drizzle-orm/node-postgres").drizzle;
  readonly kysely: typeof import("kysely");
  readonly kyselyAdapter: typeof import("../../js/adapters/kysely.ts");
  readonly prisma: typeof import("../../js/adapters/prisma.ts");
}

/** Runs SQL as a superuser. */
export type Side = (sql: string) => Promise<void>;

/** A schema with two tables. Everything that a case creates is closed at its end. */
export class Place {
  readonly modules: Modules;
  readonly schema = `testing_${Math.random().toString(36).slice(2, 12)}`;
  readonly pool: Pool;
  readonly #url: string;
  readonly side: Side;
  readonly #outside: Client;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(modules: Modules, url: string, side: Side) {
    this.modules = modules;
    this.#url = url;
    this.side = side;
    const options = { applicationName: this.schema, startup: { search_path: this.schema } };
    this.pool = modules.pgz.createPool(url, options);
    this.#outside = modules.pgz.createClient(url, { startup: { search_path: this.schema } });
    this.#ends.push(() => this.pool.close());
  }

  async begin(): Promise<void> {
    await this.#outside.simple(
      `create schema ${this.schema};
       create table item (id serial primary key, name text not null unique);
       create table part (item int references item deferrable initially deferred)`,
    );
  }

  client(): Client {
    const client = this.modules.pgz.createClient(this.#url, { startup: { search_path: this.schema } });
    this.#ends.push(() => client.close());
    return client;
  }

  /** A pool of the facade. */
  pgPool() {
    const options = `-c search_path=${this.schema}`;
    const pool = new this.modules.pg.Pool({ connectionString: this.#url, options });
    this.#ends.push(() => pool.end());
    return pool;
  }

  async pgClient() {
    const options = `-c search_path=${this.schema}`;
    const client = new this.modules.pg.Client({ connectionString: this.#url, options });
    await client.connect();
    this.#ends.push(() => client.end());
    return client;
  }

  /** Returns the names of the items that every session sees. */
  async stored(): Promise<unknown[]> {
    const { rows } = await this.#outside.query<{ name: string }>("select name from item order by id");
    return rows.map(({ name }) => name);
  }

  /** Returns whether a statement of the case waits in `pg_sleep`. */
  async sleeps(): Promise<boolean> {
    const { rows } = await this.#outside.query<{ n: number }>(
      "select count(*)::int4 as n from pg_stat_activity where wait_event = 'PgSleep' and application_name = $1",
      [this.schema],
    );
    return rows[0]!.n > 0;
  }

  async outside(text: string): Promise<void> {
    await this.#outside.simple(text);
  }

  /** Creates a role that the login role may assume. */
  async role(): Promise<string> {
    const role = `${this.schema}_${this.#ends.length}`;
    await this.side(`create role ${role}; grant ${role} to ${decodeURIComponent(new URL(this.#url).username)}`);
    this.#ends.push(() => this.side(`drop owned by ${role}; drop role ${role}`));
    await this.outside(`grant usage on schema ${this.schema} to ${role}; grant select on item to ${role}`);
    return role;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
    await this.#outside.simple(`drop schema ${this.schema} cascade`);
    await this.#outside.close();
  }
}

type Case = (place: Place) => Promise<void>;
type Item = { name: string };

const insert = (name: string) => ({ text: "insert into item (name) values ($1)", values: [name] });
const names = async (db: Pick<Pool, "query">) =>
  (await db.query<Item>("select name from item order by id")).rows.map(({ name }) => name);

const code = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(
    () => "no error",
    (error: { code?: unknown }) => error.code,
  );

/** Runs the case over a pool and over a client. */
const both =
  (run: (db: Pool, place: Place) => Promise<void>): Case =>
  async (place) => {
    const { withRollback } = place.modules.testing;
    for (const source of [place.pool, place.client() as unknown as Pool]) {
      await withRollback(source, (db) => run(db, place));
      equal(await place.stored(), []);
    }
  };

const driver: Record<string, Case> = {
  "a test's writes are rolled back, whether it returns or throws": async (place) => {
    const { withRollback } = place.modules.testing;
    const result = await withRollback(place.pool, async (db) => {
      await db.exec(insert("a"));
      return await names(db);
    });
    equal(result, ["a"]);
    const thrown = new Error("the test fails");
    const failed = withRollback(place.pool, async (db) => {
      await db.exec(insert("a"));
      throw thrown;
    });
    equal(await failed.catch((error: unknown) => error === thrown), true);
    equal(await place.stored(), []);
    // The pool itself works as before, and its connection is clean again.
    await place.pool.exec(insert("b"));
    equal(await place.stored(), ["b"]);
  },

  "a statement that fails keeps the effects of earlier statements": both(async (db) => {
    await db.exec(insert("a"));
    equal(await code(db.exec(insert("a"))), "23505");
    equal(await code(db.query("select 1 / 0")), "22012");
    equal(await code(db.simple("insert into item (name) values ('b'); select 1 / 0")), "22012");
    equal(await names(db), ["a"]);
  }),

  "a transaction is kept or undone as usual, and so are nested transactions": both(async (db) => {
    const result = await db.transaction(async (tx) => {
      await tx.exec(insert("a"));
      const inner = tx.transaction(async (nested) => {
        await nested.exec(insert("b"));
        await nested.transaction((deep) => deep.exec(insert("c")));
        throw new Error("back");
      });
      equal(await inner.catch((error: Error) => error.message), "back");
      return "done";
    });
    equal(result, "done");
    const undone = db.transaction(async (tx) => {
      await tx.exec(insert("d"));
      throw new Error("undone");
    });
    equal(await undone.catch((error: Error) => error.message), "undone");
    equal(await names(db), ["a"]);
  }),

  "last() ends the transaction, and no call can follow it": both(async (db) => {
    await db.transaction(async (tx) => {
      const { rows } = await tx.last<Item>("insert into item (name) values ('a') returning name");
      equal(rows, [{ name: "a" }]);
      equal(await code(tx.exec(insert("b"))), "TRANSACTION_FINISHED");
    });
    equal(await names(db), ["a"]);
  }),

  "a transaction with a failed statement rejects as rolled back": both(async (db) => {
    const swallowed = db.transaction(async (tx) => {
      await tx.exec(insert("a"));
      await tx.exec("select 1 / 0").catch(() => {});
    });
    equal(await code(swallowed), "TRANSACTION_ROLLED_BACK");
    equal(await names(db), []);
  }),

  "a read-only transaction refuses to write, and later ones do not": both(async (db) => {
    const wrote = db.transaction((tx) => tx.exec(insert("a")), { readOnly: true });
    equal(await code(wrote), "25006");
    await db.transaction((tx) => tx.query("select 1"), { readOnly: true });
    await db.exec(insert("b"));
    equal(await names(db), ["b"]);
  }),

  "a transaction runs again after a conflict, even if the conflict is a cause": both(async (db) => {
    let runs = 0;
    const conflict = "do $$ begin raise exception using errcode = '40001'; end $$";
    await db.transaction(
      async (tx) => {
        await tx.exec(insert(`run ${++runs}`));
        if (runs === 1) await tx.exec(conflict);
        if (runs === 2)
          await tx.exec(conflict).catch((cause: unknown) => {
            throw new Error("wrapped", { cause });
          });
      },
      { retry: true },
    );
    equal(await names(db), ["run 3"]);
    equal(await code(db.transaction((tx) => tx.exec(conflict))), "40001");
  }),

  "a transaction ends by its signal and by its timeout": both(async (db) => {
    const leaving = new AbortController();
    const sleeps = db.transaction(
      async (tx) => {
        const sleep = tx.exec("select pg_sleep(60)");
        await tx.exec;
        leaving.abort();
        await sleep;
      },
      { signal: leaving.signal },
    );
    equal(await code(sleeps), "ABORTED");
    equal(await code(db.transaction((tx) => tx.exec("select pg_sleep(60)"), { timeout: 50 })), "QUERY_TIMEOUT");
    await db.exec(insert("a"));
    equal(await names(db), ["a"]);
  }),

  "calls made together run in order": both(async (db) => {
    const transaction = (name: string) =>
      db.transaction(async (tx) => {
        await tx.query("select pg_sleep(0.01)");
        await tx.exec(insert(name));
      });
    await Promise.all([db.exec(insert("a")), transaction("b"), db.exec(insert("c")), transaction("d")]);
    equal(await names(db), ["a", "b", "c", "d"]);
  }),

  "a deferred constraint is checked where the transaction would commit": both(async (db) => {
    equal(await code(db.exec("insert into part values (7)")), "23503");
    const late = async (id: number) =>
      await code(
        db.transaction(async (tx) => {
          await tx.exec("insert into part values (8)");
          await tx.exec({ text: "insert into item (id, name) values ($1, 'late')", values: [id] });
        }),
      );
    equal(await late(9), "23503");
    equal(await names(db), []);
    equal(await late(8), "no error");
    // The constraint is deferred again in the next transaction.
    await db.exec("delete from part");
    await db.exec("delete from item");
    equal(await late(8), "no error");
  }),

  "another test's deferred constraint may be dropped meanwhile, or be in a schema without access": async (place) => {
    const other = `${place.schema}_other`;
    const table = "(n int4 unique deferrable initially deferred)";
    await place.side(`create schema ${other}; create table ${other}.closed ${table}`);
    await place.side(`create table ${place.schema}.dropped ${table}`);
    // Its snapshot still shows the dropped constraint.
    await place.modules.testing.withRollback(
      place.pool,
      async (db) => {
        equal(await names(db), []);
        await place.side(`drop table ${place.schema}.dropped`);
        await db.exec("insert into item (id, name) values (1, 'a')");
        await db.transaction(async (tx) => {
          await tx.exec("insert into part values (8)");
          await tx.exec("insert into item (id, name) values (8, 'late')");
        });
        await place.side(`drop schema ${other} cascade`);
        equal(await code(db.exec("insert into part values (9)")), "23503");
        equal(await names(db), ["a", "late"]);
      },
      { isolation: "repeatable read" },
    );
  },

  "BEGIN, COMMIT and ROLLBACK as SQL are refused, however they are written": both(async (db) => {
    const texts = [
      ..."begin|COMMIT|end|rollback|abort|start transaction|/* a */ commit work|;rollback".split("|"),
      "prepare transaction 'x'",
    ];
    for (const text of texts) equal(await code(db.exec(text)), "TRANSACTION_OPEN", text);
    equal(await code(db.simple("insert into item (name) values ('a;b'); commit")), "TRANSACTION_OPEN");
    equal(await code(db.simple("select 'a\\'; commit; --'")), "TRANSACTION_OPEN");
    equal(await code(db.batch(["select 1", "commit"])), "TRANSACTION_OPEN");
    equal(await code(db.query`commit`), "TRANSACTION_OPEN");
    equal(await code(db.transaction((tx) => tx.exec("commit"))), "TRANSACTION_OPEN");
    equal(await code(db.transaction((tx) => tx.transaction((inner) => inner.simple("commit")))), "TRANSACTION_OPEN");
    equal(await code(db.stream("commit")), "TRANSACTION_OPEN");
    equal(
      (await db.simple("create function two() returns int begin atomic select 2; end; select two() as n"))[1]?.rows,
      [{ n: 2 }],
    );
    // Statements that a transaction may run itself.
    await db.transaction(async (tx) => {
      await tx.exec("savepoint mine");
      await tx.exec(insert("a"));
      await tx.exec("rollback to savepoint mine");
      await tx.exec("rollback work to mine");
      await tx.exec("release mine");
    });
    equal(await names(db), []);
    // The server refuses a procedure that commits.
    equal(await code(db.exec("do $$ begin commit; end $$")), "2D000");
  }),

  "loops, cursors and streams are statements of their own": both(async (db) => {
    await db.exec("insert into item (name) select 'n' || i from generate_series(1, 5) i");
    const seen: unknown[] = [];
    const rows = db.rows<Item>("select name from item order by id");
    for await (const row of rows) seen.push(row.name);
    equal(
      [seen, rows.rowCount, rows.command, rows.fields[0]?.name],
      [["n1", "n2", "n3", "n4", "n5"], 5, "SELECT", "name"],
    );
    const sizes: number[] = [];
    for await (const some of rows.batches(2)) sizes.push(some.length);
    for await (const some of db.cursor("select name from item", 3)) sizes.push(some.length);
    equal(sizes, [2, 2, 1, 3, 2]);
    for await (const row of db.rows("select i from generate_series(1, 1000000) i")) if (row["i"] === 3) break;
    for await (const _ of db.cursor("delete from item returning id", 1)) break;
    equal((await names(db)).length, 5, "the loop was left, so the deletion is undone");
    equal(await new Response(await db.stream("select 1 as a", { format: "json" })).text(), '[{"a":1}]');
    const response = await db.respond("select 1 as a");
    equal(
      [response.status, response.headers.get("content-type")?.includes("json"), await response.text()],
      [200, true, '{"a":1}\n'],
    );
    await (await db.stream("select i from generate_series(1, 1000000) i")).cancel();
    const broken = new Response(await db.stream("select 1 / (5000 - i) from generate_series(1, 10000) i")).text();
    equal(await code(broken), "22012");
    equal(await code(db.stream("select 1 / 0")), "22012");
    equal((await names(db)).length, 5);
  }),

  "COPY, batches, prepared statements and the rest": both(async (db) => {
    await db.copyFrom("copy item (name) from stdin", ["a\nb\n"]);
    await db.copyFromRows("item", ["name"], [["c"], { name: "d" }]);
    equal(await code(db.copyFrom("copy item (name) from stdin", ["a\n"])), "23505");
    equal(await new Response(await db.copyTo("copy item (name) to stdout")).text(), "a\nb\nc\nd\n");
    const copied: unknown[] = [];
    for await (const row of db.copyToRows<Item>("select name from item")) copied.push(row.name);
    equal(copied.length, 4);
    const [one, two] = await db.batch(["select 1 as a", "select 2 as b"]);
    equal([one?.rows, two?.rows], [[{ a: 1 }], [{ b: 2 }]]);
    equal(await code(db.batch([insert("e"), insert("a")])), "23505");
    const settled = await db.batch([insert("f"), insert("a"), insert("g")], { atomic: false, results: "count" });
    equal(
      settled.map(({ status }) => status),
      ["fulfilled", "rejected", "fulfilled"],
    );
    const byName = await db.prepare<Item>("select name from item where name = $1");
    equal([(await byName.query(["f"])).rows, (await byName.exec(["g"])).rowCount], [[{ name: "f" }], 1]);
    equal(
      byName.fields.map(({ name }) => name),
      ["name"],
    );
    byName.close();
    equal((await db.describe("select $1::int4 as a")).parameterTypes, [23]);
    equal(new TextDecoder().decode(await db.json("select 1 as a")), '[{"a":1}]');
    await db.notify("nobody", "x");
    equal(await names(db), ["a", "b", "c", "d", "f", "g"]);
  }),

  "a scope has its settings, and they do not outlive it": both(async (db, place) => {
    const role = await place.role();
    const tenant = db.scope({ settings: { "app.tenant": 7 }, role });
    const who = "select current_setting('app.tenant', true) as tenant, current_user = session_user as own";
    equal((await tenant.query(who)).rows, [{ tenant: "7", own: false }]);
    equal((await db.query(who)).rows, [{ tenant: "", own: true }]);
    equal(await code(tenant.exec(insert("a"))), "42501");
    equal((await db.query(who)).rows, [{ tenant: "", own: true }]);
    await tenant.transaction(async (tx) => {
      equal((await tx.query(who)).rows, [{ tenant: "7", own: false }]);
      equal(await code(tx.simple("select 1")), "NOT_IN_SCOPE");
      equal(await code(tx.exec("reset role")), "NOT_IN_SCOPE");
    });
    const seen: unknown[] = [];
    for await (const row of tenant.rows(who)) seen.push(row);
    equal(seen, [{ tenant: "7", own: false }]);
    equal((await db.query(who)).rows, [{ tenant: "", own: true }]);
    equal(await code(tenant.exec("reset role")), "NOT_IN_SCOPE");
    equal(await code(tenant.exec("commit")), "NOT_IN_SCOPE");
    equal(await code(tenant.simple("select 1")), "NOT_IN_SCOPE");
    equal(await code(tenant.copyFrom("copy item from stdin", [])), "NOT_IN_SCOPE");
    try {
      db.scope({ role: "none" });
      throw new Error("it was taken");
    } catch (error) {
      equal((error as { code: string }).code, "INVALID_OPTION");
    }
  }),

  "a lease is the test's connection, with the calls of a lease": async (place) => {
    await place.modules.testing.withRollback(place.pool, async (db) => {
      const lease = await db.acquire();
      await lease.exec("create temporary table picked (id int4)");
      await lease.copyFromRows("picked", ["id"], [[1], [2]]);
      equal((await lease.query("select count(*)::int4 as n from picked")).rows, [{ n: 2 }]);
      equal(await code(lease.query("select 1 / 0")), "22012");
      await lease.transaction((tx) => tx.exec(insert("a")));
      equal([typeof lease.processId, lease.parameterStatus("server_encoding")], ["number", "UTF8"]);
      await Promise.all([db.exec(insert("b")), lease.exec(insert("c"))]);
      await lease.release();
      await lease.release();
      equal(await code(lease.query("select 1")), "LEASE_RELEASED");
      equal(await names(db), ["a", "b", "c"]);
    });
    equal(await place.stored(), []);
  },

  "a call of the pool inside a transaction reports that it would wait for itself": async (place) => {
    await place.modules.testing.withRollback(place.pool, async (db) => {
      const inside = db.transaction(async () => await db.query("select 1"));
      equal(await code(inside), "TRANSACTION_OPEN");
      await db.exec(insert("a"));
      // A call that only takes long is waited for.
      const long = db.transaction((tx) => tx.exec("select pg_sleep(3.5)"));
      await Promise.all([long, db.exec(insert("b"))]);
      equal(await names(db), ["a", "b"]);
    });
  },

  "close() in the code under test leaves the pool open": both(async (db, place) => {
    await db.close();
    await db.exec(insert("a"));
    equal(await names(db), ["a"]);
    await place.outside("select 1");
  }),

  "after the test nothing can be written": async (place) => {
    const { withRollback } = place.modules.testing;
    let kept!: Pool;
    let running!: Promise<unknown>;
    let waiting!: Promise<unknown>;
    await withRollback(place.pool, async (db) => {
      kept = db;
      running = code(db.exec("select pg_sleep(60)"));
      waiting = code(db.exec(insert("a")));
      await until(() => place.sleeps());
    });
    equal([await running, await waiting], ["TRANSACTION_FINISHED", "TRANSACTION_FINISHED"]);
    equal(await code(kept.exec(insert("b"))), "TRANSACTION_FINISHED");
    equal(await place.stored(), []);
  },

  "tests that run at the same time do not see each other": async (place) => {
    const { withRollback } = place.modules.testing;
    const test = (name: string) =>
      withRollback(place.pool, async (db) => {
        await db.exec(insert(name));
        await db.query("select pg_sleep(0.05)");
        return await names(db);
      });
    equal(await Promise.all(["a", "b", "c", "d"].map(test)), [["a"], ["b"], ["c"], ["d"]]);
    equal(await place.stored(), []);
  },

  "a lost connection fails the test, and the next test gets another": async (place) => {
    const { withRollback } = place.modules.testing;
    const lost = withRollback(place.pool, async (db) => {
      const lease = await db.acquire();
      await place.outside(`select pg_terminate_backend(${lease.processId})`);
      await db.query("select 1");
    });
    assert(["57P01", "CONNECTION_LOST"].includes((await code(lost)) as string), `${await code(lost)}`);
    equal(await withRollback(place.pool, async (db) => (await db.query("select 1 as a")).rows), [{ a: 1 }]);
  },

  "a runner's hooks begin and end a test, and refuse two tests at a time": async (place) => {
    const { rollbackEachTest } = place.modules.testing;
    const hooks: Record<string, () => Promise<void>> = {};
    const set = (name: string) => (hook: () => Promise<void>) => void (hooks[name] = hook);
    const db = rollbackEachTest(place.pool, { beforeEach: set("before"), afterEach: set("after") });
    equal(await code(db.exec(insert("a"))), "TRANSACTION_FINISHED");
    for (let test = 0; test < 2; test++) {
      await hooks["before"]!();
      equal(await code(hooks["before"]!()), "TRANSACTION_OPEN");
      await db.exec(insert("a"));
      equal(await names(db), ["a"]);
      await hooks["after"]!();
      equal(await place.stored(), []);
    }
    await place.pool.exec(insert("stays"));
    equal(await place.stored(), ["stays"]);
  },

  "invalid options and sources are refused": async (place) => {
    const { withRollback, rollbackEachTest } = place.modules.testing;
    equal(await code(withRollback({} as Pool, () => 1)), "INVALID_OPTION");
    equal(await code(withRollback(place.pool, () => 1, { level: 1 } as never)), "UNKNOWN_OPTION");
    equal(await code(withRollback(place.pool, () => 1, { isolation: "some" } as never)), "INVALID_OPTION");
    const serializable = { isolation: "serializable" } as const;
    const level = "select current_setting('transaction_isolation') as level";
    equal(await withRollback(place.pool, async (db) => (await db.query(level)).rows, serializable), [
      { level: "serializable" },
    ]);
    try {
      rollbackEachTest(place.pool, {} as never);
      throw new Error("it was taken");
    } catch (error) {
      equal((error as { code: string }).code, "INVALID_OPTION");
    }
  },
};

const pgNames = async (db: { query(text: string): Promise<{ rows: Item[] }> }) =>
  (await db.query("select name from item order by id")).rows.map(({ name }) => name);
const INSERT = "insert into item (name) values ($1)";

/** Runs the case over a pool of the facade. */
const overPg =
  (run: (db: ReturnType<Place["pgPool"]>, place: Place) => Promise<void>): Case =>
  async (place) => {
    await place.modules.testing.withRollback(place.pgPool(), (db) => run(db, place));
    equal(await place.stored(), []);
  };

const facade: Record<string, Case> = {
  "pg: BEGIN, COMMIT and ROLLBACK are savepoints": overPg(async (db) => {
    const client = await db.connect();
    const commands: unknown[] = [];
    const run = async (text: string, values?: unknown[]) =>
      void commands.push((await client.query(text, values)).command);
    await run("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await run(INSERT, ["a"]);
    equal(client.getTransactionStatus(), "T");
    await run("COMMIT");
    equal(client.getTransactionStatus(), "I");
    await run("start transaction");
    await run(INSERT, ["b"]);
    await run("savepoint s");
    equal(await code(client.query(INSERT, ["a"])), "23505");
    equal(await code(client.query("select 1")), "25P02");
    equal(client.getTransactionStatus(), "E");
    await run("rollback to savepoint s");
    await run("rollback");
    await run("begin");
    equal(await code(client.query(INSERT, ["a"])), "23505");
    await run("commit");
    await run("begin read only");
    equal(await code(client.query(INSERT, ["c"])), "25006");
    await run("rollback");
    await run("begin");
    await run("set transaction isolation level serializable");
    await run(INSERT, ["d"]);
    await run("commit and chain");
    await run(INSERT, ["e"]);
    await run("abort");
    await run("commit");
    equal(
      commands,
      (
        "BEGIN INSERT COMMIT BEGIN INSERT SAVEPOINT ROLLBACK ROLLBACK BEGIN ROLLBACK BEGIN ROLLBACK " +
        "BEGIN SET INSERT COMMIT INSERT ROLLBACK COMMIT"
      ).split(" "),
    );
    client.release();
    equal(await pgNames(db), ["a", "d"]);
  }),

  "pg: a statement that fails keeps earlier ones, with a pool and with a client": overPg(async (db) => {
    await db.query(INSERT, ["a"]);
    equal(await code(db.query(INSERT, ["a"])), "23505");
    const client = await db.connect();
    equal(await code(client.query({ text: INSERT, values: ["a"] })), "23505");
    await client.query({ name: "named", text: INSERT, values: ["b"] });
    equal(await code(client.query("select 1; select 1 / 0")), "22012");
    client.release();
    equal(await pgNames(db), ["a", "b"]);
  }),

  "pg: callbacks work, and transactions of several clients at the same time": overPg(async (db) => {
    const rows = await new Promise((resolve, reject) =>
      db.query("select $1::int4 as a", [1], (error, result) => (error ? reject(error) : resolve(result.rows))),
    );
    equal(rows, [{ a: 1 }]);
    const error = await new Promise((resolve) => db.query("select 1 / 0", (failed) => resolve(failed)));
    equal((error as { code: string }).code, "22012");
    const seen = await new Promise((resolve, reject) =>
      db.connect((failed, client, release) => {
        if (failed) return reject(failed);
        client.query({
          text: "select 2 as a",
          callback: (wrong, result) => (release(), wrong ? reject(wrong) : resolve(result.rows)),
        });
      }),
    );
    equal(seen, [{ a: 2 }]);
    const transaction = async (name: string, ends: string) => {
      const client = await db.connect();
      await client.query("begin");
      await client.query(INSERT, [name]);
      await client.query("select pg_sleep(0.01)");
      await client.query(ends);
      client.release();
    };
    await Promise.all([
      transaction("a", "commit"),
      transaction("b", "rollback"),
      transaction("c", "commit"),
      db.query(INSERT, ["d"]),
    ]);
    equal((await pgNames(db)).sort(), ["a", "c", "d"]);
  }),

  "pg: a text may have BEGIN and COMMIT in it": overPg(async (db) => {
    const results = (await db.query(
      "begin; insert into item (name) values ('a;'); commit; select name from item",
    )) as unknown as { command: string; rows: unknown[] }[];
    equal(
      results.map(({ command }) => command),
      ["BEGIN", "INSERT", "COMMIT", "SELECT"],
    );
    equal(results[3]!.rows, [{ name: "a;" }]);
    equal(await code(db.query("prepare transaction 'x'")), "TRANSACTION_OPEN");
  }),

  "pg: a deferred constraint is checked at COMMIT": overPg(async (db) => {
    const client = await db.connect();
    await client.query("begin");
    await client.query("insert into part values (7)");
    equal(await code(client.query("commit")), "23503");
    equal(client.getTransactionStatus(), "I");
    client.release();
    equal((await db.query("select from part")).rowCount, 0);
  }),

  "pg: a client that is released in its transaction rolls it back": overPg(async (db) => {
    const client = await db.connect();
    client.on("notice", () => {});
    await client.query("begin");
    await client.query(INSERT, ["a"]);
    client.release();
    equal(await pgNames(db), []);
    try {
      client.release();
      throw new Error("it was taken");
    } catch (error) {
      assert((error as Error).message.includes("already been released"), (error as Error).message);
    }
    await db.end();
    equal(await pgNames(db), [], "end() of the code under test leaves the pool open");
  }),

  "pg: a query object such as a cursor works": overPg(async (db, { modules }) => {
    const client = await db.connect();
    const rows: unknown[] = [];
    const query = new modules.pg.Query("select i from generate_series(1, 3) i");
    query.on("row", (row) => rows.push(row));
    const ended = new Promise((resolve) => query.on("end", resolve));
    client.query(query);
    await ended;
    const failing = new modules.pg.Query("select 1 / 0");
    const failed = new Promise((resolve) => failing.on("error", resolve));
    client.query(failing);
    equal(((await failed) as { code: string }).code, "22012");
    equal(rows.length, 3);
    await client.query(INSERT, ["a"]);
    client.release();
    equal(await pgNames(db), ["a"]);
  }),

  "pg: a client is one connection": async (place) => {
    await place.modules.testing.withRollback(await place.pgClient(), async (client) => {
      await client.connect();
      await client.query("begin");
      await client.query(INSERT, ["a"]);
      await client.query("commit");
      await client.end();
      equal(await pgNames(client), ["a"]);
    });
    equal(await place.stored(), []);
  },

  "pg: a query that outlives its test is cancelled, and the client goes on": async (place) => {
    const client = await place.pgClient();
    let running!: Promise<unknown>;
    await place.modules.testing.withRollback(client, async (db) => {
      await db.query(INSERT, ["a"]);
      running = code(db.query(`select pg_sleep(60) as ${place.schema}`));
      const sleeps = "select from pg_stat_activity where wait_event = 'PgSleep' and position($1 in query) > 0";
      await until(async () => (await place.pool.query(sleeps, [place.schema])).rows.length === 1);
    });
    equal(await running, "57014");
    equal((await client.query("select 1 as n")).rows, [{ n: 1 }]);
    equal(await place.stored(), []);
  },

  "pg: after the test nothing can be written": async (place) => {
    const { withRollback } = place.modules.testing;
    const pool = place.pgPool();
    let kept!: typeof pool;
    let running!: Promise<unknown>;
    await withRollback(pool, async (db) => {
      kept = db;
      const client = await db.connect();
      await client.query("begin");
      await client.query(INSERT, ["a"]);
      running = code(client.query("select pg_sleep(0.2)").then(() => client.query("commit")));
    });
    equal(await running, "TRANSACTION_FINISHED");
    equal(await code(kept.query(INSERT, ["b"])), "TRANSACTION_FINISHED");
    equal(await place.stored(), []);
  },
};

const libraries: Record<string, Case> = {
  "Drizzle: over the driver's pool, and over the facade's": async (place) => {
    const { drizzle, drizzlePg, drizzleOrm, testing } = place.modules;
    const { sql } = drizzleOrm;
    const run = async (db: ReturnType<typeof drizzle> | ReturnType<typeof drizzlePg>) => {
      const add = (to: Pick<typeof db, "execute">, name: string) =>
        to.execute(sql`insert into item (name) values (${name})`);
      await add(db, "a");
      equal(
        await add(db, "a").then(
          () => "none",
          (error: { cause: { code: string } }) => error.cause.code,
        ),
        "23505",
      );
      await db.transaction(
        async (tx) => {
          await add(tx, "b");
          await tx
            .transaction(async (nested) => {
              await add(nested, "c");
              nested.rollback();
            })
            .catch(() => {});
        },
        { isolationLevel: "serializable" },
      );
      await db
        .transaction(async (tx) => {
          await add(tx, "d");
          throw new Error("back");
        })
        .catch(() => {});
      const { rows } = (await db.execute(sql`select name from item order by id`)) as unknown as { rows: Item[] };
      equal(
        rows.map(({ name }) => name),
        ["a", "b"],
      );
    };
    await testing.withRollback(place.pool, (db) => run(drizzle(db)));
    await testing.withRollback(place.client(), (db) => run(drizzle(db) as never));
    await testing.withRollback(place.pgPool(), (db) => run(drizzlePg(db as never)));
    equal(await place.stored(), []);
  },

  "Kysely: over the driver's pool and client, and over the facade's": async (place) => {
    const { kysely, kyselyAdapter, testing } = place.modules;
    type Tables = { item: { id: import("kysely").Generated<number>; name: string } };
    const run = async (dialect: import("kysely").Dialect) => {
      const db = new kysely.Kysely<Tables>({ dialect });
      const add = (to: Pick<typeof db, "insertInto">, name: string) => to.insertInto("item").values({ name }).execute();
      await add(db, "a");
      equal(await code(add(db, "a")), "23505");
      await db.transaction().execute((tx) => add(tx, "b"));
      await db
        .transaction()
        .setIsolationLevel("serializable")
        .execute(async (tx) => {
          await add(tx, "c");
          throw new Error("back");
        })
        .catch(() => {});
      const open = await db.startTransaction().execute();
      await add(open, "d");
      const at = await open.savepoint("s").execute();
      await add(at, "e");
      await (await at.rollbackToSavepoint("s").execute()).commit().execute();
      await db.connection().execute((one) => add(one, "f"));
      await kysely.sql`insert into item (name) values ('g')`.execute(db);
      const rows = await db.selectFrom("item").select("name").orderBy("id").execute();
      equal(
        rows.map(({ name }) => name),
        ["a", "b", "d", "f", "g"],
      );
      const streamed: unknown[] = [];
      for await (const row of db.selectFrom("item").selectAll().stream(2)) streamed.push(row);
      equal(streamed.length, 5);
      await db.destroy();
    };
    const { PgzDialect } = kyselyAdapter;
    await testing.withRollback(place.pool, (pool) => run(new PgzDialect({ pool })));
    await testing.withRollback(place.client(), (client) => run(new PgzDialect({ client })));
    const cursor = ((await import("pg-cursor" as string)) as { default: unknown }).default;
    await testing.withRollback(place.pgPool(), (pool) =>
      run(new kysely.PostgresDialect({ pool: pool as never, cursor: cursor as never })),
    );
    equal(await place.stored(), []);
  },

  "Prisma's adapter: over the driver's pool": async (place) => {
    const { prisma, testing } = place.modules;
    await testing.withRollback(place.pool, async (pool) => {
      const adapter = await new prisma.PrismaPgz(pool).connect();
      const add = (to: Pick<typeof adapter, "executeRaw">, name: string) =>
        to.executeRaw({ sql: INSERT, args: [name], argTypes: [{ scalarType: "string", arity: "scalar" }] });
      await add(adapter, "a");
      const kept = await adapter.startTransaction("SERIALIZABLE");
      await add(kept, "b");
      await kept.commit();
      const undone = await adapter.startTransaction();
      await add(undone, "c");
      await undone.rollback();
      equal(await names(pool), ["a", "b"]);
    });
    equal(await place.stored(), []);
  },
};

export const cases: Record<string, (modules: Modules, url: string, side: Side) => Promise<void>> = Object.fromEntries(
  Object.entries({ ...driver, ...facade, ...libraries }).map(([name, run]) => [
    name,
    async (modules: Modules, url: string, side: Side) => {
      const place = new Place(modules, url, side);
      await place.begin();
      try {
        await run(place);
      } finally {
        await place.end();
      }
    },
  ]),
);
