// Every block of code in the pages runs, is checked as far as possible, or is on a list with the reason. Some run
// elsewhere: `ts run` in examples.test.ts, blocks that are files in programs.test.ts, and those of docs/next.md in
// tests/ecosystem/next.test.ts.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { transform } from "esbuild";
import pg from "pg";
import ts from "typescript";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { fencesOf, GIVEN, GIVEN_BY_PAGE, pages, type Fence } from "./fences.ts";
import { read, root } from "./repository.ts";

const fences = pages.flatMap(fencesOf);
const of = (...languages: string[]) => fences.filter(({ language }) => languages.includes(language));

/** Blocks that no test can compile. */
const UNCHECKED = new Map([
  ["docs/architecture.md, block 2", "a shape in the notation of types, not a program; js/runtime/contract.ts has it"],
  ["docs/drizzle.md, block 3", "wants drizzle-orm 1.0 under that name; tests/adapters/drizzle-v1.test.ts"],
  ["docs/sql-types.md, block 1", "imports what the command writes; tests/cli/types.test.ts compiles such a project"],
  ["docs/prisma.md, block 1", "wants a client that Prisma has generated; tests/adapters/prisma-client.test.ts"],
]);

/** Commands of `sh` blocks that are not run, with the reason. `complaintOf` checks the others. */
const COMMANDS: Record<string, string> = {
  "npm install": "installs from the registry; tests/packaging/project.ts installs the packed tarball",
  "deno add": "installs from the registry",
  "bun add": "installs from the registry",
  "npm run": "runs a script of the example; tests/demo/copied.test.ts runs its parts",
  "npx opennextjs-cloudflare": "builds the application of the page; tests/ecosystem/next.test.ts does it",
  "npx wrangler": "wants an account, or serves until Ctrl-C; tests/demo/wrangler.test.ts runs the server",
  docker: "builds an image; tests/packaging/docker.test.ts reads that Dockerfile",
  psql: "wants a server of the reader's",
  curl: "asks a server of the reader's; tests/demo asks the same routes",
  openssl: "makes a secret",
  printf: "makes a small file for the command behind it",
  cargo: "is for machines without rustup's server",
  cp: "copies a file of the reader's",
};

test("each block has a language that is run or checked", () => {
  const known = ["ts", "tsx", "js", "sql", "sh", "json", "jsonc", "text", ""];
  expect(fences.filter(({ language }) => !known.includes(language)).map(({ name }) => name)).toEqual([]);
  expect(fences.length).toBeGreaterThan(60);
});

test("blocks that run in other test files do run there: examples of README and docs/, and programs of the pages", () => {
  const marked = fences.filter(({ rest }) => rest !== "");
  const strays = marked.filter(({ page, language, rest }) => {
    if (rest === "run") return language !== "ts" || !/^(README|docs\/[\w-]+)\.md$/.test(page);
    return !["README.md", "docs/examples.md", "docs/next.md"].includes(page) || !/^\S+\.\w+$/.test(rest);
  });
  expect(strays.map(({ name }) => name)).toEqual([]);
});

test("each name on the list of blocks that cannot be compiled belongs to a block", () => {
  const names = new Set(of("ts").map(({ name }) => name));
  expect([...UNCHECKED.keys()].filter((name) => !names.has(name))).toEqual([]);
});

const options: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: true,
  noEmit: true,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  moduleDetection: ts.ModuleDetectionKind.Force,
  allowImportingTsExtensions: true,
  target: ts.ScriptTarget.ESNext,
  lib: ["lib.esnext.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.dom.asynciterable.d.ts"],
  types: ["node"],
  typeRoots: [path.join(root, "node_modules/@types")],
  paths: packagePaths(),
};

/**
 * The package's entries as its exports name them. An entry with only a `default`, which only bundles have, is left out.
 */
function packagePaths(): Record<string, string[]> {
  const { exports } = JSON.parse(read("package.json")) as { exports: object };
  type Entry = string | { types?: string; default?: Entry };
  const typesOf = (entry?: Entry): string | undefined =>
    typeof entry === "object" ? (entry.types ?? typesOf(entry.default)) : undefined;
  return Object.fromEntries(
    Object.entries(exports as Record<string, Entry>).flatMap(([name, entry]) => {
      const types = typesOf(entry);
      return types === undefined ? [] : [[path.posix.join("pgz-edge", name), [path.join(root, types)]]];
    }),
  );
}

/** Returns a block as a module. A block that is not a module becomes the body of a function. */
function moduleOf({ page, code }: Fence): string {
  if (/^export /m.test(code)) return code;
  const imports = code.match(/^import [^;]*;/gm) ?? [];
  const body = imports.reduce((rest, line) => rest.replace(line, ""), code);
  return `${imports.join("\n")}\n${GIVEN_BY_PAGE[page] ?? ""}\nexport async function example() {\n${body}\n}\n`;
}

