// `changes(db, options)`: changes of tables as objects, as NDJSON, as a Response.
//
// Knows the forms in which a caller reads changes. Must not know connections or lines.
import { Client, Pool, UsageError } from "../index.ts";
import { CAMEL_CASE, INT8_AS_STRING, NUMERIC_AS_STRING, ROWS_COLUMNS, ROWS_NDJSON } from "../wasm/numbers.ts";
import { refuseHyperdrive } from "./advice.ts";
import { Feed, type ChangesStats } from "./feed.ts";
import { OpenTransactions, type ChangesOfTransaction } from "./open-transactions.ts";
import { ChangeIterator } from "./iterator.ts";
import type { AnyChange } from "./kinds.ts";
import { checkOptions, type ChangesOptions } from "./options.ts";
import { ChangeReader } from "./reader.ts";

export type { ChangesOfTransaction, ChangesStats };

/** Options of `transactions`. */
export interface TransactionsOptions {
  /**
   * Maximum total size of the open transactions, in bytes as the server sends them. Beyond it the stream ends with an
   * error: their changes are held in memory as objects, which take several times as much. Without `streaming` only one
   * transaction is open at a time. Default 33,554,432.
   */
  readonly maxBytes?: number | undefined;
}

const MAX_TRANSACTION = 32 << 20;

const NOT_WITH_TWO_PHASE =
  'transactions() does not take option "twoPhase": a prepared transaction would exist only in memory, and ' +
  "acknowledging a later commit lets the server discard its changes. Read the changes one by one.";

const NOT_BEGUN: ChangesStats = {
  state: "idle",
  connections: 0,
  acknowledged: "0/0",
  end: "0/0",
  lagBytes: 0,
  lagSeconds: 0,
};

/** Options of `respond`. */
export interface ChangesResponse {
  /** Headers of the response. `content-type` is `application/x-ndjson; charset=utf-8` unless given here. */
  readonly headers?: Headers | Iterable<readonly [string, string]> | Readonly<Record<string, string>> | undefined;
}

/**
 * Changes of tables, as they commit. Nothing happens until they are read. They can be read only once: by `for await`,
 * `transactions()`, `stream()` or `respond()`. Leaving the loop ends the connection; the slot stays at the last
 * acknowledged position.
 */
export class Changes<Row = Record<string, unknown>> implements AsyncIterable<AnyChange<Row>> {
  readonly #db: Client | Pool;
  readonly #options: ChangesOptions;
  #feed: Feed | undefined;

