// Option `cache: true`: each name that Hyperdrive never caches is warned of, and the bounds of what is remembered.
import { beforeEach, expect, test, vi } from "vitest";

const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
let forCache: (text: string, cache: boolean) => string;

// What was warned of is the isolate's.
beforeEach(async () => {
  vi.resetModules();
  warn.mockClear();
  ({ forCache } = await import("../../js/statement/cached.ts"));
});

/** The names that these texts are warned of with. */
function names(...texts: string[]): unknown[] {
  for (const text of texts) forCache(text, true);
  return warn.mock.calls.map(([message]) => /caches no query with (.*?): /.exec(String(message))?.[1]);
}

const FUNCTIONS = [
  ...["now", "timeofday", "random", "lastval", "currval", "nextval", "setval", "txid_current", "clock_timestamp"],
  ...["statement_timestamp", "transaction_timestamp", "gen_random_uuid", "uuidv4", "uuidv7"],
  ...["current_setting", "set_config"],
];

test("functions that are not IMMUTABLE, where they are called", () => {
  expect(names(...FUNCTIONS.map((name) => `select ${name}(x)`))).toEqual(FUNCTIONS.map((name) => `${name}()`));
  expect(names("select Now \n  ()").at(-1)).toBe("Now()");
});

test("not where their name is a column's, or a part of another", () => {
  const others = FUNCTIONS.flatMap((name) => [`select ${name} from t`, `select a${name}(1)`, `select ${name}_a(1)`]);
  expect(names(...others, "select uuidv1(), uuidv()", "select a_timestamp(1), timestamp(2)")).toEqual([]);
});

const KEYWORDS = [
  ...["current_date", "current_time", "current_timestamp", "current_user", "current_role", "current_schema"],
  ...["session_user", "localtime", "localtimestamp"],
];

test("keywords that are another value each time, with and without parentheses", () => {
  expect(names(...KEYWORDS.map((name) => `select ${name} as n`))).toEqual(KEYWORDS);
  expect(names("select current_time(3)").at(-1)).toBe("current_time");
  expect(names("select LOCALTIMESTAMP").at(-1)).toBe("LOCALTIMESTAMP");
});

test("not as a part of another name", () => {
  const others = KEYWORDS.flatMap((name) => [`select a${name}`, `select ${name}s`]);
  expect(names(...others, "select current_, session_, local_time, current_dates")).toEqual([]);
});

test("a hundred texts are warned of, and no other; those are remembered", () => {
  const texts = Array.from({ length: 101 }, (_, count) => `select now(), ${count}`);
  expect(names(...texts.slice(0, 100)).length).toBe(100);
  expect(names(...texts).length).toBe(100);
});

test("a text of more than 10,000 characters is not warned of, since it would be kept", () => {
  const long = (length: number) => "select now()".padEnd(length, "-");
  expect(names(long(10_001))).toEqual([]);
  expect(names(long(10_000))).toEqual(["now()"]);
});

test("false warns of nothing; what is neither is refused before anything is said", () => {
  expect(forCache("select now()", false)).toBe("select now()\n/* cache: false, by now() */");
  for (const cache of ["false", 1, null])
    expect(() => forCache("select now()", cache as never)).toThrow(
      expect.objectContaining({ name: "UsageError", code: "INVALID_OPTION" }),
    );
  expect(warn).not.toHaveBeenCalled();
});