/** The whole of @cloudflare/workers-types contradicts the DOM's types. */
const PLATFORM = `declare module "cloudflare:workers" {
  export abstract class DurableObject {
    constructor(state: object, env: object);
  }
  export abstract class WorkerEntrypoint<Env> {
    protected ctx: { readonly cache?: { purge(what: { tags: string[] }): Promise<unknown> } };
    protected env: Env;
  }
}`;

test("every block of TypeScript compiles strictly", () => {
  mkdirSync(path.join(root, ".cache"), { recursive: true });
  const folder = mkdtempSync(path.join(root, ".cache/fences-"));
  try {
    writeFileSync(path.join(folder, "given.d.ts"), GIVEN);
    writeFileSync(path.join(folder, "platform.d.ts"), PLATFORM);
    const programs = of("ts").filter(({ name, rest }) => (rest === "" || rest === "run") && !UNCHECKED.has(name));
    const files = programs.map((fence, index) => {
      writeFileSync(path.join(folder, `${index}.ts`), moduleOf(fence));
      return path.join(folder, `${index}.ts`);
    });
    expect(files.length).toBeGreaterThan(30);
    const program = ts.createProgram(
      [...["given.d.ts", "platform.d.ts"].map((name) => path.join(folder, name)), ...files],
      options,
    );
    const wrong = ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
      const fence = programs[files.indexOf(file?.fileName ?? "")];
      const line = file?.text.slice(0, start).split("\n").length ?? 0;
      const text = file?.text.split("\n")[line - 1]?.trim();
      return `${fence?.name ?? file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")} (${text})`;
    });
    expect(wrong).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each(of("js"))("$name can be parsed", async ({ code }) => {
  await transform(code, { loader: "js" });
});

test.each(of("json", "jsonc").filter(({ language, rest }) => language === "json" || rest === ""))(
  "$name is JSON",
  ({ name, language, code }) => {
    if (language === "json") JSON.parse(code);
    else expect(ts.parseConfigFileTextToJson(name, code).error).toBeUndefined();
  },
);

/** The tables that statements assume. All of it is rolled back, roles too. */
const TABLES = `create schema shop; create schema fences; set search_path = fences;
  create table orders (id int4 primary key, tenant_id int4, total numeric);
  create table users (id int4 primary key, name text, email text);`;

test.each(of("sql"))("$name runs on the server", async ({ code }) => {
  const client = new pg.Client({ connectionString: testServers().servers[0]!.superuserUrl });
  await client.connect();
  try {
    await client.query(`begin; ${TABLES}`);
    await client.query(code);
  } finally {
    await client.query("rollback");
    await client.end();
  }
});

/** Returns the commands of a block, without the shell's syntax around them. */
const commandsOf = (code: string) =>
  code
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .flatMap((line) => line.replace(/(^|\s)#.*$/, "").split(/ \| | && /))
    .map((command) => command.trim().replace(/^(?:\w+=(?:"[^"]*"|\S*)\s+)+/, ""))
    .filter((command) => command !== "");

/** Returns what is wrong with a command, as far as it shows without running it. */
function complaintOf(command: string): string | undefined {
  const [program = "", first = "", second = ""] = command.split(/\s+/);
  if (program === "make") {
    const isTarget = new RegExp(`^${first}:`, "m").test(read("Makefile"));
    return isTarget ? undefined : `the Makefile has no ${first}`;
  }
  if (program === "node")
    return [".", "worker-example"].some((folder) => existsSync(path.join(root, folder, first)))
      ? undefined
      : `there is no ${first}`;
  if (program === "npx" && first === "@pgz-edge/cli") {
    const { status } = helpOf(second);
    return status === 0 ? undefined : `pgz-edge has no command ${second}`;
  }
  if (program in COMMANDS || `${program} ${first}` in COMMANDS) return undefined;
  return "nothing checks this command, and it is not on the list";
}

function helpOf(command: string): { status: number } {
  try {
    execFileSync(process.execPath, [path.join(root, "dist/cli/main.js"), "help", command], { stdio: "pipe" });
    return { status: 0 };
  } catch (error) {
    return { status: (error as { status: number }).status };
  }
}

test.each(of("sh"))("$name is valid shell, and each of its commands is checked or on the list", ({ code }) => {
  execFileSync("sh", ["-n"], { input: code, stdio: ["pipe", "pipe", "pipe"] });
  const wrong = commandsOf(code).flatMap((command) => {
    const complaint = complaintOf(command);
    return complaint === undefined ? [] : [`${command}: ${complaint}`];
  });
  expect(wrong).toEqual([]);
});
