// Which texts are COPY statements whose data travel on the connection, so that copyFrom and copyTo accept them.
import { expect, test } from "vitest";
import { copyText } from "../../js/statement/copy-statement.ts";
import { sql } from "../../js/statement/sql.ts";
import { isClientCopy } from "../../js/util/statement-words.ts";

test.each([
  "copy t from stdin",
  "COPY t (a, b) TO STDOUT (format csv)",
  "-- one\n copy /* two */ t from /* three */ Stdin",
  "copy (select 'x', \"y\" from t) to stdout",
  ";copy t to stdout",
])("%j is such a COPY statement", (text) => {
  expect(isClientCopy(text)).toBe(true);
  expect(copyText(text)).toBe(text);
});

test.each([
  "copy t from '/tmp/file'",
  "copy t to program 'stdout'",
  "copy \"stdin\" from 'file'",
  "copy \"stdout\" to 'file' -- stdin",
  "copy t from 'file' /* stdin */",
  "copy t from $$stdin$$",
  "copy",
  "select stdin, stdout from t",
  "copyright from stdin",
  "insert into stdin values (1)",
  "",
])("%j is not, so it is refused before it runs", (text) => {
  expect(isClientCopy(text)).toBe(false);
  expect(() => copyText(text)).toThrow(expect.objectContaining({ name: "UsageError", code: "COPY_NEEDS_COPY_CALL" }));
});

test("the table of a COPY may come from the sql tag, and a parameter may not", () => {
  expect(copyText(sql`copy ${sql.identifier("t")} from stdin`)).toBe('copy "t" from stdin');
  expect(() => copyText(sql`copy t from ${"stdin"}`)).toThrow(expect.objectContaining({ code: "INVALID_QUERY" }));
});
