// The bytes of a backend's connection, as PostgreSQL's pqcomm.c treats them: input is read in pieces and split into
// messages, and output is sent when the buffer is full or when the backend flushes.
//
// Knows buffers and the boundaries of messages. Must not know what a message means.
import type { Wire } from "../contract.ts";
import * as errors from "./errors.ts";
import { Fields, joined } from "./messages.ts";
import { Gone, type Doing, type Wait } from "./process.ts";

/** The server sends its output when it reaches this size, and when it must. */
const OUTPUT_BUFFER = 8_192;
/** The server reads this many bytes at once. Unread bytes at the end of the process make the close a reset. */
const INPUT_BUFFER = 8_192;
const LONGEST_MESSAGE = 0x3fffffff;
const LONGEST_STARTUP = 10_000;

export interface Message {
  readonly letter: string;
  readonly body: Uint8Array;
}

export class ClientSocket {
  readonly #wire: Wire;
  /** Bytes that have arrived and have not been read. */
  #arrived: Uint8Array[] = [];
  #read = new Uint8Array();
  /** How much of the read bytes was consumed. */
  #at = 0;
  /** Output was written that cannot arrive. */
  isLost = false;
  #hasEnded = false;
  #wasReset = false;
  #wake = (): void => {};
  #written: Uint8Array[] = [];
  #writtenLength = 0;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  // -- the client's side ----------------------------------------------------------------------------------------------

  receive(bytes: Uint8Array): void {
    this.#arrived.push(bytes.slice());
    this.#wake();
  }

  ended(): void {
    this.#hasEnded = true;
    this.#wake();
  }

  wasReset(): void {
    this.#wasReset = true;
    this.#wake();
  }

  /** Ends the present wait. */
  wake(): void {
    this.#wake();
  }

  // -- output ---------------------------------------------------------------------------------------------------------

  send(message: Uint8Array): void {
    this.#written.push(message);
    this.#writtenLength += message.length;
    if (this.#writtenLength >= OUTPUT_BUFFER) this.#sendFull();
  }

  #sendFull(): void {
    const all = joined(this.#written);
    const full = all.length - (all.length % OUTPUT_BUFFER);
    for (let at = 0; at < full; at += OUTPUT_BUFFER) this.sendNow(all.slice(at, at + OUTPUT_BUFFER));
    this.#written = full < all.length ? [all.slice(full)] : [];
    this.#writtenLength = all.length - full;
  }

  flush(): void {
    if (!this.#writtenLength) return;
    this.sendNow(joined(this.#written));
    this.#written = [];
    this.#writtenLength = 0;
  }

  /** Sends bytes without the buffer. */
  sendNow(bytes: Uint8Array): void {
    if (this.#wasReset) this.isLost = true;
    else this.#wire.send(bytes);
  }

  /** Drops output that has not been sent. */
  drop(): void {
    this.#written = [];
    this.#writtenLength = 0;
  }

  close(): void {
    if (this.#wasReset) return;
    if (this.#arrived.length) this.#wire.reset();
    else this.#wire.end();
  }

  // -- input ----------------------------------------------------------------------------------------------------------

  /** Reads a packet without a letter. Returns `undefined` if the client has gone, or if the length is wrong. */
  *startupPacket(): Doing<Fields | undefined> {
    if (!(yield* this.#fill(4, "command"))) return undefined;
    const length = new Fields(this.#read.subarray(this.#at)).int32();
    if (length < 8 || length > LONGEST_STARTUP) return undefined;
    if (!(yield* this.#fill(length, "command"))) return undefined;
    const fields = new Fields(this.#take(length));
    fields.int32();
    return fields;
  }

  /**
   * Reads the next message. Returns `undefined` if the client has gone, perhaps in the middle of the message. Throws as
   * soon as a letter arrives that is not `known`.
   */
  *message(kind: Wait["kind"], known?: ReadonlySet<string>): Doing<Message | undefined> {
    if (!(yield* this.#fill(1, kind))) return undefined;
    const letter = String.fromCharCode(this.#read[this.#at]!);
    if (known && !known.has(letter))
      throw errors.fatalViolation(`invalid frontend message type ${this.#read[this.#at]!}`);
    if (!(yield* this.#fill(5, kind))) return undefined;
    const length = new Fields(this.#read.subarray(this.#at + 1)).int32();
    if (length < 4 || length > LONGEST_MESSAGE) return undefined;
    if (!(yield* this.#fill(1 + length, kind))) return undefined;
    return { letter, body: this.#take(1 + length).subarray(5) };
  }

  /** The next message, if it has arrived completely. */
  arrived(): Message | "none yet" | "gone" {
    for (;;) {
      const there = this.#read.length - this.#at;
      const length = there < 5 ? Infinity : new Fields(this.#read.subarray(this.#at + 1)).int32();
      if (there > length) {
        const letter = String.fromCharCode(this.#read[this.#at]!);
        return { letter, body: this.#take(1 + length).subarray(5) };
      }
      if (this.#wasReset) throw new Gone();
      if (this.#arrived.length) this.#takeArrived();
      else return this.#hasEnded ? "gone" : "none yet";
    }
  }

  /** Waits until something arrives, or `wake` is called. */
  *wait(begin: (wake: () => void) => () => void): Doing<void> {
    let stop = () => {};
    try {
      yield {
        kind: "running",
        begin: (wake) => {
          this.#wake = wake;
          return (stop = begin(wake));
        },
      };
    } finally {
      this.#wake = () => {};
      stop();
    }
  }

  /** Waits until this many bytes are there. Returns false if the client has gone. */
  *#fill(count: number, kind: Wait["kind"]): Doing<boolean> {
    while (this.#read.length - this.#at < count) {
      if (this.#wasReset) throw new Gone();
      if (this.#arrived.length) this.#takeArrived();
      else if (this.#hasEnded) return false;
      else
        yield {
          kind,
          begin: (wake) => {
            this.#wake = wake;
            return () => (this.#wake = () => {});
          },
        };
    }
    return true;
  }

  #takeArrived(): void {
    let all = joined(this.#arrived);
    const rest = all.subarray(INPUT_BUFFER);
    all = all.subarray(0, INPUT_BUFFER);
    this.#arrived = rest.length ? [rest] : [];
    this.#read = this.#at < this.#read.length ? joined([this.#read.subarray(this.#at), all]) : all;
    this.#at = 0;
  }

  #take(count: number): Uint8Array {
    this.#at += count;
    return this.#read.subarray(this.#at - count, this.#at);
  }
}
