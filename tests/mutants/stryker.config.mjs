// Settings of Stryker for run.mjs. Paths are from the project's root.
export default {
  testRunner: "vitest",
  vitest: { configFile: "tests/mutants/vitest.config.mjs" },
  coverageAnalysis: "perTest",
  concurrency: 1,
  timeoutMS: 5_000,
  // A changed wording of a message is no change of behaviour.
  mutator: { excludedMutations: ["StringLiteral"] },
  ignorePatterns: ["target", "bench", ".cache", "dist", "docker", "worker-example", "tests/mutants/node_modules"],
  tempDirName: ".cache/stryker",
  reporters: ["clear-text", "progress-append-only", "json"],
  jsonReporter: { fileName: ".cache/mutants/stryker.json" },
  clearTextReporter: { allowColor: false, reportTests: false, reportMutants: true, logTests: false },
  checkers: [],
  disableTypeChecks: false,
};
