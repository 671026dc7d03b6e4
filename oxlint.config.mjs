// Few rules: what is certainly wrong, as ESLint and typescript-eslint recommend it, and who may import what. The rooms
// of js/ and their order are those of docs/architecture.md. oxlint takes a second of the processor for all files, where
// ESLint took 26.

/**
 * The rooms of js/ from the top down. A file imports, types included, only from its own room and from those below it.
 */
export const rooms = [
  "entrypoints",
  "cli",
  "testing",
  "adapters",
  "cache",
  "changes",
  "cluster",
  "pool",
  "api",
  "statement",
  "session",
  "rows",
  "login",
  "connection",
  "server",
  "config",
  "values",
  "wasm",
  "runtime",
  "util",
];

const runtimes = { regex: "^((node|cloudflare|bun):|bun$)", message: "Runtime APIs belong in js/runtime." };
const wasm = {
  regex: "(^|/)pkg/",
  allowTypeImports: true,
  message: "Only js/wasm and the entrypoints name the wasm.",
};
const packages = { regex: "^[^./](?!.*:)", message: "The driver has no dependencies." };
/**
 * The readers of SQL and of the server's trees, names of operators, releases that lose changes, and the types of
 * messages: text and numbers, of which each adapter bundles a copy.
 */
const READER = "(\\.\\./)?(util/(sql-reader|text-cache|node-tree|operators|lossy-releases)|wasm/messages)\\.ts$";
const allBut = { regex: `^\\.(?!/|\\./index\\.ts$|\\./${READER})`, message: "Adapters use the public API only." };

/** What stands in a folder of its own. pg's API is made of Node's emitters and buffers, which every runtime has. */
const nodeButEvents = {
  regex: "^(node:(?!events$|buffer$)|cloudflare:|bun)",
  message: "Only node:events and node:buffer, which are part of pg's API.",
};
const nodeButStreams = {
  regex: "^(node:(?!stream$|buffer$)|cloudflare:|bun)",
  message: "Only node:stream and node:buffer, which are part of pg-copy-streams' API.",
};
const allButDeeper = {
  regex: `^\\.\\./(?!(\\.\\./)?index\\.ts$|[a-z-]+\\.ts$|${READER})`,
  message: "Adapters use the public API only.",
};

/** Values, numbers, types and the queue of writes, of which `pgz-edge/changes` bundles a copy; and its own wasm. */
const allButCopies = {
  regex:
    "^\\.\\./(?!cluster/position\\.ts$|(index|util/(deadline|observer)|values/(converters|objects)|server/catalog|connection/outbox|wasm/[a-z-]+)\\.ts$|\\.\\./pkg/)",
  message: "Changes use the public API, and copies of what knows no connection.",
};

/** `pgz-edge/cache` asks by the public API, follows changes, and reads SQL and trees. */
const allButReaders = {
  regex: `^\\.\\./(?!(index|changes|util/(abort|bounded|deadline|question))\\.ts$|${READER})`,
  allowTypeImports: true,
  message: "The cache uses the public API, copies of the readers, and the types of what is inside.",
};

/** `pgz-edge/cluster` is a queue itself, which hands calls to those of pools: it knows the types of what is inside. */
const allButTypes = {
  regex: "^\\.\\./(?!(index|wasm/numbers|util/(abort|deadline|question|sql-reader|statement-words))\\.ts$)",
  allowTypeImports: true,
  message: "A cluster uses the public API, and the types of what is inside.",
};

/** `pgz-edge/testing` stands in for a client, a pool, and pg's. */
const allButFacade = {
  regex: `^\\.\\./(?!index\\.ts$|adapters/pg\\.ts$|${READER})`,
  message: "Testing uses the public API only.",
};

/** The command line runs where Node's APIs are, and what it shows of the driver a user could write too. */
const commands = { ...allButDeeper, message: "The command line uses the public API only." };
commands.regex += "|^(cloudflare:|bun)";

/**
 * A regular expression over SQL is wrong on nested comments, quotes or escapes, or takes exponential time: two that
 * were here did. It shows by the words that statements begin with, by the marks of comments, and by a semicolon beside
 * blanks.
 */
const STATEMENTS =
  "select|insert|update|delete|merge|values|begin|commit|rollback|savepoint|copy|create|alter|drop|declare|listen|call|do";
const ofStatements = `/(^|[^a-z])(${STATEMENTS})([^a-z]|$)/i`;
const ofComments = String.raw`/--(\[\^|\.\*)|\\\/\\\*(?!\\\*)/`;
const ofEnds = String.raw`/;\\s|\\s;/`;
const readsSql = [
  `Literal[regex.flags=/i/][regex.pattern=${ofStatements}]`,
  `Literal[regex.pattern=${ofComments}]`,
  `Literal[regex.pattern=${ofEnds}]`,
  `NewExpression[callee.name='RegExp'] TemplateElement[value.raw=${ofStatements}]`,
  `TaggedTemplateExpression[tag.property.name='raw'] TemplateElement[value.raw=${ofComments}]`,
].map((selector) => ({ selector, message: "SQL is read by js/util/sql-reader.ts, not by a regular expression." }));

