// Passes rows from the core to the sink of their operation: the first row at once, later rows when there are many or
// when `flushInterval` has passed.
//
// Knows the rows that wait in the core, and sinks. Must not know events, or what a sink's failure means.
import { PgzError, undecodable } from "../util/errors.ts";
import type { Core } from "../wasm/boundary.ts";
import type { Operation } from "./operation.ts";

/** The part of the connection that this file needs. */
interface DeliveryHost {
  /** What `work` throws never reaches the caller: it ends the connection. */
  guarded(work: () => void): void;
  interrupt(operation: Operation, error: PgzError): void;
}

export class RowDelivery {
  readonly #connection: DeliveryHost;
  readonly #core: Core;
  readonly #flushInterval: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(connection: DeliveryHost, core: Core, flushInterval: number) {
    this.#connection = connection;
    this.#core = core;
    this.#flushInterval = flushInterval;
  }

  /** Rows of this operation wait in the core. `full`: the core takes no more input until they are gone. */
  offer(operation: Operation, full: boolean): void {
    if (operation.isUnwanted) return this.#core.dropRows();
    const prompt = operation.conversation.rows?.delivery === "prompt";
    if (full || (prompt && !operation.committed)) return this.deliver(operation);
    if (prompt) this.#timer ??= this.#flushLater(operation);
  }

  /** Passes all waiting rows to the sink. */
  deliver(operation: Operation): void {
    const { rows } = operation.conversation;
    this.#core.takeRows((view) => {
      if (rows?.delivery && rows.delivery !== "collected") operation.committed = true;
      operation.bytes += view.length;
      try {
        rows?.rows(view);
      } catch (cause) {
        this.#connection.interrupt(operation, cause instanceof PgzError ? cause : undecodable(cause));
      }
    });
  }

  /** Called when the operation or the connection is over. */
  stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #flushLater(operation: Operation): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.#flush(operation), this.#flushInterval);
  }

  /** Without this, rows that fill `flushBytes` slowly would wait for ever. */
  #flush(operation: Operation): void {
    this.#timer = undefined;
    if (operation.ended || operation.isUnwanted) return;
    if (operation.conversation.rows?.full?.()) this.#timer = this.#flushLater(operation);
    else this.#connection.guarded(() => this.deliver(operation));
  }
}
