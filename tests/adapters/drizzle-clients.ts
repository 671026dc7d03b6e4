// Options and parsers of the driver's client under Drizzle.
import { assert } from "../integration/assert.ts";
import { type Cases, type World } from "./drizzle-world.ts";

const equal = assert.deepEqual;

export const clients = ({ orm: { sql }, core: { bigint, date, pgTable, text, timestamp } }: World): Cases => ({
  "the client's own settings do not change Drizzle's values": async ({ adapter, driver, url }) => {
    const options = { int8: "number", dates: "date", numeric: "number", duplicates: "error" } as const;
    await using client = await driver.connect(url, { ...options, columnNames: "camelCase" });
    const db = adapter.drizzle({ client });
    const { rows } = await db.execute(sql`select 9007199254740993::int8 as a, 1.50 as n, date '2024-02-29' as a_day`);
    equal(rows, [{ a: "9007199254740993", n: "1.50", a_day: "2024-02-29" }]);
  },

  "the client's own parsers do change values, and columns accept their results": async ({ adapter, driver, url }) => {
    const types = {
      timestamptz: (text: string) => new Date(text),
      timestamp: (text: string) => new Date(`${text}Z`),
      date: (text: string) => new Date(text),
      int8: BigInt,
      text: (text: string) => text.toUpperCase(),
    } as unknown as Record<string, (value: unknown) => unknown>;
    await using client = await driver.connect(url, { types: types as never });
    const db = adapter.drizzle(client);
    const table = pgTable("parsed", {
      zoned: timestamp({ withTimezone: true }),
      stamp: timestamp(),
      day: date({ mode: "date" }),
      big: bigint({ mode: "bigint" }),
      number: bigint({ mode: "number" }),
      name: text(),
    });
    await client.simple(`create temp table parsed (zoned timestamptz, stamp timestamp, day date, big int8, number int8,
      name text);
      insert into parsed values ('2024-02-29 12:00+00', '2024-02-29 12:00', '2024-02-29', 7, 8, 'ada')`);
    equal(await db.select().from(table), [
      {
        zoned: new Date("2024-02-29T12:00:00Z"),
        stamp: new Date("2024-02-29T12:00:00Z"),
        day: new Date("2024-02-29T00:00:00Z"),
        big: 7n,
        number: 8,
        name: "ADA",
      },
    ]);
  },
});
