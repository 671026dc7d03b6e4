// One library as a Worker that answers with a query's rows as NDJSON: `{ sql, format, arrays }` comes in the body. For
// CASE=memory it can count objects in `batches` instead, and GET returns the bytes of wasm memory, which no code
// outside the isolate can see.
let memory;
const RealInstance = WebAssembly.Instance;
WebAssembly.Instance = function (module, imports) {
  const instance = new RealInstance(module, imports);
  memory = instance.exports.memory;
  return instance;
};

const ndjson = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const plain = { "content-encoding": "identity" };
const headers = { "content-type": "application/x-ndjson", ...plain };

/** A plain connect() socket, its own Response. */
const pgzEdge = ({ createClient }) => ({
  async fetch(request, env) {
    if (request.method === "GET") return Response.json({ wasm: memory?.buffer.byteLength ?? 0 });
    const { sql, format, batches } = await request.json();
    const client = createClient(env.URL);
    if (!batches) return client.respond(sql, { format, closeWhenDone: true, headers: plain });
    let rows = 0;
    for await (const batch of client.rows(sql).batches(batches)) rows += batch.length;
    await client.close();
    return Response.json({ rows });
  },
});

/**
 * The same rows as the same lines, buffered or by its cursor. postgres.js reads its array types from the catalogue with
 * a separate query, so it does this only for shapes with arrays.
 */
const postgresJs = ({ default: postgres }, hasCursor) => ({
  async fetch(request, env, context) {
    const { sql: text, arrays } = await request.json();
    const sql = postgres(env.URL, { max: 1, fetch_types: arrays });
    if (!hasCursor) {
      const rows = await sql.unsafe(text);
      context.waitUntil(sql.end());
      return new Response(ndjson(rows), { headers });
    }
    const { readable, writable } = new IdentityTransformStream();
    context.waitUntil(pipe(sql, text, writable.getWriter()));
    return new Response(readable, { headers });
  },
});

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

export const worker = (library, module) =>
  library.startsWith("pgz-edge") ? pgzEdge(module) : postgresJs(module, library.endsWith("cursor"));
