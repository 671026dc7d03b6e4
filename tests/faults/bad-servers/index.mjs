// The bad servers by name. The required reactions of the driver are in `cases.ts`; a test compares the names of both.
import { authentication } from "./authentication.mjs";
import { connecting } from "./connecting.mjs";
import { firstRuns } from "./first-runs.mjs";
import { statements } from "./statements.mjs";
import { transactions } from "./transactions.mjs";

export const scenarios = { ...connecting, ...authentication, ...statements, ...firstRuns, ...transactions };
