// The files of this repository.
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const bin = (name: string) => path.join(root, "node_modules/.bin", name);
export const read = (name: string) => readFileSync(path.join(root, name), "utf8");
