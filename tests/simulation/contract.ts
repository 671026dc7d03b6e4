// What the parts of the simulator ask of each other: the world's clock and dice, a connection's two ends.
//
// Types only. The world (world.ts) knows nothing of PostgreSQL, the server model (server/) nothing of the driver or of
// how bytes travel, the network (network.ts) nothing of messages.

/** Random numbers of one purpose. Each purpose has its own dice, so that one more throw for it moves no other. */
export interface Dice {
  /** A whole number from 0 to below `n`. */
  below(n: number): number;
  pick<T>(choices: readonly T[]): T;
  /** True once in `n` times. */
  oneIn(n: number): boolean;
}

/** An event that has not happened yet. */
export interface Timer {
  cancel(): void;
}

/** The clock of a simulated session, and its record. */
export interface Clock {
  /** Virtual milliseconds since the session began. */
  readonly now: number;
  /** Runs `event` so many virtual milliseconds from now. Equal times run in the order in which they were asked for. */
  after(milliseconds: number, event: () => void): Timer;
  /** Adds a line to the session's timeline. */
  note(who: string, text: string): void;
}

/** The server's end of a connection, as the network hands it to the server. */
export interface Wire {
  send(bytes: Uint8Array): void;
  /** FIN behind what was sent. */
  end(): void;
  /** RST: what was sent and has not arrived may be lost. */
  reset(): void;
}

/** What the server does with one connection. It is called between two events, never from within `send`. */
export interface Accepted {
  receive(bytes: Uint8Array): void;
  /** The client's FIN. */
  ended(): void;
  /** The client's RST: nothing that is sent from now on arrives. */
  wasReset(): void;
}

/** Something that takes connections: a server, or a pooler in front of one. */
export interface Host {
  accept(wire: Wire): Accepted;
}
