// What the parts of the simulator require of each other: the world's clock and dice, a connection's two ends.
//
// Types only. The world (world.ts) knows nothing of PostgreSQL. The server model (server/) knows nothing of the driver
// or of how bytes travel. The network (network.ts) knows nothing of messages.

/**
 * Random numbers for one purpose. Each purpose has its own dice, so that an extra throw for one does not change
 * another.
 */
export interface Dice {
  /** A whole number from 0 to `n - 1`. */
  below(n: number): number;
  pick<T>(choices: readonly T[]): T;
  /** True once in `n` times on average. */
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
  /**
   * Runs `event` so many virtual milliseconds from now. Events of equal time run in the order in which they were
   * scheduled.
   */
  after(milliseconds: number, event: () => void): Timer;
  /** Adds a line to the session's timeline. */
  note(who: string, text: string): void;
}

/** The server's end of a connection, as the network hands it to the server. */
export interface Wire {
  send(bytes: Uint8Array): void;
  /** Sends FIN after everything that was sent. */
  end(): void;
  /** Sends RST: bytes that were sent and have not arrived may be lost. */
  reset(): void;
}

/** What the server does with one connection. Its methods are called between two events, never from within `send`. */
export interface Accepted {
  receive(bytes: Uint8Array): void;
  /** The client has sent FIN. */
  ended(): void;
  /** The client has sent RST: nothing that is sent from now on arrives. */
  wasReset(): void;
}

/** An acceptor of connections: a server, or a pooler in front of one. */
export interface Host {
  accept(wire: Wire): Accepted;
}
