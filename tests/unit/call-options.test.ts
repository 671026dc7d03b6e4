// Each option that a call may set takes effect there. An option that no code reads would be accepted and do nothing.
import { expect, test } from "vitest";
import { namesBy } from "../../js/config/table.ts";
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
});
