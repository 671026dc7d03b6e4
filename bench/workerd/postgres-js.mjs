// The Worker with postgres.js: the same rows as the same lines, buffered or by its cursor. `{ sql, arrays }` comes in
// the body. postgres.js reads its array types from the catalogue with a separate query, so it does this only for shapes
// with arrays.
import postgres from "postgres";

const ndjson = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const headers = { "content-type": "application/x-ndjson", "content-encoding": "identity" };

export default {
  async fetch(request, env, context) {
    const { sql: text, arrays } = await request.json();
    const sql = postgres(env.URL, { max: 1, fetch_types: arrays });
    if (!env.CURSOR) {
      const rows = await sql.unsafe(text);
      context.waitUntil(sql.end());
      return new Response(ndjson(rows), { headers });
    }
    const { readable, writable } = new IdentityTransformStream();
    context.waitUntil(pipe(sql, text, writable.getWriter()));
    return new Response(readable, { headers });
  },
};

async function pipe(sql, text, writer) {
  const encoder = new TextEncoder();
  try {
    await sql.unsafe(text).cursor(1000, (rows) => writer.write(encoder.encode(ndjson(rows))));
    await writer.close();
  } catch (error) {
    await writer.abort(error);
  }
  await sql.end();
}
