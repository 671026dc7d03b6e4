// The steps of a release (.github/workflows/release.yml), each for a tag such as `v0.1.0`:
//
//   node scripts/release.mjs check v0.1.0     checks that everything has this version; publishes nothing
//   node scripts/release.mjs publish v0.1.0   publishes all packages that are not published yet; JSR with setup's Deno
//   node scripts/release.mjs notes v0.1.0     prints CHANGELOG's section, and the SHA-256 of the wasm
//
// npm cannot publish three packages at once. So all are first checked as npm itself checks them, and the package that
// the others depend on comes first. If a run breaks off, run it again: it publishes the remaining packages.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { makePackages } from "./packages.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (name) => readFileSync(path.join(root, name), "utf8");
const versionOf = (name) => JSON.parse(read(name)).version;

/** Returns the reasons why this tag cannot be released. An empty list means that it can. */
export function objections(tag, { manifests, changelog }) {
  const version = /^v(\d+\.\d+\.\d+(?:-[\w.]+)?)$/.exec(tag)?.[1];
  if (!version) return [`${tag} is no version: v1.2.3`];
  const others = Object.entries(manifests).filter(([, own]) => own !== version);
  return [
    ...others.map(([name, own]) => `${name} has version ${own}`),
    ...(sectionOf(changelog, version) ? [] : [`CHANGELOG.md has no section ## ${version}`]),
  ];
}

/** Returns the section of CHANGELOG.md under `## 0.1.0`, with or without a date after the version. */
export function sectionOf(changelog, version) {
  const sections = changelog.split(/^## /m).slice(1);
  const own = sections.find((section) => section.split(/\s/, 1)[0] === version);
  return own?.replace(/^.*\n/, "").trim();
}

function manifests() {
  return Object.fromEntries(["package.json", "js/cli/package.json", "jsr.json"].map((name) => [name, versionOf(name)]));
}

function check(tag) {
  const found = objections(tag, { manifests: manifests(), changelog: read("CHANGELOG.md") });
  if (found.length) throw new Error(found.join("\n"));
}

function publish(tag) {
  check(tag);
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-release-"));
  const npm = (cwd, ...words) => execFileSync("npm", words, { cwd, stdio: ["ignore", 2, 2] });
  try {
    const packages = Object.entries(makePackages(folder));
    const left = packages.filter(
      ([name, made]) => !isPublished(name, JSON.parse(readFileSync(`${made}/package.json`))),
    );
    const jsr = path.join(folder, "jsr");
    execFileSync(process.execPath, [path.join(root, "scripts/jsr.mjs"), jsr]);
    const deno = (...words) =>
      execFileSync(path.join(root, "node_modules/.bin/deno"), words, { cwd: jsr, stdio: ["ignore", 2, 2] });
    deno("publish", "--dry-run", "--allow-dirty");
    for (const [, made] of left) npm(made, "publish", "--dry-run");
    for (const [, made] of left) npm(made, "publish");
    deno("publish", "--allow-dirty"); // skips a version that JSR already has
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function isPublished(name, { version }) {
  try {
    const words = ["view", `${name}@${version}`, "version"];
    return execFileSync("npm", words, { encoding: "utf8", stdio: "pipe" }).trim() === version;
  } catch (error) {
    if (String(error.stderr).includes("E404")) return false;
    throw error;
  }
}

function notes(tag) {
  const wasm = createHash("sha256")
    .update(readFileSync(path.join(root, "dist/pgz_edge_bg.wasm")))
    .digest("hex");
  const text = sectionOf(read("CHANGELOG.md"), tag.slice(1));
  console.log(`${text}\n\nSHA-256 of dist/pgz_edge_bg.wasm: \`${wasm}\`. SECURITY.md says how to verify the packages.`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [step, tag = ""] = process.argv.slice(2);
  const run = { check, publish, notes }[step];
  if (!run) throw new Error("name a step: check, publish or notes");
  run(tag);
}
