// Runs a command of the tests: from the project's root, in an environment without the user's settings, within the time
// that is left. When it ends, everything that it has started ends. Its output is shown as it comes.
//
// Must not know suites, vitest or servers.
import { spawn } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { wanted } from "./arguments.mjs";

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const at = (...parts) => path.join(root, ...parts);
export const bin = (name) => at("node_modules/.bin", name);
export const minutes = (n) => n * 60_000;

/**
 * The time after which no part continues or begins. If many red tests run out of time, the run must still end with a
 * report that names them, before its caller kills it without a report. A release takes hours.
 */
export const LAST = minutes(wanted.join() === "release" ? 480 : 75);
export const timeLeft = () => Math.max(0, LAST - performance.now());

/** The environment of every command. The servers' addresses are added once they run (servers.mjs). */
export const environment = clean(process.env);
let children = [];

/**
 * Runs a command in a process group of its own, shows its output as it comes, and kills the whole group when it has
 * said nothing for `silence` milliseconds: that ends a hang, however slow the machine is.
 */
export function run([command, ...parameters], { env = {}, silence }) {
  return new Promise((resolve) => {
    const child = spawn(command, parameters, {
      cwd: root,
      env: { ...environment, ...env },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.push(child);
    let output = "";
    let timedOut = false;
    const outOfTime = (why) => {
      timedOut = true;
      say(`${path.basename(command)}: ${why}`);
      killGroup(child);
    };
    const isSilent = () => outOfTime(`it has said nothing for ${Math.round(silence / minutes(1))} minutes`);
    const last = setTimeout(() => outOfTime("out of time"), timeLeft());
    let timer = setTimeout(isSilent, silence);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => {
        output += text;
        process.stdout.write(text);
        clearTimeout(timer);
        timer = setTimeout(isSilent, silence);
      });
    }
    const end = (status) => {
      clearTimeout(timer);
      clearTimeout(last);
      children = children.filter((one) => one !== child);
      resolve({ output, status, timedOut });
    };
    child.once("error", (error) => {
      say(`${command}: ${error.message}`);
      end(127);
    });
    child.once("exit", (code, signal) => {
      killGroup(child); // what the command left running, which may hold the pipes open
      const status = code ?? `signal ${signal}`;
      const lost = setTimeout(() => {
        say(`${path.basename(command)}: a process that left its group keeps the output open; the rest of it is lost`);
        end(status);
      }, minutes(1));
      child.once("close", () => {
        clearTimeout(lost);
        end(status);
      });
    });
  });
}

function killGroup({ pid }) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // all gone already
  }
}

/** Kills the groups of all running commands, for a run that ends before them. */
export function killAll() {
  children.forEach(killGroup);
}

/**
 * Removes what would change the tests' meaning: libpq's variables, flags for compilers and for Node, modes of npm and
 * vitest.
 */
function clean(env) {
  const noise =
    /^(PG[A-Z]+|NODE_(ENV|OPTIONS|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|(CARGO_.*)?RUSTFLAGS|RUSTUP_TOOLCHAIN|MINIFLARE_.*|VITEST.*|CLOUDFLARE_.*|WRANGLER_.*|DENO_.*|BUN_.*|RUST_TEST_.*|TS_NODE_.*|TZ)$/;
  const cargo = path.join(env.CARGO_HOME ?? path.join(env.HOME ?? "", ".cargo"), "bin");
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => !noise.test(name)));
  return {
    ...kept,
    PATH: [cargo, env.PATH, "/usr/sbin"].join(path.delimiter),
    CI: env.CI ?? "true",
    DENO_NO_UPDATE_CHECK: "1",
    WRANGLER_SEND_METRICS: "false",
    NO_COLOR: "1",
  };
}

export const say = (text) => process.stdout.write(`[test] ${text}\n`);
