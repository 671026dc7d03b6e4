// LISTEN on a connection of its own: notifications as they come, and a new connection whenever one is lost.
//
// Knows iteration, and when to try again. Must not know how a connection is made or read. Whatever was notified while there was no
// connection is lost, as PostgreSQL has it: `onReconnect` tells.
import { onAbort } from "./abort.ts";
import type { Config } from "./config.ts";
import type { Connection } from "./core/connection.ts";
import { runtime } from "./core/runtime.ts";
import { openConnection } from "./core/startup.ts";
import { plainly } from "./core/statement.ts";
import { asyncDispose } from "./dispose.ts";
import { AbortError, UsageError, type PgzError } from "./errors.ts";
import { connectionLost } from "./sockets/contract.ts";
import { sql } from "./sql.ts";
import { within } from "./within.ts";

export interface Notification {
  readonly channel: string;
  /** Empty for a NOTIFY without one. */
  readonly payload: string;
  /** Of the server process that notified. */
  readonly processId: number;
}

export interface ListenOptions {
  /** Ends the listening. */
  readonly signal?: AbortSignal | undefined;
  /** A connection was lost (`error`) and there is another now: what was notified in between is not known. */
  readonly onReconnect?: ((error: PgzError) => void) | undefined;
  /** Listens though a pooler seems to stand between, because that one gives a session to each client. Default false. */
  readonly sessionPooling?: boolean | undefined;
}

/** Milliseconds between attempts: twice as many each time, up to here, and as much again at random. */
const FIRST_PAUSE = 50, LONGEST_PAUSE = 5_000;
/** Milliseconds between two signs of life that are asked for, and for an answer: a network that drops packets tells nothing. */
const HEARTBEAT = 30_000, HEARTBEAT_DEADLINE = 10_000;
/** Notifications that wait for the loop; behind them the socket is not read. */
const MOST = 1_000;
/** PostgreSQL on Linux has no larger process ids (src/connection/mod.rs). */
const LARGEST_PROCESS_ID = 1 << 22;

/** A channel that is listened to, for `for await`. Leaving the loop ends it, as `close` does. */
export class Listener implements AsyncIterable<Notification> {
  /** The first LISTEN has come through. @internal */
  readonly ready: Promise<void>;
  readonly #config: Config;
  readonly #channel: string;
  readonly #options: ListenOptions;
  readonly #over = new AbortController();
  #connection: Connection | undefined;
  #waiting: Notification[] = [];
  #wake: (() => void) | undefined;
  #room: (() => void) | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #error: PgzError | undefined;

  /** @internal */
  constructor(config: Config, channel: string, options: ListenOptions) {
    this.#config = config;
    this.#channel = sql.identifier(channel).text;
    this.#options = options;
    const stop = onAbort(options.signal, () => this.#end(new AbortError(options.signal?.reason)));
    const running = new Promise<void>((ready, failed) => {
      runtime().background(this.#run(ready).then(stop, (error: PgzError) => {
        stop();
        this.#end(error);
        failed(error);
      }));
    });
    this.ready = running;
    running.catch(() => {});
  }

  /** Ends the listening and its connection. Never rejects. */
  async close(): Promise<void> {
    this.#end();
    await this.#connection?.close();
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  [Symbol.asyncIterator](): AsyncIterator<Notification, undefined> {
    return {
      // Calls that do not wait for each other take their turns.
      next: () => {
        const result = this.#turn.then(() => this.#next());
        this.#turn = result.catch(() => {});
        return result;
      },
      return: async () => {
        await this.close();
        return { done: true, value: undefined };
      },
    };
  }

  async #next(): Promise<IteratorResult<Notification, undefined>> {
    while (!this.#waiting.length && !this.#over.signal.aborted) await new Promise<void>((resolve) => (this.#wake = resolve));
    const value = this.#waiting.shift();
    if (this.#waiting.length < MOST) this.#room?.();
    if (value) return { done: false, value };
    if (this.#error) throw this.#error;
    return { done: true, value: undefined };
  }

  #end(error?: PgzError): void {
    if (this.#over.signal.aborted) return;
    this.#error = error;
    this.#over.abort(error ?? new UsageError("CLIENT_CLOSED", "The listener was closed."));
    this.#wake?.();
    this.#room?.();
    if (error) void this.#connection?.close();
  }

  async #run(ready: () => void): Promise<void> {
    const { signal } = this.#over;
    let pause = FIRST_PAUSE;
    let lost: PgzError | undefined;
    while (!signal.aborted) {
      let connection: Connection;
      try {
        connection = await this.#listen();
      } catch (error) {
        // What is wrong at the first attempt is wrong with what was asked for.
        if (!lost || signal.aborted) throw error;
        pause = await this.#rest(pause);
        continue;
      }
      const since = Date.now();
      if (lost) this.#options.onReconnect?.(lost);
      else ready();
      lost = await this.#ended(connection);
      // One that dies as soon as it listens must not be made again and again without a pause.
      if (Date.now() - since > LONGEST_PAUSE) pause = FIRST_PAUSE;
      pause = await this.#rest(pause);
    }
  }

  async #listen(): Promise<Connection> {
    const giveUp = new AbortController();
    const stop = onAbort(this.#over.signal, () => giveUp.abort(this.#over.signal.reason));
    try {
      const connection = (this.#connection = await openConnection(this.#config, giveUp));
      await connection.startup.done;
      if (!this.#options.sessionPooling && (connection.processId ?? 0) > LARGEST_PROCESS_ID) {
        void connection.close();
        throw new UsageError("LISTEN_BEHIND_POOLER", "A pooler seems to stand between, and one that shares sessions loses notifications: connect to the server itself, or set option \"sessionPooling\".");
      }
      connection.listener = {
        notify: ({ channel, payload, processId }) => {
          this.#waiting.push({ channel, payload, processId });
          this.#wake?.();
        },
        full: () => (this.#waiting.length < MOST ? undefined : new Promise<void>((resolve) => (this.#room = resolve))),
      };
      const operation = connection.operate(plainly(`LISTEN ${this.#channel}`));
      await operation.done;
      if (operation.error) {
        void connection.close();
        throw operation.error;
      }
      return connection;
    } finally {
      stop();
    }
  }

  /** Resolves with why the connection is over. */
  async #ended(connection: Connection): Promise<PgzError> {
    const beat = setInterval(() => {
      if (this.#waiting.length >= MOST) return; // it is not read
      const { done } = connection.operate(plainly(""));
      const late = setTimeout(() => connection.destroy(connectionLost("it did not answer")), HEARTBEAT_DEADLINE);
      void done.catch(() => {}).then(() => clearTimeout(late));
    }, HEARTBEAT);
    const error = connection.closed ?? (await new Promise<PgzError>((resolve) => (connection.onClosed = resolve)));
    clearInterval(beat);
    return error;
  }

  /** Waits; the next pause. */
  async #rest(pause: number): Promise<number> {
    const { signal } = this.#over;
    if (!signal.aborted) await within(pause * (1 + Math.random()), new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })));
    return Math.min(2 * pause, LONGEST_PAUSE);
  }
}
