// The programs of README.md and docs/examples.md exactly as printed there, in a project with the packed tarball. Their
// types are checked strictly, they are built and started with their users' commands, and answer over HTTP. A block with
// a file's name after its language is that file. The server of docs/node.md runs too.
import { execFile, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { testServers } from "../integration/servers.ts";
import { isRelease } from "../support/release.ts";
import { freePort } from "../servers/free-port.mjs";
import { testDatabase } from "../support/test-database.ts";
import { wrangler } from "../support/wrangler.ts";
import { startWorker } from "../workerd/host.mjs";
import { bin, Project, root } from "./project.ts";
import { read } from "./repository.ts";

const DATABASE = "pgz_edge_programs";
const server = testServers().servers[0]!;
const database = testDatabase(server, DATABASE);
const { url } = database;
const TABLE = `create table users (id int4 primary key, name text not null);
  insert into users values (1, 'Ada'), (2, 'Bob'), (3, 'Cy');
  grant all on users to "${server.user}"`;
/** Rows of 3 kB, more than the sockets buffer. */
const LAST = 40_000;
const MANY = `insert into users select n, repeat('x', 3000) from generate_series(4, ${LAST}) n`;
/** The next number for a new row. */
const RULES = `create table names (name text primary key);
  insert into names values ('Di'), ('');
  alter table users add check (name <> '') not valid, add foreign key (name) references names not valid`;
/** The packages that the programs' users install beside the driver. */
const INSTALLED = [
  ...["hono", "@hono/node-server", "@types/node", "undici-types"],
  ...["next", "react", "react-dom", "@types/react", "csstype", "typescript"],
  ...["@sveltejs/kit", "@sveltejs/adapter-node", "@sveltejs/vite-plugin-svelte", "svelte", "vite"],
];

/** A server may end an idle connection, and on a slow machine it is idle between two requests: each has its own. */
const fetchOnce = (address: string | URL, options: RequestInit = {}) =>
  fetch(address, { ...options, headers: { ...(options.headers as Record<string, string>), connection: "close" } });

const filesOf = (page: string) =>
  [...read(page).matchAll(/^```\w+ (\S+\.\w+)\n([^]*?)^```/gm)].map(([, name, text]) => [name!, text!] as const);
const configuration = filesOf("README.md").find(([name]) => name === "wrangler.jsonc")![1];

let project: Project;
let admin: pg.Client;
/** Where wrangler runs: the folder of README's Worker. */
let readme: { cwd: string; home: string };
beforeAll(async () => {
  project = new Project();
  for (const name of INSTALLED) project.link(name);
  for (const [name, text] of filesOf("docs/examples.md")) project.write(name, text);
  for (const name of ["db.ts", "errors.ts"])
    for (const folder of ["next", "sveltekit/src/lib/server"])
      project.write(`${folder}/${name}`, readFileSync(project.at(name), "utf8"));
  project.write("readme/wrangler.jsonc", configuration);
  project.write("readme/worker.ts", /```ts run\n(import \{ createClient[^]*?)```/.exec(read("README.md"))![1]!);
  await database.create();
  admin = new pg.Client({ connectionString: database.superuserUrl });
  await admin.connect();
  await admin.query(TABLE);
  readme = { cwd: project.at("readme"), home: project.folder };
  await wrangler(["types"], readme);
});
afterAll(async () => {
  await admin?.end();
  await database.drop();
  project?.remove();
});

/** Returns the errors of TypeScript about files of the project, at its strictest. */
function complaints(files: string[], types: string[], more: ts.CompilerOptions = {}): string[] {
  const program = ts.createProgram({
    rootNames: files.map((name) => project.at(name)),
    options: {
      ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
      ...{ noImplicitReturns: true, noPropertyAccessFromIndexSignature: true, noUnusedLocals: true },
      ...{ module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler },
      ...{ noEmit: true, allowImportingTsExtensions: true, target: ts.ScriptTarget.ES2022 },
      lib: ["lib.es2022.d.ts", "lib.esnext.disposable.d.ts"],
      types,
      typeRoots: [project.at("node_modules/@types")],
      ...more,
    },
  });
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
}

async function inWorkerd(entry: string): Promise<string> {
  const options = { hyperdrives: { HYPERDRIVE: url } };
  const worker = await startWorker({ entry: project.at(entry), options });
  onTestFinished(worker.stop);
  return worker.url;
}

/**
 * Starts the program with `PORT` in its environment and in place of that word, and waits until the port accepts
 * connections.
 */
async function listening([command, ...words]: string[], folder = ""): Promise<string> {
  const port = String(await freePort());
  const child = spawn(
    command!,
    words.map((word) => (word === "PORT" ? port : word)),
    {
      cwd: project.at(folder),
      env: { ...process.env, PORT: port, DATABASE_URL: url, NEXT_TELEMETRY_DISABLED: "1" },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const gone = new Promise((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL"); // some programs would wait for their connections
    await gone;
  });
  let said = "";
  child.stderr.on("data", (text) => (said += text));
  const address = `http://127.0.0.1:${port}/`;
  while (child.exitCode === null) {
    const answer = await fetchOnce(`${address}users?after=${LAST}`).catch(() => undefined);
    await answer?.text();
    if (answer) return address;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`${command} does not listen: ${said}`);
}

const busy = async () =>
  (
    await admin.query<{ query: string }>(
      "select query from pg_stat_activity where datname = $1 and state = 'active' and pid <> pg_backend_pid()",
      [DATABASE],
    )
  ).rows.length;

/** The answers that the page promises for each program. */
async function works(address: string): Promise<void> {
  const users = new URL("users", address).href;
  const send = (body: string) =>
    fetchOnce(users, { method: "POST", body, headers: { "content-type": "application/json" } });
  const post = (id: number, name: string | null = "Di") => send(JSON.stringify({ id, name }));
  await admin.query("delete from users where id < 1");

  const few = await fetchOnce(`${users}?after=${LAST - 2}`);
  expect(few.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
  expect(await rowsOf(few)).toEqual([LAST - 1, LAST]);
  expect((await post(0)).status).toBe(201);
  expect((await admin.query("select name from users where id = 0")).rows).toEqual([{ name: "Di" }]);

  const said = async (answer: Promise<Response>) => [(await answer).status, await (await answer).json()];
  const misfit = "A value does not fit its column.";
  expect(await said(post(1))).toEqual([409, { error: "There is such a row already." }]);
  expect(await said(fetchOnce(`${users}?after=x`))).toEqual([400, { error: misfit }]);
  expect(await said(send("{ id: 5 }"))).toEqual([400, { error: "The body is not JSON." }]);
  expect(await said(send("null"))).toEqual([400, { error: misfit }]);
  expect(await said(send('{ "id": 5 }'))).toEqual([400, { error: misfit }]);
  expect(await said(post(5.5))).toEqual([400, { error: misfit }]);
  expect(await said(post(-9, null))).toEqual([422, { error: "name is missing." }]);
  expect(await said(post(-9, ""))).toEqual([422, { error: "It breaks a rule of its table (users_name_check)." }]);
  expect(await said(post(-9, "Zoe"))).toEqual([422, { error: "It names what does not exist (users_name_fkey)." }]);
  expect((await fetchOnce(new URL("nowhere", address))).status).toBe(404);
  await admin.query("alter table users rename to people");
  try {
    const broken = await fetchOnce(users);
    expect([broken.status, await broken.json()]).toEqual([500, { error: "That did not work." }]);
  } finally {
    await admin.query("alter table people rename to users");
  }
  expect(await rowsOf(await fetchOnce(`${users}?after=${LAST - 1}`))).toEqual([LAST]);

  await mayBeLeft(users);
  expect((await post(-1)).status).toBe(201);
}

/** A client that leaves, in the middle of a large result or before its first row, has its query cancelled. */
async function mayBeLeft(address: string): Promise<void> {
  const leave = new AbortController();
  const large = await fetchOnce(address, { signal: leave.signal });
  await large.body!.getReader().read();
  expect(await busy()).toBe(1);
  leave.abort();
  await expect.poll(busy).toBe(0);

  const locker = new pg.Client({ connectionString: database.superuserUrl });
  await locker.connect();
  try {
    await locker.query("begin; lock table users");
    const { hostname, port, pathname } = new URL(address);
    const client = connect(Number(port), hostname);
    client.write(`GET ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
    await expect.poll(busy).toBe(1);
    client.resetAndDestroy(); // a local workerd takes a plain end for a client that has nothing more to send
    await expect.poll(busy).toBe(0);
  } finally {
    await locker.end();
  }
}

async function rowsOf(response: Response): Promise<number[]> {
  const lines = (await response.text()).split("\n").filter(Boolean);
  return lines.map((line) => (JSON.parse(line) as { id: number }).id);
}

describe("README.md", () => {
  test("the README's Worker passes strict TypeScript with the types that wrangler writes for its configuration", () => {
    const files = ["readme/worker.ts", "readme/worker-configuration.d.ts"];
    expect(complaints(files, [])).toEqual([]);
  });

  test("the README's Worker answers as wrangler bundles it", async () => {
    const { stdout } = await wrangler(["deploy", "--dry-run", "--outdir", "out"], readme);
    expect(stdout).toMatch(/env\.HYPERDRIVE/);
    expect(await rowsOf(await fetchOnce(await inWorkerd("readme/out/worker.js")))).toEqual([2, 3]);
  });
});

describe("docs/node.md", () => {
  beforeAll(() => admin.query(MANY));
  afterAll(() => admin.query("delete from users where id > 3"));

  test("the node:http server of docs/node.md answers", async () => {
    const page = read("docs/node.md");
    const [, text] = /^```ts run\n(import \{ createServer[^]*?\.listen\()0\);/m.exec(page)!;
    project.write("page.ts", `${text}Number(process.env["PORT"]));`);
    const address = await listening([nodeBinary(22), "page.ts"]);
    expect((await rowsOf(await fetchOnce(address))).length).toBe(LAST);
    await mayBeLeft(address);
    await admin.query("alter table users rename to people");
    try {
      expect((await fetchOnce(address)).status).toBe(500);
    } finally {
      await admin.query("alter table people rename to users");
    }
    expect((await rowsOf(await fetchOnce(address))).length).toBe(LAST);
  });
});

describe("docs/examples.md", () => {
  beforeAll(() => admin.query(`${MANY}; ${RULES}`));

  test("docs/examples.md has files for each place", () => {
    expect(filesOf("docs/examples.md").map(([name]) => name)).toEqual([
      ...["errors.ts", "worker.ts", "server.ts", "node-server.ts", "hono-worker.ts", "hono-server.ts"],
      ...["db.ts", "next/app/users/route.ts", "sveltekit/src/routes/users/+server.ts", "slim.ts"],
    ]);
  });

  test("the files for Workers pass strict TypeScript", () => {
    const files = ["worker.ts", "hono-worker.ts", "readme/worker-configuration.d.ts"];
    expect(complaints(files, [], { skipLibCheck: true })).toEqual([]);
  });

  test("the files for servers pass strict TypeScript", () => {
    const routes = ["next/app/users/route.ts", "sveltekit/src/routes/users/+server.ts"];
    const files = ["server.ts", "node-server.ts", "hono-server.ts", "slim.ts", ...routes];
    expect(complaints(files, ["node"], { skipLibCheck: true })).toEqual([]);
  });

  test.each(["worker.ts", "hono-worker.ts"])("%s answers in workerd", async (entry) => {
    await works(await inWorkerd(entry));
  });

  test.each([
    ["server.ts", "Deno", [bin("deno"), "serve", "--allow-net", "--allow-env", "--port", "PORT", "server.ts"]],
    ["server.ts", "Bun", [bin("bun"), "server.ts"]],
    ["node-server.ts", "Node", [nodeBinary(22), "node-server.ts"]],
    ["hono-server.ts", "Node", [nodeBinary(22), "hono-server.ts"]],
  ])("%s in %s", async (_, __, command) => {
    await works(await listening(command));
  });

  // Next builds with Turbopack unless told otherwise. A build takes half a minute, so only a release makes it.
  test.for(isRelease ? ["--turbopack", "--webpack"] : [])(
    "next/ by next build %s in its Node runtime; it builds without a database, and its edge runtime says that it has no TCP",
    async (bundler) => {
      project.write(
        "next/app/edge/route.ts",
        `import { createClient } from "pgz-edge";
       export const runtime = "edge";
       export const dynamic = "force-dynamic";
       export const GET = () =>
         createClient(process.env["DATABASE_URL"]!)
           .respond("select 1 as a")
           .catch((error) => new Response(error.code + ": " + error.message));`,
      );
      project.write("next/app/layout.tsx", "export default ({ children }) => <html><body>{children}</body></html>;");
      // Turbopack compiles nothing outside its root, and here packages are links to ours.
      project.write("next/next.config.mjs", 'export default { turbopack: { root: "/" } };');
      const next = path.join(root, "node_modules/next/dist/bin/next");
      const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", CI: "1" };
      await promisify(execFile)(process.execPath, [next, "build", bundler], { cwd: project.at("next"), env });
      const address = await listening([process.execPath, next, "start", "-p", "PORT"], "next");
      await works(address);
      const said = await (await fetchOnce(new URL("edge", address))).text();
      expect(said).toMatch(/^UNSUPPORTED_ON_RUNTIME: There is no TCP here/);
    },
  );

  test("sveltekit/ answers with its adapter for Node, and builds without a database", async () => {
    const cwd = project.at("sveltekit");
    project.write("sveltekit/src/app.html", "<head>%sveltekit.head%</head><body>%sveltekit.body%</body>");
    project.write("sveltekit/package.json", JSON.stringify({ private: true, type: "module" }));
    project.write(
      "sveltekit/vite.config.js",
      `import adapter from "@sveltejs/adapter-node";
       import { sveltekit } from "@sveltejs/kit/vite";
       export default { plugins: [sveltekit({ adapter: adapter() })] };`,
    );
    const vite = path.join(root, "node_modules/vite/bin/vite.js");
    await promisify(execFile)(nodeBinary(24), [vite, "build"], { cwd });
    await works(await listening([nodeBinary(24), "build"], "sveltekit"));
  });

  test("slim.ts answers in Node", async () => {
    const env = { ...process.env, DATABASE_URL: url };
    const { stdout } = await promisify(execFile)(nodeBinary(22), ["slim.ts"], { cwd: project.folder, env });
    expect(stdout).toBe(`[ { n: ${LAST - 3} } ]\n`);
  });
});
