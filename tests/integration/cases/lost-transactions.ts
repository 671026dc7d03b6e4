// Transactions that are begun in SQL and lost with their connection. Half of one is never stored.
import type { Client, Lease } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { until } from "../../support/until.mjs";
import { asleep, ended, newMark, newSchema, pidOf, terminate, terminateRunning } from "./helpers.ts";

/** A Worker does not read an idle socket: there the next call finds out. */
const noticed = (t: Context, client: Client) =>
  t.runtime === "workerd" ? undefined : until(() => client.stats().state === "lost");

/** What every call gets that meets the loss. Its code depends on whether the loss was noticed before. */
const lost = { transaction: "rolled back", retryable: false };

/** Checks that one call rejects, and that the ones after it run on a new session. */
async function rejectsOnce(t: Context, client: Client, call: () => Promise<unknown>): Promise<void> {
  await t.assert.rejects(call(), lost);
  await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  t.assert.equal(client.stats().transactionStatus, "I");
}

export const lostTransactions: Cases = {
  "the call after a transaction that was lost with its session rejects, and is not run outside it": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create table ${s}.t (n int4)`);
      const begins = [
        () => client.exec("begin"),
        () => client.exec("begin isolation level serializable"),
        async () => {
          for await (const rows of client.cursor("select 1", 1)) t.assert.equal(rows.length, 1);
          await client.exec("begin");
        },
        () => client.simple(`begin; insert into ${s}.t values (0)`),
      ];
      for (const begin of begins) {
        const pid = await pidOf(client);
        await begin();
        await client.exec(`insert into ${s}.t values (1)`);
        await terminate(t, pid);
        await noticed(t, client);
        await rejectsOnce(t, client, () => client.exec(`insert into ${s}.t values (2)`));
        await client.exec("commit");
      }
      await client.exec("begin read only");
      await terminate(t, await pidOf(client));
      await noticed(t, client);
      const insert = `insert into ${s}.t values (3)`;
      // Where the loss is not noticed, a transaction is refused: the one begun in SQL seems to be open.
      const isNoticed = t.runtime !== "workerd";
      await rejectsOnce(t, client, () =>
        isNoticed ? client.transaction((tx) => tx.exec(insert)) : client.exec(insert),
      );
      await t.assert.rows(client.query(`select n from ${s}.t`), []);
    },
  },
  "all calls that are made together after a transaction was lost with its session reject": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create table ${s}.t (n int4)`);
      await client.exec("begin");
      const insert = `insert into ${s}.t values (1)`;
      await client.exec(insert);
      await terminate(t, await pidOf(client));
      await noticed(t, client);
      const calls = [client.exec(insert), client.exec(insert), client.exec("commit")];
      for (const { status } of await Promise.allSettled(calls)) t.assert.equal(status, "rejected");
      await t.assert.rows(client.query(`select n from ${s}.t`), []);
    },
  },
  "a loop that is left while its transaction is lost with its session does not hide that": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create table ${s}.t (n int4)`);
      const select = "select n from generate_series(1, 9) n";
      for (const loop of [() => client.cursor(select, 2), () => client.rows(select)]) {
        const pid = await pidOf(client);
        await client.exec("begin");
        for await (const _ of loop()) {
          await terminate(t, pid);
          await noticed(t, client);
          break;
        }
        await rejectsOnce(t, client, () => client.exec(`insert into ${s}.t values (1)`));
      }
      await t.assert.rows(client.query(`select n from ${s}.t`), []);
    },
  },
  "a transaction that idled too long is lost with its session: the next call says so": {
    ownServer: true,
    async run(t) {
      const client = await t.client();
      const pid = await pidOf(client);
      await client.exec("begin");
      await client.exec("set local idle_in_transaction_session_timeout = 1");
      await ended(t, pid);
      await noticed(t, client);
      await rejectsOnce(t, client, () => client.query("select 2 as n"));
    },
  },
  "a call that runs while its transaction is lost reports the outcome, and the next one runs": {
    ownServer: true,
    async run(t) {
      const client = await t.client();
      const mark = newMark();
      await client.exec("begin");
      const once = rejectsOnce(t, client, () => client.query(`select pg_sleep(60) /* ${mark} */`));
      await asleep(t, mark);
      await terminateRunning(t, mark);
      await once;
      // The calls that wait behind it are not run outside the transaction, nor behind a BEGIN that was lost.
      for (const begin of ["begin", `begin; select pg_sleep(60) /* ${mark} */`]) {
        const isSleeping = begin.includes(mark);
        if (!isSleeping) await client.exec(begin);
        const first = isSleeping ? client.simple(begin) : client.query(`select pg_sleep(60) /* ${mark} */`);
        const calls = [first, client.query("select 1 as n"), client.exec("commit")];
        const rejections = calls.map((call) => t.assert.rejects(call, { retryable: false }));
        await asleep(t, mark);
        await terminateRunning(t, mark);
        await Promise.all(rejections);
        await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
      }
    },
  },
  "a transaction of transaction() that is lost rejects by itself, and no later call": {
    ownServer: true,
    async run(t) {
      const client = await t.client();
      const transaction = client.transaction(async (tx) => {
        const pid = await pidOf(tx);
        await terminate(t, pid);
        return tx.query("select 1 as n");
      });
      await t.assert.rejects(transaction, { transaction: "rolled back" });
      await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
    },
  },
  "a lease says the same of a transaction that it has lost, and has no other session for a later call": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create table ${s}.t (n int4)`);
      const insert = `insert into ${s}.t values (1)`;
      const pool = t.pool({ max: 1 });
      const begins: ((lease: Lease) => Promise<unknown>)[] = [
        (lease) => lease.exec("begin"),
        (lease) => lease.simple(`begin; ${insert}`),
      ];
      for (const begin of begins) {
        await using lease = await pool.acquire();
        await begin(lease);
        await lease.exec(insert);
        await terminate(t, await pidOf(lease));
        const calls = [lease.exec(insert), lease.exec(insert), lease.exec("commit")];
        await Promise.all(calls.map((call) => t.assert.rejects(call, { retryable: false })));
        await t.assert.rejects(lease.exec(insert), { code: "CONNECTION_LOST", retryable: true });
      }
      await t.assert.rows(client.query(`select n from ${s}.t`), []);
      await using lease = await pool.acquire();
      const transaction = lease.transaction(async (tx) => {
        await terminate(t, await pidOf(tx));
        return tx.query("select 1 as n");
      });
      await t.assert.rejects(transaction, { transaction: "rolled back" });
      await t.assert.rejects(lease.exec(insert), { code: "CONNECTION_LOST", retryable: true });
    },
  },
};
