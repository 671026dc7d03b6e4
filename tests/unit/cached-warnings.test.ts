// Option `cache: true`: it warns of every name that Hyperdrive never caches. Also the bounds of what it remembers.
import { beforeEach, expect, test, vi } from "vitest";

const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
let forCache: (text: string, cache: boolean) => string;

// The isolate remembers its warnings, so each test loads the module again.
beforeEach(async () => {
  vi.resetModules();
  warn.mockClear();
  ({ forCache } = await import("../../js/statement/cached.ts"));
});

/** The names in the warnings about these texts. */
function names(...texts: string[]): unknown[] {
  for (const text of texts) forCache(text, true);
  return warn.mock.calls.map(([message]) => /caches no query with (.*?): /.exec(String(message))?.[1]);
}

const FUNCTIONS = [
  ...["now", "timeofday", "random", "lastval", "currval", "nextval", "setval", "txid_current", "clock_timestamp"],
  ...["statement_timestamp", "transaction_timestamp", "gen_random_uuid", "uuidv4", "uuidv7"],
  ...["current_setting", "set_config"],
];

test("calls of functions that are not IMMUTABLE give a warning", () => {
  expect(names(...FUNCTIONS.map((name) => `select ${name}(x)`))).toEqual(FUNCTIONS.map((name) => `${name}()`));
  expect(names("select Now \n  ()").at(-1)).toBe("Now()");
});

test("a column or a longer name that contains such a function's name gives no warning", () => {
  const others = FUNCTIONS.flatMap((name) => [`select ${name} from t`, `select a${name}(1)`, `select ${name}_a(1)`]);
  expect(names(...others, "select uuidv1(), uuidv()", "select a_timestamp(1), timestamp(2)")).toEqual([]);
});

const KEYWORDS = [
  ...["current_date", "current_time", "current_timestamp", "current_user", "current_role", "current_schema"],
  ...["session_user", "localtime", "localtimestamp"],
];

test("keywords whose value changes give a warning, with and without parentheses", () => {
  expect(names(...KEYWORDS.map((name) => `select ${name} as n`))).toEqual(KEYWORDS);
  expect(names("select current_time(3)").at(-1)).toBe("current_time");
  expect(names("select LOCALTIMESTAMP").at(-1)).toBe("LOCALTIMESTAMP");
});

test("a longer name that contains such a keyword gives no warning", () => {
  const others = KEYWORDS.flatMap((name) => [`select a${name}`, `select ${name}s`]);
  expect(names(...others, "select current_, session_, local_time, current_dates")).toEqual([]);
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

test("false gives no warning, and a value that is not a boolean is refused before any warning", () => {
  expect(forCache("select now()", false)).toBe("select now()\n/* cache: false, by now() */");
  for (const cache of ["false", 1, null])
    expect(() => forCache("select now()", cache as never)).toThrow(
      expect.objectContaining({ name: "UsageError", code: "INVALID_OPTION" }),
    );
  expect(warn).not.toHaveBeenCalled();
});
