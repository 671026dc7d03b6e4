// One configuration for vitest in Node, Deno and Bun. tests/run.mjs says which folders run where.
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Node 20 does not parse `await using`.
  oxc: { target: "node20" },
  test: {
    include: ["tests/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    maxWorkers: 2,
    // The built driver runs as it is shipped, not as vite would transform it.
    server: { deps: { external: [/\/dist\/[^/]+\.js$/] } },
  },
});
