// Which compiled texts the sql tag caches, visible in whether it reads a template's pieces again, and that they stay
// correct.
import { expect, test, vi } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { LONGEST_KEY, LONGEST_TEMPLATE, MOST_STEPS } from "../../js/util/limits.ts";
import type { SqlValue } from "../../js/values/parameter-types.ts";

/** A template that counts how often its pieces are read. */
class Template {
  reads = 0;
  readonly strings: TemplateStringsArray;

  constructor(...pieces: string[]) {
    const raw = [...pieces];
    const strings = Object.assign(pieces, { raw });
    const get = (target: typeof strings, name: string | symbol): unknown => {
      if (typeof name === "string" && /^\d+$/.test(name)) this.reads++;
      return Reflect.get(target, name);
    };
    this.strings = new Proxy(strings, { get });
  }

  /** The text with these values, and whether it had to be compiled. */
  text(...values: SqlValue[]): [text: string, isMade: boolean] {
    const before = this.reads;
    const { text } = sql(this.strings, ...values);
    return [text, this.reads > before];
  }
}

test("a template is read once, whatever its values are", () => {
  const template = new Template("select ", ", ", "");
  expect(template.text(1, "a")).toEqual(["select $1, $2", true]);
  expect(template.text(null, 2)).toEqual(["select $1, $2", false]);
  expect(template.text([], [sql`a`, 1])).toEqual(["select $1, $2", false]);
});

test("one query compiles once, and its values are those of its fragments in order", () => {
  const template = new Template("select ", ", ", "");
  const query = sql(template.strings, sql`${1} + ${2}`, 3);
  expect([query.text, query.values]).toEqual(["select $1 + $2, $3", [1, 2, 3]]);
  const { reads } = template;
  expect([query.text, template.reads]).toEqual(["select $1 + $2, $3", reads]);
  expect(query.values).toBe(query.values);
});

test("other fragments among the values make another text, which is cached beside the first", () => {
  const template = new Template("select ", " from ", "");
  const table = sql.identifier("t");
  const kinds: [SqlValue[], string][] = [
    [[1, table], 'select $1 from "t"'],
    [[sql`now()`, table], 'select now() from "t"'],
    [[sql.unsafe("a"), sql.identifier("u")], 'select a from "u"'],
    [[[sql.unsafe("a"), sql.unsafe(", b")], table], 'select a, b from "t"'],
    [[[sql.unsafe("a")], [sql.unsafe(", b"), table]], 'select a from , b"t"'],
    [[sql.in([1, 2]), table], 'select ($1, $2) from "t"'],
  ];
  for (const isMade of [true, false])
    for (const [values, text] of kinds) {
      expect(template.text(...values)).toEqual([text, isMade]);
    }
});

test(`a statement is kept up to ${LONGEST_TEMPLATE} steps: its templates, and each of their values`, () => {
  for (const [count, isKept] of [
    [LONGEST_TEMPLATE - 1, true],
    [LONGEST_TEMPLATE, false],
  ] as const) {
    const template = new Template(...Array<string>(count + 1).fill(","));
    const values = Array.from({ length: count }, (_, index) => index);
    const text = `,${values.map((index) => `$${index + 1},`).join("")}`;
    expect(template.text(...values)).toEqual([text, true]);
    expect(template.text(...values)).toEqual([text, !isKept]);
  }
});

test("a list of values is kept if it is no longer than a statement may be", () => {
  const list = (length: number) => sql.in(Array.from({ length }, (_, index) => index));
  const made = (length: number) => {
    const template = new Template("select ", "");
    template.text(list(length));
    return template.text(list(length))[1];
  };
  expect([2, LONGEST_TEMPLATE - 2, LONGEST_TEMPLATE - 1, LONGEST_TEMPLATE + 1, 1_000].map(made)).toEqual([
    false,
    false,
    true,
    true,
    true,
  ]);
});

test(`text by unsafe and identifier is kept up to ${LONGEST_KEY} characters as JSON`, () => {
  const brackets = '[""]'.length;
  for (const [length, isKept] of [
    [LONGEST_KEY - brackets, true],
    [LONGEST_KEY - brackets + 1, false],
  ] as const) {
    const template = new Template("", " from ", "");
    const long = "x".repeat(length);
    expect(template.text(sql.unsafe(long), 1)).toEqual([`${long} from $1`, true]);
    expect(template.text(sql.unsafe(long), 1)).toEqual([`${long} from $1`, !isKept]);
    // The next text is not cached in its place.
    expect(template.text(sql.unsafe(`${long.slice(1)}y`), 1)[0]).toBe(`${long.slice(1)}y from $1`);
  }
});

test("a part after an uncached beginning is not cached either", () => {
  const long = (letter: string) => sql.unsafe(letter.repeat(LONGEST_KEY));
  const template = new Template("", " ", "");
  for (const letter of "ab")
    for (const value of [1, sql`now()`])
      expect(template.text(long(letter), value)[0]).toBe(
        `${letter.repeat(LONGEST_KEY)} ${value === 1 ? "$1" : "now()"}`,
      );
});

test(`${MOST_STEPS} steps are kept; with one more all are dropped, and texts are compiled again`, async () => {
  vi.resetModules();
  const fresh = (await import("../../js/statement/sql.ts")).sql;
  const template = new Template("select ", " ", "");
  /** Whether the text with this part had to be compiled. */
  const isMade = (part: string): boolean => {
    const before = template.reads;
    const { text } = fresh(template.strings, 1, fresh.unsafe(part));
    return text === `select $1 ${part}` && template.reads > before;
  };
  // The template, its value and the inserted text are a step each. For all others only the inserted text is new.
  expect([isMade("first"), isMade("first")]).toEqual([true, false]);
  for (let other = 3; other < MOST_STEPS; other++) isMade(`a${other}`);
  expect(isMade("first")).toBe(false);
  isMade("one more");
  expect(isMade("first")).toBe(true);
  // The count starts again.
  for (let other = 3; other < MOST_STEPS; other++) isMade(`b${other}`);
  expect(isMade("first")).toBe(false);
});
