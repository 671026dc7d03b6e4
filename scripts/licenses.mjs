// Collects the licences of all code in the wasm that is not ours: the linked crates, and Rust's own library. The text
// is part of the package as dist/THIRD-PARTY-LICENSES.txt. The driver has no npm dependency.
//
// Each crate has its own licence files. If a crate offers a choice, the MIT licence is shown, which is ours too.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const LINE = "-".repeat(120);

export function thirdPartyLicenses(env = process.env) {
  const crates = linkedCrates(env).map(({ name, version, license, manifest_path, repository }) =>
    [`${name} ${version} (${license})`, repository, "", ...textsOf(path.dirname(manifest_path))].join("\n"),
  );
  const head =
    "pgz_edge_bg.wasm contains code of these Rust crates, and of Rust's own library (MIT OR Apache-2.0,\n" +
    "https://github.com/rust-lang/rust).";
  return `${[head, ...crates].join(`\n\n${LINE}\n`)}\n`;
}

/**
 * Returns cargo's description of the crates that the wasm links, and `needs`: the ids of each crate's dependencies.
 * Macros run in the compiler, so none of their code is linked.
 */
export function linkedCrates(env = process.env) {
  const words = ["metadata", "--format-version", "1", "--locked", "--filter-platform", "wasm32-unknown-unknown"];
  const manifest = ["--manifest-path", path.join(root, "src/wasm/Cargo.toml")];
  const options = { cwd: root, env, encoding: "utf8", maxBuffer: 1 << 28 };
  const { packages, resolve } = JSON.parse(execFileSync("cargo", [...words, ...manifest], options));
  const byId = new Map(packages.map((one) => [one.id, one]));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const linked = new Set();
  const visit = (id) => {
    if (linked.has(id) || byId.get(id).targets.some(({ kind }) => kind.includes("proc-macro"))) return;
    linked.add(id);
    for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps) if (kinds.some(({ kind }) => kind === null)) visit(pkg);
  };
  visit(packages.find(({ name }) => name === "pgz-edge-wasm").id);
  const ours = ["pgz-edge", "pgz-edge-wasm"];
  const needs = (id) => nodes.get(id).dependencies.filter((other) => linked.has(other));
  const all = [...linked].map((id) => ({ ...byId.get(id), needs: needs(id) }));
  const others = all.filter(({ name }) => !ours.includes(name));
  return others.sort((one, other) => (one.name < other.name ? -1 : 1));
}

function textsOf(folder) {
  const files = readdirSync(folder).filter((name) => /^(LICEN[CS]E|COPYING|NOTICE)/i.test(name));
  const one = ["LICENSE-MIT", "LICENSE.md", "LICENSE"].find((name) => existsSync(path.join(folder, name)));
  const needed = files.filter((name) => name === one || /UNICODE|NOTICE/i.test(name));
  if (needed.length === 0) throw new Error(`${folder} has no licence that this script knows: ${files.join()}`);
  return needed.map((name) => readFileSync(path.join(folder, name), "utf8").trim());
}
