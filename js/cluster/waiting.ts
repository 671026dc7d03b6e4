// Waiting for a standby in the server itself: PostgreSQL 19's WAIT FOR LSN, in front of the guard and in its flight.
//
//   WAIT FOR LSN  [guard, statement] Sync     the standby is nearly there: one round trip
//
// WAIT is only a delay. With NO_THROW it succeeds when its time is over, when the standby is promoted, and for a
// position of another timeline. So the guard after it decides, as it does without WAIT, and the call ignores the answer
// or the error of WAIT. WAIT holds no snapshot, so it does not block replay. It is a Sync group of its own, because it
// returns a row, and no row is accepted in front of a statement.
//
// Knows which servers have WAIT, and how many calls may wait. Must not know which server is chosen, or what guards say.
import { COPY_NONE, ROWS_ARRAYS } from "../wasm/numbers.ts";
import type { Session } from "./pool-queue.ts";
import { NO_LIMITS } from "./internal-queries.ts";
import type { Position } from "./position.ts";
import { waitFor } from "./questions.ts";
import type { Server } from "./servers.ts";

const OLDEST_SERVER = 19;
/** Nothing reads WAIT's row. */
const IGNORED = { rows: { rows: () => {} } };

/** One call that waits in a server. */
export class Waiting {
  readonly #server: Server;
  readonly #position: Position;
  readonly #until: number;

  private constructor(server: Server, position: Position, until: number) {
    this.#server = server;
    this.#position = position;
    this.#until = until;
    server.waiting++;
  }

  /**
   * Begins a wait on a standby that is behind, as far as is known. Returns `undefined` if the standby must be asked
   * instead. `until`: the deadline, after which the primary answers. `isBehind`: the standby has said that it is
   * behind.
   */
  static begin(server: Server, position: Position, until: number, isBehind: boolean): Waiting | undefined {
    if (!server.facts.hasWaitFor) return undefined;
    if (!isBehind && (server.facts.status?.lsn ?? 0n) >= position.lsn) return undefined;
    return Waiting.isPossible(server, until) ? new Waiting(server, position, until) : undefined;
  }

  /**
   * Returns whether one more call may wait. At most half of a pool's connections wait, so that other calls find one.
   */
  static isPossible({ facts, pool, waiting }: Server, until: number): boolean {
    return facts.hasWaitFor === true && until > performance.now() && waiting < Math.floor(pool.stats().max / 2);
  }

  /**
   * Sends WAIT with the time that is left. It is not sent with 0, which would wait for ever. `whenOver` registers a
   * listener for the end of the call, which abandons WAIT.
   */
  send({ connection }: Session, whenOver: (listener: () => void) => void): void {
    const left = Math.ceil(this.#until - performance.now());
    if (left <= 0) return;
    const text = waitFor(this.#position, left);
    const operation = connection.operate(
      (handle) => handle.simple_query(text, COPY_NONE, ROWS_ARRAYS, NO_LIMITS),
      IGNORED,
    );
    operation.whenOver(() => {
      if (isMissing(operation.error)) this.#server.facts.hasWaitFor = false;
    });
    whenOver(() => connection.abandon(operation));
  }

  end(): void {
    this.#server.waiting--;
  }
}

/** Returns whether the server lacks WAIT, whatever its version says: it does not know the words, or refuses them. */
function isMissing(error: { readonly code: string } | undefined): boolean {
  return ["42601", "0A000", "55000"].includes(error?.code ?? "");
}

/** Learns whether the server has WAIT, from the version that it reported when the session began. */
export function learnVersion({ facts }: Server, { connection }: Session): void {
  if (facts.hasWaitFor !== undefined) return;
  const version = connection.parameters.get("server_version");
  if (version !== undefined) facts.hasWaitFor = Number.parseInt(version, 10) >= OLDEST_SERVER;
}
