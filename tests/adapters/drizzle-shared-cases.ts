// The cases that both releases of drizzle-orm have.
import { batches } from "./drizzle-batches.ts";
import { clients } from "./drizzle-clients.ts";
import { inputCases } from "./drizzle-input-cases.ts";
import { queries } from "./drizzle-queries.ts";
import { transactions } from "./drizzle-transactions.ts";
import type { Cases, World } from "./drizzle-world.ts";

export const sharedCases = (world: World): Cases => ({
  ...inputCases,
  ...queries(world),
  ...transactions(world),
  ...batches(world),
  ...clients(world),
});
