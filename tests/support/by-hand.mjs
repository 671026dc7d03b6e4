// What programs that are run by hand, in any of three runtimes, begin with: the runtime's name, its driver as it is
// shipped, TypeScript of the tests, and errors that nobody has caught.
//
// Must not know what they test.
import { mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

export const runtime = globalThis.Deno ? "deno" : process.versions.bun ? "bun" : "node";
export const driver = await import(`../../dist/${runtime}.js`);

/** The exports of a file in TypeScript: `import.meta.url` of who asks, and the file beside it. */
export async function bundled(from, name) {
  const entry = fileURLToPath(new URL(name, from));
  const folder = fileURLToPath(new URL("../../.cache/random", import.meta.url));
  const outfile = path.join(folder, `${path.basename(name, ".ts")}-${runtime}-${process.pid}.mjs`);
  mkdirSync(folder, { recursive: true });
  const how = { bundle: true, format: "esm", target: "es2022", logLevel: "warning" };
  await build({ entryPoints: [entry], outfile, ...how });
  return import(pathToFileURL(outfile).href);
}

/** The errors that nobody catches from now on. */
export function watchUncaught() {
  const uncaught = [];
  for (const event of ["unhandledRejection", "uncaughtException"])
    process.on(event, (error) => {
      uncaught.push(error);
      console.log(event, error);
    });
  return uncaught;
}
