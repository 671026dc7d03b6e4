// Stores the shapes as tables. A scan sends rows about twice as fast as the functions that compute them, so a
// throughput depends less on the server and more on the client. Tables are made only in a server of our own; a server
// of DATABASE_URL is left unchanged and computes the rows.
import { pgClient } from "./connect.mjs";
import { shapes } from "./shapes.mjs";

/** Shape -> its SQL over a table of `rows` rows. `chosen` has names of shapes. */
export async function asTables(server, chosen, rows) {
  const wanted = chosen.map((shape) => [shape, shapes[shape](rows)]);
  if (!server.own) {
    console.log("DATABASE_URL: no tables are made there, rows are computed for workerd too");
    return new Map(wanted);
  }
  const client = await pgClient(server.appUrl);
  try {
    const found = new Map();
    for (const [shape, sql] of wanted) {
      const table = `bench_${shape}_${rows}`;
      await client.query(`create table if not exists ${table} as ${sql}`);
      await client.query(`vacuum analyze ${table}`); // otherwise the first readers do the housekeeping
      found.set(shape, `select * from ${table}`);
    }
    return found;
  } finally {
    await client.end();
  }
}
