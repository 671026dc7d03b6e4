// js/wasm/numbers.ts for programs that run without a compiler: the same names, read from its text.
import { readFileSync } from "node:fs";

const text = readFileSync(new URL("../../js/wasm/numbers.ts", import.meta.url), "utf8");

/** @type {Readonly<Record<string, number>>} */
export const numbers = Object.fromEntries(
  [...text.matchAll(/^export const (\w+) = (\w+);$/gm)].map(([, name, value]) => [name, Number(value)]),
);
