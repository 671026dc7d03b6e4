// Option `cache` (js/statement/cached.ts): which text is sent, which names give a warning because Hyperdrive never
// caches them, and the bounds of what is remembered.
import { beforeEach, expect, test, vi } from "vitest";

const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
let forCache: (text: string, cache: boolean) => string;

// The isolate remembers its warnings, so each test loads the module again.
beforeEach(async () => {
  vi.resetModules();
  warn.mockClear();
  ({ forCache } = await import("../../js/statement/cached.ts"));
});

/** The names in the warnings about these texts, which are sent unchanged. */
function names(...texts: string[]): unknown[] {
  for (const text of texts) expect(forCache(text, true)).toBe(text);
  return warn.mock.calls.map(([message]) => /caches no query with (.*?): /.exec(String(message))?.[1]);
}

const FUNCTIONS = [
  ...["now", "timeofday", "random", "lastval", "currval", "nextval", "setval", "txid_current", "clock_timestamp"],
  ...["statement_timestamp", "transaction_timestamp", "gen_random_uuid", "uuidv4", "uuidv7"],
  ...["current_setting", "set_config"],
];
const KEYWORDS = [
  ...["current_date", "current_time", "current_timestamp", "current_user", "current_role", "current_schema"],
  ...["session_user", "localtime", "localtimestamp"],
];

test("false adds a comment with the name of a STABLE function on a line of its own, without a warning", () => {
  const sent = "select now() -- one\n/* cache: false, by now() */";
  expect(forCache("select now() -- one", false)).toBe(sent);
  expect(forCache(sent, false)).toBe(sent);
  expect(warn).not.toHaveBeenCalled();
});

test("a value that is not a boolean is refused before any warning", () => {
  for (const cache of ["false", 1, null])
    expect(() => forCache("select now()", cache as never)).toThrow(
      expect.objectContaining({ name: "UsageError", code: "INVALID_OPTION" }),
    );
  expect(warn).not.toHaveBeenCalled();
});

test("calls of functions that are not IMMUTABLE give a warning", () => {
  expect(names(...FUNCTIONS.map((name) => `select ${name}(x)`))).toEqual(FUNCTIONS.map((name) => `${name}()`));
  expect(names("select Now \n  ()").at(-1)).toBe("Now()");
  expect(names("select 1 /* now() */").at(-1)).toBe("now()");
});

test("keywords whose value changes give a warning, with and without parentheses", () => {
  expect(names(...KEYWORDS.map((name) => `select ${name} as n`))).toEqual(KEYWORDS);
  expect(names("select current_time(3)").at(-1)).toBe("current_time");
  expect(names("select LOCALTIMESTAMP").at(-1)).toBe("LOCALTIMESTAMP");
});

test("a column or a longer name that contains such a function or keyword gives no warning", () => {
  const functions = FUNCTIONS.flatMap((name) => [`select ${name} from t`, `select a${name}(1)`, `select ${name}_a(1)`]);
  expect(names(...functions, "select uuidv1(), uuidv()", "select a_timestamp(1), timestamp(2)")).toEqual([]);
  const keywords = KEYWORDS.flatMap((name) => [`select a${name}`, `select ${name}s`]);
  expect(names(...keywords, "select current_, session_, local_time, current_dates")).toEqual([]);
});

test("only the first hundred texts give a warning, and each of them once", () => {
  const texts = Array.from({ length: 101 }, (_, count) => `select now(), ${count}`);
  expect(names(...texts.slice(0, 100)).length).toBe(100);
  expect(names(...texts).length).toBe(100);
});

test("a text of more than 10,000 characters gives no warning, because it would have to be remembered", () => {
  const long = (length: number) => "select now()".padEnd(length, "-");
  expect(names(long(10_001))).toEqual([]);
  expect(names(long(10_000))).toEqual(["now()"]);
});
