// `make test-fresh`: README's two commands, `make demo ONCE=1` and `make test`, on a machine that has never seen this
// project. A clone of HEAD is made in an empty folder, and HOME is empty: so are the caches of npm, cargo, Deno and
// Bun, and the folder with the copies of PostgreSQL. Kept are the system's packages, rustup's toolchains, and the
// settings without which a registry cannot be reached.
//
//   ORDER=test-first         runs `make test` first
//   SUITES="node -- tests/x" runs these suites in the place of `make test`
//   KEEP=1                   keeps the folder, and prints its name
//
// The last line is `N passed, M failed`, where each command counts as one.
//
// Must not know what the commands do. Its own temporary folder has a short name, because servers have sockets below it.
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { root } from "./command.mjs";

/** Settings in HOME that say where a registry is, or how it is reached. */
const SETTINGS = [".npmrc", ".m2/settings.xml", ".config/pip/pip.conf", ".pip/pip.conf", ".curlrc", ".gitconfig"];
/** The same in cargo's folder. */
const CARGO_SETTINGS = ["config.toml", "config"];
/** Programs of rustup, which are all the same file. */
const RUSTUP = ["rustup", "cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver"];
/**
 * Variables that name a folder of the user, or that make and an outer run of the tests pass on. The rest is kept:
 * proxies, certificates, registries.
 */
const NOT_FRESH =
  /^(npm_config_(cache|prefix|userconfig)|CARGO_(HOME|TARGET_DIR|INSTALL_ROOT)|DENO_(DIR|INSTALL.*)|BUN_INSTALL.*|XDG_\w+_HOME|MAKE.*|MFLAGS|PGZ_TEST_.*|CARGO_NET_OFFLINE|SUITES|ORDER|KEEP)$/i;

/** Returns the environment of a user whose HOME is empty but for the settings, and makes that HOME. */
export function freshEnvironment(folder, env = process.env) {
  const home = path.join(folder, "home");
  const users = { home: env.HOME ?? homedir() };
  users.cargo = env.CARGO_HOME ?? path.join(users.home, ".cargo");
  users.rustup = env.RUSTUP_HOME ?? path.join(users.home, ".rustup");
  const cargo = path.join(home, ".cargo");
  const programs = path.join(cargo, "bin");
  mkdirSync(programs, { recursive: true });
  copyExisting(SETTINGS, users.home, home);
  copyExisting(CARGO_SETTINGS, users.cargo, cargo);
  const rustup = realpathSync(execFileSync("which", ["rustup"], { env, encoding: "utf8" }).trim());
  for (const name of RUSTUP) symlinkSync(rustup, path.join(programs, name));
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => !NOT_FRESH.test(name)));
  // The user's cargo has more programs, such as wasm-bindgen, which scripts/setup must install.
  const searched = env.PATH.split(path.delimiter).filter((one) => one !== path.join(users.cargo, "bin"));
  return {
    ...kept,
    HOME: home,
    CARGO_HOME: cargo,
    RUSTUP_HOME: users.rustup,
    PGZ_TEST_SERVERS_FOLDER: path.join(folder, "pg"),
    PATH: [programs, ...searched].join(path.delimiter),
  };
}

function copyExisting(names, from, to) {
  for (const name of names.filter((one) => existsSync(path.join(from, one)))) {
    mkdirSync(path.dirname(path.join(to, name)), { recursive: true });
    copyFileSync(path.join(from, name), path.join(to, name));
  }
}

function clone(folder) {
  const git = (...words) => execFileSync("git", words, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const head = git("-C", root, "rev-parse", "HEAD").trim();
  if (git("-C", root, "status", "--porcelain") !== "")
    console.log("[fresh] changes that are not committed are left out");
  git("clone", "--quiet", "--no-hardlinks", root, folder);
  git("-C", folder, "checkout", "--quiet", "--detach", head);
}

/** The two commands in the order that ORDER asks for. */
export function commands({ ORDER, SUITES }) {
  const demo = ["make", "demo", "ONCE=1"];
  const test = SUITES ? ["node", "tests/run.mjs", ...SUITES.split(" ")] : ["make", "test"];
  if (ORDER && ORDER !== "test-first") throw new Error(`there is no order ${ORDER}, only test-first`);
  return ORDER ? [test, demo] : [demo, test];
}

/** Runs the command and shows its output. Returns whether it succeeded. */
function succeeds([command, ...words], cwd, env) {
  const name = [command, ...words].join(" ");
  console.log(`\n[fresh] ===== ${name} =====`);
  const from = performance.now();
  return new Promise((resolve) => {
    const end = (isRight, reason) => {
      const seconds = Math.round((performance.now() - from) / 1000);
      console.log(`[fresh] ${name}: ${isRight ? "passed" : `FAILED (${reason})`} in ${seconds} s`);
      resolve(isRight);
    };
    const child = spawn(command, words, { cwd, env, stdio: ["ignore", "inherit", "inherit"] });
    child.once("error", ({ message }) => end(false, message));
    child.once("exit", (code, signal) => end(code === 0, signal ?? `status ${code}`));
  });
}

async function main() {
  const inOrder = commands(process.env);
  const folder = mkdtempSync(path.join(tmpdir(), "fresh-"));
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  // Ctrl-C reaches the command, too, which ends and lets this process continue.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => (process.exitCode = 130));
  chmodSync(folder, 0o755); // servers run as another user
  let failed = 0;
  try {
    const here = path.join(folder, "pgz-edge");
    clone(here);
    const env = freshEnvironment(folder);
    for (const command of inOrder) {
      failed += (await succeeds(command, here, env)) ? 0 : 1;
      if (process.exitCode) break; // Ctrl-C
    }
  } finally {
    if (process.env.KEEP) console.log(`[fresh] ${folder} is kept`);
    else remove();
  }
  process.exitCode ??= failed > 0 ? 1 : 0;
  console.log(`${inOrder.length - failed} passed, ${failed} failed`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
