// What pgz-edge and its peers do, each asked by running it: the evidence behind docs/comparison.md.
//
//   node tests/peers/features.mjs                    all drivers and questions, on a server and poolers of its own
//   node tests/peers/features.mjs postgres.js        one driver
//   ONLY=COPY node tests/peers/features.mjs          the questions whose name has that
//   node tests/peers/features.mjs --installed        the peers are in .cache/peers already
//   MINIPG=minipg-0.1.0.tgz node tests/peers/features.mjs minipg
//
// minipg is not on npm: `git show HEAD:vendor/minipg-0.1.0.tgz` of drizzle-team/drizzle-pulse. Without MINIPG it is
// left out.
//
// It prints a line per question and driver, and checks nothing: a peer's answer is a fact for a page, not a test of
// ours. Knows where the peers and servers come from; must not know what is asked, which is child.mjs'. By hand: it
// brings the peers from npm. Bun.sql runs in the bun of node_modules, all others in this Node.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { workerd } from "../../scripts/node/index.mjs";
import { certificates } from "../servers/certificates.mjs";
import { logFile, startServers } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { startBetween, startWithoutTls } from "./between.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = path.join(root, ".cache/peers");
const PEERS = {
  pg: "8.23.1",
  "pg-cursor": "2.22.0",
  "pg-query-stream": "4.17.0",
  "pg-copy-streams": "7.0.0",
  postgres: "3.4.9",
  "@neondatabase/serverless": "1.2.0",
  effect: "4.0.5",
  "@effect/sql-pg": "4.0.5",
  postgrejs: "2.23.1",
  ...(process.env.MINIPG && { minipg: `file:${path.resolve(process.env.MINIPG)}` }),
};

const bin = (name) => path.join(root, "node_modules/.bin", name);
const ELSEWHERE = { Deno: [bin("deno"), "run", "-A"], Bun: [bin("bun")] };

/** Column of the page -> who is asked, with which options. */
const DRIVERS = {
  "pgz-edge": {},
  pg: {},
  "pg, pipeline": { driver: "pg", options: { pipeline: true }, only: "round trips" },
  "pg, named": { driver: "pg", options: { named: true }, only: "PgBouncer" },
  "postgres.js": {},
  "Bun.sql": { program: bin("bun") },
  neon: {},
  "sql-pg": {},
  "sql-pg, multiplex": { driver: "sql-pg", options: { multiplex: true }, only: "round trips" },
  postgrejs: { plain: true },
  ...(process.env.MINIPG && { minipg: {} }),
};

function install() {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    path.join(folder, "package.json"),
    JSON.stringify({ private: true, dependencies: PEERS }, undefined, 2),
  );
  const options = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
  const { status } = spawnSync("npm", options, { cwd: folder, stdio: "inherit" });
  if (status !== 0) throw new Error("could not install the peers");
}

async function ask(column, places, withoutTls) {
  const { driver = column, program = process.execPath, options, only, plain = false } = DRIVERS[column];
  const task = { driver, folder, options, only: process.env.ONLY ?? only, ...places };
  if (plain) Object.assign(task, withoutTls);
  await lines(column, [program], "child.mjs", task);
  if (only !== undefined || program !== process.execPath) return;
  const wanted = (name) => name.includes(process.env.ONLY ?? "");
  for (const [name, command] of Object.entries(ELSEWHERE).filter(([name]) => wanted(`in ${name}`)))
    await lines(`${column}, in ${name}`, command, "child.mjs", { ...task, only: "a new statement" });
  if (wanted("in workerd")) await lines(column, [workerd().execPath], "workerd.mjs", task);
}

/** What a program of this folder says, as lines of ours. */
async function lines(column, [program, ...before], file, task) {
  const child = spawn(program, [...before, path.join(root, "tests/peers", file), JSON.stringify(task)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  for await (const line of createInterface(child.stdout)) {
    if (!line.startsWith("[")) continue;
    const [name, answer] = JSON.parse(line);
    console.log(`${column} | ${name} | ${answer}`);
  }
  const code = await ended;
  if (code !== 0) console.log(`${column} | its process ended with ${code}`);
}

if (!process.argv.includes("--installed")) install();
// What `import` finds from there.
writeFileSync(path.join(folder, "load.mjs"), "export const load = (name) => import(name);\n");
for (const name of Object.keys(PEERS)) {
  const { version } = JSON.parse(readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8"));
  console.log(`${name} ${version}`);
}

const { servers, stop } = await startServers({ majors: [18], databaseUrl: "" });
const [server] = servers;
const running = [];
const keep = (one) => (running.push(one), one);
try {
  const log = logFile("pgbouncer-peers");
  const old = keep(await startPgBouncer({ server, log })).descriptor;
  const newer = keep(await startPgBouncer({ server, log, newer: true })).descriptor;
  const through = async ({ appUrl, port }, way) => bare(appUrl).replace(`:${port}/`, `:${keep(await way).port}/`);
  const places = {
    url: bare(server.appUrl),
    tlsUrl: bare(server.appUrl),
    betweenUrl: await through(server, startBetween(server, certificates().elsewhere)),
    adminUrl: bare(server.superuserUrl),
    poolers: { old: bare(old.appUrl), newer: bare(newer.appUrl) },
  };
  const [url, behindOld, behindNewer] = await Promise.all(
    [server, old, newer].map((one) => through(one, startWithoutTls(one))),
  );
  const withoutTls = { url, poolers: { old: behindOld, newer: behindNewer } };
  const chosen = process.argv.slice(2).filter((argument) => argument in DRIVERS);
  for (const column of chosen.length > 0 ? chosen : Object.keys(DRIVERS)) await ask(column, places, withoutTls);
} finally {
  await Promise.all(running.map((one) => one.stop()));
  await stop();
}

/** Without parameters, which each driver reads in its own way. */
function bare(url) {
  const address = new URL(url);
  address.search = "";
  return address.href;
}
