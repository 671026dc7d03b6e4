// `changes(db, options)`: changes of tables as objects, as NDJSON, as a Response.
//
// Knows lines and what becomes of their values. Must not know connections.
import { Client, Pool, UsageError } from "../../index.ts";
import { converter, type ValuePolicy } from "../../values/converters.ts";
import { CAMEL_CASE, INT8_AS_STRING, NUMERIC_AS_STRING, TYPE_SAME } from "../../wasm/numbers.ts";
import { refuseHyperdrive } from "./advice.ts";
import { Feed, type ChangesStats } from "./feed.ts";
import { Groups, type ChangesOfTransaction } from "./groups.ts";
import type { AnyChange, Commit, Prepared, Schema } from "./kinds.ts";
import { checkOptions, positionOf, type ChangesOptions } from "./options.ts";

export type { ChangesOfTransaction, ChangesStats };

/** Columns of a table whose values are not those of JSON. */
type Conversions = readonly (readonly [name: string, convert: (value: unknown) => unknown])[];

/** Options of `transactions`. */
export interface TransactionsOptions {
  /**
   * The most bytes of transactions that are not over, as NDJSON, before the stream ends with an error: they are held in
   * memory. Without `streaming` it is one. Default 67,108,864.
   */
  readonly maxBytes?: number | undefined;
}

const MAX_TRANSACTION = 64 << 20;

const NOT_WITH_TWO_PHASE =
  'transactions() does not take option "twoPhase": what was prepared would be held in memory only, though commits ' +
  "behind it are acknowledged. Read the changes one by one.";

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
  readonly headers?: HeadersInit | undefined;
}

/**
 * Changes of tables, as they commit. Nothing happens before they are asked for, and then in one way only: by
 * `for await`, `stream()` or `respond()`. Leaving the loop ends the connection; the slot stays where it was
 * acknowledged.
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

  async *[Symbol.asyncIterator](): AsyncGenerator<AnyChange<Row>, void, undefined> {
    const feed = this.#open("string");
    const reader = new ChangeReader(feed, this.#options);
    const isManual = (this.#options.acknowledge ?? "manual") === "manual";
    try {
      for (;;) {
        for (const line of linesOf(await feed.next())) {
          const change = reader.read(line) as AnyChange<Row>;
          yield change;
          if ("acknowledge" in change && !isManual) await change.acknowledge();
        }
      }
    } finally {
      await feed.end();
    }
  }

  /**
   * The same by transactions, each in one piece; with `streaming` too. A message that is not transactional is one by itself. The rows of a
   * snapshot come in pieces that have no `xid`.
   *
   * @throws ResponseTooLargeError a transaction whose lines of NDJSON are longer than `maxBytes`
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
    const feed = this.#open("string");
    const reader = new ChangeReader(feed, this.#options);
    const groups = new Groups<Row>(maxBytes);
    let connections = 0;
    try {
      for (;;) {
        const lines = linesOf(await feed.next());
        if (connections !== (connections = feed.connections)) groups.restart();
        for (const line of lines) {
          const whole = groups.add(reader.read(line) as AnyChange<Row>, line.length);
          if (!whole) continue;
          yield whole;
          if (this.#options.acknowledge === "commit") await whole.acknowledge();
        }
        const rows = groups.takeRows();
        if (rows) yield rows;
      }
    } finally {
      await feed.end();
    }
  }

  /**
   * The same as NDJSON: a line per change. With `acknowledge: "commit"` what was read is acknowledged when the reader
   * asks for more.
   */
  stream(): ReadableStream<Uint8Array> {
    const feed = this.#open("number");
    const isManual = (this.#options.acknowledge ?? "manual") === "manual";
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (!isManual) feed.acknowledgeAll();
          try {
            controller.enqueue(await feed.next());
          } catch (error) {
            await feed.end();
            throw error;
          }
        },
        cancel: () => feed.end(),
      },
      // Nothing is read ahead: what was read is what was taken.
      { highWaterMark: 0 },
    );
  }

  /** `stream()` as a response. */
  respond({ headers }: ChangesResponse = {}): Response {
    const all = new Headers(headers);
    if (!all.has("content-type")) all.set("content-type", "application/x-ndjson; charset=utf-8");
    return new Response(this.stream() as BodyInit, { headers: all });
  }

  /** Where the stream is, and how far behind. */
  stats(): ChangesStats {
    return this.#feed?.stats() ?? NOT_BEGUN;
  }

  #open(int8: "string" | "number"): Feed {
    if (this.#feed) throw new UsageError("STREAM_OPEN", "These changes are being read already: call changes() again.");
    return (this.#feed = new Feed(this.#db, this.#options, rowForm(this.#options, int8)));
  }
}

