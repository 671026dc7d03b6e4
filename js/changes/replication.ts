// One replication connection: its login, its commands, and the bytes that it passes to the core.
//
// Knows sockets and the core. Must not know slots, acknowledgements, or when to connect again.
import { logIn, PostgresError, ProtocolError, ConnectionError, TimeoutError } from "../index.ts";
import type { Client, Pool } from "../index.ts";
import type { Handover } from "../index.ts";
import { Outbox } from "../connection/outbox.ts";
import { CHANGES_ANSWERED, CHANGES_FAILED, CHANGES_NOTICED, CHANGES_STREAMING } from "../wasm/numbers.ts";
import { withDeadline } from "../util/deadline.ts";
import { report } from "./config.ts";
import type { Core } from "./core.ts";

/** Milliseconds in which the last bytes are written, and the server closes the connection. */
const LONGEST_END = 500;

/** Gives values the text forms that JSON needs, whatever the settings of the server and the role are. */
const SETTINGS = {
  DateStyle: "ISO, MDY",
  TimeZone: "UTC",
  IntervalStyle: "iso_8601",
  bytea_output: "hex",
  extra_float_digits: "1",
  // For names that are quoted as literals, in commands and in a snapshot's question.
  standard_conforming_strings: "on",
  // From PostgreSQL 18 on a warning says that a publication is missing.
  client_min_messages: "notice",
  // A reader of a snapshot may be slow.
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
};

interface Status {
  readonly flushed: bigint;
  readonly wantsAnswer: boolean;
}

interface Answer {
  readonly rows: readonly (readonly (string | null)[])[];
  readonly error?: Readonly<Record<string, string>>;
}

export class Replication {
  readonly #db: Client | Pool;
  readonly #core: Core;
  readonly #handover: Handover;
  /**
   * Reading never waits for a write: the workerd for Node 20 leaves a write pending forever if the server closes the
   * connection at that moment. Only reading shows the end then.
   */
  readonly #outbox: Outbox;
  /** The status update that has not been written yet: one at a time, however slow the server reads. */
  #status: Status | undefined;
  #reading: Promise<Uint8Array | null> | undefined;
  #isWaiting = false;
  #chunks = 0;
  /** Bits that arrived together with the beginning of the stream. The next `read` returns them. */
  #beside = 0;
  #closing: Promise<void> | undefined;
  /** Whether a command waits for its answer. */
  #awaitsAnswer = false;
  /** Why a write failed. */
  #failure: unknown;

