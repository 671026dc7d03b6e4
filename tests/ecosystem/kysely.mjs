// Kysely's own tests for PostgreSQL, one by one, over its PostgresDialect and over pgz-edge/kysely: `make
// test-ecosystem`.
//
// Their repository is read at run time (KYSELY: a checkout or a bare repository; otherwise it is cloned, at the tag of
// the Kysely that this project has installed, which is the Kysely that runs). The tests are compiled twice into
// .cache/ecosystem: once unchanged, once with our dialect in place of theirs. `CHANGES` lists every change to them.
// Prints failures and the counts. Fails if a test passes over `pg` and fails over ours.
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { transform } from "esbuild";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { startServers } from "../servers/index.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cache = path.join(root, ".cache/ecosystem");
const deps = path.join(cache, "kysely-deps");
const installed = realpathSync(path.join(root, "node_modules/kysely"));
const { version } = JSON.parse(readFileSync(path.join(installed, "package.json"), "utf8"));

/** Other packages that their tests need, in the versions that they name. */
const DEPS = [
  "@electric-sql/pglite@0.5.4",
  "chai@6.2.2",
  "chai-as-promised@8.0.2",
  "mocha@11.8.0",
  "pg@8.23.1",
  "pg-cursor@2.22.0",
  "prototype-pollution-vulnerable-lodash.merge-dont-upgrade@npm:lodash.merge@4.6.1",
  "sinon@22.1.0",
];

const methods = (...names) => names.map((name) => `${name}() {}`).join(" ");
/** Drivers of other databases, which their tests import, and which the tests for PostgreSQL never call. */
const STUBS = {
  "better-sqlite3": "export default class Database {}\nexport class SqliteError extends Error {}",
  mysql2: "export const createConnection = () => {}, createPool = () => {};",
  tarn: "export class Pool {}",
  tedious: `export const ISOLATION_LEVEL = {}, TYPES = {};
    export class Connection {
      ${methods("beginTransaction", "commitTransaction", "rollbackTransaction", "saveTransaction")}
    }
    export class Request { ${methods("pause", "resume")} }`,
};

const OURS = `
  import { createPool, PostgresError } from ${JSON.stringify(pathToFileURL(path.join(root, "dist/node.js")).href)};
  import { PgzDialect } from ${JSON.stringify(pathToFileURL(path.join(root, "dist/kysely.js")).href)};
  const { max, ...server } = JSON.parse(process.env.SERVER);
  export { PostgresError };
  export const pgzDialect = () =>
    new PgzDialect({
      pool: () => createPool({ ...server, sslmode: "disable" }, { max }),
      // One of their tests wants pg's class for bytea.
      query: { types: { 17: (text) => Buffer.from(text.slice(2), "hex") } },
    });
  export const PgzDriver = pgzDialect().createDriver().constructor;
`;

/** The changes to their files: [text, replacement] for both runs, and for ours. */
const CHANGES = {
  "test-setup.ts": {
    both: [
      [/const POSTGRES_CONFIG: PoolConfig = \{[^]*?\n\}/, "const POSTGRES_CONFIG = JSON.parse(process.env.SERVER)"],
    ],
    ours: [
      [/new PostgresDialect\(\{\s*controlClient[^]*?cursor: Cursor,\s*\}\)/, "pgzDialect()"],
      [/^/, 'import { pgzDialect } from "./ours.js"\n'],
    ],
  },
  "transaction.test.ts": {
    ours: [
      ["import { DatabaseError as PostgresError } from 'pg'", "import { PostgresError, PgzDriver } from './ours.js'"],
      ["postgres: PostgresDriver,", "postgres: PgzDriver,"],
    ],
  },
  // The errors that a pool of pg reports when one of its sessions is killed.
  "cancellation.test.ts": { ours: [[/expect\(PG_ERRORS\.at[^]*?\n {10}\)/, ""]] },
};

/** A folder that one of their tests reads. */
const MIGRATIONS = "test-migrations";

function source() {
  const given = process.env.KYSELY;
  if (given && existsSync(path.join(given, "test/node"))) return given;
  const checkout = path.join(cache, `kysely-${given ? "given" : version}`);
  if (existsSync(path.join(checkout, "test/node"))) return checkout;
  const from = given
    ? [`file://${path.resolve(given)}`]
    : ["--branch", `v${version}`, "https://github.com/kysely-org/kysely.git"];
  const { status } = spawnSync("git", ["clone", "--quiet", "--depth=1", ...from, checkout], { stdio: "inherit" });
  if (status !== 0) throw new Error(`could not clone ${from.at(-1)}: set KYSELY to a checkout`);
  return checkout;
}

