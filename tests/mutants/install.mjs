// Stryker, from npm: for `make mutants` and for the changes that the simulator tries. It is not among the packages of
// the root, because few runs need it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Brings Stryker where it is not there yet. */
export function installStryker() {
  if (existsSync(`${here}node_modules`)) return;
  const options = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...options], { cwd: here, stdio: "inherit" });
  if (status !== 0) throw new Error("npm could not install Stryker, see above");
}
