// Random statements test the rule of `pgz-edge types`: if it reports that a column is never NULL, no row has NULL
// there. The seed is fixed. `SEED=7 STATEMENTS=20000 node tests/run.mjs node -- tests/cli/types-random.test.ts` tries
// others.
import process from "node:process";
import { expect, test } from "vitest";
import { describeAll } from "../../js/cli/types/describe.ts";
import { testServers } from "../integration/servers.ts";
import { testDatabase } from "../support/test-database.ts";
import { DATA, SCHEMA, schemaOf } from "./types-corpus.ts";
import { Statements } from "./types-random.ts";

const { createClient } = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const SEED = Number(process.env["SEED"] ?? 1);
const COUNT = Number(process.env["STATEMENTS"] ?? 400);

test.each(testServers().servers.map((server) => [server.major, server] as const))(
  "PostgreSQL %s: no column reported as never NULL has a NULL",
  async (major, server) => {
    const database = testDatabase(server, "types_random");
    await database.create();
    const db = createClient(database.superuserUrl);
    const [wrong, counts]: [string[], Record<string, number>] = [[], { ran: 0, refused: 0, neverNull: 0 }];
    try {
      for (const sql of [SCHEMA, schemaOf(major), DATA]) await db.simple(sql);
      const statements = new Statements(SEED);
      const texts = Array.from({ length: COUNT }, () => statements.next()).filter((text) => text.length < 6_000);
      const said = await describeAll(db, texts, (_, found) => Promise.resolve(found));
      for (const [text, statement] of said) {
        // Some statements fail, since the generator knows little of types and groups: a subquery may have two rows, a
        // sum may be too large.
        const result =
          "nullable" in statement &&
          (await db.query<unknown[]>(text, [], { rowMode: "array", timeout: 60_000 }).catch(() => undefined));
        counts[result ? "ran" : "refused"]!++;
        if (!result) continue;
        for (const [at, canBeNull] of (statement as { nullable: readonly boolean[] }).nullable.entries()) {
          if (canBeNull) continue;
          counts["neverNull"]!++;
          if (result.rows.some((row) => row[at] === null)) wrong.push(`c${at} of ${text}`);
        }
      }
    } finally {
      await db.close();
      await database.drop();
    }
    expect(wrong).toEqual([]);
    // The tool must report some columns as never NULL.
    expect(counts["ran"]).toBeGreaterThan(COUNT / 2);
    expect(counts["neverNull"]).toBeGreaterThan(COUNT / 4);
  },
);
