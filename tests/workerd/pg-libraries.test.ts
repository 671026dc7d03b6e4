// Libraries that import `pg`, over pgz-edge-pg in workerd: bundled by Wrangler with its option `alias`, as docs/pg.md
// says, and with the packed tarball.
import { cpSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { Project, root } from "../packaging/project.ts";
import { wrangler } from "../support/wrangler.ts";
import { startWorker } from "./host.mjs";

const url = `${testServers().servers[0]!.url.split("?")[0]}?sslmode=disable`;
const FLAGS = ["nodejs_compat"];
/** Modules that knex loads for other databases. A bundler must be able to find them. */
const NEVER_LOADED = ["better-sqlite3", "mariadb/callback", "mysql", "mysql2", "oracledb", "sqlite3", "tedious"];

let project: Project;
let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  project = new Project();
  cpSync(path.join(root, "js/adapters/pg-alias"), project.at("node_modules/pgz-edge-pg"), { recursive: true });
  const settings = {
    name: "libraries",
    main: fileURLToPath(new URL("fixture/pg-libraries-worker.mjs", import.meta.url)),
    compatibility_date: "2026-04-01",
    compatibility_flags: FLAGS,
    alias: { pg: "pgz-edge-pg", ...Object.fromEntries(NEVER_LOADED.map((name) => [name, "./nothing.mjs"])) },
  };
  project.write("nothing.mjs", "");
  project.write("wrangler.json", JSON.stringify(settings));
  await wrangler(["deploy", "--dry-run", "--outdir", "out"], { cwd: project.folder });
  const entry = project.at("out/pg-libraries-worker.js");
  worker = await startWorker({ entry, options: { compatibilityFlags: FLAGS } });
});
afterAll(async () => {
  await worker?.stop();
  project?.remove();
});

test.each([
  "pg-cursor",
  "pg-query-stream",
  "knex",
  "drizzle-orm/node-postgres",
  "kysely's own dialect",
  "@auth/pg-adapter",
])("%s", async (name) => {
  const answer = await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, url }) });
  expect(await answer.json()).toBe(null);
});
