// The Worker with pgz-edge: a plain connect() socket, no nodejs_compat, its own Response. `{ sql, format }` comes in
// the body. GET returns the bytes of wasm memory, which no code outside the isolate can see.
import { createClient } from "../../dist/workerd.js";

let memory;
const RealInstance = WebAssembly.Instance;
WebAssembly.Instance = function (module, imports) {
  const instance = new RealInstance(module, imports);
  memory = instance.exports.memory;
  return instance;
};

export default {
  async fetch(request, env) {
    if (request.method === "GET") return Response.json({ wasm: memory?.buffer.byteLength ?? 0 });
    const { sql, format, batches } = await request.json();
    const client = createClient(env.URL);
    if (batches) return countRows(client, sql, batches);
    return client.respond(sql, { format, closeWhenDone: true, headers: { "content-encoding": "identity" } });
  },
};

/** Reads rows as objects, `batches` at a time, and keeps none longer. */
async function countRows(client, sql, batches) {
  let rows = 0;
  for await (const batch of client.rows(sql).batches(batches)) rows += batch.length;
  await client.close();
  return Response.json({ rows });
}
