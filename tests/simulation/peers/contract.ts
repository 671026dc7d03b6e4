// What the calls of peers.ts require of a driver: the part that ours, pg and postgres.js all have.
//
// Types, and one question that is the same for all. Each adapter (ours.ts, pg.ts, postgres.ts) does with its library
// what that library's documents say, and nothing else. Must not know which calls exist.
import type { User } from "../program.ts";
import type { Statement } from "./statement.ts";

export type Row = Readonly<Record<string, unknown>>;

/** How a call is disturbed, in virtual milliseconds. A driver whose API lacks one of these ignores it. */
export interface Disturbed {
  readonly abort?: number;
  readonly timeout?: number;
}

export interface Queries {
  query(statement: Statement, how: Disturbed): Promise<readonly Row[]>;
}

export interface Session extends Queries {
  /** Commits when `work` resolves. When `work` rejects, rolls back and rejects with the same error. */
  transaction(work: (tx: Queries) => Promise<void>, how: Disturbed): Promise<void>;
  /** Reads the rows of one statement in batches. The reader leaves once it has `leave` rows. */
  cursor(statement: Statement, size: number, leave: number, how: Disturbed): Promise<readonly Row[]>;
}

/** A connection that a pool has lent. */
export interface Lease extends Session {
  release(): Promise<void>;
}

export interface Database extends Session {
  lease(): Promise<Lease>;
  /** `isHard`: does not wait for running calls, where the API allows that. */
  end(isHard: boolean): Promise<void>;
}

export type Fate = "not stored" | "stored" | "unknown";

/** Whether the server refused the statement, and the connection remains usable. */
export function isRefusal(error: unknown): boolean {
  return (Object(error) as { severity?: string }).severity === "ERROR";
}

export interface Peer {
  readonly name: string;
  /** The user of a single client makes one call after the other. */
  readonly isSerial: boolean;
  open(user: User, at: Access): Database;
  /** What an error says about the fate of writes, also after a transaction's callback. */
  tells(error: unknown, isTransaction: boolean): Fate;
  /** Replaces the bytes that the driver writes with bytes of the same length. */
  edit?(bytes: Buffer): Buffer;
}

/** The address of the server, and the user that connects. */
export interface Access {
  readonly host: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** Limits for every driver, in milliseconds, as far as the driver supports them. */
export const CONNECT_TIMEOUT = 10_000;
export const CALL_TIMEOUT = 20_000;
