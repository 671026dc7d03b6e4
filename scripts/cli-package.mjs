// Makes the folder that `npm publish` takes for @pgz-edge/cli: `node scripts/cli-package.mjs <folder>`, after
// scripts/build. The built files stay in dist/cli, where they find the driver of this repository.
import { copyFileSync, cpSync, mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const [folder] = process.argv.slice(2);
if (!folder) throw new Error("say where to: node scripts/cli-package.mjs <folder>");

mkdirSync(folder, { recursive: true });
for (const name of ["package.json", "README.md"])
  copyFileSync(path.join(root, "js/cli", name), path.join(folder, name));
copyFileSync(path.join(root, "LICENSE"), path.join(folder, "LICENSE"));
const filter = (file) => !file.endsWith(".map");
cpSync(path.join(root, "dist/cli"), path.join(folder, "dist"), { recursive: true, filter });