/** Where code runs for each call: V8 keeps such a closure, and all that it reaches (docs/decisions/0042). */
const assignedClosures = {
  selector: ":function AssignmentExpression[left.type='MemberExpression'][right.type=/^(Arrow)?FunctionExpression$/]",
  message: "V8 keeps such a function until a major collection: assign an object with it, or a const (decision 0042).",
};

const writesToStandard = {
  selector: "CallExpression[callee.property.name='write'][callee.object.property.name=/^(stdout|stderr)$/]",
  message: "Only js/cli/terminal.ts writes to standard output and error: it makes texts printable.",
};

const imports = (files, ...patterns) => ({
  files,
  rules: { "pgz/imports": ["error", ...patterns] },
});

/**
 * The rules of one room: what stands above it is out of its reach, and index.ts stands above all but the entrypoints.
 */
function room(name, index) {
  const above = rooms.slice(0, index);
  const upwards = above.map((other) => ({
    regex: `(^|/)${other}/`,
    message: `js/${name} is below js/${other}: arrows go down only.`,
  }));
  if (above.length)
    upwards.push({ regex: "(^|/)index\\.ts$", message: "index.ts only exports; import the file itself." });
  const named = name === "runtime" || name === "entrypoints" ? [] : [runtimes];
  const loaded = name === "entrypoints" || name === "wasm" ? [] : [wasm];
  return imports([`js/${name}/**`], packages, ...named, ...loaded, ...upwards);
}

/** What oxlint does not count among what is certainly wrong, and the recommended sets do. */
const recommended = [
  "no-array-constructor",
  "no-case-declarations",
  "no-empty",
  "no-fallthrough",
  "no-prototype-builtins",
  "no-redeclare",
  "no-regex-spaces",
  "no-undef",
  "no-useless-assignment",
  "no-var",
  "prefer-rest-params",
  "prefer-spread",
  "preserve-caught-error",
  "typescript/ban-ts-comment",
  "typescript/no-explicit-any",
  "typescript/no-namespace",
  "typescript/no-require-imports",
  "typescript/no-unnecessary-type-constraint",
  "typescript/no-unsafe-function-type",
];

export default {
  plugins: ["typescript"],
  jsPlugins: ["./scripts/lint/plugin.mjs"],
  ignorePatterns: ["dist/", "pkg/", "target/", ".cache/", "**/node_modules/", "**/.wrangler/", "bench/"],
  env: { node: true, es2024: true },
  categories: { correctness: "error" },
  rules: {
    ...Object.fromEntries(recommended.map((name) => [name, "error"])),
    eqeqeq: "error",
    "no-eval": "off",
    // A variable that a function reads before it is assigned in a block of its own cannot be a const.
    "prefer-const": ["error", { ignoreReadBeforeAssign: true }],
    "typescript/consistent-type-imports": ["error", { disallowTypeAnnotations: false }],
    // A name for what a table of options makes.
    "typescript/no-empty-object-type": ["error", { allowInterfaces: "with-single-extends" }],
    "no-unused-expressions": ["error", { allowShortCircuit: true, allowTernary: true }],
    "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "none" }],
  },
  overrides: [
    // The compiler knows these names, and more.
    { files: ["**/*.ts", "**/*.mts"], rules: { "no-redeclare": "off", "no-undef": "off" } },
    {
      files: ["js/**"],
      rules: {
        "no-console": "error",
        "no-eval": "error",
        "no-new-func": "error",
        "pgz/syntax": ["error", ...readsSql],
      },
    },
    {
      // A server's text must not move a terminal's cursor: terminal.ts makes every text printable.
      files: ["js/cli/**"],
      excludeFiles: ["js/cli/terminal.ts"],
      rules: { "pgz/syntax": ["error", ...readsSql, writesToStandard] },
    },
    {
      files: ["js/{pool,api,statement,session,rows,connection,values}/**", "js/adapters/pg/**"],
      rules: { "pgz/syntax": ["error", ...readsSql, assignedClosures] },
    },
    // CommonJS, as those who import it.
    { files: ["js/adapters/pg-alias/**"], rules: { "typescript/no-require-imports": "off" } },
    imports(["js/*.ts"], runtimes, wasm, packages),
    ...rooms.map(room),
    imports(["js/adapters/**"], runtimes, allBut),
    imports(["js/changes/**"], runtimes, packages, allButCopies),
    imports(["js/cache/**"], runtimes, packages, allButReaders),
    imports(["js/cluster/**"], runtimes, packages, wasm, allButTypes),
    imports(["js/testing/**"], runtimes, packages, wasm, allButFacade),
    imports(["js/adapters/pg/**"], nodeButEvents, allButDeeper),
    imports(["js/adapters/pg-copy-streams.ts"], nodeButStreams, allBut),
    imports(["js/adapters/drizzle/**"], runtimes, allButDeeper),
    imports(["js/cli/**"], commands),
  ],
};
