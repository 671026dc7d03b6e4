// Splits one direction of a connection into messages, however its bytes are cut.
//
// Knows how messages are framed. Must not know what the letters mean, or the fields of a message.

export interface Frame {
  /** `""` for a message without a letter, such as StartupMessage. */
  readonly letter: string;
  /** `undefined` for the answer to SSLRequest, which is a letter alone. */
  readonly body: Buffer | undefined;
}

export class Frames {
  #rest = Buffer.alloc(0);
  /** The frontend's first messages have no letter. */
  #isTyped: boolean;
  /** The next byte may be the answer to SSLRequest. */
  #mayAnswer: boolean;

  /** `mayAnswer`: the client may have begun with SSLRequest. */
  constructor(direction: ">" | "<", mayAnswer = direction === "<") {
    this.#isTyped = direction === "<";
    this.#mayAnswer = mayAnswer;
  }

  /** Returns the messages that these bytes complete. */
  read(bytes: Uint8Array): Frame[] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const frames: Frame[] = [];
    for (let next; (next = this.#next());) frames.push(next);
    return frames;
  }

  #next(): Frame | undefined {
    const rest = this.#rest;
    const head = this.#isTyped ? 1 : 0;
    const isAnswer = this.#mayAnswer && (rest[0] === 83 || rest[0] === 78);
    const end = isAnswer ? 1 : rest.length < head + 4 ? Infinity : head + rest.readUInt32BE(head);
    if (end > rest.length) return undefined;
    this.#mayAnswer = false;
    this.#rest = rest.subarray(end);
    const letter = head ? String.fromCharCode(rest[0]!) : "";
    if (isAnswer) return { letter, body: undefined };
    const body = rest.subarray(head + 4, end);
    // A code that begins with 1234 is a request in place of a session, so the next message has no letter either.
    if (!head) this.#isTyped = body.readUInt16BE(0) !== 1234;
    return { letter, body };
  }
}
