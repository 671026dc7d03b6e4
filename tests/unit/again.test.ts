// The table that says when SQL is sent a second time (js/session/again.ts), in every state that an attempt can be in.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  mayAskAgain,
  nextAfter,
  RULES,
  type Attempt,
  type Cause,
  type Effect,
  type Place,
} from "../../js/session/again.ts";

const CAUSES = Object.keys(RULES) as Cause[];
const EFFECTS: readonly Effect[] = ["none", "undone", "unknown"];
const PLACES: readonly Place[] = ["alone", "begins", "inside"];

/** Every attempt that may be sent twice more at most, with each cause. */
function* states(): Generator<Attempt & { cause: Cause }> {
  for (const cause of CAUSES)
    for (const effect of EFFECTS)
      for (const place of PLACES)
        for (const isSeen of [false, true])
          for (const repeats of [0, 1, 2, 3])
            for (const most of [0, 1, 2, Infinity]) yield { cause, effect, place, isSeen, repeats, most };
}

const again = [...states()].filter(({ cause, ...attempt }) => nextAfter(cause, attempt) !== "fail");

test("nothing that may have had an effect is sent again", () => {
  expect(again.filter(({ effect }) => effect === "unknown")).toEqual([]);
});

test("nothing whose rows have reached the user is sent again", () => {
  expect(again.filter(({ isSeen }) => isSeen)).toEqual([]);
});

test("nothing that failed inside of a transaction is sent again, since the transaction has failed with it", () => {
  expect(again.filter(({ place }) => place === "inside")).toEqual([]);
});

test("what began a transaction is sent again only where its statement was outdated, with a new BEGIN in front", () => {
  const begun = again.filter(({ place }) => place === "begins");
  expect(new Set(begun.map(({ cause }) => cause))).toEqual(new Set(["outdated"]));
});

test("nothing is sent again more often than it may", () => {
  expect(again.filter(({ repeats, most }) => repeats >= most)).toEqual([]);
});

test("another session is asked only with what has left no trace", () => {
  const elsewhere = again.filter(({ cause, ...attempt }) => nextAfter(cause, attempt) === "elsewhere");
  expect(elsewhere.every(({ effect }) => effect === "none")).toBe(true);
  expect(new Set(elsewhere.map(({ cause }) => cause))).toEqual(new Set(["ended session", "refused login"]));
});

test("each cause is sent again somewhere, as often as its bound says", () => {
  const reached = new Set(again.map(({ cause }) => cause));
  expect([...reached]).toEqual(CAUSES);
  for (const cause of CAUSES) {
    const attempt = { effect: "none", place: "alone", isSeen: false, most: 2 } as const;
    const nexts = [0, 1, 2].map((repeats) => nextAfter(cause, { ...attempt, repeats }));
    expect(nexts).toEqual([RULES[cause].next, RULES[cause].next, "fail"]);
  }
});

test("a question that another call's cancel ended is asked again, unless a transaction failed with it", () => {
  expect(["I", "T", "E"].map(mayAskAgain)).toEqual([true, false, false]);
});

test("docs/architecture.md shows this table", () => {
  const text = readFileSync(new URL("../../docs/architecture.md", import.meta.url), "utf8");
  const rows = [
    ...text.matchAll(/^\| `([a-z ]+)` \| [^|]* \| ([a-z, ]+) \| ([a-z, ]+) \| ([a-z ]+) \| [^|]* \|$/gm),
  ].map(([, cause, effects, places, next]) => [
    cause,
    { effects: effects!.split(", "), places: places!.split(", "), next },
  ]);
  expect(Object.fromEntries(rows)).toEqual(RULES);
});
