// Data for a terminal that arrive in pieces.
import { expect, test } from "vitest";
import { PrintableData } from "../../js/cli/printable.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

test.each([
  ["the end of a line, cut in two", ["a\r", "\nb"], "a\r\nb"],
  ["a carriage return that no line feed follows", ["a\r", "b"], "a\\rb"],
  ["a carriage return at the end", ["a\r"], "a\\r"],
  ["an escape", ["a\x1b", "[2J"], "a\\u001b[2J"],
])("%s", (_, pieces, shown) => {
  const data = new PrintableData();
  expect(pieces.map((piece) => data.next(piece)).join("") + data.end()).toBe(shown);
});

test("a character that is cut in two is shown, and half of one at the end is U+FFFD", () => {
  const data = new PrintableData();
  const whole = bytes("é€");
  expect([data.next(whole.subarray(0, 1)), data.next(whole.subarray(1, 4)), data.end()]).toEqual(["", "é", "\ufffd"]);
});
