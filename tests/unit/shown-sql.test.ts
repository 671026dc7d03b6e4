// SQL as errors show it: shortened, with a mark at the error's position, and never with a password.
import { expect, test } from "vitest";
import { excerptOf, mayHoldPassword, shownInLine, shownSql } from "../../js/util/shown-sql.ts";

test.each([
  "create role bob password 'x'",
  "CREATE USER bob",
  "alter role bob with login",
  "alter\n-- it\nuser bob valid until 'infinity'",
  "alter/* the */group g add user u",
  "select 1; alter role bob password 'x'",
  "create user mapping for bob server s options (user 'u', secret 'x')",
  "create server s foreign data wrapper w options (password 'x')",
  "create subscription s connection 'host=h password=x' publication p",
  "update users set password = 'x'",
  "select dblink_connect('host=h passwd=x')",
  "do $$ begin perform set_password($q$x$q$); end $$",
])("%s is not shown, because it may contain a password", (text) => {
  expect(mayHoldPassword(text)).toBe(true);
  expect(shownSql(text)).toBe("(hidden: it may hold a password)");
  expect(excerptOf(text, "3")).toBeUndefined();
});

test.each([
  "select password from users where id = $1",
  "update users set password = $1 where id = $2",
  "select * from user_roles where role = 'admin'",
  "create table users (id int)",
  "alter table role_grants add column role text",
  "select current_user, 'x'",
])("%s is shown", (text) => {
  expect(shownSql(text)).toBe(text);
});

test("a URL without an end is scanned once", () => {
  const text = `select '://${":".repeat(200_000)}'`;
  expect(shownSql(text)).toMatch(/^select .*… \(\d+ characters\)$/);
});

test("a long text is cut, but not inside a character", () => {
  expect(shownSql("x".repeat(1_000))).toBe("x".repeat(1_000));
  expect(shownSql("x".repeat(1_001))).toBe(`${"x".repeat(1_000)}… (1001 characters)`);
  expect(shownSql(`${"x".repeat(999)}😀`)).toBe(`${"x".repeat(999)}… (1001 characters)`);
});

const at = (text: string, wrong: string) => String([...text.slice(0, text.indexOf(wrong))].length + 1);
const excerpt = (text: string, wrong: string) => excerptOf(text, at(text, wrong));

test("the mark is below the error's position", () => {
  expect(excerpt("select nme from users", "nme")).toBe("LINE 1: select nme from users\n               ^");
  expect(excerptOf("", "1")).toBe("LINE 1: \n        ^");
  expect(excerptOf("selec", "6")).toBe("LINE 1: selec\n             ^");
});

test("of several lines the one with the position is shown", () => {
  expect(excerpt("select id,\r\n\tnme\nfrom users", "nme")).toBe("LINE 2:  nme\n         ^");
});

test("positions count characters, as the server does", () => {
  expect(excerpt("select '😀😀', nme", "nme")).toBe("LINE 1: select '😀😀', nme\n                     ^");
});

test("a long line is cut on both sides", () => {
  const text = `select ${"a, ".repeat(100)}nme, ${"b, ".repeat(100)}1`;
  const [line, mark] = excerpt(text, "nme")!.split("\n") as [string, string];
  expect(line.length).toBeLessThan(140);
  expect(line.slice(mark.indexOf("^"))).toMatch(/^nme, .*…$/);
  expect(line).toMatch(/^LINE 1: …/);
});

test.each(["0", "-1", "x", "", "99"])("a position %j outside of the text shows no excerpt", (position) => {
  expect(excerptOf("select 1", position)).toBeUndefined();
});

test("within a message a text is one line of at most 80 characters", () => {
  expect(shownInLine("select\n  1,\t2 ")).toBe("select 1, 2");
  expect(shownInLine(`select '${"x".repeat(100)}'`)).toBe(`select '${"x".repeat(72)}…`);
  expect(shownInLine("create user bob")).toBe("(hidden: it may hold a password)");
});
