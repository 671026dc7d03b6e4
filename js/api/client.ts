// The public client: one connection. It is made at the first call, and made again at the next call if it could not be
// made or was lost.
//
// A client connects lazily, and `connect` is a second function, because the first query can only be sent right after
// SASLResponse if the driver knows it before authentication is over. A client that is itself a thenable was rejected:
// an async function that returns it would connect by surprise. An early query is sent before the server's signature is
// checked, so it is automatic only where TLS has verified the server, or the link stays inside the runtime
// (Hyperdrive).
//
// Knows how a client begins, comes back and ends. Must not know sockets, wasm or messages.
import { checkConfigured, configured } from "./configured.ts";
import { OwnerCheck } from "./owner-check.ts";
import type { Config, ConnectInput, Options } from "../config/options.ts";
import type { BoundaryStats } from "../wasm/boundary.ts";
import { Session } from "../session/session.ts";
import type { Connection } from "../connection/connection.ts";
import { openConnection } from "../login/startup.ts";
import { runtime } from "../runtime/runtime.ts";
import { UsageError, type PgzError } from "../util/errors.ts";
import { Listener, type ListenOptions } from "./listen.ts";
import { connectionLost } from "../runtime/contract.ts";
import { OneConnection } from "./one-connection.ts";
import { traced } from "../util/trace.ts";
import { withDeadline } from "../util/deadline.ts";

/** A client's state, and its counters since it was made. */
export interface ClientStats extends BoundaryStats {
  /**
   * `new`: the next call will connect. `lost`: the connection is gone, and the next call connects again. `busy`: a call
   * or transaction runs or waits, or the server has not yet ended an aborted one. `closed`: make a new client.
   */
  readonly state: "new" | "connecting" | "idle" | "busy" | "lost" | "closed";
  /** The session's transaction status: `I` outside a transaction, `T` inside one, `E` inside one that failed. */
  readonly transactionStatus: string;
  /** Calls made, including those that wait or run. */
  readonly queries: number;
  /** Calls that failed, including aborted ones. */
  readonly errors: number;
  /** Rows returned or changed by finished calls, as the command tags say. */
  readonly rows: number;
  /** Bytes of encoded output of finished calls; for objects, of what they were made from. */
  readonly bytes: number;
  /** CancelRequests sent. */
  readonly cancels: number;
  /** Writes to the socket, including the handshake's. */
  readonly writes: number;
  /** The writes that were the first after a response: round trips, including the handshake's. */
  readonly flights: number;
}

/**
 * A client: one connection, whose calls run in the order in which they are made. {@link createClient} and
 * {@link connect} make it.
 *
 * When its connection is lost, the calls on it reject, and the next call connects again. What was set on the session
 * (`SET`, temporary tables, advisory locks) is then gone; the observer's `onDisconnect` reports it.
 */
export class Client extends OneConnection {
  readonly #owner = new OwnerCheck("client");
  #opening: Promise<Session> | undefined;
  #session: Session | undefined;
  /** Totals of previous connections. */
  #lost: Traffic = { ...NO_TRAFFIC };
  #giveUp: AbortController | undefined;
  #closing: Promise<void> | undefined;
  #closed: PgzError | undefined;

  /** @internal Use {@link createClient} or {@link connect}. */
  constructor(config: Config) {
    const made = checkConfigured(config, "createClient(url, options), or await connect(url, options)");
    super(made, { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 });
  }

