// Whether what is committed now comes through the stream soon: a message that is written into the database, and has to
// come back.
//
// Knows the text of such a message, of which the database writes the end. Must not know SQL or a stream. Each call is
// given the time.
//
// Nothing else shows this. A stream that is broken off, that is far behind, or that still reads a primary from before a
// failover reports no commit, as one does where nothing is written.

/** A message that has come back. */
export interface Beat {
  /** The number of the stream's connection when it was sent. */
  readonly connection: number;
  readonly sentAt: number;
  /** {@link Moment.timeline} of the server that has written it. */
  readonly timeline: string;
}

export class Heartbeat {
  /** Tells our messages from those of another invalidator of the same database. */
  readonly #name = crypto.randomUUID();
  readonly #send: (content: string) => Promise<void>;
  readonly #interval: number;
  #isSending = false;
  #sentAt = -Infinity;
  /** What was committed before has been purged. */
  #purgedUntil = -Infinity;

  /** `send` writes a message. It never rejects. `interval`: milliseconds between two. */
  constructor(send: (content: string) => Promise<void>, interval: number) {
    this.#send = send;
    this.#interval = interval;
  }

  /** Sends a message if one is due, or is wanted at once. `connection`: the number of the stream's connection. */
  tick(connection: number, isWanted: boolean, now: number): void {
    if (this.#isSending || (!isWanted && now - this.#sentAt < this.#interval)) return;
    this.#isSending = true;
    this.#sentAt = now;
    void this.#send(`${this.#name} ${connection} ${now}`).then(() => (this.#isSending = false));
  }

  /** Reads a message that has come; undefined if it is another's. */
  read(content: string): Beat | undefined {
    const [name, connection, sentAt, ...timeline] = content.split(" ");
    if (name !== this.#name) return undefined;
    return { connection: Number(connection), sentAt: Number(sentAt), timeline: timeline.join(" ") };
  }

  /** What came before this message has been purged. */
  count({ sentAt }: Beat): void {
    this.#purgedUntil = sentAt;
  }

  /** Milliseconds: what was committed before that has been purged. */
  age(now: number): number {
    return now - this.#purgedUntil;
  }
}
