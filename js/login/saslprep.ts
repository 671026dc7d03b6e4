// SASLprep (RFC 4013) of a password, as PostgreSQL's saslprep.c applies it before SCRAM.
//
// Knows: stringprep's mapping, prohibition and direction rules. Must not know: SCRAM. It is here and not in the core
// because the runtime has `normalize`. A table in wasm would add 70 kB.
//
// PostgreSQL uses a password unchanged if SASLprep refuses it, and this code does the same. So a rule matters only
// where mapping or NFKC would have changed the text. That is why the table of characters unassigned in Unicode 3.2
// holds only its large gaps (later scripts, symbols, currencies, all emoji). The result differs from PostgreSQL's only
// for a password that mixes a rarer addition with a character that NFKC changes.

/** Returns the text whose UTF-8 bytes SCRAM uses. */
export function saslprep(password: string): string {
  // As in saslprep.c, ASCII is never changed or refused, control characters included.
  if (/^[\0-\x7f]*$/.test(password)) return password;
  const mapped = password.replace(SPACES, " ").replace(NOTHING, "");
  return mapped === "" || PROHIBITED.test(mapped) || !hasOneDirection(mapped) ? password : mapped.normalize("NFKC");
}

/** RFC 3454 C.1.2, and the space itself. Replaced before B.1 is applied, because U+200B is in both tables. */
const SPACES = /[\p{Zs}\u200b]/gu;
/** RFC 3454 B.1, characters that are mapped to nothing. */
// eslint-disable-next-line no-misleading-character-class -- each stands for itself
const NOTHING = /[\xad\u034f\u1806\u180b-\u180d\u200c\u200d\u2060\ufe00-\ufe0f\ufeff]/g;

/**
 * RFC 3454 C.2 to C.9 on the first line, and A.1 (unassigned in Unicode 3.2) on the others. saslprep.c checks the
 * mapped text, not the normalised one.
 */
const PROHIBITED = new RegExp(
  "[\\p{C}\\p{Zl}\\p{Zp}\\u0340\\u0341\\u2ff0-\\u2ffb\\ufffc\\ufffd" +
    "\\u0234-\\u024f\\u02ef-\\u02ff\\u0350-\\u035f\\u0510-\\u052f" +
    "\\u0600-\\u060b\\u060d-\\u061a\\u061c-\\u061e\\u063b-\\u063f\\u0656-\\u065f" +
    "\\u06ee\\u06ef\\u074d-\\u077f\\u07c0-\\u0900\\u1380-\\u1399\\u18aa-\\u1dff" +
    "\\u2090-\\u209c\\u20b2-\\u20c1\\u23cf-\\u23ff\\u268a-\\u2700\\u27bf-\\u27cf\\u2b00-\\u2e5d" +
    "\\u31b8-\\u31ef\\u3244-\\u3250\\u4db6-\\u4dff\\u9fa6-\\u9fff" +
    "\\ua4d0-\\uabff\\ud7b0-\\ud7ff\\ufbb2-\\ufbd2\\ufd40-\\ufd4f\\ufe10-\\ufe1f\\ufe24-\\ufe2f" +
    "\\u{10000}-\\u{102ff}\\u{1034b}-\\u{103ff}\\u{1044e}-\\u{1cfff}\\u{1d200}-\\u{1d3ff}\\u{1d800}-\\u{1ffff}" +
    "\\u{2a6d7}-\\u{2f7ff}\\u{2fa1e}-\\u{10ffff}]",
  "u",
);

/** RFC 3454 D.1, characters written from right to left: all of four scripts except their marks and a few signs. */
const RIGHT_TO_LEFT =
  "(?![\\p{M}\\p{Nd}\\u066a-\\u066c\\u06de\\u06e9\\ufb29])" +
  "[\\p{sc=Hebr}\\p{sc=Arab}\\p{sc=Syrc}\\p{sc=Thaa}\\u061b\\u061f\\u0640]";

/**
 * RFC 3454 section 6: a text with one such character must begin and end with such a character, and none of its
 * characters may be written from left to right.
 */
function hasOneDirection(text: string): boolean {
  const others = text.replace(new RegExp(RIGHT_TO_LEFT, "gu"), "");
  if (others === text) return true;
  // D.2 in short: letters, letter numbers and spacing marks.
  return (
    !/[\p{L}\p{Nl}\p{Mc}]/u.test(others) && new RegExp(`^(?=${RIGHT_TO_LEFT}).*${RIGHT_TO_LEFT}$`, "su").test(text)
  );
}
