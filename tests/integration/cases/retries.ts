// Work that lost a conflict with another session runs again where that was asked for, and no other work does.
import type { Cases } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import type { PgzError, Transaction } from "../../../js/index.ts";
import { codeOf, newSchema, text } from "./helpers.ts";
import { count, newNumbers } from "./tables.ts";

export const retries: Cases = {
  async "conflicts are retried on request, with the whole callback, and the observer sees each attempt"(t) {
    const [client, table] = await newNumbers(t);
    await client.exec(`insert into ${table} values (0)`);
    const attempts: number[] = [];
    const retries: unknown[] = [];
    const raise = (code: string) => `do $$ begin raise exception 'conflict' using errcode = '${code}'; end $$`;
    const other = await t.client({
      observer: { onRetry: ({ attempt, error }) => retries.push([attempt, error.code]) },
    });
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
    t.assert.equal(await codeOf(other.transaction((tx) => tx.exec(raise("40001")), { retry: 2 })), "40001");
    t.assert.equal(await codeOf(other.transaction((tx) => tx.exec(raise("23505")), { retry: true })), "23505");
    t.assert.deepEqual(retries, [
      [1, "40001"],
      [2, "40P01"],
      [1, "40001"],
    ]);
    await t.assert.rows(client.query(`select n from ${table}`), [{ n: 1 }]);
  },
  async "a real write conflict at COMMIT is retried"(t) {
    const [client, table] = await newNumbers(t);
    await client.exec(`insert into ${table} values (10), (20)`);
    let runs = 0;
    const other = await t.client();
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
    t.assert.equal(runs, 2);
    t.assert.equal(await count(client, table), 4);
  },
  async "a transaction that SQL has ended is not retried, because a part of it may be stored"(t) {
    const [client, table] = await newNumbers(t);
    const insert = `insert into ${table} select count(*) from ${table}`;
    const conflict = "do $$ begin raise exception 'conflict' using errcode = '40001'; end $$";
    await client.exec(`create procedure ${table}_kept() language plpgsql as $$ begin
      ${insert}; commit; raise exception 'conflict' using errcode = '40001'; end $$`);
    const other = await t.client();
    const ways: Record<string, (tx: Transaction) => Promise<unknown>> = {
      "COMMIT AND CHAIN": async (tx) => {
        await tx.exec(insert);
        await tx.exec("commit and chain");
        await tx.exec(conflict);
      },
      "COMMIT AND CHAIN with the first statement": async (tx) => {
        await tx.batch([insert, "commit and chain"]);
        await tx.exec(conflict);
      },
      "ROLLBACK, and BEGIN after a statement outside, in one batch": async (tx) => {
        await tx.batch(["rollback", insert, "begin"], { atomic: false });
        await tx.exec(conflict);
      },
      "ROLLBACK, and a conflict outside": async (tx) => {
        await tx.exec("select 1");
        await tx.batch(["rollback", insert, conflict], { atomic: false }).then(([, , last]) => {
          if (last!.status === "rejected") throw last!.reason;
        });
      },
      "ROLLBACK with the first statement, in one flight": async (tx) => {
        await tx.batch(["rollback", insert]);
        await other.exec(conflict);
      },
      "ROLLBACK with the first statement, each on its own": async (tx) => {
        await tx.batch(["rollback", insert], { atomic: false });
        await other.exec(conflict);
      },
      "ROLLBACK in a batch whose row is larger than its limit": async (tx) => {
        const large = tx.batch(["rollback", `${insert} returning repeat('x', 5000)`], { maxFieldBytes: 1000 });
        await t.assert.code(large, "RESPONSE_TOO_LARGE");
        await other.exec(conflict);
      },
      "ROLLBACK, and a procedure that commits and fails": async (tx) => {
        await tx.batch(["rollback", `call ${table}_kept()`]);
      },
    };
    let stored = 0;
    for (const [way, work] of Object.entries(ways)) {
      const run = client.transaction(work, { retry: true });
      await t.assert.rejects(run, { code: "40001", retryable: false });
      t.assert.equal(await count(client, table), ++stored, way);
    }
  },
  async "a transaction that SQL has ended does not say that it was rolled back"(t) {
    const [client, table] = await newNumbers(t);
    let lost: unknown;
    const other = await t.client({ observer: { onDisconnect: ({ error }) => void (lost = error) } });
    const keep = async (tx: Transaction) => {
      await tx.exec(`insert into ${table} select count(*) from ${table}`);
      await tx.exec("commit and chain");
    };
    const refused = other.transaction(async (tx) => {
      await keep(tx);
      await tx.last("select 1/0");
    });
    await t.assert.rejects(refused, { code: "22012", transaction: "unknown" });
    const wrapped = other.transaction(async (tx) => {
      await keep(tx);
      const conflict = tx.exec("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$");
      await conflict.catch((cause: unknown) => {
        throw new Error("wrapped", { cause });
      });
    });
    const { cause } = await t.assert.rejects(wrapped, { message: "wrapped" });
    t.assert.equal((cause as PgzError).retryable, false);
    const failed = other.transaction(async (tx) => {
      await keep(tx);
      await tx.exec("select 1/0");
    });
    await t.assert.rejects(failed, { code: "22012", transaction: "unknown" });
    const cutInBatch = other.transaction(async (tx) => {
      await tx.exec("select 1");
      const insert = `insert into ${table} select count(*) from ${table}`;
      await tx.batch(["rollback", insert, "select pg_terminate_backend(pg_backend_pid())"], { atomic: false });
    });
    await t.assert.rejects(cutInBatch, { code: "57P01", transaction: "unknown", retryable: false });
    // A callback may go on after its transaction has rejected.
    let endIt!: () => void;
    const isOver = new Promise<void>((resolve) => (endIt = resolve));
    let late: Promise<PgzError> | undefined;
    const cutBefore = other.transaction(async (tx) => {
      await keep(tx);
      await tx.exec("select pg_terminate_backend(pg_backend_pid())").catch(() => {});
      await isOver;
      late = tx.exec("select 1").then(
        () => new Error("it ran") as never,
        (error: PgzError) => error,
      );
    });
    await t.assert.rejects(cutBefore, { code: "57P01", transaction: "unknown" });
    endIt();
    await until(() => late !== undefined);
    t.assert.equal((await late)!.transaction, "unknown");
    let inner: unknown;
    const cut = other.transaction(async (tx) => {
      await keep(tx);
      await tx.exec("select pg_terminate_backend(pg_backend_pid())").catch((error: unknown) => {
        inner = error;
        throw error;
      });
    });
    const error = await t.assert.rejects(cut, { code: "57P01", transaction: "unknown", retryable: false });
    const { transaction, retryable } = inner as PgzError;
    t.assert.deepEqual([transaction, retryable], ["unknown", false]);
    t.assert(lost !== error && lost !== inner, "the connection's error is not the transaction's");
    t.assert.equal((lost as PgzError).transaction, undefined);
    t.assert.equal(await count(client, table), 6);
  },
  async "a transaction of which SQL has stored nothing is retried: a ROLLBACK, and a BEGIN inside it"(t) {
    const [client, table] = await newNumbers(t);
    const other = await t.client();
    const ways: Record<string, (tx: Transaction) => Promise<unknown>> = {
      rollback: (tx) => tx.exec("rollback"),
      begin: (tx) => tx.exec("begin"),
      "begin in a script": (tx) => tx.simple("begin; select 1; start transaction"),
    };
    let stored = 0;
    for (const [way, work] of Object.entries(ways))
      for (const isFirst of [false, true]) {
        let runs = 0;
        const run = client.transaction(
          async (tx) => {
            if (isFirst && !runs) await work(tx);
            if (!(isFirst && way === "rollback" && !runs)) await tx.exec(`insert into ${table} values (${stored})`);
            if (++runs > 1) return;
            if (!isFirst) await work(tx);
            await other.exec("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$");
          },
          { retry: true },
        );
        await run;
        t.assert.equal(runs, 2, way);
        t.assert.equal(await count(client, table), ++stored, way);
      }
  },
  async "a transaction whose first statement is a savepoint is retried"(t) {
    const [client, table] = await newNumbers(t);
    let runs = 0;
    await client.transaction(
      (tx) =>
        tx.transaction(async (inner) => {
          await inner.exec(`insert into ${table} values (1)`);
          if (++runs < 2) await inner.exec("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$");
        }),
      { retry: true },
    );
    t.assert.equal(runs, 2);
    t.assert.equal(await count(client, table), 1);
  },
  "a transaction that is ended during its retry pause rejects at once and frees the connection": {
    differs: ["timers"],
    slow: true,
    async run(t) {
      const client = await t.client();
      const giveUp = new AbortController();
      let runs = 0;
      const run = client.transaction(
        (tx) => (runs++, tx.exec("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$")),
        { retry: 1_000, signal: giveUp.signal },
      );
      void pause(300).then(() => giveUp.abort());
      await t.assert.rejects(run, { name: "AbortError" });
      const before = runs;
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      await pause(1_200);
      t.assert.equal(runs, before);
    },
  },
  async "a statement that lost a conflict is retried on request, but never a CALL, a DO or a statement in a transaction"(
    t,
  ) {
    const [plain, schema] = await newSchema(t);
    await plain.simple(`create sequence ${schema}.tries;
          create function ${schema}.twice(code text) returns int4 language plpgsql as $$ begin
            if nextval('${schema}.tries') % 3 <> 0 then raise exception 'conflict' using errcode = code; end if;
            return 7; end $$;
          create procedure ${schema}.never() language plpgsql
            as $$ begin perform nextval('${schema}.tries');
            raise exception 'conflict' using errcode = '40001'; end $$`);
    const tries = async () =>
      Number((await plain.query<{ n: string }>(`select last_value as n from ${schema}.tries`)).rows[0]?.n);
    const again = async (n: number) => void (await plain.exec(`select setval('${schema}.tries', ${n})`));
    const retries: number[] = [];
    const client = await t.client({
      retryOnSerialization: true,
      observer: { onRetry: ({ attempt }) => void retries.push(attempt) },
    });
    const { sql } = t.pgz;
    const call = (code: string) => sql`select ${sql.unsafe(`${schema}.twice`)}(${code}) as n`;
    await again(3);
    await t.assert.rows(client.query(call("40001")), [{ n: 7 }]);
    t.assert.equal(await tries(), 6);
    t.assert.equal(await text(await client.stream(call("40P01"))), '{"n":7}\n');
    t.assert.deepEqual(retries, [1, 2, 1, 2]);
    await t.assert.code(client.query(call("40002")), "40002");
    t.assert.equal(await codeOf(client.transaction((tx) => tx.query(call("40001")))), "40001");
    t.assert.equal(await tries(), 11);
    // What they had committed before would be stored again.
    const once = { code: "40001", retryable: false, hasNoEffect: false };
    await t.assert.rejects(client.exec(`/* a comment */ call ${schema}.never()`), once);
    await t.assert.rejects(client.exec(`do $$ begin call ${schema}.never(); end $$`), once);
    const [item] = await client.batch([`call ${schema}.never()`, "select 1"], { atomic: false });
    t.assert.equal((item as PromiseRejectedResult & { reason: { retryable: boolean } }).reason.retryable, false);
    t.assert.equal(await tries(), 14);
    // Rows have come from the server, but a document of standard TOON is passed on only at its end.
    const late = sql`select g as n, case when g = 20000 then ${sql.unsafe(`${schema}.twice`)}(${"40001"}) end as v
      from generate_series(1, 20000) g`;
    await again(3);
    t.assert.match(
      await text(await client.stream(late, { format: "toon", toon: t.pgz.standardToon })),
      /^\[20000\][^]*20000,7$/,
    );
    t.assert.equal(await tries(), 6);
    await again(3);
    await t.assert.rejects(client.stream(late).then(text), { code: "40001", committed: true });
    await again(3);
    await t.assert.rejects(plain.query(call("40001")), { code: "40001", retryable: true });
    t.assert.equal(await tries(), 4);
  },
};
