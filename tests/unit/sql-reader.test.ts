// The reader of SQL, token by token, and its cost. tests/sql/reader.test.ts compares it with the server.
import fc from "fast-check";
import { expect, test } from "vitest";
import { firstWord, hasSeveral, readings, SqlReader, type Reading } from "../../js/util/sql-reader.ts";

function tokens(text: string, reading?: Reading): string[] {
  const reader = new SqlReader(text, reading);
  const found: string[] = [];
  while (reader.next() !== "end") found.push(`${reader.kind} ${reader.name}`);
  return found;
}

test.each<[text: string, ...tokens: string[]]>([
  ["SELECT a1$ É_, \u212a", "word select", "word a1$", "word É_", "symbol ,", "word \u212a"],
  ['"A""b" "a;b"', 'name A"b', "name a;b"],
  ["'it''s' ;", "text 'it''s'", "semicolon ;"],
  ["'a\\';", "text 'a\\'", "semicolon ;"],
  ["E'a\\';' ;", "text E'a\\';'", "semicolon ;"],
  ["e'a'\n 'b\\';' ;", "text e'a'\n 'b\\';'", "semicolon ;"],
  ["e'a' -- c\n--d\n'b\\';' ;", "text e'a' -- c\n--d\n'b\\';'", "semicolon ;"],
  ["e'a' 'b\\' ;", "text e'a'", "text 'b\\'", "semicolon ;"],
  ["e'a'/**/\n'b\\' ;", "text e'a'", "text 'b\\'", "semicolon ;"],
  ["xe'\\' ;", "word xe", "text '\\'", "semicolon ;"],
  ["B'01' x'1F' N'a' U&'d\\0061'", "text B'01'", "text x'1F'", "text N'a'", "text U&'d\\0061'"],
  [
    'U&"set\\005fconfig" U&"d!0061t!+000061!!" uescape \'!\'',
    "name set_config",
    "name data!",
    "word uescape",
    "text '!'",
  ],
  ["U&\"d!0061ta\" uescape E'\\x21'", "name data", "word uescape", "text E'\\x21'"],
  ["U&\"d!0061ta\" uescape e'\\41'", "name data", "word uescape", "text e'\\41'"],
  ["U&\"d!0061ta\" uescape E'\\U00000021'", "name data", "word uescape", "text E'\\U00000021'"],
  ["U&\"d!0061ta\" uescape E'\\!'", "name data", "word uescape", "text E'\\!'"],
  ['U&"d!0061ta" uescape $a$!$a$', "name data", "word uescape", "text $a$!$a$"],
  ["U&\"d!0061ta\" uescape '' -- a\n '!'", "name data", "word uescape", "text ''", "text '!'"],
  ["U&\"d!0061ta\" uescape E''\n'!'", "name data", "word uescape", "text E''\n'!'"],
  ['U&"d\\0061ta" uescape', "name data", "word uescape"],
  // No character: the server refuses it.
  ['U&"a\\-00a"', "name a"],
  ['U&"a\\+ffffff"', "name a"],
  ["$$;$a$;$$ $a$;$$;$b$;$a$;", "text $$;$a$;$$", "text $a$;$$;$b$;$a$", "semicolon ;"],
  ["a$b$;", "word a$b$", "semicolon ;"],
  ["$1$$;$$", "parameter $1", "text $$;$$"],
  ["$1a $x", "parameter $1", "word a", "symbol $", "word x"],
  ["1into 1.5e-3 1e 1_000 0x1F .5 a.b", "number 1", "word into", "number 1.5e-3", "number 1", "word e"].concat([
    "number 1_000",
    "number 0x1F",
    "number .5",
    "word a",
    "symbol .",
    "word b",
  ]) as [string, ...string[]],
  ["1e'\\';' ;", "number 1", "text e'\\';'", "semicolon ;"],
  ["/* a /* ; */ ' */ x /**/;", "word x", "semicolon ;"],
  ["-- ;\r x --", "word x"],
  ["a--b\n*/*;*/c", "word a", "symbol *", "word c"],
  ["/*/**/ ; */ x */", "word x", "symbol *", "symbol /"],
  ["\u00a0select", "word \u00a0select"],
  ["a\vb", "word a", "word b"],
  ["(;);", "symbol (", "symbol ;", "symbol )", "semicolon ;"],
  ["); select", "symbol )", "semicolon ;", "word select"],
  ["'a", "text 'a"],
  ['"a', "name a"],
  ["/* a", ...[]],
])("tokens of %j", (text, ...wanted) => {
  expect(tokens(text)).toEqual(wanted);
});

test("with standard_conforming_strings off a backslash escapes in any string but B'…' and X'…'", () => {
  const backslashes = { backslashes: true };
  expect(tokens("'\\';' n'\\';' ;", backslashes)).toEqual(["text '\\';'", "text n'\\';'", "semicolon ;"]);
  expect(tokens("U&'\\';", backslashes)).toEqual(["text U&'\\'", "semicolon ;"]);
  expect(readings("select 'a'")).toHaveLength(1);
  expect(readings("select '\\'")).toHaveLength(2);
});

