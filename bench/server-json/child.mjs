// One way to get a query's rows as NDJSON: `child.mjs rows|copy <url>`.
import process from "node:process";
import { serve, sha256, timed } from "../lib/child.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";

const [way, url] = process.argv.slice(2);
const client = await connectPgz(url);
const [{ pid }] = (await client.query("select pg_backend_pid() as pid")).rows;

const ways = {
  rows: (sql) => client.stream(sql, { format: "ndjson" }),
  copy: (sql) => client.copyTo(`copy (${sql}) to stdout (format json)`),
};

serve(async ({ hello, sql, check }) => {
  if (hello) return { backend: pid, server: client.parameterStatus("server_version") };
  if (check) {
    const chunks = [];
    for await (const chunk of await ways[way](sql)) chunks.push(Uint8Array.from(chunk));
    return { sha256: sha256(Buffer.concat(chunks)) };
  }
  return timed(async () => {
    let bytes = 0;
    for await (const chunk of await ways[way](sql)) bytes += chunk.length;
    return { bytes };
  });
});
