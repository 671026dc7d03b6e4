// oxlint refuses what the rules of this project forbid: each kind of rule is broken once, in a copy of the
// configuration's place, so that no other test sees the files.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = path.join(import.meta.dirname, "../..");

/** A file, what is wrong in it, and the rule that says so. */
const BROKEN = [
  ["js/api/a.ts", `import "node:fs";`, "pgz(imports)"],
  ["js/api/b.ts", `export * from "left-pad";`, "pgz(imports)"],
  ["js/api/c.ts", `export const pool = import("../pool/pool.ts");`, "pgz(imports)"],
  ["js/api/d.ts", `export type Pool = import("../pool/pool.ts").Pool;`, "pgz(imports)"],
  ["js/util/e.ts", `import type { Row } from "../rows/form.ts";\nexport type Own = Row;`, "pgz(imports)"],
  ["js/util/f.ts", `export { connect } from "../index.ts";`, "pgz(imports)"],
  ["js/session/g.ts", `export { default } from "../../pkg/pgz_edge.js";`, "pgz(imports)"],
  ["js/adapters/h.ts", `export { Connection } from "../connection/connection.ts";`, "pgz(imports)"],
  ["js/adapters/pg/i.ts", `export { connect } from "node:net";`, "pgz(imports)"],
  ["js/adapters/pg-copy-streams.ts", `export { connect } from "node:net";`, "pgz(imports)"],
  ["js/adapters/drizzle/j.ts", `export { Pool } from "../../pool/pool.ts";`, "pgz(imports)"],
  ["js/changes/k.ts", `export { Pool } from "../pool/pool.ts";`, "pgz(imports)"],
  ["js/cluster/l.ts", `export { Pool } from "../pool/pool.ts";`, "pgz(imports)"],
  ["js/testing/l.ts", `export type { Pool } from "../pool/pool.ts";`, "pgz(imports)"],
  ["js/cli/m.ts", `export { Pool } from "../pool/pool.ts";`, "pgz(imports)"],
  ["js/sqlstates-more.ts", `export { readFile } from "node:fs";`, "pgz(imports)"],
  ["js/api/n.ts", `export const isRead = /^select/i;`, "pgz(syntax)"],
  ["js/api/o.ts", `export const comment = /--.*/;`, "pgz(syntax)"],
  ["js/api/p.ts", `export const end = /;\\s*$/;`, "pgz(syntax)"],
  ["js/api/q.ts", "export const read = (name: string) => new RegExp(`select ${name}`);", "pgz(syntax)"],
  ["js/api/r.ts", "export const comment = String.raw`--[^`;", "pgz(syntax)"],
  ["js/pool/s.ts", `export function set(one: { f?: () => void }) {\n  one.f = () => {};\n}`, "pgz(syntax)"],
  ["js/cli/t.ts", `process.stdout.write("text");`, "pgz(syntax)"],
  ["js/api/u.ts", `console.log(1);`, "eslint(no-console)"],
  ["js/api/v.ts", `export const run = (text: string) => eval(text);`, "eslint(no-eval)"],
  ["js/api/w.ts", `export const run = (text: string) => new Function(text);`, "eslint(no-new-func)"],
  ["js/api/x.ts", `export const is = (a: unknown) => a == 1;`, "eslint(eqeqeq)"],
  [
    "js/api/y.ts",
    `import { Row } from "../rows/form.ts";\nexport type Own = Row;`,
    "typescript(consistent-type-imports)",
  ],
  ["js/api/z.ts", `export const what: any = 1;`, "typescript(no-explicit-any)"],
  ["tests/a.ts", `const unused = 1;\nexport {};`, "eslint(no-unused-vars)"],
  ["tests/b.ts", `export const f = (a: number) => {\n  a + 1;\n};`, "eslint(no-unused-expressions)"],
  ["tests/c.mjs", `export const f = () => missing();`, "eslint(no-undef)"],
  ["tests/d.ts", `export const f = () => {\n  let a = 1;\n  return a;\n};`, "eslint(prefer-const)"],
  [
    "tests/e.ts",
    `export let a = 0;\nexport const f = () => {\n  a = 1;\n  let b = 1;\n  b = 2;\n  return b;\n};`,
    "eslint(no-useless-assignment)",
  ],
  [
    "tests/f.ts",
    `export const f = () => {\n  try {\n    return 1;\n  } finally {\n    return 2;\n  }\n};`,
    "eslint(no-unsafe-finally)",
  ],
  ["tests/g.ts", `// eslint-disable-next-line no-console\nexport const a = 1;`, "Unused eslint-disable directive"],
] as const;

/** What these rules allow. */
const RIGHT = [
  ["js/runtime/node.ts", `export { connect } from "node:net";`],
  ["js/session/right.ts", `export type { Core } from "../../pkg/pgz_edge.js";\nexport * from "../util/errors.ts";`],
  ["js/adapters/right.ts", `export { connect } from "../index.ts";\nexport { read } from "../util/sql-reader.ts";`],
  ["js/cluster/right.ts", `export type { Pool } from "../pool/pool.ts";`],
  ["js/adapters/pg/right.ts", `export { EventEmitter } from "node:events";`],
  ["js/cli/terminal.ts", `process.stdout.write("text");`],
] as const;

let folder: string;
let output: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "pgz-lint-"));
  cpSync(path.join(root, "oxlint.config.mjs"), path.join(folder, "oxlint.config.mjs"));
  cpSync(path.join(root, "scripts/lint"), path.join(folder, "scripts/lint"), { recursive: true });
  for (const [file, text] of [...BROKEN, ...RIGHT]) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), `${text}\n`);
  }
  const options = ["--config=oxlint.config.mjs", "--report-unused-disable-directives-severity=error", "--format=unix"];
  const oxlint = path.join(root, "node_modules/oxlint/bin/oxlint");
  output = spawnSync(process.execPath, [oxlint, ...options, "."], { cwd: folder, encoding: "utf8" }).stdout;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const saidOf = (file: string) => output.split("\n").filter((line) => line.startsWith(`${file}:`));

test.each(BROKEN)("%s: %s is refused", (file, _text, rule) => {
  expect(saidOf(file)).toEqual([expect.stringContaining(rule)]);
});

test.each(RIGHT)("%s: %s is allowed", (file) => {
  expect(saidOf(file)).toEqual([]);
});
