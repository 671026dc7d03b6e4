// A tenant, and what it does: the types that the workload and its parts share.
import type * as pgz from "../../js/index.ts";

export type Client = pgz.Client;
/** What runs statements: a client, or a transaction of it. */
export type Caller = pgz.Client | pgz.Transaction;

/** One client's share of a tenant: what it may rely on, since nobody else changes the rows of its lane. */
export interface Tenant {
  number: number;
  lane: number;
  /** The tenant's tables: see `createTenants`. */
  schema: string;
  sql: typeof pgz.sql;
  /** 0 to below `below`, from the seed. */
  random(below: number): number;
  /** Notes in the ledger that were committed by this lane. */
  notes: number;
  /** Increments of each statement's counter. */
  counted: Map<number, number>;
}

/**
 * Something that a tenant does now and then. Throws an AssertionError when a result is wrong; anything else that it
 * throws is a failure.
 */
export interface Job {
  name: string;
  run(client: Client, tenant: Tenant): Promise<void>;
}

/** One of a tenant's 50 statements; also inside a transaction when it changes nothing. */
export interface Statement {
  changes: boolean;
  /** Its consumer has to finish it before another statement can run. */
  streams: boolean;
  run(caller: Caller, tenant: Tenant): Promise<void>;
}
