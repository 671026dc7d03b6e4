// A misspelt option of a call is refused, and the error names the nearest one (call-options.test.ts has the others).
import { expect, test } from "vitest";
import { client, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

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
