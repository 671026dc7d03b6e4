// Checks that our packages are made from this source and from nothing else: `make verify`. It builds the commit in two
// clean clones whose paths have different lengths, and compares each file of each package.
//
//   node scripts/verify.mjs <tarball>…   builds once and compares with these tarballs, as npm gives them (SECURITY.md)
//
// Prints the SHA-256 of the wasm and of each package's files. npm's packages are those of this folder, which
// `scripts/setup` has installed from package-lock.json.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const WASM = "dist/pgz_edge_bg.wasm";

/** Builds the commit in `folder`, which is created. Returns `{ package: { file: SHA-256 } }`. */
function builtIn(folder) {
  const env = { ...process.env };
  delete env.CARGO_TARGET_DIR;
  const run = (command, ...words) => execFileSync(command, words, { cwd: folder, stdio: ["ignore", 2, 2], env });
  execFileSync("git", ["clone", "--quiet", "--no-hardlinks", root, folder]);
  symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"));
  appendFileSync(path.join(folder, ".git/info/exclude"), "node_modules\n"); // the link would be a changed file
  run(process.execPath, "scripts/build.mjs");
  const made = path.join(folder, ".cache/packages");
  run(process.execPath, "scripts/packages.mjs", made);
  return Object.fromEntries(readdirSync(made).map((name) => [name, hashes(path.join(made, name))]));
}

function hashes(folder) {
  const files = readdirSync(folder, { recursive: true }).map((name) => name.replaceAll("\\", "/"));
  const own = files.filter((name) => statSync(path.join(folder, name)).isFile()).sort();
  return Object.fromEntries(own.map((name) => [name, sha256(readFileSync(path.join(folder, name)))]));
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Returns the names of files that differ between the two. */
export function differing(one, other) {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].filter((name) => one[name] !== other[name]).sort();
}

/** Returns the hashes of a tarball from npm, by the folder's name in `makePackages`. */
function unpacked(tarball, folder) {
  mkdirSync(folder, { recursive: true });
  execFileSync("tar", ["-xzf", path.resolve(tarball), "-C", folder, "--strip-components=1"]);
  const { name } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  return [name.replace("@", "").replace("/", "-"), hashes(folder)];
}

function main(tarballs) {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-verify-"));
  try {
    const here = builtIn(path.join(folder, "a"));
    const there = tarballs.length
      ? Object.fromEntries(tarballs.map((file, at) => unpacked(file, path.join(folder, `tarball-${at}`))))
      : builtIn(path.join(folder, "another-folder"));
    let isEqual = true;
    for (const [name, files] of Object.entries(there)) {
      const other = differing(here[name] ?? {}, files);
      isEqual &&= other.length === 0;
      const told = other.length ? `DIFFERS in ${other.join(", ")}` : "the same bytes";
      console.log(
        `${name}: ${Object.keys(files).length} files, ${told}, SHA-256 of all ${sha256(JSON.stringify(files))}`,
      );
    }
    console.log(`${WASM}: SHA-256 ${here["pgz-edge"][WASM]}`);
    console.log(isEqual ? `${Object.keys(there).length} passed, 0 failed` : "0 passed, 1 failed");
    process.exitCode = isEqual ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) main(process.argv.slice(2));