  /**
   * Listens to a channel on a connection of its own, which is made again whenever it is lost (docs/listen.md). Resolves
   * when the server listens.
   *
   * The client's calls go on meanwhile, and the client need not be connected. The listener ends with the loop that
   * reads it, or with its own `close()`; the client's `close()` does not end it.
   *
   * @example
   * for await (const { payload } of await client.listen("jobs")) console.log(payload);
   */
  async listen(channel: string, options: ListenOptions = {}): Promise<Listener> {
    if (this.#closing) throw clientClosed();
    const listener = new Listener(this.config, channel, options);
    await traced(listener.ready);
    return listener;
  }

  /**
   * The client's state and counters, including those of the WebAssembly boundary.
   *
   * @example
   * const { state, flights, rows } = client.stats();
   */
  stats(): ClientStats {
    const { running: _, ...own } = this.counters;
    const transactionStatus = this.#session?.connection.transactionStatus ?? "I";
    return { ...trafficOf(this.#session, this.#lost), ...own, transactionStatus, state: this.#state() };
  }

  /**
   * A setting that the server reports, such as `TimeZone` or `server_version`: the last value read. `undefined` before
   * the connection is made, and for a setting that the server does not report.
   *
   * @example
   * client.parameterStatus("server_version"); // "18.1"
   */
  parameterStatus(name: string): string | undefined {
    return this.#session?.connection.parameters.get(name);
  }

  /**
   * Ends the session. Calls that wait or run may finish within 400 ms, then they reject with `CLIENT_CLOSED`. It never
   * rejects, takes less than a second whatever the server does, and may be called again.
   *
   * A stream that `stream`, `respond` or `copyTo` has returned, or will return, keeps its connection until its end, so
   * that a handler may return the stream and close the client: this then resolves at once. Cancel the stream to end it
   * now. A stream that makes no progress for `closeTimeout` (30 s), because its server sends nothing or its reader
   * reads nothing, ends with `CLIENT_CLOSED`. While its reader waits, the call's own `timeout` applies instead.
   *
   * @example
   * await using db = createClient(env.HYPERDRIVE);
   * return await db.respond(sql`select * from users`);
   */
  override close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal Connects now. */
  async open(): Promise<this> {
    this.#owner.refused(); // makes this request the owner
    const { connection } = await this.connected();
    await connection.startup.done;
    return this;
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    const { state, transactionStatus, queries, errors, rows } = this.stats();
    return { name: "Client", state, ...this.address, transactionStatus, queries, errors, rows };
  }

  protected override get signal(): AbortSignal | undefined {
    return this.config.signal;
  }

  protected override ended(): UsageError | undefined {
    if (!this.#closing) return this.#owner.refused();
    return clientClosed();
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  #state(): ClientStats["state"] {
    if (this.#closing || this.#closed) return "closed";
    if (!this.#session) return this.#opening ? "connecting" : "new";
    if (this.#session.connection.closed) return "lost";
    const isBusy = this.counters.running || this.isInTransaction || this.#session.connection.stopping;
    return isBusy ? "busy" : "idle";
  }

  protected override get reconnects(): boolean {
    return true;
  }

  protected override connected(): Session | Promise<Session> {
    const session = this.#session;
    return session && !session.connection.closed && !this.#closed ? session : this.#connected();
  }

  /**
   * Connects once more if the connection ended before the call could send anything. After a client that left in the
   * middle of a result, pgpool-II sends the next client one message too many, and that ends the connection.
   */
  async #connected(): Promise<Session> {
    for (let attempts = 1; ; attempts++) {
      if (this.#closed) throw this.#closed;
      const left = this.#session;
      const isLost = left?.connection.closed && left.connection.established;
      if (isLost) this.#forget();
      const refusal = isLost && this.lossOfTransaction(left);
      if (refusal) await refusal;
      const session = await (this.#opening ??= this.#open());
      if (this.#closed) throw this.#closed;
      const { closed, established } = session.connection;
      if (!closed) return session;
      // The error of the startup says more than the fact that it ended.
      if (!established) throw closed;
      if (attempts === 2) throw connectionLost("as soon as it was made", { hasNoEffect: true, cause: closed });
    }
  }

  async #open(): Promise<Session> {
    try {
      const connection = await openConnection(this.config, (this.#giveUp = new AbortController()));
      // With an early query the startup may still be pending here, and it can fail as connecting can.
      connection.startup.done.catch(() => this.#again());
      return (this.#session = new Session(connection));
    } catch (error) {
      this.#again();
      throw error;
    } finally {
      this.#giveUp = undefined; // no longer needed, and on Workers another request must not touch it
    }
  }

  /**
   * Called when it could not connect. Calls that already wait share the error; the first call after them tries again.
   */
  #again(): void {
    const end = this.turns.end();
    if (end) void end.then(() => this.#forget());
    else this.#forget();
  }

  #forget(): void {
    this.#lost = trafficOf(this.#session, this.#lost);
    this.#opening = undefined;
    this.#session = undefined;
  }

  async #close(): Promise<void> {
    // The stream's reader may be waiting for this: a handler's response is read after its `await using` and `finally`.
    if (this.userStream) return runtime().background(this.whenStreamsEnd().then(() => this.#end()));
    const end = this.turns.end();
    if (end) await withDeadline(CLOSE_GRACE, end);
    await this.#end();
  }

  async #end(): Promise<void> {
    this.#closed = new UsageError("CLIENT_CLOSED", "The client is closed: make a new one.", { hasNoEffect: true });
    this.#giveUp?.abort(this.#closed);
    await this.#session?.connection.close();
  }
}

/** The counters of a connection. */
type Traffic = BoundaryStats & Connection["counters"];

const NO_TRAFFIC: Traffic = {
  boundaryCalls: 0,
  copiedBytes: 0,
  receivedBytes: 0,
  receivedChunks: 0,
  cancels: 0,
  writes: 0,
  flights: 0,
};

/** Totals of the session's connection and of the previous ones. */
function trafficOf(session: Session | undefined, before: Traffic): Traffic {
  const now: Traffic = { ...NO_TRAFFIC, ...session?.connection.core.stats, ...session?.connection.counters };
  const sums = Object.entries(before).map(([name, count]) => [name, count + now[name as keyof Traffic]]);
  return Object.fromEntries(sums) as unknown as Traffic;
}

/** Milliseconds that running calls have before `close()` ends them. */
const CLOSE_GRACE = 400;

/**
 * Makes a client that connects with its first call. That call's query can then leave with the last message of
 * authentication, which saves a round trip.
 *
 * @throws UsageError `INVALID_URL`, `INVALID_OPTION`, `UNKNOWN_OPTION`, `INVALID_SSLMODE`
 * @example
 * const db = createClient(env.HYPERDRIVE);
 */
export function createClient(config: ConnectInput, options?: Options): Client {
  return new Client(configured(config, options));
}

/**
 * Makes a client and connects it. Rejects if that fails.
 *
 * @example
 * await using db = await connect("postgres://user:password@localhost/app?sslmode=verify-full", { timeout: 5_000 });
 */
export async function connect(config: ConnectInput, options?: Options): Promise<Client> {
  return await traced(createClient(config, options).open());
}

function clientClosed(): UsageError {
  return new UsageError("CLIENT_CLOSED", "The client is closed: make a new one.", { hasNoEffect: true });
}
