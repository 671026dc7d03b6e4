// The packed tarball, installed in an empty project and used once in each runtime by its export conditions, as a user
// would.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "../workerd/host.mjs";

const root = fileURLToPath(new URL("../../", import.meta.url));
const bin = (name: string) => path.join(root, "node_modules/.bin", name);
const [server] = testServers().servers;
const url = `${server!.url.split("?")[0]}?sslmode=disable`;
const APP = `
import { connect, PostgresError, sql } from "pgz-edge";
import { SQLSTATES } from "pgz-edge/sqlstates";
const db = await connect(process.env.URL);
const { rows } = await db.query(sql\`select \${20}::int4 + 1 as n\`);
const code = await db.exec("select 1 / 0").catch((error) => error instanceof PostgresError && error.code === SQLSTATES.division_by_zero);
const text = await (await db.respond("select 1 as a")).text();
await db.close();
console.log(JSON.stringify([rows, text, code]));
`;
const ANSWER = JSON.stringify([[{ n: 21 }], '{"a":1}\n', true]);
let project: string;

beforeAll(() => {
  project = mkdtempSync(path.join(tmpdir(), "pgz-edge-pack-"));
  execFileSync("npm", ["pack", "--pack-destination", project, "--loglevel=error"], { cwd: root, stdio: "pipe" });
  const tarball = readdirSync(project).find((name) => name.endsWith(".tgz"));
  writeFileSync(path.join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", `./${tarball}`], {
    cwd: project,
    stdio: "pipe",
  });
  writeFileSync(path.join(project, "app.mjs"), APP);
}, 120_000);
afterAll(() => rmSync(project, { recursive: true, force: true }));

const runtimes: [name: string, command: string[]][] = [
  ["Node", [process.execPath, "app.mjs"]],
  ["Deno", [bin("deno"), "run", "--allow-net", "--allow-env=URL", "app.mjs"]],
  ["Bun", [bin("bun"), "app.mjs"]],
];
test.each(runtimes)("the tarball works in %s", { timeout: 60_000 }, (_, [command, ...parameters]) => {
  const output = execFileSync(command!, parameters, {
    cwd: project,
    env: { ...process.env, URL: url },
    encoding: "utf8",
  });
  expect(output.trim()).toBe(ANSWER);
});

test("the tarball works in workerd", { timeout: 60_000 }, async () => {
  const entry = path.join(project, "worker.ts");
  writeFileSync(
    entry,
    `import { createClient } from "pgz-edge";
     export default { fetch: (request, env) => createClient(env.URL).respond("select 1 as a", { closeWhenDone: true }) };`,
  );
  const worker = await startWorker({ entry, options: { bindings: { URL: url } } });
  try {
    expect(await (await fetch(worker.url)).text()).toBe('{"a":1}\n');
  } finally {
    await worker.stop();
  }
});

test(
  "the tarball works bundled by esbuild for Node, in a folder without node_modules",
  { timeout: 60_000 },
  async () => {
    const { build } = await import("esbuild");
    const folder = path.join(project, "bundled");
    mkdirSync(folder);
    await build({
      entryPoints: [path.join(project, "app.mjs")],
      outfile: path.join(folder, "app.mjs"),
      bundle: true,
      platform: "node",
      format: "esm",
      logLevel: "error",
    });
    const output = execFileSync(process.execPath, ["app.mjs"], {
      cwd: folder,
      env: { ...process.env, URL: url },
      encoding: "utf8",
    });
    expect(output.trim()).toBe(ANSWER);
  },
);

test("the tarball's types are found and right", { timeout: 120_000 }, () => {
  writeFileSync(
    path.join(project, "types.ts"),
    `import { connect, sql, PostgresError, type Client, type ClientOptions } from "pgz-edge";
     const db: Client = await connect("postgres://u@h/d");
     const { rows } = await db.query<{ id: number }>(sql\`select 1 as id\`);
     const id: number | undefined = rows[0]?.id;
     const arrays: unknown[][] = (await db.query("select 1", { rowMode: "array" })).rows;
     const options: ClientOptions = { debug: true };
     // @ts-expect-error: a row has no such member
     rows[0]?.nothing;
     // Rows may be of an interface, a class or a literal, and no texts or numbers.
     interface User { readonly id: number; name?: string }
     const users: readonly User[] = [{ id: 1 }];
     class Point { x = 1 }
     await db.exec(sql\`insert into u \${sql.values(users)}, \${sql.values([new Point()], "x")}, \${sql.values([[1, "a"]])} \${sql.set(users[0]!)}\`);
     await db.copyFromRows("u", ["id"], users);
     // @ts-expect-error: a text is no row
     sql.values(["a"]);
     try { await db.stream("x"); } catch (error) { if (error instanceof PostgresError) console.log(id, arrays, options, error.constraint); }
     export {};`,
  );
  execFileSync(
    bin("tsc"),
    [
      "--noEmit",
      "--strict",
      "--noUncheckedIndexedAccess",
      "--exactOptionalPropertyTypes",
      "--target",
      "es2022",
      "--lib",
      "es2022,dom,esnext.disposable",
      "--module",
      "esnext",
      "--moduleResolution",
      "bundler",
      "types.ts",
    ],
    { cwd: project, stdio: "pipe" },
  );
});

test("the tarball holds what it should and nothing else", () => {
  const files = readdirSync(path.join(project, "node_modules/pgz-edge"), { recursive: true }) as string[];
  expect(files).toContain("dist/pgz_edge_bg.wasm");
  expect(files).toContain("LICENSE");
  expect(files).toContain("README.md");
  expect(files.filter((name) => /(^|\/)(src|js|tests|bench|node_modules|pkg)(\/|$)/.test(name))).toEqual([]);
});
