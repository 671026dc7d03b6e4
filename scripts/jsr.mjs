// Makes the folder that `deno publish` takes for JSR: `node scripts/jsr.mjs <folder>`, after scripts/build. Decision
// 0044 says why the folder of the repository does not fit.
//
// It has npm's files for Deno, with two changes that JSR needs: a file names its types, and declarations import each
// other by their real names (TypeScript writes `./a.ts` for `./a.d.ts`).
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const [folder] = process.argv.slice(2);
if (!folder) throw new Error("name the folder: node scripts/jsr.mjs <folder>");
/** The files of jsr.json's exports, and their types. */
const TYPES = { deno: "index", sqlstates: "sqlstates", websocket: "runtime/websocket" };

mkdirSync(path.join(folder, "dist"), { recursive: true });
for (const name of ["jsr.json", "README.md", "LICENSE", "CHANGELOG.md"])
  copyFileSync(path.join(root, name), path.join(folder, name));
const types = path.join(root, "dist/types");
cpSync(types, path.join(folder, "dist/types"), {
  recursive: true,
  filter: (file) => !/^(adapters|cache|changes|cluster|testing)(\.d\.ts)?$/.test(path.relative(types, file)),
});
for (const name of readdirSync(path.join(folder, "dist/types"), { recursive: true })) {
  if (!name.endsWith(".d.ts")) continue;
  const file = path.join(folder, "dist/types", name);
  writeFileSync(file, readFileSync(file, "utf8").replace(/("\.{1,2}\/[^"\n]+?)(?:\.d)?\.ts"/g, '$1.d.ts"'));
}
cpSync(path.join(root, "dist/shared"), path.join(folder, "dist/shared"), {
  recursive: true,
  filter: (file) => !file.endsWith(".map"),
});
for (const [name, types] of Object.entries(TYPES)) {
  const text = readFileSync(path.join(root, `dist/${name}.js`), "utf8");
  writeFileSync(path.join(folder, `dist/${name}.js`), `/* @ts-self-types="./types/${types}.d.ts" */\n${text}`);
}
