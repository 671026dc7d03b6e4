// postgres.js: all rows at once, or its cursor.
import postgres from "postgres";

const ndjson = (rows) => Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

export async function open(url, cursor) {
  const sql = postgres(url, { max: 1, max_lifetime: null, idle_timeout: 0 });
  const buffered = async (text, sink) => sink(ndjson(await sql.unsafe(text)));
  const cursored = (text, sink) => sql.unsafe(text).cursor(1000, (rows) => sink(ndjson(rows)));
  return {
    run: cursor ? cursored : buffered,
    backend: sql.unsafe("select pg_backend_pid() as pid").then(([{ pid }]) => pid),
  };
}
