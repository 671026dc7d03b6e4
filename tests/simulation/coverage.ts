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

import { Frames } from "./frames.ts";

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
  readonly #links = new Map<number, { ">": Frames; "<": Frames; said: { ">": string; "<": string } }>();

  constructor(coverage: Coverage) {
    this.#coverage = coverage;
  }

  read(link: number, direction: ">" | "<", bytes: Uint8Array): void {
    let known = this.#links.get(link);
    if (!known) {
      known = { ">": new Frames(">"), "<": new Frames("<"), said: { ">": "-", "<": "-" } };
      this.#links.set(link, known);
    }
    const { said } = known;
    for (const { letter } of known[direction].read(bytes)) {
      const shown = letter || "0";
      this.#coverage.reach("conversation", `${said[">"]} ${said["<"]}`, `${direction} ${shown}`);
      said[direction] = shown;
    }
  }
}
