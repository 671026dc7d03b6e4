// What the calls of peers.ts ask of a driver: the part that ours, pg and postgres.js all have.
//
// Types, and one question that is the same for all. Each adapter (ours.ts, pg.ts, postgres.ts) does with its library what that library's documents say, and
// nothing that they do not. Must not know what calls there are.
import type { User } from "../program.ts";
import type { Statement } from "./statement.ts";

export type Row = Readonly<Record<string, unknown>>;

/** How a call is disturbed, in virtual milliseconds; a driver without such a thing in its API leaves it out. */
export interface Disturbed {
  readonly abort?: number;
  readonly timeout?: number;
}

export interface Queries {
  query(statement: Statement, how: Disturbed): Promise<readonly Row[]>;
}

export interface Session extends Queries {
  /** Commits when `work` resolves, rolls back when it rejects. Rejects then with the same error. */
  transaction(work: (tx: Queries) => Promise<void>, how: Disturbed): Promise<void>;
  /** The rows of one statement in batches. The reader leaves when it has `leave` of them. */
  cursor(statement: Statement, size: number, leave: number, how: Disturbed): Promise<readonly Row[]>;
}

/** A connection that is lent by a pool. */
export interface Lease extends Session {
  release(): Promise<void>;
}

export interface Database extends Session {
  lease(): Promise<Lease>;
  /** `isHard`: what still runs is not waited for, where the API can do that. */
  end(isHard: boolean): Promise<void>;
}

export type Fate = "not stored" | "stored" | "unknown";

/** The server has ended the statement, and the connection goes on. */
export function isRefusal(error: unknown): boolean {
  return (Object(error) as { severity?: string }).severity === "ERROR";
}

export interface Peer {
  readonly name: string;
  /** Who uses its single client makes one call after the other. */
  readonly isSerial: boolean;
  open(user: User, at: Access): Database;
  /** What an error says of what was to be stored; of a transaction, behind its callback too. */
  tells(error: unknown, isTransaction: boolean): Fate;
  /** What the server gets in place of what the driver writes, of the same length. */
  edit?(bytes: Buffer): Buffer;
}

/** Where the server is, and who asks. */
export interface Access {
  readonly host: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/** Limits that every driver gets, in milliseconds, as far as it has them. */
export const CONNECT_TIMEOUT = 10_000;
export const CALL_TIMEOUT = 20_000;
