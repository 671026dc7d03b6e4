// The comment that option sqlComment adds after a text: exactly one, whatever values it is given, or none.
import fc from "fast-check";
import { expect, test } from "vitest";
import { commentOf } from "../../js/session/sql-comment.ts";

const behind = (facts: unknown, text = "select 1") => text + commentOf({ sqlComment: () => facts as never });

test("names and values are written like sqlcommenter writes them, sorted by name", () => {
  expect(behind({ traceparent: "00-ab-cd-01", route: "/a b?c='d'" })).toBe(
    "select 1\n/*route='%2Fa%20b%3Fc%3D%27d%27',traceparent='00-ab-cd-01'*/",
  );
  expect(behind({ a: undefined, b: "2" })).toBe("select 1\n/*b='2'*/");
});

test("the comment is on a line of its own, even after a comment that ends with its line", () => {
  expect(behind({ a: "1" }, "select 1 -- one")).toBe("select 1 -- one\n/*a='1'*/");
});

test("neither a name nor a value can end the comment, open another, or end a value", () => {
  const any = fc.string({ unit: fc.constantFrom(..."*/'\\-\n\0ab%é😀".split("")) });
  fc.assert(
    fc.property(fc.dictionary(any, any), (facts) => {
      const text = behind(facts);
      if (text === "select 1") return;
      expect(text).toMatch(/^select 1\n\/\*(?:[^*/'\s\0]|\*(?!\/))*(?:'(?:[^/'\s\0])*'(?:,[^/'\s\0]*)?)*\*\/$/);
      expect(text.match(/\/\*|\*\//g)).toEqual(["/*", "*/"]);
    }),
  );
});

test("the longest comment has a thousand characters, and a longer one is left out", () => {
  expect(behind({ a: "x".repeat(996) })).toBe(`select 1\n/*a='${"x".repeat(996)}'*/`);
  expect(behind({ a: "x".repeat(997) })).toBe("select 1");
});

test("without an option, and with values that cannot be written, the text stays unchanged", () => {
  expect(commentOf({ sqlComment: undefined })).toBe("");
  for (const facts of [undefined, null, {}, { a: undefined }, { a: "x".repeat(1_000) }, { a: "\ud800" }])
    expect(behind(facts)).toBe("select 1");
  const throws = () => {
    throw new Error("no context");
  };
  expect(commentOf({ sqlComment: throws })).toBe("");
});