  private constructor(db: Client | Pool, core: Core, handover: Handover) {
    this.#db = db;
    this.#core = core;
    this.#handover = handover;
    this.#outbox = new Outbox(
      (bytes) => handover.socket.write(bytes),
      (cause) => this.#writeFailed(cause),
    );
  }

  static async open(db: Client | Pool, core: Core, signal: AbortSignal): Promise<Replication> {
    return new Replication(db, core, await logIn(db, { replication: "database", startup: SETTINGS, signal }));
  }

  /** The server's major version. NaN if the server does not report it. */
  get serverVersion(): number {
    return Number.parseInt(this.#handover.parameters.get("server_version") ?? "", 10);
  }

  /**
   * Runs commands in one flight, and returns the rows of all of them. START_REPLICATION has no rows; changes follow it.
   */
  async run(...texts: string[]): Promise<Answer["rows"]> {
    if (this.#closing) throw lost("it was closed", this.#failure);
    for (const text of texts) this.#core.call((handle) => handle.command(text));
    this.#ask();
    for (;;) {
      const happened = await this.read();
      if (happened & CHANGES_STREAMING) {
        // The first changes may have arrived in the same chunk, and no other chunk may follow.
        this.#beside = happened & ~CHANGES_STREAMING;
        return this.answer();
      }
      if (happened & CHANGES_ANSWERED) return this.answer();
    }
  }

  /**
   * Like `run`, with a deadline, for commands that a server answers immediately. pgpool-II never answers
   * START_REPLICATION.
   *
   * @throws TimeoutError
   */
  async runWithin(milliseconds: number, ...texts: string[]): Promise<Answer["rows"]> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void this.close();
    }, milliseconds);
    try {
      return await this.run(...texts);
    } catch (error) {
      throw isLate ? unanswered(texts[0]!, milliseconds) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a COPY TO STDOUT of rows of table `oid`. The rows become lines; the response itself is empty. */
  copy(text: string, oid: number): void {
    this.#core.call((handle) => handle.copy(text, oid));
    this.#ask();
  }

  /** Returns the rows of the response that has arrived, or throws its error. */
  answer(): Answer["rows"] {
    this.#awaitsAnswer = false;
    const { rows, error } = JSON.parse(this.#core.call((handle) => handle.take_answer())) as Answer;
    if (error) throw new PostgresError(error);
    return rows;
  }

  /** Reads once, unless bits are already pending. Returns what happened, as bits `CHANGES_…`. */
  async read(): Promise<number> {
    if (this.#closing) throw lost("it was closed", this.#failure);
    const beside = this.#beside;
    this.#beside = 0;
    if (beside) return beside;
    this.#isWaiting = true;
    const chunk = await (this.#reading = this.#handover.socket.read());
    this.#isWaiting = false;
    this.#chunks++;
    if (!chunk) throw lost("the server closed it", this.#failure);
    return this.received(chunk);
  }

  /** Passes bytes to the core. Without bytes the core continues with those that wait in it. */
  received(chunk: Uint8Array): number {
    const happened = this.#core.receive(chunk);
    if (happened & CHANGES_NOTICED) this.#reportNotices();
    if (!(happened & CHANGES_FAILED)) return happened & ~CHANGES_NOTICED;
    const { code, message, detail } = JSON.parse(this.#core.call((handle) => handle.failure())) as Failure;
    throw new ProtocolError(code, detail ? `${message} (${detail})` : message);
  }

  #reportNotices(): void {
    const notices = JSON.parse(this.#core.call((handle) => handle.take_notices())) as Record<string, string>[];
    for (const fields of notices) {
      // Without statements that may contain a password, as in an error.
      const shown = new PostgresError(fields) as unknown as Record<string, string>;
      const notice = Object.fromEntries(Object.keys(fields).map((name) => [name, shown[name]!]));
      report(this.#db, { notice });
    }
  }

  /**
   * Number of chunks received, while a read is pending. If the number stays the same, the server was silent meanwhile.
   * `undefined` if no read is pending.
   */
  get heard(): number | undefined {
    return this.#isWaiting ? this.#chunks : undefined;
  }

  /**
   * Tells the server up to which position it need not keep WAL. With `wantsAnswer` it sends a keepalive immediately.
   */
  updateStatus(flushed: bigint, wantsAnswer: boolean): void {
    const waiting = this.#status;
    this.#status = { flushed, wantsAnswer: wantsAnswer || waiting?.wantsAnswer === true };
    if (!waiting) this.#outbox.push(() => this.#takeStatus());
  }

  #takeStatus(): Uint8Array {
    const { flushed, wantsAnswer } = this.#status!;
    this.#status = undefined;
    this.#core.call((handle) => handle.update_status(flushed, clock(), wantsAnswer));
    return this.#takeOutput();
  }

  #takeOutput(): Uint8Array {
    return this.#core.call((handle) => handle.take_output());
  }

  #ask(): void {
    this.#awaitsAnswer = true;
    this.#outbox.push(() => this.#takeOutput());
  }

  /**
   * While changes arrive, reading goes on: it brings what the server has sent, and then the end. A command would wait
   * for its answer.
   */
  #writeFailed(cause: unknown): void {
    this.#failure = cause;
    this.#status = undefined;
    if (this.#awaitsAnswer) void this.close();
  }

  /** Ends the connection. Never rejects. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    // After the last status update.
    this.#outbox.push(() => {
      this.#core.call((handle) => handle.terminate());
      return this.#takeOutput();
    });
    await withDeadline(LONGEST_END, this.#drained());
    this.#outbox.close();
    await this.#handover.socket.close();
  }

  /**
   * Reads until the server has closed the connection. A socket that is closed with unread bytes is reset. The server
   * then drops what it has not read itself, which is the last acknowledgement.
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

export function lost(reason: string, cause?: unknown): ConnectionError {
  const facts = { stage: "session", ...(cause !== undefined && { cause }) } as const;
  return new ConnectionError("CONNECTION_LOST", `The connection was lost: ${reason}.`, facts);
}

function unanswered(text: string, milliseconds: number): TimeoutError {
  const [command] = text.trimStart().split(" ");
  return new TimeoutError(
    "CONNECT_TIMEOUT",
    `${command} was not answered within ${milliseconds} ms (connectTimeout). There may be a pooler in between, ` +
      "such as pgpool-II: connect to the server itself.",
  );
}

/** 2000-01-01, in milliseconds of Unix. */
const EPOCH = 946_684_800_000;

/** Microseconds since 2000-01-01. */
function clock(): bigint {
  return BigInt(Date.now() - EPOCH) * 1_000n;
}
