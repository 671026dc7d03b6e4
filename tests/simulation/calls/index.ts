// More calls for simulated sessions than tests/random has, by the object that can make them.
//
//   anyCalls       a client, a pool or a lease
//   clientCalls    a client
//   poolCalls      a pool
//   ownCalls       any caller, where the world has `options`: they make their own clients and pools
//
// Knows the topics. Must not know what disturbs a call.
import { adapters } from "./adapters.ts";
import type { Make } from "./call.ts";
import { caps } from "./caps.ts";
import { followers } from "./changes.ts";
import { facade } from "./facade.ts";
import { leases } from "./leases.ts";
import { listeners } from "./listeners.ts";
import { nested, nestedOfClients } from "./nested.ts";
import { own } from "./own.ts";
import { pools } from "./pools.ts";
import { scopes } from "./scopes.ts";
import { statements } from "./statements.ts";
import { streams, streamsOfPools } from "./streams.ts";

export const anyCalls: readonly Make[] = [...nested, ...scopes, ...streams, ...statements, ...caps, ...adapters];
export const clientCalls: readonly Make[] = [...listeners, ...followers, ...nestedOfClients];
export const poolCalls: readonly Make[] = [...listeners, ...followers, ...leases, ...pools, ...streamsOfPools];
export const ownCalls: readonly Make[] = [...own, ...facade];

export type { CallPlan, CallWorld, Followed, Make } from "./call.ts";
