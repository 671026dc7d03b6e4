// Option `cache`: which text is sent, and which texts give a warning.
import { afterEach, expect, test, vi } from "vitest";
import { forCache } from "../../js/statement/cached.ts";

const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
afterEach(() => warn.mockClear());

test("false adds a comment with the name of a STABLE function on a line of its own", () => {
  expect(forCache("select 1 -- one", false)).toBe("select 1 -- one\n/* cache: false, by now() */");
  expect(forCache(forCache("select 1 -- one", false), false)).toBe(forCache("select 1 -- one", false));
  expect(warn).not.toHaveBeenCalled();
});

test.each([
  ["select NOW()", "NOW()"],
  ["select * from a where at > current_timestamp - interval '1 day'", "current_timestamp"],
  ["select random ()", "random()"],
  ["select 1 /* now() */", "now()"],
  ["select nextval('ids')", "nextval()"],
  ["select gen_random_uuid()", "gen_random_uuid()"],
])("true warns of %s once and sends the text unchanged", (text, name) => {
  expect(forCache(text, true)).toBe(text);
  expect(forCache(text, true)).toBe(text);
  expect(warn).toHaveBeenCalledOnce();
  expect(warn.mock.calls[0]![0]).toContain(`no query with ${name}: `);
});

test.each(["select 1", "select known(1), renow() from brandom", "select now_or_never from current_dates"])(
  "true does not warn of %s",
  (text) => {
    expect(forCache(text, true)).toBe(text);
    expect(warn).not.toHaveBeenCalled();
  },
);

test("no more than a hundred texts give a warning, because each of them is remembered", () => {
  for (let count = 0; count < 200; count++) forCache(`select now(), ${count}`, true);
  expect(warn.mock.calls.length).toBeLessThanOrEqual(100);
  expect(warn.mock.calls.length).toBeGreaterThan(80);
});
