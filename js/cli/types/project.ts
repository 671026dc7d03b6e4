// Finds the files of a project, and its own TypeScript.
//
// Knows tsconfig.json and globs. Must not know SQL. `typescript` is the project's own: this package does not include
// it.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import type ts from "typescript";
import { Misuse } from "../misuse.ts";

interface Sources {
  readonly compiler: typeof ts;
  readonly program: ts.Program;
  readonly files: readonly ts.SourceFile[];
}

const ENDINGS = [".ts", ".tsx", ".mts", ".cts"];

/**
 * `globs` are in the form of tsconfig's `include`. Without any, the files are those of tsconfig.json, or else those
 * below src.
 */
export async function sourcesOf(
  folder: string,
  globs: readonly string[],
  config: string | undefined,
): Promise<Sources> {
  const compiler = await compilerOf(folder);
  const found =
    config === undefined ? compiler.findConfigFile(folder, compiler.sys.fileExists) : path.resolve(folder, config);
  const parsed = found === undefined ? undefined : parse(compiler, found);
  const names =
    globs.length || !parsed ? filesOf(compiler, folder, globs.length ? globs : ["src/**/*"]) : parsed.fileNames;
  if (!names.length) throw new Misuse("No source file was found: name some, as pgz-edge types 'app/**/*'.");
  const program = compiler.createProgram([...names], { ...(parsed?.options ?? DEFAULTS), noEmit: true });
  const wanted = new Set(names.map((name) => path.resolve(name)));
  const files = program
    .getSourceFiles()
    .filter((file) => wanted.has(path.resolve(file.fileName)) && !file.isDeclarationFile);
  return { compiler, program, files };
}

async function compilerOf(folder: string): Promise<typeof ts> {
  let compiler;
  try {
    const main = createRequire(path.join(folder, "package.json")).resolve("typescript");
    const loaded = (await import(pathToFileURL(main).href)) as { default?: typeof ts } & typeof ts;
    compiler = loaded.default ?? loaded;
  } catch {
    throw new Misuse("The project has no typescript, which reads its sources: npm install --save-dev typescript@6.");
  }
  // TypeScript 7 is a native program, and its package has no functions that read sources.
  if (typeof compiler.createProgram === "function") return compiler;
  throw new Misuse(
    `The project's typescript ${String(compiler.version)} cannot read sources for other programs. 5.2 to 6 can: install ` +
      "typescript@6 where this command runs.",
  );
}

function parse(compiler: typeof ts, file: string): ts.ParsedCommandLine {
  const { config, error } = compiler.readConfigFile(file, compiler.sys.readFile) as {
    config?: unknown;
    error?: ts.Diagnostic;
  };
  if (error) throw new Misuse(`${file}: ${compiler.flattenDiagnosticMessageText(error.messageText, " ")}`);
  return compiler.parseJsonConfigFileContent(config, compiler.sys, path.dirname(file));
}

/** A pattern is a glob, a folder or a file. */
function filesOf(compiler: typeof ts, folder: string, patterns: readonly string[]): string[] {
  const isThere = (pattern: string) => compiler.sys.fileExists(path.resolve(folder, pattern));
  const globs = patterns.filter((pattern) => !isThere(pattern)).flatMap(braces);
  const found = globs.length ? compiler.sys.readDirectory(folder, ENDINGS, ["**/node_modules"], globs) : [];
  return [...patterns.filter(isThere).map((file) => path.resolve(folder, file)), ...found];
}

/** Expands `{a,b}`, which tsconfig does not know. */
function braces(pattern: string): string[] {
  const [, before, inside, behind] = /^(.*?)\{([^{}]*)\}(.*)$/.exec(pattern) ?? [];
  return inside === undefined ? [pattern] : inside.split(",").flatMap((word) => braces(`${before!}${word}${behind!}`));
}

/** The compiler's options for a project without tsconfig.json. */
const DEFAULTS: ts.CompilerOptions = {
  strict: true,
  target: 99,
  module: 99,
  moduleResolution: 100,
  skipLibCheck: true,
};
