// docs/servers.md has the table of servers.ts. SERVERS=write writes it.
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { tableOf } from "./servers.ts";

const file = new URL("../../docs/servers.md", import.meta.url);

test("the page has the table that the tests check", () => {
  const page = readFileSync(file, "utf8");
  const [found] = /(?:^\|.*\n)+/m.exec(page) ?? [""];
  const table = tableOf();
  if (process.env["SERVERS"] === "write")
    writeFileSync(
      file,
      page.replace(found || "TABLE\n", () => table),
    );
  else expect(found).toBe(table);
});
