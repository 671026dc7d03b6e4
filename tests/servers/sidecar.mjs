// A loopback HTTP server through which a test in any runtime asks a real server something as superuser, over a
// connection of its own and through another driver (pg): what pg_stat_activity says while ours is busy, for example.
//
//   POST /sql  { server: "18", sql: "select …" }  ->  { rows: [["text", null], …] }  or  { error: "…" }
import { createServer } from "node:http";
import pg from "pg";

/** `servers`: descriptors of index.mjs. Gives `{ url, stop }`. */
export async function startSidecar(servers) {
  const pools = new Map(servers.map((server) => [server.name, pool(server)]));
  for (const one of pools.values()) one.on("error", () => {}); // an idle connection may be terminated by a test

  const answer = async (body) => {
    const { server, sql } = JSON.parse(body);
    const found = pools.get(server);
    if (found === undefined) throw new Error(`no server named ${server}`);
    const result = await found.query({ text: sql, rowMode: "array" });
    return { rows: [result].flat().at(-1).rows };
  };
  const http = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const outcome = await answer(Buffer.concat(chunks).toString()).catch((error) => ({ error: error.message }));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(outcome));
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const stop = async () => {
    http.close();
    http.closeAllConnections();
    await Promise.all([...pools.values()].map((one) => one.end()));
  };
  return { url: `http://127.0.0.1:${http.address().port}`, stop };
}

// Ours are asked in the clear whatever PGSSLMODE says; the one of DATABASE_URL as its URL says.
function pool({ superuserUrl, own }) {
  return new pg.Pool({ connectionString: superuserUrl, max: 4, types: asText, ...(own ? { ssl: false } : {}) });
}

const asText = { getTypeParser: () => (value) => value };
