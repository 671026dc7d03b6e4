// The packed tarball, installed in an empty project and used once in each runtime by its export conditions, as a user
// would use it.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "../workerd/host.mjs";
import { bin, Project } from "./project.ts";

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
let project: Project;

beforeAll(() => {
  project = new Project();
  project.write("app.mjs", APP);
});
afterAll(() => project.remove());

const runtimes: [name: string, command: string[]][] = [
  ["Node", [process.execPath, "app.mjs"]],
  ["Deno", [bin("deno"), "run", "--allow-net", "--allow-env=URL", "app.mjs"]],
  ["Bun", [bin("bun"), "app.mjs"]],
];
test.each(runtimes)("the tarball works in %s", (_, [command, ...parameters]) => {
  const output = execFileSync(command!, parameters, {
    cwd: project.folder,
    env: { ...process.env, URL: url },
    encoding: "utf8",
  });
  expect(output.trim()).toBe(ANSWER);
});

test("the tarball works in workerd", async () => {
  const entry = project.write(
    "worker.ts",
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

test("the tarball holds what it should and nothing else", () => {
  const files = readdirSync(project.at("node_modules/pgz-edge"), { recursive: true }) as string[];
  expect(files).toContain("dist/pgz_edge_bg.wasm");
  expect(files).toContain("LICENSE");
  expect(files).toContain("dist/THIRD-PARTY-LICENSES.txt");
  expect(files).toContain("README.md");
  expect(files.filter((name) => /(^|\/)(src|js|tests|bench|node_modules|pkg)(\/|$)/.test(name))).toEqual([]);
});

// Each runtime would have to read the comments before its first query.
test("published JavaScript has no comments", () => {
  const dist = project.at("node_modules/pgz-edge/dist");
  const files = (readdirSync(dist, { recursive: true }) as string[]).filter((name) => name.endsWith(".js"));
  expect(files.length).toBeGreaterThan(20);
  const told = files.filter((name) => /^\s*\/\*\*/m.test(readFileSync(`${dist}/${name}`, "utf8")));
  expect(told).toEqual([]);
});
