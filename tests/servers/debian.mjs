// Debian's packages, for servers that npm does not have: finds apt's mirror, and unpacks a package with the libraries
// that it needs, separate from the installed packages.
//
// Runs apt with separate lists, and changes nothing of the system's. apt checks the signatures.
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { scratch } from "./home.mjs";

const run = promisify(execFile);
const KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Returns the address from which apt gets its packages. */
export function mirror() {
  try {
    const words = ["indextargets", "--format", "$(REPO_URI)", "Label: Debian"];
    const [first] = execFileSync("apt-get", words, { encoding: "utf8" }).split("\n");
    if (first) return first;
  } catch {
    // This system is not Debian.
  }
  return "http://deb.debian.org/debian/";
}

/**
 * Unpacks packages of Debian's unstable release into a folder, with each library that they depend on. Those named in
 * `experimental` come from the experimental release if they are newer there. Rejects with the reason if they are
 * unavailable.
 */
async function unpack(packages, experimental, folder) {
  if (!existsSync(KEYS)) throw new Error(`${KEYS} is missing: the signatures of Debian's packages cannot be checked`);
  const apt = aptOf(folder, experimental);
  try {
    await apt("apt-get", ["update", "--quiet"]);
    const all = await withLibraries(apt, packages);
    const archives = path.join(folder, "archives");
    mkdirSync(archives);
    await apt("apt-get", ["download", "--quiet", ...all], archives);
    for (const name of readdirSync(archives)) await run("dpkg-deb", ["-x", path.join(archives, name), folder]);
    rmSync(archives, { recursive: true });
  } finally {
    rmSync(path.join(folder, "apt"), { recursive: true, force: true });
  }
}

/**
 * Unpacks a PostgreSQL server into `folder`, which appears only when everything is in it. `programs`: the folder of its
 * binaries below `folder`. Rejects as `unpack` does.
 */
export async function unpackServer(packages, experimental, folder, programs) {
  // A stopped run leaves it, and a later run of the tests sweeps it away.
  const partial = scratch(path.basename(folder));
  try {
    await unpack(packages, experimental, partial);
    const own = ["postgres", "initdb"].map((name) => path.join(partial, programs, name));
    useOwnLibraries(partial, own, folder);
    renameSync(partial, folder);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // otherwise another run was faster
  }
}

/** Returns an apt with lists, preferences and a cache below the folder. It sees no installed packages. */
function aptOf(folder, experimental) {
  const at = (...names) => path.join(folder, "apt", ...names);
  for (const name of ["state/lists/partial", "cache/archives/partial", "etc"]) mkdirSync(at(name), { recursive: true });
  const from = (suite) => `deb [signed-by=${KEYS}] ${mirror()} ${suite} main\n`;
  writeFileSync(at("etc/sources.list"), from("sid") + from("experimental"));
  const pin = (name) => `Package: ${name}\nPin: release a=experimental\nPin-Priority: 990\n`;
  writeFileSync(at("etc/preferences"), experimental.map(pin).join("\n"));
  writeFileSync(at("status"), "");
  const settings = {
    "Dir::State": at("state"),
    "Dir::State::status": at("status"),
    "Dir::Cache": at("cache"),
    "Dir::Etc::sourcelist": at("etc/sources.list"),
    "Dir::Etc::sourceparts": "/dev/null",
    "Dir::Etc::preferences": at("etc/preferences"),
    "Dir::Etc::preferencesparts": "/dev/null",
    "APT::Sandbox::User": "", // we own the folder
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "APT::Update::Error-Mode": "any", // otherwise a failed download is only a warning
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  return async (program, words, cwd = folder) => {
    const [command, ...rest] = words;
    try {
      return (await run(program, [command, ...options, ...rest], { cwd, timeout: 300_000 })).stdout;
    } catch (error) {
      const [reason = error.message] = error.stderr?.split("\n").filter((line) => line.startsWith("E: ")) ?? [];
      throw new Error(`${program} ${command}: ${reason}`, { cause: error });
    }
  };
}

/** Returns the packages, and each library that one of them depends on. */
async function withLibraries(apt, packages) {
  const all = new Set(packages);
  for (let last = packages; last.length > 0;) {
    const said = await apt("apt-cache", ["depends", "--important", ...last]);
    last = [...said.matchAll(/Depends: (z?lib[^\s:]+)/g)].map(([, name]) => name).filter((name) => !all.has(name));
    last = [...new Set(last)];
    for (const name of last) all.add(name);
  }
  return [...all];
}

/**
 * Replaces each program by a script that starts it with the loader and the libraries of its own folder, which will be
 * `home`. This machine's C library may be older than the one that they were built with.
 */
function useOwnLibraries(folder, programs, home) {
  const libraries = readdirSync(path.join(folder, "usr/lib"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.endsWith("-linux-gnu"))
    .map(({ name }) => path.join(folder, "usr/lib", name));
  const loader = libraries
    .flatMap((one) => readdirSync(one).map((name) => path.join(one, name)))
    .find((file) => /\/ld-linux-[^/]+\.so\.\d$/.test(file));
  if (!loader) throw new Error(`no loader in ${folder}: is libc6 among the packages?`);
  const atHome = (name) => name.replace(folder, home);
  for (const program of programs) {
    const real = `${program}.real`;
    renameSync(program, real);
    const searched = libraries.map(atHome).join(":");
    const words = [atHome(loader), "--library-path", searched, "--argv0", atHome(program), atHome(real)];
    writeFileSync(program, `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`);
    chmodSync(program, 0o755);
  }
}
