// A loopback HTTP server through which a test in any runtime queries a real server as superuser, over a separate
// connection and through another driver (pg). For example, a test reads pg_stat_activity while our connection is busy.
//
//   POST /sql  { server: "19", sql: "select …" }  ->  { rows: [["text", null], …] }  or  { error: "…" }
import { createServer } from "node:http";
import pg from "pg";

/** `servers`: descriptors of index.mjs. Returns `{ url, stop }`. */
export async function startSidecar(servers) {
  const pools = new Map(servers.map((server) => [server.name, pool(server)]));
  for (const one of pools.values()) one.on("error", () => {}); // an idle connection may be terminated by a test

  const answer = async (body) => {
    const { server, sql } = JSON.parse(body);
    const found = pools.get(server);
    if (found === undefined) throw new Error(`no server named ${server}`);
    const result = await found.query({ text: sql, rowMode: "array" }).catch(async (error) => {
      throw error.code === QUERY_CANCELED ? new Error(`${error.message}; ${await busy(found)}`) : error;
    });
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

/** Returns `side`, which returns the rows of SQL on that server, and `stop`: for programs that are run by hand. */
export async function sideOf(server) {
  const { url, stop } = await startSidecar([server]);
  const side = async (sql) => {
    const body = JSON.stringify({ server: server.name, sql });
    const { rows, error } = await (await fetch(`${url}/sql`, { method: "POST", body })).json();
    if (rows === undefined) throw new Error(`side connection: ${error}`);
    return rows;
  };
  return { side, stop };
}

const QUERY_CANCELED = "57014";

/**
 * Returns the other active sessions. DROP DATABASE waits for each session, also for one that waits for its client to
 * read.
 */
async function busy(found) {
  const sessions = `select concat_ws(' ', pid, application_name, state, wait_event, left(query, 60))
    from pg_stat_activity where backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()`;
  const { rows } = await found.query({ text: sessions, rowMode: "array" });
  return `sessions: ${rows.flat().join(" | ") || "none"}`;
}

// A statement that hangs must end before its test does; otherwise four of them would make every later test wait for a
// connection. Our servers are queried without TLS whatever PGSSLMODE says, the server of DATABASE_URL as its URL says.
function pool({ name, superuserUrl, own }) {
  const limit = name === "pgbouncer" ? {} : { statement_timeout: 20_000 }; // PgBouncer refuses it as a startup setting
  return new pg.Pool({
    connectionString: superuserUrl,
    max: 4,
    types: asText,
    ...limit,
    ...(own ? { ssl: false } : {}),
  });
}

const asText = { getTypeParser: () => (value) => value };
