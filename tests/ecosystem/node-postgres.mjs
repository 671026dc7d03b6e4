// node-postgres' own integration tests, file by file, over `pg` and over pgz-edge/pg, and those of pg-cursor and
// pg-pool, test by test: `make test-ecosystem`.
//
// Their repository is read at run time (NODE_POSTGRES: a checkout or a bare repository; otherwise it is cloned) and
// copied twice into .cache/ecosystem: once unchanged, once with our files in place of its lib/. Prints one line per
// file and the counts. Fails if something passes over `pg` and fails over the facade.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startServers } from "../servers/index.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cache = path.join(root, ".cache/ecosystem");
const TIMEOUT = 40_000;

/** Files of pg that applications and its tests import, and their exports. */
const LIB = {
  index: "pg",
  client: "pg.Client",
  connection: "pg.Connection",
  "connection-parameters": "pg.ConnectionParameters",
  defaults: "pg.defaults",
  query: "pg.Query",
  result: "pg.Result",
  "type-overrides": "pg.TypeOverrides",
  utils: "pg.utils",
};

function source() {
  const given = process.env.NODE_POSTGRES;
  if (given && existsSync(path.join(given, "packages"))) return given;
  const checkout = path.join(cache, "node-postgres");
  if (existsSync(path.join(checkout, "packages"))) return checkout;
  const from = given ?? "https://github.com/brianc/node-postgres.git";
  const { status } = spawnSync("git", ["clone", "--quiet", "--depth=1", from, checkout], { stdio: "inherit" });
  if (status !== 0) throw new Error(`could not clone ${from}: set NODE_POSTGRES to a checkout`);
  return checkout;
}

/** Makes a copy of the repository whose packages find each other and the modules that this project has installed. */
function tree(name, from) {
  const to = path.join(cache, name);
  rmSync(to, { recursive: true, force: true });
  cpSync(path.join(from, "packages"), path.join(to, "packages"), { recursive: true });
  const modules = path.join(to, "node_modules");
  mkdirSync(modules, { recursive: true });
  const own = ["pg", "pg-pool", "pg-cursor", "pg-query-stream"];
  for (const installed of [path.join(cache, "deps/node_modules"), path.join(root, "node_modules")])
    for (const module of readdirSync(installed))
      if (!own.includes(module) && !module.startsWith(".") && !existsSync(path.join(modules, module)))
        symlinkSync(path.join(installed, module), path.join(modules, module));
  for (const module of own) symlinkSync(path.join(to, "packages", module), path.join(modules, module));
  return to;
}

function useFacade(to) {
  const lib = path.join(to, "packages/pg/lib");
  rmSync(lib, { recursive: true });
  mkdirSync(lib);
  const facade = JSON.stringify(path.join(root, "dist/pg.js"));
  // As docs/pg.md says: an application that imports pg-types itself aliases it too.
  const types = path.join(to, "node_modules/pg-types");
  rmSync(types, { recursive: true });
  mkdirSync(types);
  writeFileSync(path.join(types, "index.js"), `module.exports = require(${facade}).types;\n`);
  const pool = path.join(to, "packages/pg-pool/index.js");
  rmSync(pool);
  writeFileSync(pool, `module.exports = require(${facade}).default.Pool;\n`);
  for (const [file, member] of Object.entries(LIB))
    writeFileSync(
      path.join(lib, `${file}.js`),
      `const pg = require(${facade}).default;\nmodule.exports = ${member};\n`,
    );
}

function filesOf(to) {
  const folder = path.join(to, "packages/pg/test/integration");
  const found = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith("-tests.js"));
  const only = process.argv[2];
  return found.filter((file) => !only || file.includes(only)).sort();
}

const environmentOf = (server) => ({
  ...process.env,
  PGHOST: server.host,
  PGPORT: String(server.port),
  PGUSER: server.user,
  PGPASSWORD: server.password,
  PGDATABASE: server.database,
  PGTESTNOSSL: "1",
});

