// Checks a project's types with one version of TypeScript, without skipLibCheck, in each combination of settings that a
// project may have: `types-child.mjs <typescript package> <project>`. Prints { "<setting>": [error, …], … }. Only a
// release runs the newest TypeScript with node16, which resolves as nodenext does, and an older TypeScript with other
// libraries than Node's.
import { createRequire } from "node:module";
import path from "node:path";

const [compiler, project] = process.argv.slice(2);
const ts = createRequire(import.meta.url)(compiler);

const isNewest = compiler === "typescript";
const isRelease = process.env.PGZ_TEST_RELEASE !== undefined;
/** Older versions treat nodenext as node16. */
const modules = {
  ...(isNewest && { nodenext: "nodenext" }),
  ...((!isNewest || isRelease) && { node16: "node16" }),
  esnext: "bundler",
};
/** The libraries of types that a project's TypeScript has. */
const worlds = {
  node: { lib: ["lib.es2022.d.ts"], types: ["node"] },
  ...((isNewest || isRelease) && {
    nothing: { lib: ["lib.es2022.d.ts"], types: [] },
    dom: { lib: ["lib.es2022.d.ts", "lib.dom.d.ts"], types: [] },
    workers: { lib: ["lib.es2022.d.ts"], types: ["@cloudflare/workers-types"] },
  }),
};

/** Library files are the same in each setting, and parsing them is most of the work. */
const libraries = new Map();
function hostOf(options) {
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile;
  host.getSourceFile = (file, ...rest) => {
    if (!/[\\/]lib\.[\w.]+\.d\.ts$/.test(file)) return read.call(host, file, ...rest);
    if (!libraries.has(file)) libraries.set(file, read.call(host, file, ...rest));
    return libraries.get(file);
  };
  return host;
}

function errorsIn(options, files) {
  const program = ts.createProgram(files, options, hostOf(options));
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
}

const found = {};
for (const [module, moduleResolution] of Object.entries(modules))
  for (const [world, { lib, types }] of Object.entries(worlds)) {
    const { options, errors } = ts.convertCompilerOptionsFromJson(
      { strict: true, noEmit: true, target: "es2022", module, moduleResolution, types },
      project,
    );
    if (errors.length) throw new Error(errors[0].messageText);
    const files = ["types.ts", ...(module === "esnext" ? [] : ["types.cts"])].map((name) => path.join(project, name));
    found[`${module}, ${world}`] = errorsIn({ ...options, lib }, files);
  }
console.log(JSON.stringify({ version: ts.version, found }));
