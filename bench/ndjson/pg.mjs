// pg: all rows at once, with pg-query-stream, and with pg-copy-streams (the server makes the JSON).
import pg from "pg";

export async function open(url, form) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const run = await forms[form](client);
  return { run, backend: client.query("select pg_backend_pid() as pid").then(({ rows }) => rows[0].pid) };
}

const forms = {
  buffered: (client) => async (sql, sink) =>
    sink(Buffer.from((await client.query(sql)).rows.map((row) => `${JSON.stringify(row)}\n`).join(""))),

  async queryStream(client) {
    const { default: QueryStream } = await import("pg-query-stream");
    return async (sql, sink) => {
      let lines = "";
      for await (const row of client.query(new QueryStream(sql, [], { batchSize: 1000, highWaterMark: 1000 }))) {
        lines += `${JSON.stringify(row)}\n`;
        if (lines.length >= 65536) {
          sink(Buffer.from(lines));
          lines = "";
        }
      }
      sink(Buffer.from(lines));
    };
  },

  async copyStreams(client) {
    const { to } = await import("pg-copy-streams");
    return async (sql, sink) => {
      for await (const chunk of client.query(to(`COPY (SELECT row_to_json(t) FROM (${sql}) t) TO STDOUT`))) sink(chunk);
    };
  },
};
