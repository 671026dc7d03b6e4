// Which pairs of a state and an event the simulated sessions have reached, so that programs which reach new pairs can
// be kept, and pairs that no session has reached can be listed.
//
// | machine      | its state                                            | its events                                 |
// |--------------|------------------------------------------------------|--------------------------------------------|
// | conversation | what the client said last, what the server said last | each message of either side, each fault    |
// | slots        | connections idle, lent, connecting; who waits        | what it becomes                            |
// | call         | its kind, and whether rows had come                  | how it ends: its code                      |
//
// States are what can be seen from outside: letters of messages, `stats()` of a pool, results of calls. So nothing in
// the driver exists for this alone. Counts above two count as two. Knows only the names of states and events.

export class Coverage {
  /** Per machine: state -> events. */
  readonly #reached = new Map<string, Map<string, Set<string>>>();
  #pairs = 0;

  get pairs(): number {
    return this.#pairs;
  }

  reach(machine: string, state: string, event: string): void {
    let states = this.#reached.get(machine);
    if (!states) this.#reached.set(machine, (states = new Map()));
    let events = states.get(state);
    if (!events) states.set(state, (events = new Set()));
    if (events.has(event)) return;
    events.add(event);
    this.#pairs++;
  }

  /**
   * For each machine: how many states, events and pairs were reached, and the pairs of a reached state and a reached
   * event that were not.
   */
  report(): { machine: string; states: number; events: number; pairs: number; missing: string[] }[] {
    return [...this.#reached].map(([machine, states]) => {
      const all = new Set([...states.values()].flatMap((events) => [...events]));
      const missing = [...states].flatMap(([state, events]) =>
        [...all].filter((event) => !events.has(event)).map((event) => `${state} x ${event}`),
      );
      const pairs = [...states.values()].reduce((sum, { size }) => sum + size, 0);
      return { machine, states: states.size, events: all.size, pairs, missing };
    });
  }
}

/**
 * The conversations of all links: each message counts as an event in the state that the earlier messages have led to.
 */
export class Conversations {
  readonly #coverage: Coverage;
  readonly #links = new Map<number, { ">": Letters; "<": Letters; said: { ">": string; "<": string } }>();

  constructor(coverage: Coverage) {
    this.#coverage = coverage;
  }

  read(link: number, direction: ">" | "<", bytes: Uint8Array): void {
    let known = this.#links.get(link);
    if (!known) {
      known = { ">": new Letters(">"), "<": new Letters("<"), said: { ">": "-", "<": "-" } };
      this.#links.set(link, known);
    }
    const { said } = known;
    known[direction].read(bytes, (letter) => {
      this.#coverage.reach("conversation", `${said[">"]} ${said["<"]}`, `${direction} ${letter}`);
      said[direction] = letter;
    });
  }
}

/** What one direction of a connection says, as the letters of its messages, however its bytes are cut. */
export class Letters {
  /** The current message: the head bytes that have arrived, and the number of bytes that have not. */
  #head: number[] = [];
  #left = 0;
  #letter = "";
  #isTyped: boolean;
  /** No byte has arrived yet: `S` or `N` may be the response to SSLRequest, which has no length. */
  #isFirst = true;

  constructor(direction: ">" | "<") {
    this.#isTyped = direction === "<";
  }

  /** Calls `tell` with the letter of each message that ends in these bytes. `0` means a message without a letter. */
  read(bytes: Uint8Array, tell: (letter: string) => void): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#left > 0) {
        const skipped = Math.min(this.#left, bytes.length - at);
        at += skipped;
        this.#left -= skipped;
        if (!this.#left) tell(this.#letter);
        continue;
      }
      this.#head.push(bytes[at++]!);
      if (this.#isFirst && this.#isTyped && (this.#head[0] === 83 || this.#head[0] === 78)) {
        tell(String.fromCharCode(this.#head[0]));
        this.#head = [];
      }
      this.#isFirst = false;
      if (this.#head.length === (this.#isTyped ? 5 : 8)) this.#begin(tell);
    }
  }

  #begin(tell: (letter: string) => void): void {
    const head = this.#head;
    const from = this.#isTyped ? 1 : 0;
    const length = ((head[from]! << 24) | (head[from + 1]! << 16) | (head[from + 2]! << 8) | head[from + 3]!) >>> 0;
    this.#letter = this.#isTyped ? String.fromCharCode(head[0]!) : "0";
    this.#left = length - (this.#isTyped ? 4 : 8);
    // A code that begins with 1234 is a request in place of a session, so the next message has no letter either.
    if (!this.#isTyped) this.#isTyped = !(head[4] === 4 && head[5] === 210);
    this.#head = [];
    if (!this.#left) tell(this.#letter);
  }
}
