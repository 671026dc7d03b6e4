// Waiting for a standby in the server itself: PostgreSQL 19's WAIT FOR LSN, in front of the guard and in its flight.
//
//   WAIT FOR LSN  [guard, statement] Sync     the standby is nearly there: one round trip
//
// WAIT only takes time. It ends well when that is over (NO_THROW), when the standby is promoted, and where the position
// is one of another timeline. So the guard behind it decides, as it does without it, and whatever WAIT says or fails
// with is not looked at. It holds no snapshot, so it is in the way of nothing that the standby replays. It is a group of
// its own, since it answers with a row, for which there is no place in front of a statement.
//
// Knows which servers have it, and how many calls may wait. Must not know who is chosen, or what guards say.
import { COPY_NONE, ROWS_ARRAYS } from "../../wasm/numbers.ts";
import type { Session } from "./inside.ts";
import type { Position } from "./position.ts";
import { waitFor } from "./questions.ts";
import type { Server } from "./servers.ts";

const OLDEST_SERVER = 19;
const NO_LIMITS = new Float64Array();
/** Its row is for people. */
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
   * For a standby that is behind, as far as is known; `undefined`: it is asked instead. `until`: when the primary is to
   * answer. `isBehind`: the standby has said so.
   */
  static begin(server: Server, position: Position, until: number, isBehind: boolean): Waiting | undefined {
    if (!server.facts.hasWaitFor) return undefined;
    if (!isBehind && (server.facts.told?.lsn ?? 0n) >= position.lsn) return undefined;
    return Waiting.isPossible(server, until) ? new Waiting(server, position, until) : undefined;
  }

  /** At most half of a pool's connections wait, so that calls that need not wait find one. */
  static isPossible({ facts, pool, waiting }: Server, until: number): boolean {
    return facts.hasWaitFor === true && until > performance.now() && waiting < Math.floor(pool.stats().max / 2);
  }

  /** WAIT leaves now, for the time that is left, which a 0 would make endless. `whenOver`: it is to end, if it waits. */
  on({ connection }: Session, whenOver: (listener: () => void) => void): void {
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

/** The server does not have it, whatever its version says: it does not know the words, or refuses them. */
function isMissing(error: { readonly code: string } | undefined): boolean {
  return ["42601", "0A000", "55000"].includes(error?.code ?? "");
}

/** Whether the server has it: what it has said of its version when the session began. */
export function learnVersion({ facts }: Server, { connection }: Session): void {
  if (facts.hasWaitFor !== undefined) return;
  const version = connection.parameters.get("server_version");
  if (version !== undefined) facts.hasWaitFor = Number.parseInt(version, 10) >= OLDEST_SERVER;
}
