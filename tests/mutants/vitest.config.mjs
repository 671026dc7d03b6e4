// What Stryker runs for each mutant: the unit tests but for the two slow ones, which test the wasm, and for one that
// needs the certificates of the servers.
import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";

/** A change of the pool shows first in its walk and tables, which wait for nothing. The first failure is enough. */
class TablesFirst extends BaseSequencer {
  async sort(files) {
    const rank = ({ moduleId }) => (/\/pool-(?!hooks)/.test(moduleId) ? 0 : 1);
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  oxc: { target: "node20" },
  test: {
    include: [`tests/unit/**/${process.env.MUTANT_TESTS ?? "*"}.test.ts`],
    exclude: ["tests/unit/{transcripts,glue,channel-binding}.test.ts"],
    testTimeout: 20_000, // the code is slower with all its changes in it
    sequence: { sequencer: TablesFirst },
  },
});
