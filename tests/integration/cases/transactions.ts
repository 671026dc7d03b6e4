// transaction(): BEGIN with the first statement, COMMIT and ROLLBACK told as they were, savepoints, retries, and who
// may call what meanwhile.
import type { Client, PgzError } from "../../../js/index.ts";
import type { Case, Context } from "../context.ts";
import { eventually, newMark, pause, running, text, withClient, withSchema } from "./helpers.ts";

const count = async (client: Client, table: string) =>
  Number((await client.query<{ n: number }>(`select count(*)::int4 as n from ${table}`)).rows[0]?.n);

/** A table of one int column that is unique, in a schema of the case's own. */
async function withTable(t: Context, work: (client: Client, table: string) => Promise<void>): Promise<void> {
  await withSchema(t, async (client, schema) => {
    await client.exec(`create table ${schema}.numbers (n int4 unique deferrable initially deferred)`);
    await work(client, `${schema}.numbers`);
  });
}

export const transactions: Case[] = [
  {
    name: "a transaction commits what its callback did and gives what it returned",
    run: (t) =>
      withTable(t, async (client, table) => {
        const result = await client.transaction(async (tx) => {
          await tx.exec(`insert into ${table} values (1)`);
          const { rows } = await tx.query(`insert into ${table} values (2) returning n`);
          t.assert.deepEqual(rows, [{ n: 2 }]);
          t.assert.equal(await text(await tx.stream(`select n from ${table} order by n`)), '{"n":1}\n{"n":2}\n');
          t.assert.equal(
            new TextDecoder().decode(await tx.json(`select n from ${table} order by n`)),
            '[{"n":1},{"n":2}]',
          );
          for await (const row of tx.rows<{ n: number }>(`select max(n) as n from ${table}`))
            t.assert.deepEqual(row, { n: 2 });
          for await (const batch of tx.cursor(`select n from ${table} order by n`, 1)) t.assert.equal(batch.length, 1);
          t.assert.equal((await tx.simple("select 1; select 2")).length, 2);
          return "done";
        });
        t.assert.equal(result, "done");
        t.assert.equal(await count(client, table), 2);
        t.assert.equal(client.stats().transactionStatus, "I");
      }),
  },
  {
    name: "BEGIN leaves with the first statement, whatever that is, and a transaction without one sends nothing",
    run: (t) =>
      withClient(t, async (client) => {
        const inside = "select now() <> statement_timestamp() as later";
        const level = { isolation: "serializable", readOnly: true, deferrable: false } as const;
        const shown =
          "select current_setting('transaction_isolation') as i, current_setting('transaction_read_only') as r, current_setting('transaction_deferrable') as d";
        t.assert.deepEqual(await client.transaction(async (tx) => (await tx.query(shown)).rows, level), [
          { i: "serializable", r: "on", d: "off" },
        ]);
        await client.transaction(async (tx) => {
          await tx.query(inside);
          await pause(5);
          t.assert.equal((await tx.query<{ later: boolean }>(inside)).rows[0]?.later, true);
        });
        await client.transaction(async (tx) => void t.assert.equal((await tx.simple(shown))[0]?.rows.length, 1), level);
        await client.transaction(async (tx) => {
          for await (const batch of tx.cursor<{ i: string }>(shown, 1)) t.assert.equal(batch[0]?.i, "serializable");
          t.assert.equal(client.stats().transactionStatus, "T");
        }, level);
        await client.transaction(
          async (tx) =>
            void (await tx.transaction(
              async (inner) =>
                void t.assert.deepEqual((await inner.query(shown)).rows, [{ i: "serializable", r: "on", d: "off" }]),
            )),
          level,
        );
        const before = client.stats().receivedBytes;
        t.assert.equal(await client.transaction(() => 7), 7);
        t.assert.equal(client.stats().receivedBytes, before);
        for (const options of [
          { isolation: "snapshot" },
          { readOnly: "yes" },
          { deferrable: 1 },
          { retry: 0 },
          { retry: 1.5 },
          { timeout: -1 },
        ]) {
          await t.assert.rejects(
            client.transaction(() => 1, options as never),
            { code: "INVALID_OPTION" },
          );
        }
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "an error that leaves the callback rolls back, and is what the transaction rejects with",
    run: (t) =>
      withTable(t, async (client, table) => {
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
        await t.assert.rejects(
          client.transaction((tx) => tx.exec("select nothing")),
          { code: "42703" },
        );
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            await tx.query("select 1/0");
          }),
          { code: "22012" },
        );
        // Thrown at once, before anything began.
        await t.assert.rejects(
          client.transaction(() => {
            throw new Error("at once");
          }),
          { message: "at once" },
        );
        t.assert.equal(await count(client, table), 0);
        t.assert.equal(client.stats().transactionStatus, "I");
      }),
  },
  {
    name: "COMMIT that fails is told: deferred constraints, and errors that the callback swallowed",
    run: (t) =>
      withTable(t, async (client, table) => {
        await t.assert.rejects(
          client.transaction((tx) => tx.exec(`insert into ${table} values (1), (1)`)),
          { code: "23505" },
        );
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            await tx.query("select 1/0").catch(() => {});
          }),
          { name: "PgzError", code: "TRANSACTION_ROLLED_BACK" },
        );
        // Nobody awaited it; it failed before COMMIT all the same.
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            void tx.query("select 1/0").catch(() => {});
          }),
          { code: "TRANSACTION_ROLLED_BACK" },
        );
        t.assert.equal(await count(client, table), 0);
        await client.transaction(async (tx) => void tx.exec(`insert into ${table} values (1)`));
        t.assert.equal(await count(client, table), 1);
      }),
  },
  {
    name: "a transaction inside is a savepoint: its failure leaves the outer one as it was",
    run: (t) =>
      withTable(t, async (client, table) => {
        await client.transaction(async (tx) => {
          const error = await t.assert.rejects(
            tx.transaction(async (inner) => {
              await inner.exec(`insert into ${table} values (1)`);
              await inner.query("select 1/0");
            }),
            { code: "22012" },
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
          // An error swallowed inside: the savepoint cannot be released.
          await t.assert.rejects(
            tx.transaction(async (inner) => void (await inner.query("select 1/0").catch(() => {}))),
            { code: "25P02" },
          );
        });
        const { rows } = await client.query(`select n from ${table} order by n`, { rowMode: "array" });
        t.assert.deepEqual(rows, [[2], [3], [5]] as never);
      }),
  },
  {
    name: "whoever calls the wrong one is told at once, and nothing hangs",
    run: (t) =>
      withTable(t, async (client, table) => {
        let kept: Parameters<Parameters<Client["transaction"]>[0]>[0] | undefined;
        await client.transaction(async (tx) => {
          kept = tx;
          await t.assert.rejects(client.query("select 1"), { name: "UsageError", code: "TRANSACTION_OPEN" });
          await t.assert.rejects(
            client.transaction(() => 1),
            { code: "TRANSACTION_OPEN" },
          );
          await tx.transaction(async () => {
            await t.assert.rejects(tx.query("select 1"), { code: "TRANSACTION_OPEN" });
            await t.assert.rejects(
              tx.transaction(() => 1),
              { code: "TRANSACTION_OPEN" },
            );
          });
          const stream = await tx.stream("select 1 as a from generate_series(1, 100000)");
          await t.assert.rejects(tx.query("select 1"), { code: "STREAM_OPEN" });
          await text(stream);
        });
        await t.assert.rejects(kept!.query("select 1"), { code: "TRANSACTION_FINISHED" });
        await t.assert.rejects(
          kept!.transaction(() => 1),
          { code: "TRANSACTION_FINISHED" },
        );
        // A stream that is left open, a transaction inside that nobody awaited: rolled back.
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            await tx.stream("select repeat('x', 1000) as a from generate_series(1, 100000)");
          }),
          { code: "STREAM_OPEN" },
        );
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            void tx.transaction((inner) => inner.query("select pg_sleep(0.2)")).catch(() => {});
          }),
          { code: "TRANSACTION_OPEN" },
        );
        // Ended in SQL: what comes behind would run outside.
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.exec("commit");
            await tx.exec(`insert into ${table} values (1)`);
          }),
          { code: "TRANSACTION_FINISHED" },
        );
        await t.assert.rejects(
          client.transaction((tx) => tx.exec("rollback")),
          { code: "TRANSACTION_FINISHED" },
        );
        t.assert.equal(await count(client, table), 0);
      }),
  },
  {
    name: "a transaction waits for the calls before it, and those behind it for its end",
    run: (t) =>
      withClient(t, async (client) => {
        const order: string[] = [];
        const first = client.query("select pg_sleep(0.1)").then(() => order.push("call"));
        const second = client.transaction(async (tx) => {
          await tx.query("select 1");
          order.push("transaction");
        });
        await Promise.all([first, second]);
        await client.query("select 1");
        t.assert.deepEqual(order, ["call", "transaction"]);
      }),
  },
  {
    name: "conflicts are tried again where it is asked for, all of the callback, and the observer hears of it",
    run: (t) =>
      withTable(t, async (client, table) => {
        await client.exec(`insert into ${table} values (0)`);
        const attempts: number[] = [];
        const retries: unknown[] = [];
        const raise = (code: string) => `do $$ begin raise exception 'conflict' using errcode = '${code}'; end $$`;
        await withClient(
          t,
          async (other) => {
            const result = await other.transaction(
              async (tx) => {
                attempts.push(attempts.length);
                await tx.exec(`update ${table} set n = n + 1`);
                if (attempts.length < 3) await tx.exec(raise(attempts.length === 1 ? "40001" : "40P01"));
                return attempts.length;
              },
              { isolation: "repeatable read", retry: true },
            );
            t.assert.equal(result, 3);
            await t.assert.rejects(
              other.transaction((tx) => tx.exec(raise("40001"))),
              { code: "40001", retryable: true },
            );
            await t.assert.rejects(
              other.transaction((tx) => tx.exec(raise("40001")), { retry: 2 }),
              { code: "40001" },
            );
            await t.assert.rejects(
              other.transaction((tx) => tx.exec(raise("23505")), { retry: true }),
              { code: "23505" },
            );
          },
          { observer: { onRetry: ({ attempt, error }) => retries.push([attempt, error.code]) } },
        );
        t.assert.deepEqual(retries, [
          [1, "40001"],
          [2, "40P01"],
          [1, "40001"],
        ]);
        t.assert.deepEqual((await client.query(`select n from ${table}`)).rows, [{ n: 1 }]);
      }),
  },
  {
    name: "a real write conflict at COMMIT is tried again",
    run: (t) =>
      withTable(t, async (client, table) => {
        await client.exec(`insert into ${table} values (10), (20)`);
        let runs = 0;
        await withClient(t, async (other) => {
          const sum = (tx: { query<Row>(sql: string): Promise<{ rows: Row[] }> }) =>
            tx.query<{ n: number }>(`select sum(n)::int4 as n from ${table}`);
          await client.transaction(
            async (tx) => {
              runs++;
              const { rows } = await sum(tx);
              if (runs === 1) {
                await other.transaction(
                  async (tx2) => {
                    const { rows } = await sum(tx2);
                    await tx2.exec(`insert into ${table} values (${rows[0]!.n + 1})`);
                  },
                  { isolation: "serializable" },
                );
              }
              await tx.exec(`insert into ${table} values (${rows[0]!.n + 2})`);
            },
            { isolation: "serializable", retry: 5 },
          );
        });
        t.assert.equal(runs, 2);
        t.assert.equal(await count(client, table), 4);
      }),
  },
  {
    name: "a signal or the timeout ends a transaction at once: its query is cancelled, it is rolled back, the client goes on",
    run: (t) =>
      withTable(t, async (client, table) => {
        for (const how of ["signal", "timeout", "between"] as const) {
          const mark = newMark(t);
          const giveUp = new AbortController();
          const insert = async (tx: { exec(sql: string): Promise<unknown> }) => {
            await tx.exec(`insert into ${table} values (1)`);
            if (how === "between") await new Promise(() => {});
            await tx.exec(`select pg_sleep(30) /* ${mark} */`);
          };
          const run = client.transaction(insert, how === "timeout" ? { timeout: 200 } : { signal: giveUp.signal });
          if (how !== "timeout") void pause(200).then(() => giveUp.abort());
          await t.assert.rejects(run, how === "timeout" ? { code: "QUERY_TIMEOUT" } : { name: "AbortError" });
          await eventually("the query is gone", 2000, async () => (await running(t, mark)) === 0);
          await eventually("the client is free", 2000, () =>
            client.query("select 1").then(
              () => true,
              () => false,
            ),
          );
          t.assert.equal(await count(client, table), 0);
        }
      }),
  },
  {
    name: "a connection that goes ends the transaction with it",
    ownServer: true,
    run: (t) =>
      withTable(t, async (_, table) => {
        const client = await t.pgz.connect(t.options);
        const lost = await client
          .transaction(async (tx) => {
            await tx.exec(`insert into ${table} values (1)`);
            const [row] = (await tx.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
            await t.side(`select pg_terminate_backend(${row!.pid})`);
            await tx.transaction((inner) => inner.query("select 1"));
          })
          .then(
            () => "committed",
            (error: PgzError) => error.code,
          );
        t.assert.equal(/^(57P01|CONNECTION_LOST)$/.test(lost), true, lost);
        await t.assert.rejects(
          client.transaction((tx) => tx.query("select 1")),
          { code: "CONNECTION_LOST" },
        );
        await client.close();
      }),
  },
  {
    name: "what was lost or never begun is not committed, though the callback heard nothing of it",
    ownServer: true,
    run: async (t) => {
      const client = await t.pgz.connect(t.options);
      const lost = client.transaction(
        async (tx) => void (await tx.query("select pg_terminate_backend(pg_backend_pid())").catch(() => {})),
      );
      const code = await lost.then(
        () => "committed",
        (error: PgzError) => error.code,
      );
      t.assert.equal(/^(57P01|CONNECTION_LOST)$/.test(code), true, code);
      await client.close();
      await withTable(t, async (client, table) => {
        // A transaction of the session's own.
        await client.exec("begin");
        await client.exec(`insert into ${table} values (1)`);
        await t.assert.rejects(
          client.transaction((tx) => tx.exec(`insert into ${table} values (2)`)),
          { code: "TRANSACTION_OPEN" },
        );
        await client.exec("commit");
        t.assert.equal(await count(client, table), 1);
        // Options that cannot be: nothing is left behind.
        for (const options of [{ signal: new AbortController() }, { timeout: 2 ** 31 }, { timeout: "1" }])
          await t.assert.rejects(
            client.transaction(() => 1, options as never),
            { code: "INVALID_OPTION" },
          );
        // Aborted before it was its turn.
        await t.assert.rejects(
          client.transaction(() => 1, { signal: AbortSignal.abort() }),
          { name: "AbortError", retryable: true },
        );
        await t.assert.rejects(
          client.transaction((tx) => tx.query("select pg_sleep(30)"), { timeout: 100 }),
          { code: "QUERY_TIMEOUT", retryable: false },
        );
        await client.transaction((tx) => tx.exec(`insert into ${table} values (3)`));
        t.assert.equal(await count(client, table), 2);
      });
    },
  },
  {
    name: "a transaction that is ended while it waits to try again is over at once, and so is its turn",
    run: (t) =>
      withClient(t, async (client) => {
        const giveUp = new AbortController();
        let runs = 0;
        const run = client.transaction(
          (tx) => (runs++, tx.exec("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$")),
          { retry: 1_000, signal: giveUp.signal },
        );
        void pause(300).then(() => giveUp.abort());
        await t.assert.rejects(run, { name: "AbortError" });
        const before = runs;
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
        await pause(1_200);
        t.assert.equal(runs, before);
      }),
  },
  {
    name: "close() and a lost connection end a transaction whose callback waits for something else",
    ownServer: true,
    run: async (t) => {
      for (const how of ["close", "lost"]) {
        const client = await t.pgz.connect(t.options);
        const [row] = (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
        const stuck = client.transaction(async (tx) => {
          await tx.query("select 1");
          for await (const batch of tx.cursor("select 1 as a", 1)) t.assert.equal(batch.length, 1);
          const more = tx.query("select pg_sleep(30)").catch(() => {});
          await (how === "lost" ? more : undefined);
          await new Promise(() => {});
        });
        const settled = stuck.then(
          () => "committed",
          (error: PgzError) => error.code,
        );
        await pause(100);
        if (how === "close") await client.close();
        else await t.side(`select pg_terminate_backend(${row!.pid})`);
        const code = await Promise.race([settled, pause(3000).then(() => "nothing")]);
        t.assert.equal(/^(CLIENT_CLOSED|57P01|CONNECTION_LOST)$/.test(code), true, `${how}: ${code}`);
        await client.close();
      }
    },
  },
  {
    name: "rows are inserted, changed and found by the helpers of sql",
    run: (t) =>
      withSchema(t, async (client, schema) => {
        const { sql } = t.pgz;
        const table = sql.identifier(schema, "people");
        await client.exec(sql`create table ${table} (id int4, "na""me" text, meta jsonb, tags text[])`);
        const people = [
          { id: 1, 'na"me': "Ann", meta: sql.json("text"), tags: ["a", 'b"c'] },
          { id: 2, 'na"me': null, meta: { a: [1] }, tags: [] },
        ];
        t.assert.equal((await client.exec(sql`insert into ${table} ${sql.values(people)}`)).rowCount, 2);
        t.assert.equal(
          (
            await client.exec(
              sql`insert into ${table} (id, meta) ${sql.values([
                [3, sql.json(null)],
                [4, sql`default`],
              ])}`,
            )
          ).rowCount,
          2,
        );
        await client.exec(
          sql`update ${table} set ${sql.set({ 'na"me': "Bob", tags: sql`array['x']` })} where id in ${sql.in([2, 7])}`,
        );
        const wanted = [sql`id < ${4}`, sql`"na""me" is not null`];
        const { rows } = await client.query(
          sql`select * from ${table} where ${sql.join(wanted, sql` and `)} order by id ${[sql`limit ${10}`, sql` offset ${0}`]}`,
        );
        t.assert.deepEqual(rows, [
          { id: 1, 'na"me': "Ann", meta: "text", tags: ["a", 'b"c'] },
          { id: 2, 'na"me': "Bob", meta: { a: [1] }, tags: ["x"] },
        ]);
        t.assert.deepEqual(
          (await client.query(sql`select id, meta::text as meta from ${table} where id > 2 order by id`)).rows,
          [
            { id: 3, meta: "null" },
            { id: 4, meta: null },
          ],
        );
        t.assert.deepEqual(
          (
            await client.query(
              sql`select ${sql.json("é")}::json as j, ${[sql.json("a"), sql.json({ b: 1 })]}::jsonb[] as js`,
            )
          ).rows,
          [{ j: "é", js: ["a", { b: 1 }] }],
        );
      }),
  },
  {
    name: "a single statement that lost a conflict runs again when it is asked to, and a CALL, a DO or one inside a transaction never",
    run: (t) =>
      withSchema(t, async (plain, schema) => {
        await plain.simple(`create sequence ${schema}.tries;
          create function ${schema}.twice(code text) returns int4 language plpgsql as $$ begin
            if nextval('${schema}.tries') % 3 <> 0 then raise exception 'conflict' using errcode = code; end if; return 7; end $$;
          create procedure ${schema}.never() language plpgsql as $$ begin perform nextval('${schema}.tries'); raise exception 'conflict' using errcode = '40001'; end $$`);
        const tries = async () =>
          Number((await plain.query<{ n: string }>(`select last_value as n from ${schema}.tries`)).rows[0]?.n);
        const again = async (n: number) => void (await plain.exec(`select setval('${schema}.tries', ${n})`));
        const retries: number[] = [];
        await withClient(
          t,
          async (client) => {
            const { sql } = t.pgz;
            const call = (code: string) => sql`select ${sql.unsafe(`${schema}.twice`)}(${code}) as n`;
            await again(3);
            t.assert.deepEqual((await client.query(call("40001"))).rows, [{ n: 7 }]);
            t.assert.equal(await tries(), 6);
            t.assert.equal(await text(await client.stream(call("40P01"))), '{"n":7}\n');
            t.assert.deepEqual(retries, [1, 2, 1, 2]);
            await t.assert.rejects(client.query(call("40002")), { code: "40002" });
            await t.assert.rejects(
              client.transaction((tx) => tx.query(call("40001"))),
              { code: "40001" },
            );
            t.assert.equal(await tries(), 11);
            await t.assert.rejects(client.exec(`/* a comment */ call ${schema}.never()`), { code: "40001" });
            await t.assert.rejects(client.exec(`do $$ begin call ${schema}.never(); end $$`), { code: "40001" });
            t.assert.equal(await tries(), 13);
            await again(3);
            await t.assert.rejects(plain.query(call("40001")), { code: "40001", retryable: true });
            t.assert.equal(await tries(), 4);
          },
          { retryOnSerialization: true, observer: { onRetry: ({ attempt }) => void retries.push(attempt) } },
        );
      }),
  },
];
