// One library of libraries.mjs on Node, Deno or Bun: `child.mjs <library>`. A request is one trial.
import process from "node:process";
import { runtimeVersion, serve } from "../lib/child.mjs";
import { bunSql, pg, pgPipeline, pgzEdge, postgresJs } from "./libraries.mjs";
import { trial } from "./shapes.mjs";

const driver = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";
const libraries = {
  "pgz-edge": async () => pgzEdge(await import(`../../dist/${driver}.js`)),
  "postgres.js": async () => postgresJs(await import("postgres")),
  pg: async () => pg(await import("pg")),
  "pg pipeline": async () => pgPipeline(await import("pg")),
  "bun.sql": async () => bunSql(),
};
const library = await libraries[process.argv[2]]();

serve(({ hello, ...request }) =>
  hello ? { version: runtimeVersion(), shapes: library.shapes } : trial(library, request),
);
