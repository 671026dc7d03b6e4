// What an editor shows of the package: each export has a description, each function and method has an example that
// compiles, and each page of docs/ that a comment names is in the package.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { afterAll, expect, test } from "vitest";
import { read, root } from "./repository.ts";

const types = path.join(root, "dist/types");
const options: ts.CompilerOptions = {
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  target: ts.ScriptTarget.ESNext,
  lib: ["lib.esnext.d.ts", "lib.dom.d.ts"],
  types: [],
  allowImportingTsExtensions: true,
  strict: true,
  noEmit: true,
};

interface Documented {
  readonly name: string;
  readonly text: string;
  readonly isCallable: boolean;
  readonly examples: readonly string[];
}

/** Everything that the package's main entry exports, with the public methods of its classes and of `sql`. */
const entry = path.join(types, "index.d.ts");
const program = ts.createProgram([entry], options);
const checker = program.getTypeChecker();
const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;

function exported(): Documented[] {
  const found = new Map<ts.Declaration, Documented>();
  const add = (symbol: ts.Symbol, name: string): void => {
    const [declaration] = symbol.declarations ?? [];
    const tags = symbol.getJsDocTags(checker);
    if (!declaration || found.has(declaration) || tags.some((tag) => tag.name === "internal")) return;
    const isCallable = (symbol.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Method)) !== 0;
    const examples = tags.filter((tag) => tag.name === "example").map((tag) => ts.displayPartsToString(tag.text));
    const text = ts.displayPartsToString(symbol.getDocumentationComment(checker));
    found.set(declaration, { name, text, isCallable, examples });
  };
  for (const alias of checker.getExportsOfModule(module)) {
    const symbol = alias.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(alias) : alias;
    add(symbol, alias.name);
    if (!(symbol.flags & ts.SymbolFlags.Class) && alias.name !== "Sql") continue;
    for (const member of checker.getDeclaredTypeOfSymbol(symbol).getProperties()) {
      const declaration = member.declarations?.[0];
      if (!declaration?.getSourceFile().fileName.startsWith(types)) continue;
      const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
      if (ts.getCombinedModifierFlags(declaration) & hidden || member.name.startsWith("__")) continue;
      if (member.flags & ts.SymbolFlags.Method) add(member, `${alias.name}.${member.name}`);
    }
  }
  return [...found.values()];
}

const all = exported();

test("each export has a description, and each function and method has an example", () => {
  expect(all.length).toBeGreaterThan(100);
  expect(all.filter(({ text }) => !text).map(({ name }) => name)).toEqual([]);
  expect(all.filter((one) => one.isCallable && !one.examples.length).map(({ name }) => name)).toEqual([]);
});

// The types of options are made from tables, and an editor must still find their texts.
test.each(["Options", "PoolOptions", "PoolHooks", "CallOptions", "QueryOptions", "StreamOptions", "BatchOptions"])(
  "each option of %s has a description",
  (name) => {
    const alias = checker.getExportsOfModule(module).find((one) => one.name === name)!;
    const found = checker.getDeclaredTypeOfSymbol(checker.getAliasedSymbol(alias)).getProperties();
    expect(found.length).toBeGreaterThan(3);
    const mute = found.filter((option) => !option.getDocumentationComment(checker).length);
    expect(mute.map((option) => option.name)).toEqual([]);
  },
);

/** The names that an example assumes. */
const GIVEN = `
  import { conditional, connect, createClient, createPool, logIn, observers, sql, standardToon, unnest, PgzError, PostgresError } from "../../dist/types/index.js";
  import type { Client, ClientOptions, Lease, Observer, Parameter, Pool, Prepared, Scope, SqlValue, Takes, Transaction } from "../../dist/types/index.js";
  declare const client: Client, pool: Pool, lease: Lease, tx: Transaction, scope: Scope, byId: Prepared, rename: Prepared;
  declare const db: Client, error: unknown, request: Request, body: ReadableStream<Uint8Array>, options: ClientOptions;
  declare const Deno: any, process: any, env: any, url: string, schema: string, isNewest: boolean;
  declare const ids: number[], day: Date, limit: Date, connections: any, cache: any, tenant: string, Decimal: any;
  declare function send(rows: unknown): Promise<void>;
  declare function report(error: unknown): void;
  declare function count(): void;
  declare function openTelemetry(): Observer;
`;
mkdirSync(path.join(root, ".cache"), { recursive: true });
const folder = mkdtempSync(path.join(root, ".cache/examples-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the examples of TSDoc compile", () => {
  const examples = all.flatMap(({ name, examples: own }) => own.map((text) => ({ name, text })));
  expect(examples.length).toBeGreaterThan(50);
  const files = examples.map(({ text }, index) => {
    const file = path.join(folder, `${index}.ts`);
    const code = text.replace(/^```\w*$/gm, "");
    writeFileSync(file, `${GIVEN}\nasync function example() {\n${code}\n}\n`);
    return file;
  });
  const program = ts.createProgram(files, options);
  const wrong = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    const at = files.indexOf(file?.fileName ?? "");
    return `${examples[at]?.name ?? file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
  });
  expect(wrong).toEqual([]);
});

test("a page that a comment names is in the package", () => {
  const { files } = JSON.parse(read("package.json")) as { files: string[] };
  expect(files).toContain("docs/*.md");
  const declarations = readdirSync(types, { recursive: true, encoding: "utf8" }).filter((file) =>
    /\.d\.ts$/.test(file),
  );
  const named = declarations.flatMap((file) => [
    ...readFileSync(path.join(types, file), "utf8").matchAll(/\b(docs\/[\w/-]+\.md)/g),
  ]);
  expect(named.length).toBeGreaterThan(10);
  expect(named.map(([, page]) => page!).filter((page) => !existsSync(path.join(root, page)))).toEqual([]);
  expect(named.map(([, page]) => page!).filter((page) => page.split("/").length > 2)).toEqual([]);
});
