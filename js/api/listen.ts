// LISTEN on its own connection: notifications as they arrive, and a new connection whenever one is lost.
//
// Knows iteration, and when to try again. Must not know how a connection is made or read. Notifications that were sent
// while there was no connection are lost, as PostgreSQL defines it: `onReconnect` reports that.
import { onAbort } from "../util/abort.ts";
import { callOption } from "../config/config.ts";
import { isHyperdrive } from "../config/hosts.ts";
import type { Config } from "../config/options.ts";
import { checkOptions, namesOf } from "../config/rules.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import { runtime } from "../runtime/runtime.ts";
import { openConnection } from "../login/startup.ts";
import { simpleQuery } from "../session/transaction-block.ts";
import { AbortError, UsageError, type PgzError } from "../util/errors.ts";
import {
  FIRST_LISTEN_PAUSE,
  HEARTBEAT,
  HEARTBEAT_DEADLINE,
  LONGEST_LISTEN_PAUSE,
  MOST_NOTIFICATIONS,
} from "../util/limits.ts";
import { connectionLost } from "../runtime/contract.ts";
import { sql } from "../statement/sql.ts";
import { withDeadline } from "../util/deadline.ts";

/** What a NOTIFY sent. */
export interface Notification {
  readonly channel: string;
  /** `""` for a NOTIFY without a payload. */
  readonly payload: string;
  /** The process id of the session that notified. */
  readonly processId: number;
}

/** Options of `listen`. */
export interface ListenOptions {
  /** When it aborts, the listener ends with an `AbortError`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called after a connection was lost (`error`) and replaced. Notifications sent in between are lost: read the tables
   * again.
   */
  readonly onReconnect?: ((error: PgzError) => void) | undefined;
  /**
   * Listens even if the server seems to be a pooler, or is Hyperdrive: set it if the pooler gives each client its own
   * session. Default false.
   */
  readonly sessionPooling?: boolean | undefined;
}

const LISTEN_OPTIONS = namesOf<ListenOptions>({ signal: true, onReconnect: true, sessionPooling: true });

/** The notifications of a channel, for `for await`. Leaving the loop ends the listening, as `close()` does. */
export class Listener implements AsyncIterable<Notification> {
  /** Resolves when the first LISTEN has succeeded. @internal */
  readonly ready: Promise<void>;
  readonly #over = new AbortController();
  #connection: Connection | undefined;
  #waiting: Notification[] = [];
  #wake: (() => void) | undefined;
  #room: (() => void) | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #error: PgzError | undefined;

  /** @internal */
  constructor(config: Config, channel: string, options: ListenOptions) {
    checkOptions(options, LISTEN_OPTIONS);
    if (!options.sessionPooling && config.hosts.some(({ host }) => isHyperdrive(host)))
      throw new UsageError(
        "LISTEN_BEHIND_POOLER",
        "Hyperdrive delivers no notifications, although its stand-in in wrangler dev does: " +
          'connect to the server itself, or set option "sessionPooling".',
      );
    const signal = options.signal && callOption(config, options, "signal");
    const { text } = sql.identifier(channel);
    const stop = onAbort(signal, () => this.#end(new AbortError(signal?.reason)));
    this.ready = new Promise((ready, failed) => {
      const over = () => {
        stop();
        // Rejects with the first cause: a signal that aborts closes the connection, whose operations then fail too.
        failed(this.#over.signal.reason);
      };
      runtime().background(
        this.#run(config, `LISTEN ${text}`, options, ready)
          .catch((error: PgzError) => this.#end(error))
          .then(over),
      );
    });
  }

  /**
   * Ends the listening and its connection. Never rejects.
   *
   * @example
   * const jobs = await client.listen("jobs");
   * setTimeout(() => jobs.close(), 60_000);
   * for await (const { payload } of jobs) console.log(payload);
   */
  async close(): Promise<void> {
    this.#end();
    await this.#connection?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  [Symbol.asyncIterator](): AsyncIterator<Notification, undefined> {
    return {
      // Calls that do not wait for each other take turns.
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
    while (!this.#waiting.length && !this.#over.signal.aborted)
      await new Promise<void>((resolve) => (this.#wake = resolve));
    const value = this.#waiting.shift();
    if (this.#waiting.length < MOST_NOTIFICATIONS) this.#room?.();
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

  async #run(config: Config, text: string, options: ListenOptions, ready: () => void): Promise<void> {
    const { signal } = this.#over;
    const aborted = new Promise<void>((resolve) => onAbort(signal, resolve));
    let pause = FIRST_LISTEN_PAUSE;
    let lost: PgzError | undefined;
    while (!signal.aborted) {
      const connection = await this.#listen(config, text, options).catch((error: unknown) => {
        // A failure of the first attempt is taken for a mistake in what was asked for.
        if (!lost || signal.aborted) throw error;
      });
      if (connection) {
        const since = performance.now();
        if (lost) options.onReconnect?.(lost);
        else ready();
        lost = await this.#ended(connection);
        // A connection that is lost as soon as it listens must not be replaced in a loop without a pause.
        if (performance.now() - since > LONGEST_LISTEN_PAUSE) pause = FIRST_LISTEN_PAUSE;
      }
      await withDeadline(pause * (1 + Math.random()), aborted);
      pause = Math.min(2 * pause, LONGEST_LISTEN_PAUSE);
    }
  }

  async #listen(config: Config, text: string, { sessionPooling }: ListenOptions): Promise<Connection> {
    const { signal } = this.#over;
    const giveUp = new AbortController();
    const stop = onAbort(signal, () => giveUp.abort(signal.reason));
    let connection: Connection | undefined;
    try {
      connection = this.#connection = await openConnection(config, giveUp);
      await connection.startup.done;
      if (!sessionPooling && connection.isPooled) {
        throw new UsageError(
          "LISTEN_BEHIND_POOLER",
          "The server seems to be a pooler, which may lose notifications: " +
            'connect to the server itself, or set option "sessionPooling".',
        );
      }
      connection.listener = {
        notify: ({ channel, payload, processId }) => {
          this.#waiting.push({ channel, payload, processId });
          this.#wake?.();
        },
        full: () =>
          this.#waiting.length < MOST_NOTIFICATIONS || signal.aborted
            ? undefined
            : new Promise<void>((resolve) => (this.#room = resolve)),
      };
      const operation = ask(connection, text);
      await operation.done;
      if (operation.error) throw operation.error;
      return connection;
    } catch (error) {
      void connection?.close();
      throw error;
    } finally {
      stop();
    }
  }

  /** Resolves with the error that ended the connection. */
  async #ended(connection: Connection): Promise<PgzError> {
    const beat = setInterval(() => {
      if (this.#waiting.length >= MOST_NOTIFICATIONS) return; // nothing is read until the consumer reads
      const operation = ask(connection, "");
      // An empty text has no errors of its own: the server could not send a notification (its bytes are not UTF-8).
      void operation.done.then(() => {
        const { error } = operation;
        if (error && error.code !== "57014") connection.destroy(error);
      }, NOTHING);
    }, HEARTBEAT);
    const error = connection.closed ?? (await new Promise<PgzError>((resolve) => void connection.onClosed(resolve)));
    clearInterval(beat);
    return error;
  }
}

const NOTHING = () => {};

/** Sends a statement. Ends the connection if the response does not arrive in time. */
function ask(connection: Connection, text: string): Operation {
  const operation = connection.operate(simpleQuery(text));
  const late = setTimeout(() => connection.destroy(connectionLost("it did not answer")), HEARTBEAT_DEADLINE);
  void operation.done.catch(() => {}).then(() => clearTimeout(late));
  return operation;
}
