// A connection of a pool held by one borrower: it has every call of a client, until it is released.
//
// Knows its own end. Must not know who else waits, or how a connection is cleaned (slots.ts, cleaning.ts).
import { OwnerCheck } from "../api/owner-check.ts";
import { OneConnection } from "../api/one-connection.ts";
import type { Counters } from "../api/ledger.ts";
import type { Config } from "../config/options.ts";
import type { Session } from "../session/session.ts";
import { connectionLost } from "../runtime/contract.ts";
import { runtime } from "../runtime/runtime.ts";
import { UsageError, type Facts } from "../util/errors.ts";
import type { Member } from "./member.ts";

/**
 * One connection for several calls, from `pool.acquire()`. Its calls run in the order in which they are made, as those
 * of a client do.
 *
 * Give it back with `release()`, or let `await using` do so.
 *
 * @example
 * await using lease = await pool.acquire();
 * await lease.exec("create temporary table picked (id int)");
 * await lease.copyFromRows("picked", ["id"], ids.map((id) => [id]));
 * const { rows } = await lease.query("select * from items join picked using (id)");
 */
export class Lease extends OneConnection {
  readonly #owner = new OwnerCheck("lease");
  readonly #member: Member;
  readonly #giveBack: (isDoomed: boolean) => Promise<void> | undefined;
  #releasing: Promise<void> | undefined;

  /** @internal Use `pool.acquire()`. */
  constructor(
    config: Config,
    counters: Counters,
    member: Member,
    giveBack: (isDoomed: boolean) => Promise<void> | undefined,
  ) {
    super(config, counters);
    this.#member = member;
    this.#giveBack = giveBack;
    this.#owner.refused(); // the lease belongs to this request
  }

  /** The process id of the session, as `pg_stat_activity` shows it. */
  get processId(): number | undefined {
    return this.#member.connection.processId;
  }

  /**
   * A setting that the server reports, as {@link Client.parameterStatus}.
   *
   * @example
   * lease.parameterStatus("TimeZone"); // "UTC"
   */
  parameterStatus(name: string): string | undefined {
    return this.#member.connection.parameters.get(name);
  }

  /** Whether the session is in a transaction, which `release()` would roll back. @internal */
  get hasOpenTransaction(): boolean {
    return !this.#member.session.transaction.isNone;
  }

  /**
   * Gives the connection back. Calls that still run are cancelled; an open transaction is rolled back. A stream that
   * was handed out continues: the connection is given back when the stream ends, or when it has made no progress for
   * `closeTimeout`. With `destroy` the stream ends too, and the connection is closed.
   *
   * Resolves when the connection can be used again, or at once if a stream continues. It never rejects, and may be
   * called again.
   *
   * @example
   * const lease = await pool.acquire();
   * try {
   *   await lease.exec("select pg_advisory_lock(1)");
   * } finally {
   *   await lease.release(); // or: await using lease = await pool.acquire()
   * }
   */
  release({ destroy = false }: { readonly destroy?: boolean | undefined } = {}): Promise<void> {
    return (this.#releasing ??= !destroy && this.userStream ? this.#leave() : this.#release(destroy));
  }

  /** Releases, and ends a handed out stream too: its reader has gone. @internal */
  takeBack(): Promise<void> {
    if (this.userStream) this.stop(released);
    return this.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Does not wait for the stream: a handler's response is read only after its `await using` and `finally`. */
  #leave(): Promise<void> {
    this.stopAllButStreams(released);
    this.#member.stream = this.userStream;
    runtime().background(this.whenStreamsEnd(released).then(() => this.#release(false)));
    return Promise.resolve();
  }

  #release(isDoomed: boolean): Promise<void> {
    this.stop(released);
    const giveBack = (): Promise<void> | undefined => this.#giveBack(isDoomed);
    const over = this.turns.end();
    return over ? over.then(giveBack) : (giveBack() ?? Promise.resolve());
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    const state = this.#releasing ? "released" : this.#member.connection.closed ? "lost" : "held";
    return { name: "Lease", state, ...this.address, processId: this.processId };
  }

  protected override get signal(): AbortSignal | undefined {
    return this.config.signal;
  }

  protected override ended(): UsageError | undefined {
    return this.#releasing ? released() : this.#owner.refused();
  }

  protected override connected(): Session | Promise<Session> {
    const { connection, session } = this.#member;
    const { closed } = connection;
    if (!closed) return session;
    const refusal = this.lossOfTransaction(session);
    if (refusal) return refusal;
    throw connectionLost("acquire another", { hasNoEffect: true, cause: closed });
  }

  /** Called after a stream with `closeWhenDone`. */
  protected override close(): Promise<void> {
    return this.release();
  }
}

function released(facts?: Facts): UsageError {
  return new UsageError("LEASE_RELEASED", "The lease was released: acquire another.", facts);
}
