// Cases of `pgz-edge/testing` for code that uses the driver itself: each call in the transaction of a test.
import type { Pool } from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { code, equal, names, type Case, type Item, type Place } from "./testing-world.ts";

const insert = (name: string) => ({ text: "insert into item (name) values ($1)", values: [name] });

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

export const driverCases: Record<string, Case> = {
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

  "an error's stack has the line of the test, once, and says what the server found": both(async (db) => {
    // Declarations: Bun's stacks do not have the names of arrow functions.
    async function inTheTest() {
      return await db.query("selec");
    }
    async function inTheTransaction() {
      return await db.transaction(async (tx) => await tx.query("selec"));
    }
    for (const failing of [inTheTest, inTheTransaction]) {
      const { stack = "" } = await failing().then(
        () => new Error("it resolved"),
        (error: unknown) => error as Error,
      );
      equal(stack.split(failing.name).length, 2);
      equal(stack.includes("LINE 1: selec"), true);
    }
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
    const nested = (tx: Pick<Pool, "transaction">) => tx.transaction(() => 1, { isolation: "serializable" });
    equal(await code(db.transaction(nested)), "INVALID_OPTION");
    equal(await code(db.transaction((tx) => tx.transaction(nested))), "INVALID_OPTION");
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
    for await (const _ of db.rows("delete from item returning id")) break;
    equal((await names(db)).length, 5, "the loop was left, so the deletion is undone");
    for await (const _ of db.cursor("insert into item (name) values ('n6') returning id", 1)) break;
    equal((await names(db)).length, 6, "a cursor that is left keeps what its statement has written");
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
    equal((await names(db)).length, 6);
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
    equal(await code((async () => db.scope({ role: "none" }))()), "INVALID_OPTION");
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
    equal(await code((async () => rollbackEachTest(place.pool, {} as never))()), "INVALID_OPTION");
  },
};
