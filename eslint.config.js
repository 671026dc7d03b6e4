// Few rules: TypeScript's recommended set, and who may import what. The layers are those of docs/architecture.md:
// only js/sockets (and the entrypoints, which choose one) name a runtime's API; only they name the wasm; js/ takes nothing from npm.
import js from "@eslint/js";
import globals from "globals";
import tseslint from "typescript-eslint";

const runtimes = { group: ["node:*", "cloudflare:*", "bun", "bun:*"], message: "Runtime APIs belong in js/sockets." };
const glue = { group: ["**/pkg/**"], allowTypeImports: true, message: "Only entrypoints name the wasm." };
const entrypoints = { group: ["**/entrypoints/**"], message: "Entrypoints are the outermost layer." };
const packages = { regex: "^[^./](?!.*:)", message: "The driver has no dependencies." };
const innards = { group: ["**/core/**"], allowTypeImports: true, message: "Sockets know bytes and addresses, nothing of PostgreSQL." };
const allBut = { regex: "^\\.(?!\\./index\\.ts$)", message: "Adapters use the public API only." };

const imports = (files, ...patterns) => ({
  files,
  rules: { "@typescript-eslint/no-restricted-imports": ["error", { patterns }] },
});

export default tseslint.config(
  { ignores: ["dist/", "pkg/", "target/", ".cache/", "**/node_modules/", "**/.wrangler/", "bench/"] },
  js.configs.recommended,
  tseslint.configs.recommended,
  {
    languageOptions: { globals: globals.node },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-console": "off",
      "@typescript-eslint/consistent-type-imports": ["error", { disallowTypeAnnotations: false }],
      "@typescript-eslint/no-unused-expressions": ["error", { allowShortCircuit: true, allowTernary: true }],
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrors: "none" }],
    },
  },
  { files: ["js/**"], rules: { "no-console": "error", "no-eval": "error", "no-new-func": "error" } },
  imports(["js/**"], runtimes, glue, entrypoints, packages),
  imports(["js/sockets/**"], glue, entrypoints, innards),
  imports(["js/entrypoints/**"], packages),
  imports(["js/adapters/**"], runtimes, allBut),
);
