// A tenant and its steps: the types that the workload and its parts share.
import type * as pgz from "../../js/index.ts";
import type { World } from "../random/plan.ts";

export type Client = pgz.Client;
/** An object that runs statements: a client, or its transaction. */
export type Caller = pgz.Client | pgz.Transaction;

/** One client's share of a tenant. No other client changes the rows of its lane, so it may rely on them. */
export interface Tenant {
  number: number;
  lane: number;
  /** The tenant's tables: see `createTenants`. */
  schema: string;
  sql: typeof pgz.sql;
  /** Returns a number from 0 to below `below`, from the seed. */
  random(below: number): number;
  /** For its calls of tests/random: tables that no other lane has. */
  world: World;
  /** Notes in the ledger that this lane has committed. */
  notes: number;
  /** Increments of each statement's counter. */
  counted: Map<number, number>;
}

/**
 * A job that a tenant does now and then. Throws an AssertionError when a result is wrong; any other error is a failure.
 */
export interface Job {
  name: string;
  run(client: Client, tenant: Tenant): Promise<void>;
}

/** One of a tenant's 50 statements. If it changes nothing, it also runs in transactions. */
export interface Statement {
  changes: boolean;
  /** Its consumer must finish it before another statement can run. */
  streams: boolean;
  run(caller: Caller, tenant: Tenant): Promise<void>;
}
