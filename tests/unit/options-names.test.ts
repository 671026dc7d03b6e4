// Which options a call accepts: those of every call, whichever it is, and no misspelt name.
import { expect, test } from "vitest";
import { CALL_OPTIONS } from "../../js/api/options.ts";
import { client, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

const OF_CONNECTIONS_TOO = [
  "timeout",
  "signal",
  "observer",
  "maxRows",
  "maxBytes",
  "maxFieldBytes",
  "onLimit",
  "types",
];
const OF_CALLS = [
  ...["cache", "rowMode", "format", "header", "csvFormulas", "toon", "gzip", "closeWhenDone", "headers", "status"],
  ...["atomic", "results", "onProgress"],
];

test.each([...OF_CONNECTIONS_TOO, ...OF_CALLS])("option %s is accepted by calls", (name) => {
  expect(CALL_OPTIONS).toContain(name);
});

test.each([
  ["rowmode", "rowMode"],
  ["closeWhenFinished", "closeWhenDone"],
  ["csv_formulas", "csvFormulas"],
  ["max_row", "maxRows"],
])("%s is refused, and the error suggests %s", async (name, nearest) => {
  await expect(client.query("select 1", { [name]: true })).rejects.toMatchObject({
    ...{ name: "UsageError", code: "UNKNOWN_OPTION", message: expect.stringContaining(`"${nearest}"`) },
  });
  expect(client.stats().queries).toBe(0);
});
