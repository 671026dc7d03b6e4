// transaction(): BEGIN with the first statement, true reports of COMMIT and ROLLBACK, savepoints, and which calls are
// allowed meanwhile.
import type { Client, Transaction } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { codeOf, text } from "./helpers.ts";
import { count, newNumbers } from "./tables.ts";

export const transactions: Cases = {
  async "a transaction commits its callback's work and returns its result"(t) {
    const [client, table] = await newNumbers(t);
    const result = await client.transaction(async (tx) => {
      await tx.exec(`insert into ${table} values (1)`);
      const { rows } = await tx.query(`insert into ${table} values (2) returning n`);
      t.assert.deepEqual(rows, [{ n: 2 }]);
      t.assert.equal(await text(await tx.stream(`select n from ${table} order by n`)), '{"n":1}\n{"n":2}\n');
      t.assert.equal(new TextDecoder().decode(await tx.json(`select n from ${table} order by n`)), '[{"n":1},{"n":2}]');
      for await (const row of tx.rows<{ n: number }>(`select max(n) as n from ${table}`))
        t.assert.deepEqual(row, { n: 2 });
      for await (const batch of tx.cursor(`select n from ${table} order by n`, 1)) t.assert.equal(batch.length, 1);
      t.assert.equal((await tx.simple("select 1; select 2")).length, 2);
      return "done";
    });
    t.assert.equal(result, "done");
    t.assert.equal(await count(client, table), 2);
    t.assert.equal(client.stats().transactionStatus, "I");
  },
  async "BEGIN leaves with the first statement, whatever it is, and a transaction without statements sends nothing"(t) {
    const client = await t.client();
    const inside = "select now() <> statement_timestamp() as later";
    const level = { isolation: "serializable", readOnly: true, deferrable: false } as const;
    const shown =
      "select current_setting('transaction_isolation') as i, " +
      "current_setting('transaction_read_only') as r, current_setting('transaction_deferrable') as d";
    t.assert.deepEqual(await client.transaction(async (tx) => (await tx.query(shown)).rows, level), [
      { i: "serializable", r: "on", d: "off" },
    ]);
    await client.transaction(async (tx) => {
      await tx.query(inside);
      t.assert.equal((await tx.query<{ later: boolean }>(inside)).rows[0]?.later, true);
    });
    await client.transaction(async (tx) => void t.assert.equal((await tx.simple(shown))[0]?.rows.length, 1), level);
    await client.transaction(async (tx) => {
      for await (const batch of tx.cursor<{ i: string }>(shown, 1)) t.assert.equal(batch[0]?.i, "serializable");
      t.assert.equal(client.stats().transactionStatus, "T");
    }, level);
    const inner = (tx: Transaction) => tx.transaction((inner) => inner.query(shown));
    await t.assert.rows(client.transaction(inner, level), [{ i: "serializable", r: "on", d: "off" }]);
    const before = client.stats().receivedBytes;
    t.assert.equal(await client.transaction(() => 7), 7);
    t.assert.equal(client.stats().receivedBytes, before);
    const wrong = { isolation: "snapshot", readOnly: "yes", deferrable: 1, retry: 1.5, timeout: -1 };
    for (const [name, value] of [...Object.entries(wrong), ["retry", 0] as const]) {
      const options = { [name]: value } as never;
      t.assert.equal(await codeOf(client.transaction(() => 1, options)), "INVALID_OPTION", name);
    }
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "an error that leaves the callback rolls back, and the transaction rejects with it"(t) {
    const [client, table] = await newNumbers(t);
    const mine = new Error("mine");
    const failed = async (tx: { exec(sql: string): Promise<unknown> }) => {
      await tx.exec(`insert into ${table} values (1)`);
      throw mine;
    };
    t.assert.equal(
      await client.transaction(failed).then(
        () => "committed",
        (error: unknown) => error === mine,
      ),
      true,
    );
    t.assert.equal(await codeOf(client.transaction((tx) => tx.exec("select nothing"))), "42703");
    t.assert.equal(
      await codeOf(
        client.transaction(async (tx) => {
          await tx.exec(`insert into ${table} values (1)`);
          await tx.query("select 1/0");
        }),
      ),
      "22012",
    );
    // It is thrown at once, before anything began.
    await t.assert.rejects(
      client.transaction(() => {
        throw new Error("at once");
      }),
      { message: "at once" },
    );
    t.assert.equal(await count(client, table), 0);
    t.assert.equal(client.stats().transactionStatus, "I");
  },
  async "a failing COMMIT rejects the transaction: deferred constraints, and errors that the callback swallowed"(t) {
    const [client, table] = await newNumbers(t);
    t.assert.equal(await codeOf(client.transaction((tx) => tx.exec(`insert into ${table} values (1), (1)`))), "23505");
    await t.assert.rejects(
      client.transaction(async (tx) => {
        await tx.exec(`insert into ${table} values (1)`);
        await tx.query("select 1/0").catch(() => {});
      }),
      { name: "PgzError", code: "TRANSACTION_ROLLED_BACK" },
    );
    // The callback did not await this call; it still failed before COMMIT.
    t.assert.equal(
      await codeOf(
        client.transaction(async (tx) => {
          await tx.exec(`insert into ${table} values (1)`);
          void tx.query("select 1/0").catch(() => {});
        }),
      ),
      "TRANSACTION_ROLLED_BACK",
    );
    t.assert.equal(await count(client, table), 0);
    await client.transaction(async (tx) => void tx.exec(`insert into ${table} values (1)`));
    t.assert.equal(await count(client, table), 1);
  },
  async "a nested transaction is a savepoint: its failure leaves the outer one as it was"(t) {
    const [client, table] = await newNumbers(t);
    await client.transaction(async (tx) => {
      const error = await t.assert.code(
        tx.transaction(async (inner) => {
          await inner.exec(`insert into ${table} values (1)`);
          await inner.query("select 1/0");
        }),
        "22012",
      );
      t.assert.equal(error.name, "PostgresError");
      await tx.exec(`insert into ${table} values (2)`);
      await tx.transaction(async (inner) => {
        await inner.exec(`insert into ${table} values (3)`);
        await inner
          .transaction(async (innermost) => {
            await innermost.exec(`insert into ${table} values (4)`);
            throw new Error("back");
          })
          .catch(() => {});
        await inner.transaction((innermost) => innermost.exec(`insert into ${table} values (5)`));
      });
      // An error was swallowed inside: the savepoint cannot be released.
      t.assert.equal(
        await codeOf(tx.transaction(async (inner) => void (await inner.query("select 1/0").catch(() => {})))),
        "25P02",
      );
    });
    const { rows } = await client.query(`select n from ${table} order by n`, { rowMode: "array" });
    t.assert.deepEqual(rows, [[2], [3], [5]] as never);
  },
  async "transactions made together run one after the other, whatever the outcome of earlier ones"(t) {
    const [client, table] = await newNumbers(t);
    const order: number[] = [];
    const work = (n: number) =>
      client.transaction(async (tx) => {
        order.push(n);
        const { rows } = await tx.query<{ n: number }>(`select count(*)::int4 as n from ${table}`);
        await tx.exec(`insert into ${table} values (${n})`);
        if (n % 10 === 3) throw new Error("back");
        if (n % 10 === 7) await tx.query("select 1 / 0");
        return rows[0]!.n;
      });
    const settled = await Promise.allSettled(Array.from({ length: 200 }, (_, n) => work(n)));
    t.assert.deepEqual(
      order,
      settled.map((_, n) => n),
    );
    let inserted = 0;
    for (const [n, one] of settled.entries()) {
      const isBack = n % 10 === 3 || n % 10 === 7;
      t.assert.equal(one.status, isBack ? "rejected" : "fulfilled", String(n));
      if (one.status === "fulfilled") t.assert.equal(one.value, inserted++, String(n));
    }
    t.assert.equal(await count(client, table), 160);
    t.assert.equal(client.stats().state, "idle");

    // A transaction that is aborted while it waits never begins; later ones do.
    const controller = new AbortController();
    const first = client.transaction((tx) => tx.query("select pg_sleep(0.2)"));
    const aborted = client.transaction((tx) => tx.query("select 1"), { signal: controller.signal });
    const last = client.transaction((tx) => tx.query("select 2 as n"));
    await t.assert.code(client.query("select 3"), "TRANSACTION_OPEN");
    controller.abort();
    await t.assert.rejects(aborted, { name: "AbortError", hasNoEffect: true, retryable: false });
    await first;
    await t.assert.rows(last, [{ n: 2 }]);
  },
  "a client's transaction inside another's callback is refused when each waits for the other": {
    slow: true,
    only: "plain",
    async run(t) {
      const client = await t.client();
      const refused = { name: "UsageError", code: "TRANSACTION_OPEN", retryable: true };
      const behind = client.transaction(async (tx) => {
        await tx.query("select 1");
        // It is queued after `later`, which was made before this transaction began and is not refused.
        await t.assert.rejects(
          client.transaction(() => 1),
          refused,
        );
        // A statement may take as long as it wants: a transaction that waits beside it is not refused.
        const beside = client.transaction((other) => other.query("select 3 as n"));
        await tx.query("select pg_sleep(3.5)");
        return { beside };
      });
      const later = client.transaction((tx) => tx.query("select 2 as n"));
      const { beside } = await behind;
      t.assert.deepEqual([(await later).rows, (await beside).rows], [[{ n: 2 }], [{ n: 3 }]]);
    },
  },
  async "a call on the wrong object is refused at once, and nothing hangs"(t) {
    const [client, table] = await newNumbers(t);
    let kept: Parameters<Parameters<Client["transaction"]>[0]>[0] | undefined;
    await client.transaction(async (tx) => {
      kept = tx;
      await t.assert.rejects(client.query("select 1"), { name: "UsageError", code: "TRANSACTION_OPEN" });
      await tx.transaction(async () => {
        await t.assert.code(tx.query("select 1"), "TRANSACTION_OPEN");
        t.assert.equal(await codeOf(tx.transaction(() => 1)), "TRANSACTION_OPEN");
      });
      const stream = await tx.stream("select 1 as a from generate_series(1, 100000)");
      await t.assert.code(tx.query("select 1"), "STREAM_OPEN");
      await text(stream);
    });
    await t.assert.code(kept!.query("select 1"), "TRANSACTION_FINISHED");
    t.assert.equal(await codeOf(kept!.transaction(() => 1)), "TRANSACTION_FINISHED");
    // A stream that is left open and a nested transaction that is not awaited both roll back.
    t.assert.equal(
      await codeOf(
        client.transaction(async (tx) => {
          await tx.exec(`insert into ${table} values (1)`);
          await tx.stream("select repeat('x', 1000) as a from generate_series(1, 100000)");
        }),
      ),
      "STREAM_OPEN",
    );
    t.assert.equal(
      await codeOf(
        client.transaction(async (tx) => {
          await tx.exec(`insert into ${table} values (1)`);
          void tx.transaction((inner) => inner.query("select pg_sleep(0.2)")).catch(() => {});
        }),
      ),
      "TRANSACTION_OPEN",
    );
    // The transaction was ended in SQL, so later statements would run outside it.
    const ended = async (text: string) => {
      const code = "TRANSACTION_FINISHED";
      const transaction = text === "commit" ? "unknown" : "rolled back";
      const ending = client.transaction((tx) => tx.exec(text));
      await t.assert.rejects(ending, { code, transaction });
      const goesOn = client.transaction((tx) => tx.exec(text).then(() => tx.exec(`insert into ${table} values (1)`)));
      await t.assert.rejects(goesOn, { code, transaction });
    };
    for (const text of ["commit", "rollback"]) await ended(text);
    t.assert.equal(await count(client, table), 0);
    const nested = (db: Pick<Client, "transaction">) => db.transaction(() => 1, { isolation: "serializable" });
    await t.assert.code(client.transaction(nested), "INVALID_OPTION");
  },
  async "a transaction waits for earlier calls, and later calls wait for its end"(t) {
    const client = await t.client();
    const order: string[] = [];
    const first = client.query("select pg_sleep(0.1)").then(() => order.push("call"));
    const second = client.transaction(async (tx) => {
      await tx.query("select 1");
      order.push("transaction");
    });
    await Promise.all([first, second]);
    await client.query("select 1");
    t.assert.deepEqual(order, ["call", "transaction"]);
  },
};
