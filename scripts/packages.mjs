// Makes the folders for `npm publish`, one for each package: `node scripts/packages.mjs <folder>`, after scripts/build.
// `node scripts/packages.mjs --tarballs <folder>` makes their tarballs instead, to be installed (`make pack`).
//
//   pgz-edge/      the driver: the files that `npm pack` takes from this repository
//   pgz-edge-pg/   the name `pg` for the driver's facade, from js/adapters/pg-alias
//   pgz-edge-cli/  @pgz-edge/cli, from js/cli and dist/cli (where its built files find this repository's driver)
//
// Their manifests leave out everything that only this repository needs. They name the commit (`gitHead`), unless a file
// is changed: then the packed files belong to no commit. scripts/jsr.mjs makes JSR's folder.
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { REPOSITORY } from "./docs/pages.mjs";
import { npmPack } from "./own-caches.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const ONLY_HERE = ["scripts", "devDependencies", "workspaces", "overrides", "allowScripts"];

/** Makes the folders of all packages. Returns them by the packages' names. */
export function makePackages(folder) {
  const commit = commitOf();
  const alias = at("js/adapters/pg-alias");
  const make = (name, files) => {
    const made = path.join(folder, name);
    for (const [to, from] of files) copy(from, path.join(made, to));
    const here = new Set(files.map(([, from]) => from));
    for (const [to, from] of files.filter(([to]) => to.endsWith(".md"))) leadHome(path.join(made, to), from, here);
    const manifest = JSON.parse(readFileSync(path.join(made, "package.json"), "utf8"));
    for (const key of ONLY_HERE) delete manifest[key];
    const published = commit ? { ...manifest, gitHead: commit } : manifest;
    writeFileSync(path.join(made, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
    return [manifest.name, made];
  };
  return Object.fromEntries([
    make("pgz-edge", packed(root)),
    make("pgz-edge-pg", [...packed(alias), ["LICENSE", at("LICENSE")]]),
    make("pgz-edge-cli", commandLine()),
  ]);
}

/** Returns the files that npm takes from a folder: `[name in the package, file here]`. */
function packed(folder) {
  return npmPack(folder).files.map(({ path: name }) => [name, path.join(folder, name)]);
}

function commandLine() {
  const built = readdirSync(at("dist/cli")).filter((name) => name.endsWith(".js"));
  return [
    ["package.json", at("js/cli/package.json")],
    ["README.md", at("js/cli/README.md")],
    ["LICENSE", at("LICENSE")],
    ...built.map((name) => [`dist/${name}`, at("dist/cli", name)]),
  ];
}

function copy(from, to) {
  mkdirSync(path.dirname(to), { recursive: true });
  copyFileSync(from, to);
}

/**
 * Makes links to files that the package does not have lead to the repository. `file`: the copy of `from`; `here`: the
 * files here that are in the package.
 */
function leadHome(file, from, here) {
  const text = readFileSync(file, "utf8").replaceAll(/\]\(([^()#\s:]+)(#[^()\s]*)?\)/g, (link, target, anchor = "") => {
    const there = path.join(path.dirname(from), target);
    if (here.has(there) || !existsSync(there)) return link;
    const kind = statSync(there).isDirectory() ? "tree" : "blob";
    return `](${REPOSITORY}/${kind}/main/${path.relative(root, there)}${anchor})`;
  });
  writeFileSync(file, text);
}

/**
 * Returns the commit, or undefined if files differ from it or there is no repository, as in an archive of the sources.
 */
function commitOf() {
  const git = (...words) => execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
  try {
    return git("status", "--porcelain") === "" ? git("rev-parse", "HEAD") : undefined;
  } catch {
    return undefined;
  }
}

/** Makes the tarballs of all packages in `folder`. Returns their paths by the packages' names. */
export function makeTarballs(folder) {
  mkdirSync(folder, { recursive: true });
  const packages = mkdtempSync(path.join(tmpdir(), "pgz-packages-"));
  const tarball = (from) => path.join(folder, npmPack(from, path.resolve(folder)).filename);
  try {
    return Object.fromEntries(Object.entries(makePackages(packages)).map(([name, from]) => [name, tarball(from)]));
  } finally {
    rmSync(packages, { recursive: true, force: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const words = process.argv.slice(2);
  const areTarballs = words[0] === "--tarballs";
  const folder = words[areTarballs ? 1 : 0];
  if (!folder) throw new Error("name the folder: node scripts/packages.mjs [--tarballs] <folder>");
  const made = areTarballs ? makeTarballs(folder) : makePackages(folder);
  for (const [name, at] of Object.entries(made)) console.log(`${name} ${at}`);
}
