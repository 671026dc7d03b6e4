// PostgreSQL's own regression tests, from Debian's archive of its sources, as a load that was not written for this
// driver. They are downloaded when a release needs them, and are never part of this repository.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { mirror } from "../servers/debian.mjs";
import { root } from "../servers/home.mjs";

const VERSION = "15.18";
const FILE = `postgresql-15_${VERSION}.orig.tar.bz2`;
const SHA256 = "11df0df97fe3ea4ba9a791faaf39cee1d2fe571e78885b5b55d8517d27c323b4";

/** Returns the archive's file. */
async function archive() {
  const file = path.join(root, ".cache", FILE);
  if (!existsSync(file)) await download(file);
  return file;
}

async function download(file) {
  const url = new URL(`pool/main/p/postgresql-15/${FILE}`, mirror());
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  const bytes = Buffer.from(await response.arrayBuffer());
  const found = createHash("sha256").update(bytes).digest("hex");
  if (found !== SHA256) throw new Error(`${url} is not the source that is known here: SHA-256 ${found}`);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(`${file}.part`, bytes);
  renameSync(`${file}.part`, file);
}

/** Unpacks src/test/regress into a folder: `sql/`, `data/`, `parallel_schedule`. */
export async function unpackRegressionTests(folder) {
  const words = ["-xjf", await archive(), "-C", folder, "--strip-components=4"];
  execFileSync("tar", [...words, `postgresql-${VERSION}/src/test/regress`]);
}

/** Returns the tests in the order of their schedule. */
export function scheduleOf(folder) {
  const lines = readFileSync(path.join(folder, "parallel_schedule"), "utf8").split("\n");
  return lines.flatMap((line) => /^test: (.*)$/.exec(line)?.[1].split(/\s+/) ?? []);
}