/**
 * Changes of the tables of a publication, as they commit. Opens a replication connection of its own, beside those of a
 * pool.
 *
 * @throws UsageError `INVALID_OPTION`, `UNKNOWN_OPTION`
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
  refuseHyperdrive(db);
  return new Changes<Row>(db, options);
}

function rowForm({ int8, numeric, columnNames }: ChangesOptions, otherwise: "string" | "number"): number {
  // bigint is made from text; in NDJSON it is bare digits.
  const ofInt8 = int8 === "bigint" ? otherwise : (int8 ?? otherwise);
  const ofNumeric = numeric ?? ofInt8;
  return (
    (ofInt8 === "string" ? INT8_AS_STRING : 0) |
    (ofNumeric === "string" ? NUMERIC_AS_STRING : 0) |
    (columnNames === "camelCase" ? CAMEL_CASE : 0)
  );
}

function checkMaxBytes(maxBytes: unknown): void {
  if (!Number.isSafeInteger(maxBytes) || (maxBytes as number) < 1)
    throw new UsageError("INVALID_OPTION", 'Option "maxBytes" must be a whole number from 1 on.');
}

function linesOf(bytes: Uint8Array): string[] {
  const lines = new TextDecoder().decode(bytes).split("\n");
  lines.pop();
  return lines;
}

/** Makes changes from lines. */
class ChangeReader {
  readonly #feed: Feed;
  readonly #policy: ValuePolicy;
  readonly #tables = new Map<string, Conversions>();

  constructor(feed: Feed, { int8, numeric, dates = "string", bytea = "uint8array" }: ChangesOptions) {
    this.#feed = feed;
    this.#policy = { int8, numeric, dates, bytea, parsers: undefined };
  }

  read(line: string): AnyChange {
    const change = JSON.parse(line) as AnyChange;
    switch (change.kind) {
      case "schema":
        this.#tables.set(nameOf(change), this.#conversions(change));
        break;
      case "insert":
        this.#convert(change, change.new);
        break;
      case "update":
        this.#convert(change, change.new);
        if (change.old) this.#convert(change, change.old);
        break;
      case "delete":
        this.#convert(change, change.old);
        break;
      case "commit":
      case "prepare":
      case "commitPrepared":
      case "rollbackPrepared":
        return this.#acknowledgeable(change);
    }
    return change;
  }

  #acknowledgeable<T extends Commit | Prepared>(end: T): T {
    const feed = this.#feed;
    const acknowledge = () => feed.acknowledge(positionOf(end.position));
    return Object.defineProperty(end, "acknowledge", { value: acknowledge });
  }

  #convert(place: { schema: string; table: string }, row: object): void {
    const values = row as Record<string, unknown>;
    for (const [name, convert] of this.#tables.get(nameOf(place)) ?? [])
      if (values[name] !== null && values[name] !== undefined) values[name] = convert(values[name]);
  }

  #conversions({ columns }: Schema): Conversions {
    return columns.flatMap(({ name, typeOid }) => {
      const convert = converter({ name, typeOid: this.#baseOf(typeOid) } as never, this.#policy, true);
      return convert ? [[name, convert] as const] : [];
    });
  }

  /** A domain's values are those of its base type. */
  #baseOf(typeOid: number): number {
    const found = this.#feed.catalog.definitions([{ typeOid }]).find(({ oid }) => oid === typeOid);
    return found?.code === TYPE_SAME ? this.#baseOf(found.of) : typeOid;
  }
}

/** No name has a NUL. */
function nameOf({ schema, table }: { schema: string; table: string }): string {
  return `${schema}\0${table}`;
}