test("comments are tokens only on request", () => {
  expect(tokens("a /* b */ -- c", { comments: true })).toEqual(["word a", "comment /* b */", "comment -- c"]);
});

test("the semicolons of a routine's body end no statement", () => {
  const body = "begin atomic select 1 as end; select case when true then 1 end case; end";
  for (const create of ["create function f() returns int", "CREATE or replace PROCEDURE p()"]) {
    const ends = tokens(`${create} ${body}; commit`).filter((token) => token === "semicolon ;");
    expect(ends).toHaveLength(1);
    expect(hasSeveral(`${create} ${body};`)).toBe(false);
    expect(hasSeveral(`${create} ${body}; commit`)).toBe(true);
  }
  expect(hasSeveral(`create function f() returns int as 'x'; begin; select atomic; end`)).toBe(true);
  expect(hasSeveral(`create function f() returns int begin atomic end; commit`)).toBe(true);
  expect(hasSeveral(`create function f(begin atomic) returns int as 'x'; commit`)).toBe(true);
});

test.each([
  ["select 1", "select"],
  ["  SELECT 1", "select"],
  ["/* a /* b */ */ ;; -- c\n;Commit", "commit"],
  ["select$1", "select$1"],
  ["(select 1)", ""],
  ['"select" 1', ""],
  ["'select'", ""],
  ["", ""],
  [" ; ", ""],
  ["/*", ""],
  ["- - select", ""],
])("the first word of %j is found", (text, word) => {
  expect(firstWord(text)).toBe(word);
});

test.each([
  ["a", false],
  ["a;", false],
  ["a; -- b", false],
  [";;a;;/* ; b */", false],
  ["a;b", true],
  [";a;;b;", true],
  ["select ';', $$;$$, \";\"", false],
  ["select '\\'; b'", true],
  ["create rule r as on insert to t do (select 1; select 2)", false],
])("%j is recognized as one statement or as several", (text, several) => {
  expect(hasSeveral(text)).toBe(several);
});

test("comments nest to any depth", () => {
  const depth = 10_000;
  expect(firstWord(`${"/*".repeat(depth)} commit ${"*/".repeat(depth)} select 1`)).toBe("select");
  expect(firstWord(`${"/*".repeat(depth)} commit ${"*/".repeat(depth - 1)} select 1`)).toBe("");
  expect(tokens(`${"(".repeat(depth)};${")".repeat(depth)};`).filter((token) => token === "semicolon ;")).toHaveLength(
    1,
  );
});

/** A text that counts the characters that are read of it, one step each. */
class CountedText {
  steps = 0;
  readonly #text: string;
  constructor(text: string) {
    this.#text = text;
  }
  get length(): number {
    return this.#text.length;
  }
  charCodeAt(at: number): number {
    this.steps++;
    return this.#text.charCodeAt(at);
  }
  indexOf(what: string, from: number): number {
    const found = this.#text.indexOf(what, from);
    this.steps += (found < 0 ? this.#text.length : found) - from + what.length;
    return found;
  }
  slice(from: number, to?: number): string {
    const part = this.#text.slice(from, to);
    this.steps += part.length;
    return part;
  }
}

function stepsOf(text: string, reading?: Reading): number {
  const counted = new CountedText(text);
  const reader = new SqlReader(counted as unknown as string, reading);
  while (reader.next() !== "end");
  firstWord(counted as unknown as string);
  return counted.steps;
}

test("for twice the text the reader takes at most 2.5 times the steps, whatever the text", () => {
  const piece = fc.constantFrom(
    ...["'", "''", "e'", "E'\\", "\\", "$", "$$", "$a$", "$a", "$1", '"', 'U&"', "U&'", "--", "/*", "*/", "*", "/"],
    ...["\n", "\r", " ", "(", ")", ";", "a", "1", "1e", "0x", ".", "create function begin atomic ", "end", "é"],
  );
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 8 }), fc.boolean(), (pieces, backslashes) => {
      const once = pieces.join("").repeat(200);
      expect(stepsOf(once + once, { backslashes })).toBeLessThanOrEqual(2.5 * stepsOf(once, { backslashes }));
    }),
    { numRuns: 2_000 },
  );
});

test("tokens are adjacent, except for blanks and comments between them", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("'", '"', "$$", "/*", "*/", "--", "\n", "\\", ";", "a", " "), { maxLength: 20 }),
      (pieces) => {
        const text = pieces.join("");
        const reader = new SqlReader(text, { comments: true });
        let end = 0;
        while (reader.next() !== "end") {
          expect(text.slice(end, reader.start).trim()).toBe("");
          expect(reader.end).toBeGreaterThan(reader.start);
          end = reader.end;
        }
        expect(text.slice(end).trim()).toBe("");
      },
    ),
  );
});