  /** @internal */
  constructor(db: Client | Pool, options: ChangesOptions) {
    this.#db = db;
    this.#options = options;
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<AnyChange<Row>> {
    const feed = this.#open("objects");
    return new ChangeIterator(feed, new ChangeReader(feed, this.#options), this.#options.acknowledge === "commit");
  }

  /**
   * Yields whole transactions, also with `streaming`. A non-transactional message is yielded by itself. The rows of a
   * snapshot are yielded in groups without `xid`.
   *
   * @throws ResponseTooLargeError if the open transactions together are longer than `maxBytes`
   *
   * @example
   * for await (const { changes, acknowledge } of changes(db, { slot, publication }).transactions()) {
   *   await store(changes);
   *   await acknowledge();
   * }
   */
  async *transactions({ maxBytes = MAX_TRANSACTION }: TransactionsOptions = {}): AsyncGenerator<
    ChangesOfTransaction<Row>,
    void,
    undefined
  > {
    checkMaxBytes(maxBytes);
    if (this.#options.twoPhase) throw new UsageError("INVALID_OPTION", NOT_WITH_TWO_PHASE);
    const feed = this.#open("objects");
    const reader = new ChangeReader(feed, this.#options);
    const open = new OpenTransactions<Row>(maxBytes);
    let connections = 0;
    let failure: unknown;
    try {
      for (;;) {
        const batch = await feed.next();
        if (connections !== (connections = feed.connections)) open.restart();
        const sizes: number[] = [];
        for (const [at, change] of reader.readAll(batch, sizes).entries()) {
          const whole = open.add(change as AnyChange<Row>, sizes[at]!);
          if (!whole) continue;
          yield whole;
          if (this.#options.acknowledge !== "commit") continue;
          feed.checkOpen();
          await whole.acknowledge();
        }
        const rows = open.takeRows();
        if (rows) yield rows;
      }
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      await feed.end(failure);
    }
  }

  /**
   * Returns the changes as NDJSON, a line per change. With `acknowledge: "commit"` the commits that the reader has
   * taken are acknowledged when it requests more.
   */
  stream(): ReadableStream<Uint8Array> {
    const feed = this.#open("lines");
    const isManual = (this.#options.acknowledge ?? "manual") === "manual";
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            if (!isManual) feed.acknowledgeAll();
            controller.enqueue(await feed.next());
          } catch (error) {
            await feed.end(error);
            throw error;
          }
        },
        cancel: () => feed.end(),
      },
      // No read-ahead: when `pull` is called, the consumer has taken every chunk so far, so all may be acknowledged.
      { highWaterMark: 0 },
    );
  }

  /** Returns `stream()` as a response. */
  respond({ headers }: ChangesResponse = {}): Response {
    const all = new Headers(headers as HeadersInit | undefined);
    if (!all.has("content-type")) all.set("content-type", "application/x-ndjson; charset=utf-8");
    return new Response(this.stream() as BodyInit, { headers: all });
  }

  /** Returns the stream's progress, and how far it is behind. */
  stats(): ChangesStats {
    return this.#feed?.stats() ?? NOT_BEGUN;
  }

  /**
   * Returns a position of these changes as a text that also names the system and the timeline, for option `from` of a
   * later run: that run is refused if its server's log does not have the position. It is of the same form as a position
   * of `pgz-edge/cluster`.
   *
   * @throws UsageError `INVALID_OPTION` before the first change
   */
  fullPosition(position: string): string {
    if (!this.#feed) throw new UsageError("INVALID_OPTION", "No change has been read, so there is no position.");
    return this.#feed.fullPosition(position);
  }

  #open(form: "objects" | "lines"): Feed {
    if (this.#feed) throw new UsageError("STREAM_OPEN", "These changes are being read already: call changes() again.");
    return (this.#feed = new Feed(this.#db, this.#options, rowForm(this.#options, form)));
  }
}

/**
 * Reads changes of a publication's tables, as they commit. Opens a replication connection of its own, in addition to
 * those of a pool.
 *
 * @throws UsageError `INVALID_OPTION`, `UNKNOWN_OPTION`, `CLIENT_CLOSED`, `POOL_CLOSED`
 *
 * @example
 * for await (const change of changes(db, { slot: "search", publication: "search" })) {
 *   if (change.kind === "insert") await index(change.table, change.new);
 *   if (change.kind === "commit") await change.acknowledge();
 * }
 */
export function changes<Row = Record<string, unknown>>(db: Client | Pool, options: ChangesOptions): Changes<Row> {
  if (!(db instanceof Client || db instanceof Pool))
    throw new UsageError("INVALID_OPTION", "changes needs a client or a pool: changes(db, { slot, publication }).");
  checkOptions(options);
  if (db.stats().state === "closed")
    throw new UsageError(
      db instanceof Pool ? "POOL_CLOSED" : "CLIENT_CLOSED",
      "changes opens a connection as this client or pool does, and it is closed.",
      { hasNoEffect: true },
    );
  refuseHyperdrive(db);
  return new Changes<Row>(db, options);
}

/**
 * Returns the core's bits for the form of rows. Default for int8: text in objects, as in `rows()`; a number in NDJSON.
 */
function rowForm({ int8, numeric, columnNames }: ChangesOptions, form: "objects" | "lines"): number {
  const defaultForm = form === "objects" ? "string" : "number";
  // bigint is made from text; in NDJSON it is bare digits.
  const ofInt8 = int8 === "bigint" ? defaultForm : (int8 ?? defaultForm);
  const ofNumeric = numeric ?? ofInt8;
  return (
    (form === "objects" ? ROWS_COLUMNS : ROWS_NDJSON) |
    (ofInt8 === "string" ? INT8_AS_STRING : 0) |
    (ofNumeric === "string" ? NUMERIC_AS_STRING : 0) |
    (columnNames === "camelCase" ? CAMEL_CASE : 0)
  );
}

function checkMaxBytes(maxBytes: unknown): void {
  if (!Number.isSafeInteger(maxBytes) || (maxBytes as number) < 1)
    throw new UsageError("INVALID_OPTION", 'Option "maxBytes" must be a whole number of at least 1.');
}
