// What a bad server does, by name. The other half, what the driver must make of it, is `cases.ts`; a test compares the
// names.
import { authentication } from "./authentication.mjs";
import { connecting } from "./connecting.mjs";
import { firstRuns } from "./first-runs.mjs";
import { statements } from "./statements.mjs";
import { transactions } from "./transactions.mjs";

export const scenarios = { ...connecting, ...authentication, ...statements, ...firstRuns, ...transactions };
