// What an application does with Kysely over pgz-edge/kysely: written once, run on Node, Deno, Bun and in workerd.
import { aborts } from "./kysely-aborts.ts";
import type { Cases } from "./kysely-place.ts";
import { queries } from "./kysely-queries.ts";
import { sources } from "./kysely-sources.ts";
import { streams } from "./kysely-streams.ts";
import { transactions } from "./kysely-transactions.ts";

export type { Modules } from "./kysely-place.ts";

export const cases: Cases = { ...queries, ...streams, ...transactions, ...aborts, ...sources };
