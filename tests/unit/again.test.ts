// The table that decides when SQL is sent a second time (js/session/again.ts), in every state of an attempt.
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

/** Yields each cause with every attempt that may be sent again at most 0, 1, 2 times, or without a bound. */
function* states(): Generator<Attempt & { cause: Cause }> {
  for (const cause of CAUSES)
    for (const effect of EFFECTS)
      for (const place of PLACES)
        for (const userHasRows of [false, true])
          for (const repeats of [0, 1, 2, 3])
            for (const most of [0, 1, 2, Infinity]) yield { cause, effect, place, userHasRows, repeats, most };
}

const again = [...states()].filter(({ cause, ...attempt }) => nextAfter(cause, attempt) !== "fail");

test("an attempt that may have had an effect is never sent again", () => {
  expect(again.filter(({ effect }) => effect === "unknown")).toEqual([]);
});

test("an attempt whose rows have reached the user is never sent again", () => {
  expect(again.filter(({ userHasRows }) => userHasRows)).toEqual([]);
});

test("an attempt that failed inside a transaction is never sent again, because the transaction failed too", () => {
  expect(again.filter(({ place }) => place === "inside")).toEqual([]);
});

test("an attempt that began a transaction is sent again, with a new BEGIN, if only its beginning failed", () => {
  const begun = again.filter(({ place }) => place === "begins");
  expect(new Set(begun.map(({ cause }) => cause))).toEqual(new Set(["ended session", "refused login", "outdated"]));
});

test("no attempt is sent again more often than its bound allows", () => {
  expect(again.filter(({ repeats, most }) => repeats >= most)).toEqual([]);
});

test("only an attempt without any effect moves to another session", () => {
  const elsewhere = again.filter(({ cause, ...attempt }) => nextAfter(cause, attempt) === "elsewhere");
  expect(elsewhere.every(({ effect }) => effect === "none")).toBe(true);
  expect(new Set(elsewhere.map(({ cause }) => cause))).toEqual(new Set(["ended session", "refused login"]));
});

test("each cause leads to repeats in some state, and they stop at the bound", () => {
  const reached = new Set(again.map(({ cause }) => cause));
  expect([...reached]).toEqual(CAUSES);
  for (const cause of CAUSES) {
    const attempt = { effect: "none", place: "alone", userHasRows: false, most: 2 } as const;
    const nexts = [0, 1, 2].map((repeats) => nextAfter(cause, { ...attempt, repeats }));
    expect(nexts).toEqual([RULES[cause].next, RULES[cause].next, "fail"]);
  }
});

test("the driver's own query that another call's cancel ended is repeated, unless a transaction failed with it", () => {
  expect(["I", "T", "E"].map(mayAskAgain)).toEqual([true, false, false]);
});

test("docs/architecture.md shows the same table as the code", () => {
  const text = readFileSync(new URL("../../docs/architecture.md", import.meta.url), "utf8");
  const rows = [
    ...text.matchAll(/^\| `([a-z ]+)` \| [^|]* \| ([a-z, ]+) \| ([a-z, ]+) \| ([a-z ]+) \| [^|]* \|$/gm),
  ].map(([, cause, effects, places, next]) => [
    cause,
    { effects: effects!.split(", "), places: places!.split(", "), next },
  ]);
  expect(Object.fromEntries(rows)).toEqual(RULES);
});
