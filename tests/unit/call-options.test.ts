// Each option that a call may set takes effect there, and a misspelt one is refused. An option that no code reads would
// be accepted and do nothing.
import { expect, test } from "vitest";
import { CALL_OPTIONS } from "../../js/api/options.ts";
import { namesBy, OPTIONS } from "../../js/config/table.ts";
import { client, newClient, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

test.each([
  ...namesBy("every").map((name) => [name, "exec"] as const),
  ...namesBy("every", "rows").map((name) => [name, "json"] as const),
  ...namesBy("every", "rows", "values").map((name) => [name, "query"] as const),
])("option %s of %s is checked by its rule", async (name, call) => {
  newClient({ observer: { onSlowQuery: () => {} } });
  const wrong = client[call]("select 1", { [name]: Symbol("none") });
  await expect(wrong).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining(`"${name}"`) });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

// -- options that only calls have ------------------------------------------------------------------------------------

/** A call that refuses a wrong value of the option. */
const REFUSED_BY = {
  cache: "query",
  rowMode: "query",
  format: "json",
  header: "json",
  csvFormulas: "json",
  toon: "json",
  endMark: "json",
  gzip: "stream",
  headers: "respond",
  status: "respond",
} as const;
const REFUSED_BY_BATCH = ["atomic", "results"];
/** Any value that is true closes the client, and any function is told of progress: nothing is refused. */
const ANY_VALUE = ["closeWhenDone", "onProgress"];

test("each option that only calls have is in one of these lists", () => {
  const ofCalls = CALL_OPTIONS.filter((name) => !Object.hasOwn(OPTIONS, name));
  expect([...Object.keys(REFUSED_BY), ...REFUSED_BY_BATCH, ...ANY_VALUE].sort()).toEqual(ofCalls.sort());
});

test.each([
  ...Object.entries(REFUSED_BY).map(([name, call]) => [name, call, "select 1"] as const),
  ...REFUSED_BY_BATCH.map((name) => [name, "batch", ["select 1"]] as const),
])("a wrong value of option %s is refused by %s", async (name, call, input) => {
  const make = client[call].bind(client) as (input: unknown, options: object) => Promise<unknown>;
  await expect(make(input, { [name]: Symbol("none") })).rejects.toMatchObject({
    ...{ code: "INVALID_OPTION", message: expect.stringContaining(`"${name}"`) },
  });
});

test.each([
  ["rowmode", "rowMode"],
  ["closeWhenFinished", "closeWhenDone"],
  ["csv_formulas", "csvFormulas"],
  ["max_row", "maxRows"],
])("%s is no option, and the error suggests %s", async (name, nearest) => {
  await expect(client.query("select 1", { [name]: true })).rejects.toMatchObject({
    ...{ name: "UsageError", code: "UNKNOWN_OPTION", message: expect.stringContaining(`"${nearest}"`) },
  });
  expect(client.stats().queries).toBe(0);
});
