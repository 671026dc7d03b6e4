// SASLprep compared with RFC 4013's examples, and with PostgreSQL's algorithm run with the tables of Unicode 3.2
// (Python's stringprep).
import fc from "fast-check";
import { expect, test } from "vitest";
import { saslprep } from "../../js/login/saslprep.ts";

test.each([
  // RFC 4013, section 3
  ["SOFT HYPHEN mapped to nothing", "I\u00adX", "IX"],
  ["no transformation", "user", "user"],
  ["case preserved", "USER", "USER"],
  ["output is NFKC, input in ISO 8859-1", "\u00aa", "a"],
  ["output is NFKC, input is a roman numeral", "\u2168", "IX"],
  // Where RFC 4013 has an error, PostgreSQL uses the raw password.
  ["prohibited character: ASCII is never looked at", "\u0007", "\u0007"],
  ["bidirectional check", "\u0627\u0031", "\u0627\u0031"],
  ["prohibited beside something to normalise", "\u00bd\u0007", "\u00bd\u0007"],
])("RFC 4013: %s", (_, input, output) => expect(saslprep(input)).toBe(output));

test.each([
  ["non-ASCII spaces become a space", "a\u00a0\u1680\u2003\u200b\u202f\u205f\u3000b", "a       b"],
  ["mapped to nothing", "a\u034f\u1806\u180b\u200c\u200d\u2060\ufe0f\ufeffb", "ab"],
  ["nothing is left", "\u00ad\u200d", "\u00ad\u200d"],
  ["decomposed becomes composed", "e\u0301", "\u00e9"],
  ["half-width and ligatures", "\uff21\ufb01", "Afi"],
  ["mathematical letters", "\u{1d400}\u{1d7d8}", "A0"],
  ["right to left alone", "\u05d0\u00bd\u05d1", "\u05d0\u0031\u2044\u0032\u05d1"],
  ["right to left, but not at both ends", "\u00bd\u05d0", "\u00bd\u05d0"],
  ["right to left with a letter", "\u05d0\u00aa\u05d1", "\u05d0\u00aa\u05d1"],
  ["unknown to Unicode 3.2: an emoji keeps all as it is", "\u2764\ufe0f\u{1f525}\u00bd", "\u2764\ufe0f\u{1f525}\u00bd"],
  ["known to Unicode 3.2: the variation selector goes", "\u2764\ufe0f", "\u2764"],
  ["unknown to Unicode 3.2: a currency", "\u20b9\u00bd", "\u20b9\u00bd"],
  ["private use", "\ue000\u00bd", "\ue000\u00bd"],
  ["half a surrogate pair", "\ud800\u00bd", "\ud800\u00bd"],
])("PostgreSQL: %s", (_, input, output) => expect(saslprep(input)).toBe(output));

test("ASCII is never changed", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.integer({ min: 0, max: 127 }).map((code) => String.fromCharCode(code)) }),
      (text) => saslprep(text) === text,
    ),
  );
});

test("the result is the password or its NFKC form, never empty, and stable", () => {
  fc.assert(
    fc.property(
      fc.string({
        unit: fc.integer({ min: 0, max: 0x10ffff }).map((code) => String.fromCodePoint(code)),
        minLength: 1,
      }),
      (text) => {
        const once = saslprep(text);
        expect(once).not.toBe("");
        if (once !== text) expect(once).toBe(once.normalize("NFKC"));
      },
    ),
    { numRuns: 2_000 },
  );
});
