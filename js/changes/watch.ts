// Watches the server of a stream. A dead link reports no error: it is known by silence, and by what the server says of
// itself over another connection.
//
// Knows silence and questions. Must not know what the stream does about them.
import { PgzError } from "../index.ts";
import type { Client, Pool } from "../index.ts";
import { configOf } from "./config.ts";
import { isAtWork, type Standing } from "./log-check.ts";
import { STANDBY_QUESTION, workQuestion, type Found } from "./log-question.ts";
import type { Replication } from "./replication.ts";

/**
 * Status intervals of silence after which the server is asked for a keepalive, and after which the connection is given
 * up. By default they are 30 s and a minute, as in PostgreSQL's own subscriptions (wal_receiver_timeout). They must not
 * be shorter: a server that skips a large transaction sends nothing for half a minute. If the connection were given up
 * for that, the server would skip the same transaction again on each new connection, endlessly.
 */
const ASKED_AFTER = 3;
const GIVEN_UP_AFTER = 6;

export class Watch {
  readonly #db: Client | Pool;
  #connection: Replication | undefined;
  /** The connection's `heard` at the last status interval, and the number of intervals for which it has been silent. */
  #heard: number | undefined;
  #silentIntervals = 0;
  /** The answers in a row by which the server of the silent connection was not at work. */
  #idleAnswers = 0;
  /** Whether a question over `db` has no answer yet. */
  #isAsking = false;

  constructor(db: Client | Pool) {
    this.#db = db;
  }

  /** Looks at the connection after each status interval. `silent`: for so long that the server should be asked. */
  look(connection: Replication | undefined): "heard" | "silent" | "dead" {
    const heard = connection?.heard;
    const isSilent = heard !== undefined && heard === this.#heard && connection === this.#connection;
    this.#connection = connection;
    this.#heard = heard;
    this.#silentIntervals = isSilent ? this.#silentIntervals + 1 : 0;
    if (!isSilent) this.#idleAnswers = 0;
    if (this.#silentIntervals >= GIVEN_UP_AFTER) return "dead";
    return this.#silentIntervals >= ASKED_AFTER ? "silent" : "heard";
  }

  /**
   * Whether the server of a silent connection has been idle for so long that the connection is dead. A server that
   * looks for rows, or waits for transactions, is at work. `db` may not be able to ask, or lead to another standby:
   * that says nothing.
   */
  async isIdle(connection: Replication, server: Found): Promise<boolean> {
    const { heard } = connection;
    const found = await this.#ask<Standing & { isAtWork: boolean }>(workQuestion(server.processId));
    if (found === undefined || connection !== this.#connection || connection.heard !== heard) return false;
    this.#idleAnswers = isAtWork(found, server.log) ? 0 : this.#idleAnswers + 1;
    return this.#idleAnswers > GIVEN_UP_AFTER - ASKED_AFTER;
  }

  /** Whether this standby is none any more. */
  async isPromoted(standby: { readonly instance?: string }): Promise<boolean> {
    const server = await this.#ask<Standing>(STANDBY_QUESTION);
    return typeof server === "object" && !server.isStandby && server.instance === standby.instance;
  }

  /**
   * Asks over `db`, one question at a time. `undefined`: it could not ask, or there was no answer in time. It is asked
   * again.
   */
  async #ask<Row>(question: string): Promise<Row | "unreachable" | undefined> {
    if (this.#isAsking) return undefined;
    this.#isAsking = true;
    try {
      return (await this.#db.query<Row>(question, { timeout: configOf(this.#db).connectTimeout })).rows[0];
    } catch (error) {
      return error instanceof PgzError && CANNOT_CONNECT.test(error.code) ? "unreachable" : undefined;
    } finally {
      this.#isAsking = false;
    }
  }
}

/** The server cannot be reached by another connection either. */
const CANNOT_CONNECT = /^CONNECT_(FAILED|TIMEOUT)$/;
