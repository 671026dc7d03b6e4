// A stream of changes over all its connections: lines as they come, and acknowledgements on their way back.
//
//   connect ── START_REPLICATION ──> read ── lines ──> the consumer, who asks for the next ones
//      ^                              │
//      └───────── pause <──── lost ───┘       behind what was acknowledged; whole transactions that the
//                                             consumer has had are dropped by the core
//
// Knows when to connect again, and what the server need not keep. Must not know what a line says.
import { AbortError, ConnectionError, PostgresError, type Client, type Pool } from "../../index.ts";
import { Catalog } from "../../session/catalog.ts";
import {
  CHANGES_ANSWERED,
  CHANGES_KEEPALIVE,
  CHANGES_LINES,
  CHANGES_STATUS_WANTED,
  CHANGES_TYPES_WANTED,
} from "../../wasm/numbers.ts";
import { Core } from "./core.ts";
import { creation, start, type ChangesOptions } from "./options.ts";
import { lost, Replication } from "./replication.ts";

const MAX_MESSAGE_BYTES = 1 << 30;
const STATUS_INTERVAL = 10_000;
/** Milliseconds before another connection is tried: doubled each time. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;
const NOTHING = new Uint8Array(0);

/** Errors behind which another connection may help: a server that goes or comes, a slot that another one still has. */
const PASSING = /^(57P0[1235]|53300|55006|08...)$/;

export class Feed {
  readonly catalog = new Catalog();
  readonly #db: Client | Pool;
  readonly #options: ChangesOptions;
  readonly #core: Core;
  readonly #over = new AbortController();
  readonly #unhear: () => void;
  /** Sends status updates, from the first connection on. */
  #timer: ReturnType<typeof setInterval> | undefined;
  #connection: Replication | undefined;
  /** Some connection has streamed: from now on one that fails is tried again. */
  #hasStreamed = false;
  #failures = 0;
  /** Bytes wait in the core behind the description of a table. */
  #waits = false;
  /** What the server need not keep. */
  #flushed: bigint;
  /** Behind the last commit that the consumer has acknowledged. */
  #acknowledged = 0n;

  constructor(db: Client | Pool, options: ChangesOptions, rowForm: number) {
    this.#db = db;
    this.#options = options;
    this.#core = new Core(MAX_MESSAGE_BYTES, rowForm);
    this.#flushed = positionOf(options.from ?? "0/0");
    const { signal } = options;
    const abort = () => this.#stop(new AbortError(signal!.reason));
    signal?.addEventListener("abort", abort);
    this.#unhear = () => signal?.removeEventListener("abort", abort);
    if (signal?.aborted) abort();
  }

  /** The next lines: whole ones, at least one. */
  async next(): Promise<Uint8Array> {
    for (;;) {
      this.#over.signal.throwIfAborted();
      try {
        const connection = this.#connection ?? (await this.#connect());
        const happened = this.#waits ? connection.received(NOTHING) : await connection.read();
        this.#waits = false;
        await this.#attend(happened);
        if (happened & CHANGES_LINES) return this.#core.takeLines();
      } catch (error) {
        this.#over.signal.throwIfAborted();
        await this.#comeBack(error);
      }
    }
  }

