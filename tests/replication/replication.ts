// The parts that the tests of changes under load share: the driver as users get it, a consumer, and a ledger that is
// written meanwhile.
//
// Knows what a consumer stores. Must not know what is cut, or when.
import type * as ofChanges from "../../js/changes.ts";
import type * as pgz from "../../js/index.ts";

export const driver = (await import("../../dist/node.js" as string)) as typeof pgz;
export const { changes } = (await import("../../dist/changes.js" as string)) as typeof ofChanges;

export const plain = (url: string): string => `${url.split("?")[0]}?sslmode=disable`;

interface Row {
  readonly n: number;
}

/**
 * Follows a publication by transactions, and keeps what it reads as a program does that stores rows and position
 * together. Now and then it ends its stream and begins another, after its stored position, or where the slot is.
 */
export class Consumer {
  /** The numbers of each transaction, in order of arrival, for each stream. */
  readonly streams: number[][][] = [];
  /** The position after the last stored transaction. */
  position: string | undefined;
  /** The number of connections of all streams. */
  connections = 0;
  /** Ends the stream before the next acknowledgement. */
  #isLeaving = false;
  readonly #db: pgz.Client | pgz.Pool;
  readonly #options: ofChanges.ChangesOptions;
  readonly #storesPosition: boolean;
  readonly #read: typeof whole;

  /** With the option `streaming` it reads parts of transactions. */
  constructor(db: pgz.Client | pgz.Pool, options: ofChanges.ChangesOptions, storesPosition: boolean) {
    this.#read = options.streaming ? fromParts : whole;
    this.#db = db;
    this.#options = options;
    this.#storesPosition = storesPosition;
  }

  get numbers(): number[] {
    return this.streams.flat(2);
  }

  leave(): void {
    this.#isLeaving = true;
  }

  /** Reads until it has all of `awaited()`, which is known once the last number is written. */
  async follow(awaited: () => ReadonlySet<number> | undefined): Promise<void> {
    const seen = new Set<number>();
    const isOver = () => {
      const all = awaited();
      return all !== undefined && seen.size >= all.size && [...all].every((number) => seen.has(number));
    };
    while (!isOver()) {
      const transactions: number[][] = [];
      this.streams.push(transactions);
      const from = this.#storesPosition ? this.position : undefined;
      const feed = changes<Row>(this.#db, { ...this.#options, from });
      try {
        for await (const { position, numbers, acknowledge } of this.#read(feed)) {
          if (numbers.length) transactions.push(numbers);
          for (const number of numbers) seen.add(number);
          this.position = position;
          if (this.#isLeaving || isOver()) break;
          await acknowledge();
        }
      } catch (error) {
        // A stream whose first login fails does not retry by itself.
        const { code, retryable } = error as pgz.PgzError;
        const mayPass = error instanceof driver.ConnectionError || retryable || /^57P/.test(code);
        if (!mayPass || transactions.length) throw error;
      }
      this.#isLeaving = false;
      this.connections += feed.stats().connections;
    }
  }
}

interface Whole {
  readonly position: string;
  readonly numbers: number[];
  readonly acknowledge: () => Promise<void>;
}

async function* whole(feed: ofChanges.Changes<Row>): AsyncGenerator<Whole> {
  for await (const { position, changes: all, acknowledge } of feed.transactions()) {
    const numbers = all.flatMap((change) => (change.kind === "insert" ? [change.new.n] : []));
    yield { position, numbers, acknowledge };
  }
}

/** Does what docs/changes.md says of parts. Acknowledges each transaction when the second after it has come. */
async function* fromParts(feed: ofChanges.Changes<Row>): AsyncGenerator<Whole> {
  const open = new Map<number, { n: number; subxid: number | undefined }[]>();
  const ended = new Set<number>();
  const late: (() => Promise<void>)[] = [];
  for await (const change of feed) {
    const { kind, xid = 0, subxid } = change;
    if (ended.has(xid)) throw new Error(`transaction ${xid} has come to its commit, and ${kind} follows`);
    const begins = kind === "begin" || (kind === "stream" && change.first);
    const rows = begins ? [] : (open.get(xid) ?? []);
    open.set(xid, rows);
    if (kind === "insert") rows.push({ n: change.new.n, subxid });
    if (kind === "abort") open.set(xid, subxid === undefined ? [] : rows.filter((row) => row.subxid !== subxid));
    if (kind !== "commit") continue;
    ended.add(xid);
    open.delete(xid);
    late.push(() => change.acknowledge());
    const acknowledge = async () => void (late.length > 2 && (await late.shift()!()));
    yield { position: change.position, numbers: rows.map(({ n }) => n), acknowledge };
  }
}

/** What a consumer must have in the end. */
export class Expected {
  all: ReadonlySet<number> | undefined;

  /** Returns the numbers in the ledger, after adding one row, by which a consumer notices that it has all. */
  async finish(db: pgz.Client | pgz.Pool): Promise<number[]> {
    const { rows } = await db.query<{ n: number }>("select n from ledger order by n");
    const stored = rows.map(({ n }) => n);
    const last = (stored.at(-1) ?? 0) + 1_000_000;
    this.all = new Set([...stored, last]);
    await db.exec(`insert into ledger values (${last})`);
    return [...stored, last];
  }
}