/** Packages whose tests mocha runs, and the tests that may fail over the facade. */
const BY_MOCHA = {
  "pg-cursor": [],
  "pg-pool": [
    // They expect a pool that discards a connection after an error of the server.
    "pool with promises recovers from query errors",
    "pool error handling pool with lots of errors continues to work and provide new clients",
    // A process's first login must take less than 50 ms, the idle timeout of the previous client.
    "idle timeout keeps old behavior when allowExitOnIdle option is not set",
  ],
};

/** Returns the names of the tests that passed. */
function runMocha(to, name, server) {
  const parameters = [path.join(to, "node_modules/mocha/bin/mocha.js"), "--exit", "--reporter=json", "test/*.js"];
  const report = path.join(to, `${name}.json`);
  const options = { cwd: path.join(to, "packages", name), env: environmentOf(server), stdio: "ignore" };
  spawnSync(process.execPath, [...parameters, `--reporter-option=output=${report}`], options);
  return JSON.parse(readFileSync(report, "utf8")).passes.map(({ fullTitle }) => fullTitle);
}

/** Returns `ok`, or the status and the last lines of the output. */
function run(to, file, server) {
  const env = environmentOf(server);
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [path.join(to, "packages/pg/test/integration", file)], {
      env,
      cwd: path.join(to, "packages/pg"),
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
    const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT);
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      const failed = /✘|not ok/.test(output);
      resolve(
        code === 0 && !failed ? "ok" : `${signal ?? code}: ${output.trim().split("\n").slice(-12).join("\n    ")}`,
      );
    });
  });
}

/** Other packages that their tests need. */
const DEPS = [
  "async@2.6.4",
  "bluebird@3.7.2",
  "co@4.6.0",
  "expect.js@0.3.1",
  "lodash@4",
  "mocha@11",
  "pg-copy-streams@0.3.0",
];

function install() {
  const folder = path.join(cache, "deps");
  if (existsSync(path.join(folder, "node_modules/mocha"))) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, "package.json"), '{"private":true}');
  const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", ...DEPS], {
    cwd: folder,
    stdio: "inherit",
  });
  if (status !== 0) throw new Error("could not install what their tests want");
}

install();
const from = source();
const trees = { pg: tree("pg", from), facade: tree("facade", from) };
useFacade(trees.facade);
// Each run has its own server, because some of these tests end every session that they find.
const hosts = await Promise.all([1, 2].map(() => startServers({ majors: [18], databaseUrl: "" })));
const [ofPg, ofFacade] = hosts.map(({ servers }) => servers[0]);
const passed = { pg: 0, facade: 0 };
const worse = [];
try {
  const files = filesOf(trees.pg);
  for (const file of files) {
    const [pg, facade] = await Promise.all([run(trees.pg, file, ofPg), run(trees.facade, file, ofFacade)]);
    if (pg === "ok") passed.pg++;
    if (facade === "ok") passed.facade++;
    if (pg === "ok" && facade !== "ok") worse.push(file);
    console.log(`${pg === "ok" ? "ok    " : "failed"} ${facade === "ok" ? "ok    " : "failed"} ${file}`);
    if (facade !== "ok") console.log(`    ${facade}`);
  }
  console.log(`\n${files.length} files: ${passed.pg} pass over pg, ${passed.facade} over pgz-edge/pg`);
  for (const [name, known] of Object.entries(BY_MOCHA)) {
    const [pg, facade] = [runMocha(trees.pg, name, ofPg), runMocha(trees.facade, name, ofFacade)];
    console.log(`${name}: ${pg.length} tests pass over pg, ${facade.length} over pgz-edge/pg`);
    const lost = pg.filter((test) => !facade.includes(test) && !known.includes(test));
    if (!pg.length) lost.push("all");
    worse.push(...lost.map((test) => `${name}: ${test}`));
  }
  if (worse.length) console.log(`only over pg: ${worse.join(", ")}`);
} finally {
  for (const { stop } of hosts) await stop();
}
process.exitCode = worse.length ? 1 : 0;
