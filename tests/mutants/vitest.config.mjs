// What Stryker runs for each mutant: the unit tests but for the two slow ones, which test the wasm.
import { defineConfig } from "vitest/config";

export default defineConfig({
  oxc: { target: "node20" },
  test: {
    include: ["tests/unit/**/*.test.ts"],
    exclude: ["tests/unit/{transcripts,glue}.test.ts"],
    testTimeout: 120_000, // the code is slower with all its changes in it
  },
});