  /** All commits that the core has read were yielded: the consumer asks for more. */
  acknowledgeAll(): void {
    void this.acknowledge(this.#core.call((handle) => handle.committed()));
  }

  async acknowledge(position: bigint): Promise<void> {
    if (position <= this.#acknowledged) return;
    this.#acknowledged = position;
    if (position > this.#flushed) this.#flushed = position;
    await this.#report();
  }

  /** Ends it. What was acknowledged reaches the server before the connection ends. */
  async end(): Promise<void> {
    const connection = this.#connection;
    if (!this.#over.signal.aborted) await this.#report();
    this.#stop(new AbortError("the stream of changes was left"));
    await connection?.close();
    this.#core.free();
  }

  #stop(reason: AbortError): void {
    if (this.#over.signal.aborted) return;
    clearInterval(this.#timer);
    this.#unhear();
    this.#over.abort(reason);
    void this.#connection?.close();
  }

  async #connect(): Promise<Replication> {
    // At once the stream's own: to make a slot may take as long as transactions are open, and who aborts ends that too.
    const connection = (this.#connection = await Replication.open(this.#db, this.#core, this.#over.signal));
    this.#over.signal.throwIfAborted();
    this.#core.call((handle) => handle.restart(handle.committed()));
    this.#waits = false;
    if (this.#options.createSlot && !this.#hasStreamed) await this.#create(connection);
    await connection.run(start(this.#options, textOf(this.#flushed)));
    this.#timer ??= setInterval(() => void this.#report(), this.#options.statusInterval ?? STATUS_INTERVAL);
    this.#hasStreamed = true;
    this.#failures = 0;
    return connection;
  }

  /** A permanent slot that exists is gone on with. */
  async #create(connection: Replication): Promise<void> {
    try {
      await connection.run(creation(this.#options, connection.serverVersion));
    } catch (error) {
      const exists = error instanceof PostgresError && error.code === "42710";
      if (!exists || this.#options.createSlot === "temporary") throw error;
    }
  }

  async #attend(happened: number): Promise<void> {
    if (happened & CHANGES_TYPES_WANTED) await this.#learn();
    if (happened & CHANGES_ANSWERED) {
      this.#connection!.answer();
      throw lost("the server ended the stream");
    }
    if (happened & CHANGES_KEEPALIVE && !(happened & CHANGES_LINES)) this.#heedEnd();
    if (happened & CHANGES_STATUS_WANTED) await this.#report();
  }

  /** Nothing waits to be acknowledged, so the server need not keep what no table of the publication is in. */
  #heedEnd(): void {
    const [committed, end, isOutside] = this.#core.call(
      (handle) => [handle.committed(), handle.end(), handle.is_outside()] as const,
    );
    if (isOutside && this.#acknowledged >= committed && end > this.#flushed) this.#flushed = end;
  }

  /** The database's own types are asked for once per description of a table. */
  async #learn(): Promise<void> {
    this.#waits = true;
    const oids = this.#core.call((handle) => handle.take_wanted_types());
    const columns = [...oids].map((typeOid) => ({ typeOid }));
    const question = this.catalog.question(columns);
    if (question !== undefined) {
      const { rows } = await this.#db.query<{ json_agg: never[] | null }>(question);
      this.catalog.learn(columns, rows[0]?.json_agg ?? []);
    }
    this.#core.define(this.catalog.definitions());
  }

  async #report(): Promise<void> {
    // What is wrong with the connection its reader is told of.
    await this.#connection?.updateStatus(this.#flushed).catch(() => {});
  }

  /** Returns when another connection may be tried, or throws what ends the stream. */
  async #comeBack(error: unknown): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
    if (!this.#mayPass(error)) throw error;
    const pause = Math.min(FIRST_PAUSE * 2 ** this.#failures++, LONGEST_PAUSE) * (1 + Math.random());
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause);
      const stop = () => (clearTimeout(timer), resolve());
      this.#over.signal.addEventListener("abort", stop, { once: true });
    });
  }

  #mayPass(error: unknown): boolean {
    // With its connection the slot has gone, and with it what happens meanwhile.
    if (this.#hasStreamed && this.#options.createSlot === "temporary") return false;
    if (error instanceof PostgresError)
      return PASSING.test(error.code) && (this.#hasStreamed || error.code === "55006");
    return this.#hasStreamed && error instanceof ConnectionError && error.code !== "CORE_TRAPPED";
  }
}

/** `0/16B3748` is 0x16b3748. */
export function positionOf(text: string): bigint {
  const [high = "", low = ""] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

function textOf(position: bigint): string {
  return `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`.toUpperCase();
}
