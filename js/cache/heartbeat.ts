// Whether what is committed now comes through the stream soon: a message that is written into the database, and has to
// come back.
//
// Knows the text of such a message. Must not know SQL or a stream. Each call is given the time.
//
// Nothing else shows this. A stream that is broken off, that is far behind, or that still reads a primary from before a
// failover reports no commit, as one does where nothing is written.

export class Heartbeat {
  /** Tells our messages from those of another invalidator of the same database. */
  readonly #name = crypto.randomUUID();
  readonly #send: (beat: string) => Promise<void>;
  readonly #interval: number;
  #isSending = false;
  #sentAt = -Infinity;
  /** When the newest message was sent that has come back. */
  #cameFrom = -Infinity;

  /** `send` writes a message. It never rejects. `interval`: milliseconds between two. */
  constructor(send: (beat: string) => Promise<void>, interval: number) {
    this.#send = send;
    this.#interval = interval;
  }

  /** Sends a message if one is due, or is wanted at once. The number of the stream's connection comes back with it. */
  tick(connection: number, isWanted: boolean, now: number): void {
    if (this.#isSending || (!isWanted && now - this.#sentAt < this.#interval)) return;
    this.#isSending = true;
    this.#sentAt = now;
    void this.#send(`${this.#name} ${connection} ${now}`).then(() => (this.#isSending = false));
  }

  /** A message has come. Returns the connection's number when it was sent; undefined if it is another's. */
  came(beat: string): number | undefined {
    const [name, connection, at] = beat.split(" ");
    if (name !== this.#name) return undefined;
    this.#cameFrom = Number(at);
    return Number(connection);
  }

  /** Milliseconds: what was committed before that has come. */
  age(now: number): number {
    return now - this.#cameFrom;
  }
}
