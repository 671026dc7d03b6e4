// One URL has one answer: what js/cache/answers.ts says to each query that a cache may store.
import { expect, it } from "vitest";
import { Answers } from "../../js/cache/answers.ts";

const of = (rows: string, tags = [rows]) => ({ rows, tags, maxAge: 1_000 });

it("lets the same answer be stored again, and another one when the first is too old", () => {
  const answers = new Answers(10, 100);
  expect(answers.claim("/a", of("1"), 0)).toBeUndefined();
  expect(answers.claim("/a", of("1"), 500)).toBeUndefined();
  expect(answers.claim("/b", of("2"), 500)).toBeUndefined();
  expect(answers.claim("/a", of("2"), 1_600)).toBeUndefined();
});

it("purges both of two answers at once and when all on their way are stored, and stores none meanwhile", () => {
  const answers = new Answers(10, 100);
  answers.claim("/a", of("1", ["x", "y"]), 0);
  expect(answers.claim("/a", of("2", ["y", "z"]), 50)).toEqual(["x", "y", "z"]);
  expect(answers.claim("/a", of("1"), 149)).toEqual([]);
  expect(answers.takeDue(149)).toEqual([]);
  expect(answers.takeDue(150)).toEqual(["x", "y", "z"]);
  expect(answers.takeDue(150)).toEqual([]);
  expect(answers.claim("/a", of("2"), 150)).toBeUndefined();
});

it("forgets the URLs that were asked for longest ago", () => {
  const answers = new Answers(2, 100);
  for (const url of ["/a", "/b", "/a", "/c"]) answers.claim(url, of("1"), 0);
  expect(answers.claim("/a", of("2"), 0)).toEqual(["1", "2"]);
  expect(answers.claim("/b", of("2"), 0)).toBeUndefined();
});
