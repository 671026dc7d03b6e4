// One configuration for vitest in Node, Deno and Bun. tests/run.mjs says which folders run where.
import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";

/** The files that take longest, first: one that began last would run alone while the other core idles. */
class LongestFirst extends BaseSequencer {
  async sort(files) {
    const long = [
      "/integration/cases",
      "/memory/",
      "/workerd/integration",
      "/demo/demo",
      "/site/",
      "/faults/faults",
      "/workerd/faults",
      "/workerd/pool-faults",
      "/demo/",
      "/poolers/",
      "/packaging/",
      "/adapters/kysely",
      "/faults/",
      "/pool/",
    ];
    const rank = ({ moduleId }) => long.findIndex((name) => moduleId.includes(name)) >>> 0; // not among them: last
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  // Node 20 does not parse `await using`.
  oxc: { target: "node20" },
  test: {
    include: ["tests/**/*.test.ts"],
    globalSetup: "tests/support/run-folder.ts",
    // Until a test is taken to hang: only a hang takes ten minutes, on any machine. No test has a limit of its own, but
    // HOURS (tests/support/release.ts).
    testTimeout: 600_000,
    hookTimeout: 1_800_000, // some build a site or a Worker, perhaps beside two busy loops
    // As long as `until` waits (tests/support/until.mjs). Vitest's own default is a second.
    expect: { poll: { timeout: 300_000, interval: 20 } },
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // The built driver runs as it is shipped, not as vite would transform it.
    server: { deps: { external: [/\/dist\/[^/]+\.js$/] } },
  },
});
