// Runs docs/next.md as written: its files, the packed tarball, and the packages of package.json in next/ form a Next
// application that OpenNext and wrangler build for Workers, and workerd runs it with a Hyperdrive binding. Part of
// `make test-release`: it installs 700 MB, in a folder of its own, since Next takes the folder of a lock file further
// up for its root.
import { execFile, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import ts from "typescript";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { workerd } from "../../scripts/node/index.mjs";
import { ownCaches } from "../../scripts/own-caches.mjs";
import { testServers } from "../integration/servers.ts";
import { Project, root } from "../packaging/project.ts";
import { freePort } from "../servers/free-port.mjs";
import { testDatabase } from "../support/test-database.ts";
import { startWorker } from "../workerd/host.mjs";

const DATABASE = "pgz_edge_next";
const server = testServers().servers[0]!;
const database = testDatabase(server, DATABASE);
const { url } = database;
/** The number of 3 kB rows, which is more than sockets and streams buffer. */
const LAST = 20_000;
const TABLE = `create table users (id int4 primary key, name text not null);
  insert into users values (1, 'Ada'), (2, 'Bob'), (3, 'Cy');
  insert into users select n, repeat('x', 3000) from generate_series(4, ${LAST}) n;
  grant all on users to "${server.user}"`;

const page = readFileSync(path.join(root, "docs/next.md"), "utf8");
const files = new Map(
  [...page.matchAll(/^```\w+ (\S+\.\w+)\n([^]*?)^```/gm)].map(([, name, text]) => [name!, text!] as const),
);
const configuration = ts.parseConfigFileTextToJson("wrangler.jsonc", files.get("wrangler.jsonc")!).config as {
  compatibility_date: string;
  compatibility_flags: string[];
};
const LAYOUT = "export default ({ children }) => <html><body>{children}</body></html>;";
/** What the page warns against: a client that the next request reuses. */
const KEPT = `import { client } from "../../db";
  import type { Client } from "pgz-edge";
  const kept = globalThis as { db?: Client };
  export const dynamic = "force-dynamic";
  export const GET = () =>
    (kept.db ??= client()).query("select 1 as a").then(
      ({ rows }) => Response.json(rows),
      ({ code }) => Response.json({ code }, { status: 500 }),
    );`;
/** Another part of the package, which has no export condition of its own, with the same core. */
const PG = `import { getCloudflareContext } from "@opennextjs/cloudflare";
  import { Client } from "pgz-edge/pg";
  import { SQLSTATES } from "pgz-edge/sqlstates";
  export const dynamic = "force-dynamic";
  export async function GET() {
    const client = new Client(getCloudflareContext().env.HYPERDRIVE.connectionString);
    await client.connect();
    const { code } = await client.query("select 1 / 0").catch((error) => error);
    const { rows } = await client.query("select 1 as a");
    await client.end();
    return Response.json([code === SQLSTATES.division_by_zero, rows]);
  }`;

const { execPath } = workerd();
let project: Project;
let env: NodeJS.ProcessEnv;
let admin: pg.Client;

beforeAll(async () => {
  project = new Project();
  for (const name of ["package.json", "package-lock.json"])
    copyFileSync(path.join(root, "tests/ecosystem/next", name), project.at(name));
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  await promisify(execFile)("npm", ["install", ...quiet, project.tarball], {
    cwd: project.folder,
    env: { ...process.env, ...ownCaches(project.at(".caches"), { registry: null }) },
  });
  for (const [name, text] of files) project.write(name, text);
  project.write("app/layout.jsx", LAYOUT);
  project.write("app/api/kept/route.ts", KEPT);
  project.write("app/api/pg/route.ts", PG);
  mkdirSync(project.at(".tmp"));
  env = {
    ...process.env,
    TMPDIR: project.at(".tmp"), // OpenNext, Next and wrangler leave files there
    ...{ PATH: `${path.dirname(execPath)}${path.delimiter}${process.env["PATH"]}`, CI: "1" },
    ...{ HOME: project.folder, XDG_CONFIG_HOME: project.folder },
    ...{ NEXT_TELEMETRY_DISABLED: "1", WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true" },
    CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE: url,
  };
  await database.create();
  admin = new pg.Client({ connectionString: database.superuserUrl });
  await admin.connect();
  await admin.query(TABLE);
  await command("wrangler", "types", "--env-interface", "CloudflareEnv", "cloudflare-env.d.ts");
});
afterAll(async () => {
  await admin?.end();
  await database.drop();
  project?.remove();
});

/** Runs a command of the application's packages. Its output is shown if it fails. */
async function command(name: string, ...words: string[]): Promise<string> {
  const file = project.at("node_modules/.bin", name);
  const options = { cwd: project.folder, env, maxBuffer: 1 << 26 };
  const { stdout, stderr } = await promisify(execFile)(execPath, [file, ...words], options).catch((error) => {
    throw new Error(`${name} ${words.join(" ")}: ${error.stdout}${error.stderr}`, { cause: error });
  });
  return stdout + stderr;
}

/** Builds the application as the page says, and runs what wrangler would deploy. */
async function inWorkerd(bundler: string, replaced: Record<string, string> = {}): Promise<string> {
  for (const [name, text] of Object.entries(replaced)) {
    project.write(name, text);
    onTestFinished(() => void project.write(name, files.get(name)!));
  }
  const manifest = JSON.parse(readFileSync(project.at("package.json"), "utf8")) as { scripts: object };
  project.write("package.json", JSON.stringify({ ...manifest, scripts: { build: `next build ${bundler}` } }));
  await command("opennextjs-cloudflare", "build");
  await command("wrangler", "deploy", "--dry-run", "--outdir", "out");
  const { compatibility_date: compatibilityDate, compatibility_flags: compatibilityFlags } = configuration;
  const assets = { directory: project.at(".open-next/assets"), binding: "ASSETS", workerName: "app" };
  const worker = await startWorker({
    built: project.at("out"),
    options: {
      ...{ name: "app", compatibilityDate, compatibilityFlags, hyperdrives: { HYPERDRIVE: url } },
      assets: { ...assets, routerConfig: { has_user_worker: true } },
    },
  });
  onTestFinished(worker.stop);
  return worker.url;
}

const busy = async () =>
  (
    await admin.query<{ wait: string }>(
      "select wait_event as wait from pg_stat_activity where datname = $1 and state = 'active' and pid <> pg_backend_pid()",
      [DATABASE],
    )
  ).rows.map(({ wait }) => wait);

const idsIn = (lines: string) =>
  lines
    .split("\n")
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { id: number }).id);

