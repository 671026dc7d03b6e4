// Statements whose text means other columns than when it was learned: a column was altered or added, or the search_path
// names another schema. No value is read as a type that it does not have any more.
import type { PgzError } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { newSchema, unseen } from "./helpers.ts";

export const changedColumns: Cases = {
  async "a column that has become another type of the database is never read as the old one"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.mood as enum ('sad'); create table ${s}.kept (m ${s}.mood, n int4);
      insert into ${s}.kept values ('sad', 1)`);
    const query = `select m, n from ${s}.kept`;
    await t.assert.rows(client.query(query), [{ m: "sad", n: 1 }]);
    for (const [alter, m] of [
      [`type ${s}.mood[] using array[m]`, ["sad"]],
      [`type xml using '<a/>'::xml`, "<a/>"],
      [`type ${s}.mood[] using array['sad']::${s}.mood[]`, ["sad"]],
    ] as const) {
      await unseen(client, `alter table ${s}.kept alter m ${alter}`);
      for (const one of [client, await t.client()]) {
        const outcome = await one.query(query).catch((error: PgzError) => error.code);
        if (typeof outcome !== "string") t.assert.deepEqual(outcome.rows, [{ m, n: 1 }]);
        await t.assert.rows(one.query(query), [{ m, n: 1 }]);
      }
    }
  },

  async "a column that is added to a statement of one column is never read in that one's form"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.mood as enum ('sad'); create type ${s}.pair as (a int4, b text);
      create table ${s}.kept (m ${s}.mood); insert into ${s}.kept values ('sad')`);
    const query = `select * from ${s}.kept`;
    for (let run = 0; run < 2; run++) await t.assert.rows(client.query(query), [{ m: "sad" }]);
    await unseen(client, `alter table ${s}.kept add p ${s}.pair default row(1, 'x')`);
    for (const one of [client, await t.client()]) {
      const outcome = await one.query(query).catch((error: PgzError) => error.code);
      const whole = [{ m: "sad", p: { a: 1, b: "x" } }];
      if (typeof outcome === "string") t.assert.equal(outcome, "SHAPE_CHANGED");
      else t.assert.deepEqual(outcome.rows, whole);
      await t.assert.rows(one.query(query), whole);
    }
  },

  async "a text that means enums of two schemas in turn is always read, and stores each row once"(t) {
    const [client, s] = await newSchema(t);
    const other = `${s}_2`;
    await client.simple(`create schema ${other}`);
    for (const each of [s, other])
      await client.simple(
        `create type ${each}.mood as enum ('sad'); create table ${each}.kept (m ${each}.mood, n int4)`,
      );
    const [insert, read] = ["insert into kept values ('sad', 1) returning m, n", "select m, n from kept"];
    for (let run = 1; run <= 3; run++)
      for (const each of [s, other]) {
        await client.exec(`set search_path = ${each}`);
        await client.exec(insert);
        await t.assert.rows(client.query(insert), [{ m: "sad", n: 1 }]);
        t.assert.equal((await client.query(read)).rows.length, 2 * run);
      }
    await client.simple(`set search_path = public; drop schema ${other} cascade`);
  },

  async "one text that means two tables in turn is read with the columns of the one that it means"(t) {
    const [client, s] = await newSchema(t, { prepare: "unnamed" });
    const other = `${s}_2`;
    await client.simple(`create schema ${other}; create table ${s}.kept (x int4, y text);
      create table ${other}.kept (z text, w bool); insert into ${s}.kept values (7, 'seven');
      insert into ${other}.kept values ('why', true)`);
    const query = "select * from kept";
    const at = (schema: string) => client.exec(`set search_path = ${schema}`);
    for (let run = 0; run < 3; run++) {
      await at(s);
      await t.assert.rows(client.query(query), [{ x: 7, y: "seven" }]);
      await at(other);
      if (run === 1) await t.assert.rows(client.query(query), [{ z: "why", w: true }]);
      else t.assert.equal((await client.exec(query)).rowCount, 1);
    }
    await at(s);
    await t.assert.rows(client.query(query), [{ x: 7, y: "seven" }]);
    await client.simple(`set search_path = public; drop schema ${other} cascade`);
  },

  async "a call that reads no rows does not mind that the text means another table now"(t) {
    const [client, s] = await newSchema(t, { prepare: "unnamed" });
    const other = `${s}_2`;
    await client.simple(`create schema ${other}; create table ${s}.kept (x xml); create table ${other}.kept (x int4[]);
      insert into ${s}.kept values ('<a/>'); insert into ${other}.kept values ('{1,2}')`);
    const query = "select x from kept";
    await client.exec(`set search_path = ${s}`);
    for (let run = 0; run < 2; run++) await t.assert.rows(client.query(query), [{ x: "<a/>" }]);
    await client.exec(`set search_path = ${other}`);
    const [, { rowCount }] = await Promise.all([
      client.query(query).catch(() => {}),
      client.exec(query),
      client.query(query).catch(() => {}),
    ]);
    t.assert.equal(rowCount, 1);
    await client.simple(`set search_path = public; drop schema ${other} cascade`);
  },

  async "of reads made together none returns a text whose type has become another one"(t) {
    const [client, s] = await newSchema(t, { prepare: "unnamed" });
    await client.simple(`create type ${s}.mood as enum ('sad'); create type ${s}.pair as (a int4, b text);
      create table ${s}.kept (v ${s}.mood); insert into ${s}.kept values ('sad')`);
    const query = `select v from ${s}.kept`;
    for (let run = 0; run < 2; run++) await t.assert.rows(client.query(query), [{ v: "sad" }]);
    const alter = `alter table ${s}.kept alter v type ${s}.pair using row(1, 'x')::${s}.pair`;
    await unseen(client, alter);
    const read = () => client.query(query).catch((error: PgzError) => error.code);
    const outcomes = await Promise.all([read(), read(), read()]);
    for (const outcome of outcomes)
      if (typeof outcome === "string") t.assert.equal(outcome, "SHAPE_CHANGED");
      else t.assert.deepEqual(outcome.rows, [{ v: { a: 1, b: "x" } }]);
    await t.assert.rows(client.query(query), [{ v: { a: 1, b: "x" } }]);
  },

  async "an enum that was learned in a transaction is read where the text means another enum"(t) {
    const [client, s] = await newSchema(t, { prepare: "unnamed" });
    const other = `${s}_2`;
    await client.simple(`create schema ${other}`);
    for (const each of [s, other])
      await client.simple(`create type ${each}.mood as enum ('sad'); create table ${each}.kept (m ${each}.mood)`);
    for (let run = 0; run < 2; run++)
      for (const each of [s, other])
        await client.transaction(async (tx) => {
          await tx.exec(`set local search_path = ${each}`);
          await t.assert.rows(tx.query("insert into kept values ('sad') returning m"), [{ m: "sad" }]);
        });
    await client.simple(`drop schema ${other} cascade`);
  },
};
