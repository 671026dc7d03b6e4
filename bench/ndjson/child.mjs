// One library as NDJSON source: `child.mjs <library> <url>`, on Node, Deno and Bun. Each request produces the NDJSON
// bytes of a query, as for a Response, and returns their number; `check` keeps them all and returns hashes of bytes and
// of content.
//
// Every form is the idiomatic one of its library: buffered (all rows, then JSON) and cursor (as rows arrive, in writes
// of about 64 KiB). A source is `open(url)` -> `{ run(sql, sink, format), backend }`, in its own file, so that a
// runtime loads only what it supports.
import process from "node:process";
import { canonicalHash } from "../lib/content.mjs";
import { runtimeVersion, serve, sha256, timed } from "../lib/child.mjs";
import { linesOf } from "./formats.mjs";

const sources = {
  "pgz-edge": ["./pgz-edge.mjs"],
  "postgres.js": ["./postgres-js.mjs", false],
  "postgres.js cursor": ["./postgres-js.mjs", true],
  pg: ["./pg.mjs", "buffered"],
  "pg-query-stream": ["./pg.mjs", "queryStream"],
  "pg-copy-streams": ["./pg.mjs", "copyStreams"],
  "bun.sql": ["./bun-sql.mjs"],
  drain: ["./drain.mjs"],
};

const [library, url] = process.argv.slice(2);
const [file, form] = sources[library];
const { open } = await import(file);
const { run, backend } = await open(url, form);

serve(async ({ hello, sql, format = "ndjson", times = 1, check }) => {
  if (hello) return { backend: await backend, version: runtimeVersion() };
  if (check) return checked(sql, format);
  return timed(async () => {
    let bytes = 0;
    for (let time = 0; time < times; time++) await run(sql, (chunk) => void (bytes += chunk.length), format);
    return { bytes };
  });
});

async function checked(sql, format) {
  const chunks = [];
  await run(sql, (chunk) => void chunks.push(Uint8Array.from(chunk)), format); // a copy: drain reuses its buffer
  const all = Buffer.concat(chunks);
  const bytes = { bytes: all.length, sha256: sha256(all) };
  if (library === "drain") return bytes;
  const lines = linesOf(all.toString(), format);
  return { ...bytes, lines: lines.length, canonical: canonicalHash(lines) };
}
