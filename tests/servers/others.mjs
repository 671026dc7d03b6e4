// Starts servers that are not PostgreSQL; h2.mjs, questdb.mjs and pglite.mjs share this code.
//
// They run as the current user, on a loopback port of their own, in a folder that is thrown away. scripts/setup has
// downloaded the jars to .cache/jars. A server has started when its log says so.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { cache, scratch } from "./home.mjs";
import { tail } from "./postgres.mjs";
import { freePort } from "./free-port.mjs";
import { supervise } from "./supervise.mjs";
import { until } from "../support/until.mjs";

/** Java starts twice as fast without its second compiler, and these servers are short-lived. */
const JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"];

/** Returns the command that runs `main` of the jar with that name. */
export function java(name, main, ...parameters) {
  const folder = path.join(cache, "jars");
  const jar = existsSync(folder) ? readdirSync(folder).find((file) => file.startsWith(`${name}-`)) : undefined;
  if (jar === undefined) throw new Error(`${name}.jar is missing: run scripts/setup`);
  if (spawnSync("java", ["-version"]).status !== 0)
    throw new Error("java is not installed: run scripts/setup, or apt-get install default-jre-headless");
  return [...JAVA, "-cp", path.join(folder, jar), main, ...parameters];
}

/**
 * Starts the command that `command(folder, port)` returns. `account`: `{ user, password, database }`. `ready`: the
 * pattern in its log once it accepts connections. Returns `{ name, options, stop }`, with the options to connect with.
 */
export async function startOther({ name, prepare, log, account, command, ready }) {
  // These servers start so slowly that another process may take the port meanwhile.
  for (let attempt = 1; ; attempt++) {
    const folder = scratch(name.toLowerCase());
    const port = await freePort();
    prepare?.(folder, port);
    writeFileSync(log, "");
    const process = await supervise({ command: command(folder, port), signal: "TERM", folder, log });
    const isReady = () => ready.test(readFileSync(log, "utf8"));
    await until(() => process.ended || isReady(), `${name} is ready, or has ended`);
    if (isReady())
      return { name, options: { host: "127.0.0.1", port, sslmode: "disable", ...account }, stop: process.stop };
    if (attempt === 3) throw new Error(`${name} did not start\n${tail(log)}`);
  }
}
