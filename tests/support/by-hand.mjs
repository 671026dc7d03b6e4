// Shared code of programs that are run by hand in any of three runtimes: the runtime's name, its shipped driver, the
// tests' TypeScript, and uncaught errors.
//
// Must not know what the programs test.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

export const runtime = globalThis.Deno ? "deno" : process.versions.bun ? "bun" : "node";
export const driver = await import(`../../dist/${runtime}.js`);

/**
 * Returns the exports of a TypeScript file. `from` is the caller's `import.meta.url`, and `name` is a file beside it.
 */
export async function bundled(from, name) {
  const entry = fileURLToPath(new URL(name, from));
  const folder = fileURLToPath(new URL("../../.cache/random", import.meta.url));
  const outfile = path.join(folder, `${path.basename(name, ".ts")}-${runtime}-${process.pid}.mjs`);
  mkdirSync(folder, { recursive: true });
  const how = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };
  await build({ entryPoints: [entry], outfile, ...how });
  return import(pathToFileURL(outfile).href);
}

/** Returns an array that collects uncaught errors from now on. */
export function watchUncaught() {
  const uncaught = [];
  for (const event of ["unhandledRejection", "uncaughtException"])
    process.on(event, (error) => {
      uncaught.push(error);
      console.log(event, error);
    });
  return uncaught;
}
