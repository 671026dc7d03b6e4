// js/wasm/numbers.ts for programs that run without a compiler: the same names, read from its text.
import { readFileSync } from "node:fs";

const text = readFileSync(new URL("../../js/wasm/numbers.ts", import.meta.url), "utf8");

/** @type {Readonly<Record<string, number>>} */
export const numbers = Object.fromEntries(
  [...text.matchAll(/^export const (\w+) = (\w+);$/gm)].map(([, name, value]) => [name, Number(value)]),
);

/**
 * The formats of encoded output by their names, as the core calls them.
 *
 * @type {Readonly<Record<string, number>>}
 */
export const formats = Object.fromEntries(
  [...text.matchAll(/^ {2}(\w+): \{ code: (\w+),/gm)].map(([, name, code]) => [name, numbers[code]]),
);
