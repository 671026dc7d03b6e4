// Streams over pgz-edge/kysely, inside and outside a transaction.
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { equal, inPlace, names, type Cases } from "./kysely-place.ts";

export const streams: Cases = {
  "a stream can be read, and left early": inPlace(async (place) => {
    const pool = place.pool({ max: 1 });
    const db = place.db({ pool });
    const { sql } = place.modules.kysely;
    const numbers = db.selectNoFrom(sql<number>`generate_series(1, 10000)`.as("n"));
    let sum = 0;
    for await (const { n } of numbers.stream(500)) sum += n;
    equal(sum, 50_005_000);
    for (let round = 0; round < 3; round++) for await (const { n } of numbers.stream()) if (n === 150) break;
    equal(await names(db), []);
    await assert.code(
      (async () => {
        for await (const _ of db.selectNoFrom(sql`1 / (3 - generate_series(1, 9))`.as("n")).stream());
      })(),
      "22012",
    );
    await until(async () => pool.stats().acquired === 0);
    equal(pool.stats().connects, 1);
  }),

  "a transaction continues after its stream is left": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const seen = await db.transaction().execute(async (trx) => {
      await trx.insertInto("item").values({ name: "before" }).execute();
      const numbers = trx.selectNoFrom(sql<number>`generate_series(1, 1000)`.as("n"));
      let count = 0;
      for await (const _ of numbers.stream(64)) count++;
      for await (const { n } of numbers.stream(10)) if (n === 15) break;
      await trx.insertInto("item").values({ name: "behind" }).execute();
      return count;
    });
    equal(seen, 1000);
    equal(await names(db), ["before", "behind"]);
  }),
};