function install() {
  const modules = path.join(deps, "node_modules");
  if (existsSync(path.join(modules, "tedious"))) return;
  mkdirSync(deps, { recursive: true });
  writeFileSync(path.join(deps, "package.json"), '{"private":true}');
  const options = ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...DEPS];
  if (spawnSync("npm", options, { cwd: deps, stdio: "inherit" }).status !== 0)
    throw new Error("could not install what their tests want");
  for (const [name, text] of Object.entries(STUBS)) {
    mkdirSync(path.join(modules, name));
    writeFileSync(path.join(modules, name, "package.json"), '{"type":"module","exports":"./index.js"}');
    writeFileSync(path.join(modules, name, "index.js"), text);
  }
}

function changed(file, text, isOurs) {
  const { both = [], ours = [] } = CHANGES[file] ?? {};
  for (const [from, to] of isOurs ? [...both, ...ours] : both) {
    // Otherwise their tests have changed, and this run would test their dialect twice.
    if (!(from instanceof RegExp ? from.test(text) : text.includes(from)))
      throw new Error(`${file} has no ${from}: their tests have changed`);
    text = text.replace(from, () => to);
  }
  return text;
}

/** Compiles the tests that use a database. Returns the folder of their files. */
async function tree(name, from, isOurs) {
  const to = path.join(cache, name);
  rmSync(to, { recursive: true, force: true });
  const out = path.join(to, "test/node/dist");
  mkdirSync(out, { recursive: true });
  writeFileSync(path.join(to, "package.json"), '{"type":"module"}');
  symlinkSync(path.join(installed, "dist"), path.join(to, "dist"));
  symlinkSync(path.join(deps, "node_modules"), path.join(to, "node_modules"));
  mkdirSync(path.join(out, MIGRATIONS));
  const folder = path.join(from, "test/node/src");
  for (const file of readdirSync(folder, { recursive: true }).filter((one) => one.endsWith(".ts"))) {
    const text = readFileSync(path.join(folder, file), "utf8");
    if (!file.startsWith(MIGRATIONS) && !/\bDIALECTS\b/.test(text)) continue;
    const { code } = await transform(changed(file, text, isOurs), { loader: "ts", format: "esm", target: "es2022" });
    writeFileSync(path.join(out, file.replace(/\.ts$/, ".js")), code);
  }
  if (isOurs) writeFileSync(path.join(out, "ours.js"), OURS);
  return out;
}

/** Returns, for each test, why it failed, or `undefined` if it passed. */
async function run(folder, { superuserUrl }) {
  const report = path.join(folder, "report.json");
  const only = process.argv[2];
  const files = readdirSync(folder).filter((file) => file.endsWith(".test.js") && (!only || file.includes(only)));
  const mocha = path.join(deps, "node_modules/mocha/bin/mocha.js");
  const options = ["--timeout=15000", "--exit", "--reporter=json", `--reporter-option=output=${report}`];
  const { hostname: host, port, username: user, password, pathname } = new URL(superuserUrl);
  const server = { host, port: Number(port), user, password, database: pathname.slice(1), max: 20 };
  const child = spawn(nodeBinary(22), [mocha, ...options, ...files.map((file) => path.join(folder, file))], {
    cwd: deps,
    env: {
      ...process.env,
      DIALECTS: "postgres",
      SERVER: JSON.stringify(server),
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.on("data", (text) => (output += text));
  await new Promise((resolve) => child.once("close", resolve));
  if (!existsSync(report)) throw new Error(output.slice(-4000));
  const results = new Map();
  for (const { fullTitle, err } of JSON.parse(readFileSync(report, "utf8")).tests) {
    let title = fullTitle;
    for (let again = 2; results.has(title); again++) title = `${fullTitle} (${again})`;
    results.set(title, err.message === undefined ? undefined : (err.stack ?? err.message));
  }
  return results;
}

install();
const from = source();
const over = [];
for (const [name, isOurs] of Object.entries({ "kysely-pg": false, "kysely-ours": true })) {
  const folder = await tree(name, from, isOurs);
  const { servers, stop } = await startServers({ majors: [18], databaseUrl: "" });
  try {
    over.push(await run(folder, servers[0]));
  } finally {
    await stop();
  }
}
const [pg, ours] = over;
const passes = (results, test) => results.has(test) && results.get(test) === undefined;
const passed = (results) => [...results.keys()].filter((test) => passes(results, test)).length;
const worse = [...pg.keys()].filter((test) => passes(pg, test) && !passes(ours, test));
for (const [test, error] of [...ours, ...pg].filter(([, why]) => why))
  console.log(`${worse.includes(test) ? "only over pg" : passes(ours, test) ? "only over ours" : "over neither"}: ${test}
    ${error.split("\n").slice(0, 12).join("\n    ")}`);
for (const test of worse.filter((one) => !ours.has(one)))
  console.log(`only over pg, and was not run over ours: ${test}`);
console.log(`${pg.size} tests of Kysely ${version}: ${passed(pg)} pass over pg, ${passed(ours)} over pgz-edge/kysely`);
process.exitCode = worse.length || passed(ours) === 0 ? 1 : 0;
