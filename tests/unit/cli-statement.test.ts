// Which statements the command line classifies as read-only, by their words.
import { expect, test } from "vitest";
import { reads } from "../../js/cli/statement.ts";

test.each([
  ["select 1", true],
  ["/* /* insert */ */ (select 1)", true],
  ["explain analyze select 'create table'", true],
  ["with a as (delete from t returning *) select * from a", false],
  ["select 1 into t", false],
  ["explain analyze create table t as select 1", false],
  ["explain (analyze) execute p", false],
  ["create table t ()", false],
  ["", false],
])("%j only reads: %s", (text, isReading) => {
  expect(reads(text)).toBe(isReading);
});
