// Whether a driver answers in a Worker, without `nodejs_compat` and with it: one line of JSON for each, as child.mjs
// prints them. features.mjs starts it in the Node that miniflare wants.
//
// A Worker that asks one question over a plain link, bundled by esbuild as Wrangler bundles it. Knows workerd and how
// it is told; must not know more of a driver than its first query.
import { build } from "esbuild";
import { mkdtempSync, rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";
import { startProxy } from "../../docker/websocket-proxy/proxy.mjs";

const { driver, folder, url } = JSON.parse(process.argv[2]);
const root = fileURLToPath(new URL("../..", import.meta.url));

const QUERIES = {
  "pgz-edge": `
    import { createClient } from "pgz-edge";
    const ask = async (url) => {
      const client = createClient(url, { sslmode: "disable" });
      const { rows } = await client.query("select $1::int4 as n", [7]);
      await client.close();
      return rows;
    };`,
  pg: `
    import pg from "pg";
    const ask = async (url) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const { rows } = await client.query("select $1::int4 as n", [7]);
      await client.end();
      return rows;
    };`,
  "postgres.js": `
    import postgres from "postgres";
    const ask = async (url) => {
      const sql = postgres(url, { max: 1 });
      const rows = await sql\`select \${7}::int4 as n\`;
      await sql.end();
      return rows;
    };`,
  neon: `
    import { Client, neonConfig } from "@neondatabase/serverless";
    const ask = async (url, address) => {
      const wsProxy = (host, port) => address + "/?address=" + host + ":" + port;
      Object.assign(neonConfig, { wsProxy, useSecureWebSocket: false, pipelineTLS: false, pipelineConnect: false });
      const client = new Client({ connectionString: url });
      await client.connect();
      const { rows } = await client.query("select $1::int4 as n", [7]);
      await client.end();
      return rows;
    };`,
  "sql-pg": `
    import { Effect, Redacted } from "effect";
    import { PgClient } from "@effect/sql-pg";
    import { layer } from "effect/reactivity/Reactivity";
    const ask = (url) =>
      Effect.runPromise(
        Effect.scoped(
          Effect.flatMap(PgClient.makeClient({ url: Redacted.make(url) }), (sql) => sql\`select \${7}::int4 as n\`),
        ).pipe(Effect.provide(layer)),
      );`,
  postgrejs: `
    import { Connection } from "postgrejs";
    const ask = async (url) => {
      const connection = new Connection(url);
      await connection.connect();
      const { rows } = await connection.query("select $1::int4 as n", { params: [7], objectRows: true });
      await connection.close(0);
      return rows;
    };`,
  minipg: `
    import { connect } from "minipg/cf";
    const ask = async (url) => {
      // For Workers it takes no URL.
      const { hostname: host, port, username: user, password, pathname } = new URL(url);
      const connection = await connect({ host, port: Number(port), user, password, database: pathname.slice(1) });
      const { rows } = await connection.query("select $1::int4 as n", [7], { mode: "object" });
      await connection.end();
      return rows;
    };`,
};
const HANDLER = `
  export default {
    async fetch(request, { DATABASE, ADDRESS }) {
      try {
        return Response.json(await ask(DATABASE, ADDRESS));
      } catch (error) {
        return new Response(String(error?.cause?.message ?? error?.message ?? error), { status: 500 });
      }
    },
  };`;

const { port, stop } = await startProxy({ allow: [new URL(url).host] });
const output = mkdtempSync(path.join(tmpdir(), "pgz-edge-peers-"));
try {
  for (const compatibilityFlags of [[], ["nodejs_compat"]]) {
    const answer = await answered(compatibilityFlags).catch((error) => `no: ${firstLine(error)}`);
    const flags = compatibilityFlags.length > 0 ? "with nodejs_compat" : "without nodejs_compat";
    console.log(JSON.stringify([`in workerd, ${flags}`, answer]));
  }
} finally {
  await stop();
  rmSync(output, { recursive: true, force: true });
}
process.exit(0);

async function answered(compatibilityFlags) {
  const scriptPath = path.join(output, "worker.js");
  await build({
    stdin: { contents: QUERIES[driver] + HANDLER, resolveDir: driver === "pgz-edge" ? root : folder },
    outfile: scriptPath,
    bundle: true,
    format: "esm",
    target: "es2022",
    conditions: ["workerd"],
    external: ["cloudflare:*", "node:*", ...builtinModules],
    loader: { ".wasm": "copy" },
    logLevel: "silent",
    // What CommonJS requires of Node: esbuild leaves it to a `require` that the module has to make.
    ...(compatibilityFlags.length > 0 && {
      banner: {
        js: 'import { createRequire } from "node:module"; const require = createRequire("file:///worker.js");',
      },
    }),
  });
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    modules: true,
    scriptPath,
    modulesRoot: output,
    modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
    compatibilityDate: "2026-04-01",
    compatibilityFlags,
    bindings: { DATABASE: url, ADDRESS: `127.0.0.1:${port}` },
    handleRuntimeStdio(stdout, stderr) {
      stdout.resume();
      stderr.resume();
    },
  });
  try {
    const response = await Promise.race([fetch(await miniflare.ready), pause(15_000)]);
    if (response === undefined) return "no answer within 15 s";
    const text = await response.text();
    return response.ok && text === '[{"n":7}]' ? "yes" : `no: ${firstLine(text)}`;
  } finally {
    await miniflare.dispose();
  }
}

function firstLine(error) {
  return String(error?.message ?? error)
    .split("\n")[0]
    .slice(0, 200);
}