/** A client that sends a request and reads nothing. */
async function silentClient(address: string, name: string) {
  const { hostname, port } = new URL(address);
  const client = connect(Number(port), hostname);
  await new Promise((resolve) => client.once("connect", resolve));
  client.pause();
  client.write(`GET ${name} HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
  return client;
}

/** Checks rows, several requests concurrently and one after another, and a page. */
async function answers(address: string): Promise<void> {
  const get = async (name: string) => (await fetch(new URL(name, address))).text();
  const users = async (after: number) => JSON.parse(await get(`/api/users?after=${after}`)) as { id: number }[];
  expect((await users(0)).slice(0, 3)).toEqual([
    { id: 1, name: "Ada" },
    { id: 2, name: "Bob" },
    { id: 3, name: "Cy" },
  ]);
  const few = await Promise.all(Array.from({ length: 10 }, (_, n) => users(LAST - n)));
  expect(few.map((rows) => rows.length)).toEqual(Array.from({ length: 10 }, (_, n) => n));
  for (let n = 0; n < 2; n++) expect(await get("/")).toContain("<ul><li>Ada</li><li>Bob</li><li>Cy</li></ul>");
  expect(JSON.parse(await get("/api/pg"))).toEqual([true, [{ a: 1 }]]);

  const streamed = await fetch(new URL("/api/stream", address));
  expect(streamed.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
  expect(idsIn(await streamed.text())).toEqual(Array.from({ length: LAST }, (_, n) => n + 1));
}

/** A client that leaves before the first row has its query cancelled. */
async function mayBeLeft(address: string): Promise<void> {
  const locker = new pg.Client({ connectionString: database.superuserUrl });
  await locker.connect();
  try {
    await locker.query("begin; lock table users");
    const client = await silentClient(address, "/api/stream");
    await expect.poll(busy).toEqual(["relation"]);
    client.resetAndDestroy();
    await expect.poll(busy).toEqual([]);
  } finally {
    await locker.end();
  }
}

test("built with Turbopack", async () => {
  const address = await inWorkerd("--turbopack");
  await answers(address);
  await mayBeLeft(address);

  // The page's warning: OpenNext reads all rows, even without a reader.
  const client = await silentClient(address, "/api/stream");
  onTestFinished(() => void client.destroy());
  await expect.poll(busy).not.toEqual([]);
  await expect.poll(busy).toEqual([]);
  expect(client.bytesRead).toBeLessThan(1e6);

  const kept = async () => (await fetch(new URL("/api/kept", address))).json();
  expect([await kept(), await kept()]).toEqual([[{ a: 1 }], { code: "OTHER_REQUEST" }]);
});

test("built with webpack, behind a Worker that answers one path itself", async () => {
  const wrangler = files.get("wrangler.jsonc")!.replace('".open-next/worker.js"', '"worker.ts"');
  const address = await inWorkerd("--webpack", { "wrangler.jsonc": wrangler });
  await answers(address);
  await mayBeLeft(address);

  const exported = await (await fetch(new URL("/export", address))).text();
  expect(idsIn(exported)).toEqual(Array.from({ length: LAST }, (_, n) => n + 1));
  // Here the server waits for the client.
  const client = await silentClient(address, "/export");
  await expect.poll(busy).toEqual(["ClientWrite"]);
  client.resetAndDestroy();
  await expect.poll(busy).toEqual([]);
});

test("without the setting a call reports what is wrong", async () => {
  const address = await inWorkerd("--turbopack", { "next.config.ts": "export default {};" });
  expect(await (await fetch(new URL("/api/kept", address))).json()).toEqual({ code: "UNSUPPORTED_ON_RUNTIME" });
});

test("next dev, with wrangler's replacement for the binding", async () => {
  const port = await freePort();
  const words = [project.at("node_modules/.bin/next"), "dev", "-p", String(port)];
  const child = spawn(execPath, words, { cwd: project.folder, env, stdio: "ignore", detached: true });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    process.kill(-child.pid!, "SIGKILL");
    await gone;
  });
  const address = `http://127.0.0.1:${port}/`;
  const answer = async () => (await fetch(`${address}api/users?after=${LAST - 1}`).catch(() => undefined))?.json();
  await expect.poll(answer, { interval: 1000 }).toEqual([{ id: LAST, name: "x".repeat(3000) }]);
  expect(await (await fetch(address)).text()).toMatch(/<li>Ada<\/li>/);
});
