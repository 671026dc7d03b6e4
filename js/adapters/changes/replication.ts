// One replication connection: its login, its commands, and its bytes on their way to the core.
//
// Knows sockets and the core. Must not know slots, acknowledgements, or when to connect again.
import { logIn, PostgresError, ProtocolError, ConnectionError, TimeoutError } from "../../index.ts";
import type { Client, Pool } from "../../index.ts";
import type { Handover } from "../../index.ts";
import { CHANGES_ANSWERED, CHANGES_FAILED, CHANGES_STREAMING } from "../../wasm/numbers.ts";
import { withDeadline } from "../../util/deadline.ts";
import type { Core } from "./core.ts";

/** Milliseconds that the server gets to close the connection. */
const LONGEST_END = 500;

/** So that text of a value is read as JSON has it, whatever the server's and the role's settings are. */
const SETTINGS = {
  DateStyle: "ISO, MDY",
  TimeZone: "UTC",
  IntervalStyle: "iso_8601",
  bytea_output: "hex",
  extra_float_digits: "1",
  // Of names in commands and in a snapshot's queries.
  standard_conforming_strings: "on",
  // A reader of a snapshot may be slow.
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
};

interface Answer {
  readonly rows: readonly (readonly (string | null)[])[];
  readonly error?: Readonly<Record<string, string>>;
}

export class Replication {
  readonly #core: Core;
  readonly #handover: Handover;
  #reading: Promise<Uint8Array | null> | undefined;
  #isWaiting = false;
  #chunks = 0;
  /** What has happened beside the beginning of the stream: the next `read` says so. */
  #beside = 0;
  #closing: Promise<void> | undefined;

  private constructor(core: Core, handover: Handover) {
    this.#core = core;
    this.#handover = handover;
  }

  static async open(db: Client | Pool, core: Core, signal: AbortSignal): Promise<Replication> {
    return new Replication(core, await logIn(db, { replication: "database", startup: SETTINGS, signal }));
  }

  /** The major version, as far as the server says it. */
  get serverVersion(): number {
    return Number.parseInt(this.#handover.parameters.get("server_version") ?? "", 10);
  }

  /** Runs a command. START_REPLICATION has no rows, and then changes follow. */
  async run(text: string): Promise<Answer["rows"]> {
    this.#core.call((handle) => handle.command(text));
    await this.#flush();
    for (;;) {
      const happened = await this.read();
      if (happened & CHANGES_STREAMING) {
        // The first changes may have come in the same chunk, and nothing may follow them.
        this.#beside = happened & ~CHANGES_STREAMING;
        return [];
      }
      if (happened & CHANGES_ANSWERED) return this.answer();
    }
  }

  /**
   * The same of what a server answers at once; pgpool-II never answers START_REPLICATION.
   *
   * @throws TimeoutError
   */
  async runWithin(milliseconds: number, text: string): Promise<Answer["rows"]> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void this.close();
    }, milliseconds);
    try {
      return await this.run(text);
    } catch (error) {
      throw isLate ? unanswered(text, milliseconds) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a query whose rows, those of table `oid`, become lines; its answer is empty. */
  async select(text: string, oid: number): Promise<void> {
    this.#core.call((handle) => handle.select(text, oid));
    await this.#flush();
  }

  /** The answer that has come, or its error. */
  answer(): Answer["rows"] {
    const { rows, error } = JSON.parse(this.#core.call((handle) => handle.take_answer())) as Answer;
    if (error) throw new PostgresError(error);
    return rows;
  }

  /** Reads once, unless something has happened already. What has happened: bits `CHANGES_…`. */
  async read(): Promise<number> {
    if (this.#closing) throw lost("it was closed");
    const beside = this.#beside;
    this.#beside = 0;
    if (beside) return beside;
    this.#isWaiting = true;
    const chunk = await (this.#reading = this.#handover.socket.read());
    this.#isWaiting = false;
    this.#chunks++;
    if (!chunk) throw lost("the server closed it");
    return this.received(chunk);
  }

  /** Gives bytes to the core; without any it goes on with those that wait. */
  received(chunk: Uint8Array): number {
    const happened = this.#core.receive(chunk);
    if (!(happened & CHANGES_FAILED)) return happened;
    const { code, message, detail } = JSON.parse(this.#core.call((handle) => handle.failure())) as Failure;
    throw new ProtocolError(code, detail ? `${message} (${detail})` : message);
  }

  /**
   * How much has come, while more is waited for. The same number twice: the server was silent meanwhile. `undefined`:
   * nobody reads.
   */
  get heard(): number | undefined {
    return this.#isWaiting ? this.#chunks : undefined;
  }

  /** Tells the server what it need not keep any more. `wantsAnswer`: it sends a keepalive at once. */
  async updateStatus(flushed: bigint, wantsAnswer: boolean): Promise<void> {
    this.#core.call((handle) => handle.update_status(flushed, clock(), wantsAnswer));
    await this.#flush();
  }

  async #flush(): Promise<void> {
    const output = this.#core.call((handle) => handle.take_output());
    if (output.length) await this.#handover.socket.write(output);
  }

  /** Ends it. Never rejects. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    try {
      this.#core.call((handle) => handle.terminate());
      await this.#flush();
      await withDeadline(LONGEST_END, this.#drained());
    } catch {
      // It has ended already.
    }
    await this.#handover.socket.close();
  }

  /**
   * Reads until the server has closed the connection. A socket that is closed with bytes unread is reset, and then the
   * server drops what it has not read either: the last acknowledgement.
   */
  async #drained(): Promise<void> {
    try {
      for (let chunk = await this.#reading; chunk !== null; chunk = await this.#handover.socket.read());
    } catch {
      // It has ended already.
    }
  }
}

interface Failure {
  readonly code: ConstructorParameters<typeof ProtocolError>[0];
  readonly message: string;
  readonly detail: string;
}

export function lost(reason: string): ConnectionError {
  return new ConnectionError("CONNECTION_LOST", `The connection was lost: ${reason}.`, { stage: "session" });
}

function unanswered(text: string, milliseconds: number): TimeoutError {
  const [command] = text.trimStart().split(" ");
  return new TimeoutError(
    "CONNECT_TIMEOUT",
    `${command} was not answered within ${milliseconds} ms (connectTimeout). A pooler may stand in between, ` +
      "such as pgpool-II: connect to the server itself.",
  );
}

/** 2000-01-01, in milliseconds of Unix. */
const EPOCH = 946_684_800_000;

/** Microseconds since 2000-01-01. */
function clock(): bigint {
  return BigInt(Date.now() - EPOCH) * 1_000n;
}
