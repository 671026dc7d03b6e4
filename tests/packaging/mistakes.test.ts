// Mistakes that every newcomer makes once: the compiler's message must name the mistake, and not another overload. An
// editor shows the last lines of a message.
import path from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { root } from "./repository.ts";

/** A mistake, and the compiler's message. `undefined` in `mistakes` would mean that it compiles. */
const MISTAKES: readonly (readonly [code: string, says: RegExp])[] = [
  ['await client.query("select 1", { maxRow: 1 })', /'maxRow' does not exist in type 'QueryOptions'.*'maxRows'\?$/],
  [
    'await client.query("select $1", [1], { maxRow: 1 })',
    /'maxRow' does not exist in type 'QueryOptions'.*'maxRows'\?$/,
  ],
  ['await client.query("select $1", 1)', /Type '1' has no properties in common with type 'QueryOptions'/],
  ['await client.query("select 1", { timeout: "5s" })', /Type 'string' is not assignable to type 'number'/],
  ['await client.query({ text: "select $1", params: [1] })', /'params' does not exist in type 'RowQuery</],
  ['client.rows("select 1", { batchSize: 3 })', /'batchSize' does not exist in type 'QueryOptions'/],
  ['client.rows("select $1", [1], { maxRow: 1 })', /'maxRow' does not exist in type 'QueryOptions'.*'maxRows'\?$/],
  ['await client.exec("select 1", { timeOut: 3 })', /'timeOut' does not exist in type 'ExecOptions'.*'timeout'\?$/],
  [
    'await client.exec("select $1", [1], { timeOut: 3 })',
    /'timeOut' does not exist in type 'ExecOptions'.*'timeout'\?$/,
  ],
  ['await client.json("select 1", { formt: "csv" })', /'formt' does not exist in type 'JsonOptions'.*'format'\?$/],
  ['await client.stream("select 1", { format: "jsonl" })', /Type '"jsonl"' is not assignable to type .*"ndjson"/],
  ['(await client.query("select 1")).map(String)', /Property 'map' does not exist on type 'QueryResult</],
  ['client.query("select 1").rows', /Property 'rows' does not exist on type 'Promise<QueryResult</],
  [
    'await client.batch("select 1")',
    /Argument of type 'string' is not assignable to parameter of type 'readonly Query/,
  ],
  ['await client.batch(["select 1"], { atomc: false })', /'atomc' does not exist in type 'BatchOptions'.*'atomic'\?$/],
  ["await client.transaction([])", /is not assignable to parameter of type '\(transaction: Transaction\) => /],
  ['await client.transaction(async () => 1, { isolation: "SERIALIZABLE" })', /Did you mean '"serializable"'\?$/],
  [
    'await client.copyFromRows("t", "a", [[1]])',
    /'string' is not assignable to parameter of type 'readonly string\[\]'/,
  ],
  ["client.scope({ setting: { a: 1 } })", /'setting' does not exist in type 'ScopeOptions'.*'settings'\?$/],
  ['createClient({ host: "h", databse: "x" })', /'databse' does not exist in type 'ConfigObject/],
  ['createClient({ host: "h", max: 3 })', /'max' does not exist in type 'ConfigObject/],
  ['createPool({ host: "h", idleTimeoutMillis: 3 })', /'idleTimeoutMillis' does not exist in type 'ConfigObject/],
  ["createClient(process.env.DATABASE_URL)", /Type 'undefined' is not assignable to type 'ConnectInput'/],
];

/** Returns the last line of the compiler's message for each line of code. */
function complaints(lines: readonly string[]): (string | undefined)[] {
  const head = `import { createClient, createPool, type Client } from "./index.js";
    declare const client: Client; declare const process: { env: { DATABASE_URL: string | undefined } };
    export async function mistakes() {\n`;
  const text = `${head}${lines.map((line) => `void (${line});`).join("\n")}\n}`;
  const name = path.join(root, "dist/types/mistakes.ts");
  const options = {
    strict: true,
    noEmit: true,
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ESNext,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (file) => file === name || fileExists(file);
  host.readFile = (file) => (file === name ? text : readFile(file));
  host.getSourceFile = (file, target, ...rest) =>
    file === name ? ts.createSourceFile(file, text, target) : getSourceFile(file, target, ...rest);
  const program = ts.createProgram([name], { ...options, moduleResolution: ts.ModuleResolutionKind.Bundler }, host);
  const source = program.getSourceFile(name)!;
  const above = head.split("\n").length - 1;
  const said: (string | undefined)[] = lines.map(() => undefined);
  for (const { start, messageText } of program.getSemanticDiagnostics(source)) {
    const line = source.getLineAndCharacterOfPosition(start!).line - above;
    said[line] = ts.flattenDiagnosticMessageText(messageText, "\n");
  }
  return said;
}

test("the compiler's message names a common mistake", () => {
  const said = complaints(MISTAKES.map(([code]) => code));
  const unclear = MISTAKES.flatMap(([code, says], at) => {
    const lines = said[at]?.split("\n") ?? [];
    return lines.some((line) => says.test(line)) ? [] : [`${code}: ${said[at]}`];
  });
  expect(unclear).toEqual([]);
  // Of many overloads the compiler reports the last, and none of these calls is meant as a template.
  expect(said.filter((text) => /TemplateStringsArray'\.$/.test(text ?? ""))).toEqual([]);
});
