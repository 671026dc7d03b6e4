// What the words of a statement say (js/util/statement-words.ts). `isPipelinable` and `isClientCopy` are tested beside
// what follows from them: first-run-sql.test.ts, copy-statement.test.ts.
import { expect, test } from "vitest";
import { isRead, isUndone, mayBegin, mayCommitApart, mayKeep, rollsBack } from "../../js/util/statement-words.ts";

test("what commits by itself, and a COMMIT before the end, may have committed something even though one failed", () => {
  for (const texts of [
    ["call p()"],
    ["DO $$ begin end $$"],
    ["-- one\n/* two */ Call p()"],
    ["select 1; do $$ begin end $$"],
    ["begin; insert into t values (1); commit; select 1"],
    ["insert into t values (1)", "end", "select 1"],
    ["prepare transaction 'a'; select 1"],
    ["vacuum a, b"],
    ["create unique index Concurrently if not exists i on t (a)"],
    ["alter table t detach partition p concurrently"],
    ["reindex database"],
  ])
    expect(mayCommitApart(texts), texts.join()).toBe(true);
  for (const texts of [
    ["call p()"],
    [String.raw`do $$ begin perform regexp_replace('a', '\d', ''); end $$`],
    ["call p()", "select 1"],
    ["vacuum"],
    ["drop index concurrently i"],
  ])
    expect(mayCommitApart(texts, true), texts.join()).toBe(false);
  for (const texts of [
    ["select do()"],
    ["insert into call values (1)"],
    [""],
    ["commit"],
    ["begin; update t set a = 1; commit"],
    ["begin", "update t set a = 1", "commit"],
    ["create index i on t (a)"],
    ["select 'concurrently'"],
    ["refresh materialized view concurrently v"],
    ["select 1", "select 2"],
    [],
  ])
    expect(mayCommitApart(texts), texts.join()).toBe(false);
});

test("a read is what none of its own words makes write", () => {
  for (const text of [
    "select 1",
    " -- c\n TABLE t",
    "values (1)",
    "with a as (select 'insert') select \"into\" from a",
  ])
    expect(isRead(text), text).toBe(true);
  for (const text of ["with a as (delete from t returning 1) select 1", "select 1 into t", "insert into t values (1)"])
    expect(isRead(text), text).toBe(false);
  for (const text of ["select 1 from t for update", "", "fetch a"]) expect(isRead(text), text).toBe(false);
});

test("rows are undone with their transaction, by the name of the command or by its tag", () => {
  for (const command of ["insert", "SELECT", "merge", "UPDATE", "delete", ""]) expect(isUndone(command)).toBe(true);
  for (const command of ["commit", "CALL", "do", "VACUUM", "create", "prepare"]) expect(isUndone(command)).toBe(false);
});

test.each([
  ["begin", true],
  ["START TRANSACTION", true],
  ["select 1; begin read only", true],
  ["select 1 as begin", false],
  ["commit", false],
  // Read as two statements, or as one text, by a setting of the session.
  ["select 'a\\'; begin; select '", true],
])("mayBegin tells whether %j may begin a transaction", (text, expected) => {
  expect(mayBegin(text)).toBe(expected);
});

test.each([
  [["commit"], true],
  [["select 1; END"], true],
  [["prepare transaction 'a'"], true],
  [["rollback"], false],
  [["rollback; insert into t values (1)"], true],
  [["rollback", "insert into t values (1)"], true],
  [["rollback to a", "insert into t values (1)"], false],
  [["select 1", "insert into t values (1)"], false],
])("mayKeep tells whether %j may store something of an open transaction", (texts, expected) => {
  expect(mayKeep(texts)).toBe(expected);
});

test.each([
  ["rollback", true],
  ["ROLLBACK WORK; select 1", true],
  ["select 1; abort and chain", true],
  ["rollback to savepoint a", false],
  ["rollback work to a; release a", false],
  ["rollback to a; rollback", true],
  ["select 'rollback'; commit", false],
  ["select 1 as rollback", false],
])("rollsBack tells whether %j ends a transaction", (text, expected) => {
  expect(rollsBack(text)).toBe(expected);
});
