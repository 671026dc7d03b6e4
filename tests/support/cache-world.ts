// A database, its change stream, an invalidator, readers and a cache with two data centres, in virtual time. A seed
// determines everything. The fence under test decides what is purged; the oracle judges each answer that is served.
//
// Knows the fence's calls. Must not know how it decides.
//
// The property: an answer that is served lacks no commit that was visible for longer than
//
//   lag of the stream (until the commit's tags are purged) + settle + maxFill + propagation of a purge
//
// An invalidator that is down purges nothing, so the time until it is back counts as lag.
import { Fence, type FenceOptions } from "../../js/cache/fence.ts";
import { EVERYTHING } from "../../js/cache/tags.ts";
import { readSnapshot } from "../../js/cache/visibility.ts";
import { generator } from "./random.ts";

export const TIMES = { settle: 50, maxFill: 400, propagation: 80, replay: 100, length: 6_000 };
/** Milliseconds for which answers may be stored: in most worlds longer than the world. */
const AGES = [300, 1_500, 20_000, 20_000];
/** Milliseconds after which a commit has surely been told, unless the invalidator was down. */
const LONGEST_LAG = 1_000;
const RELATIONS = 3;
/** By statement: the relations that it reads, before any definition has changed. */
const STATEMENTS = [[0], [1], [2], [0, 1], [1, 2], []];
/** A change of definitions moves each name to the next relation. */
const relationsOf = (statement: number, version: number) =>
  STATEMENTS[statement]!.map((relation) => String((relation + version) % RELATIONS));

interface Transaction {
  readonly xid: number;
  readonly tags: readonly string[];
  visibleAt: number;
  /** When its tags had been purged. */
  purgedAt: number;
}

/** What the reader of an answer has seen. */
interface Answer {
  readonly statement: number;
  readonly relations: readonly string[];
  readonly seen: ReadonlySet<Transaction>;
}

interface Stored {
  /** Of its fill. */
  readonly id: string;
  readonly answer: Answer;
  readonly tags: readonly string[];
  readonly until: number;
}

/** The parts of the world that a planted fault changes. */
export interface Faults {
  /** Made in place of the fence. */
  readonly fence?: (options: FenceOptions, before: number, now: number) => Fence;
  /** The query's snapshot as the position of the newest commit in the log. */
  readonly positionForSnapshot?: boolean;
  /** The standby's snapshot is read as a primary's. */
  readonly trustsStandby?: boolean;
  /** Headers leave whatever the invalidator says to the opening. */
  readonly ignoresRefusals?: boolean;
  /** Closed when the headers leave. */
  readonly closesEarly?: boolean;
  /** A new life of the invalidator does not purge what an earlier one may have left. */
  readonly forgetsRestart?: boolean;
}

export interface Outcome {
  readonly violations: string[];
  readonly served: number;
  readonly hits: number;
  /** Answers that a 304 has confirmed. */
  readonly confirmed: number;
  readonly purges: number;
  readonly commits: number;
}

export function runWorld(seed: number, faults: Faults = {}): Outcome {
  return new World(seed, faults).run();
}

class World {
  readonly #below: (below: number) => number;
  /** Mean milliseconds between two transactions, twice. */
  readonly #pause: number;
  readonly #maxAge: number;
  readonly #faults: Faults;
  readonly #events: { at: number; order: number; run: () => void }[] = [];
  #now = 0;
  #order = 0;
  #fills = 0;

  #nextXid = 100;
  readonly #running = new Map<number, Transaction>();
  readonly #visible: Transaction[] = [];
  /** The log: what the stream sends, in order. */
  readonly #log: Transaction[] = [];

  /** By statement: what an isolate has learned of it. */
  readonly #learned = new Map<number, { readonly snapshot: string; readonly relations: readonly string[] }>();
  readonly #cache: Map<number, Stored>[] = [new Map(), new Map()];
  /** Fills that a cache passes on to other readers of the same statement. */
  readonly #collapsed: Map<number, Answer>[] = [new Map(), new Map()];

  #fence: Fence | undefined;
  #life = 0;
  /** Commits before it in the log are acknowledged. */
  #acknowledged = 0;
  /** The times at which the invalidator was down. */
  readonly #downs: { from: number; to: number }[] = [];

  readonly #outcome = { violations: [] as string[], served: 0, hits: 0, confirmed: 0, purges: 0, commits: 0 };

  constructor(seed: number, faults: Faults) {
    this.#below = generator(seed);
    this.#pause = 100 + this.#below(1_500);
    this.#maxAge = AGES[this.#below(AGES.length)]!;
    this.#faults = faults;
  }

  run(): Outcome {
    this.#start();
    this.#write();
    this.#read();
    if (this.#below(3) === 0) this.#after(this.#below(TIMES.length), () => this.#crash());
    while (this.#events.length) {
      const next = this.#events.shift()!;
      if (next.at > TIMES.length) break;
      this.#now = next.at;
      next.run();
    }
    return this.#outcome;
  }

  #after(milliseconds: number, run: () => void): void {
    const event = { at: this.#now + milliseconds, order: this.#order++, run };
    const index = this.#events.findIndex(({ at }) => at > event.at);
    this.#events.splice(index < 0 ? this.#events.length : index, 0, event);
  }

  // -- the database --------------------------------------------------------------------------------------------------

  #write(): void {
    this.#after(this.#below(this.#pause), () => this.#write());
    const isDefinition = this.#below(15) === 0;
    const tags = isDefinition ? [EVERYTHING] : [String(this.#below(RELATIONS))];
    const transaction: Transaction = { xid: this.#nextXid++, tags, visibleAt: Infinity, purgedAt: Infinity };
    this.#running.set(transaction.xid, transaction);
    this.#after(this.#below(this.#below(8) === 0 ? 2_000 : 60), () => {
      this.#outcome.commits++;
      this.#log.push(transaction);
      this.#after(this.#below(30), () => {
        this.#running.delete(transaction.xid);
        transaction.visibleAt = this.#now;
        this.#visible.push(transaction);
      });
    });
  }

  /** What a query sees now, and what its snapshot says. A standby may be behind. */
  #query(isStandby: boolean): { seen: ReadonlySet<Transaction>; snapshot: string } {
    const xmax = this.#nextXid;
    const running = [...this.#running.keys()];
    const xmin = Math.min(xmax, ...running);
    // Some of what is committed was not yet replayed: it counts as running there.
    const since = this.#now - this.#below(isStandby ? TIMES.replay : 1);
    const behind = new Set(this.#visible.filter(({ visibleAt }) => visibleAt > since));
    const seen = new Set(this.#visible.filter((transaction) => !behind.has(transaction)));
    const missing = [...running, ...this.#visible.filter((one) => behind.has(one)).map(({ xid }) => xid)];
    if (isStandby) return { seen, snapshot: `${Math.min(xmax, ...missing)}:${xmax}:` };
    if (this.#faults.positionForSnapshot) return { seen, snapshot: `${xmax}:${xmax}:` };
    return { seen, snapshot: `${xmin}:${xmax}:${running.sort((a, b) => a - b).join(",")}` };
  }

  // -- the invalidator -----------------------------------------------------------------------------------------------

  #start(): void {
    const life = ++this.#life;
    const options = {
      settle: TIMES.settle,
      maxFill: TIMES.maxFill,
      maxFills: 30,
      maxCommits: 8,
      maxDefinitions: 3,
      maxValidators: 10,
    };
    const make = this.#faults.fence ?? ((...given: ConstructorParameters<typeof Fence>) => new Fence(...given));
    const fence = make(options, this.#nextXid, this.#now);
    const follow = (at: number): void => {
      if (life !== this.#life) return;
      const transaction = this.#log[at];
      if (!transaction) return this.#after(5, () => follow(at));
      const tags = fence.commit(transaction, this.#now);
      this.#purge(tags, life, () => {
        transaction.purgedAt = Math.min(transaction.purgedAt, this.#now);
        this.#acknowledged = at + 1;
        follow(at + 1);
      });
    };
    const look = (): void => {
      if (life !== this.#life) return;
      this.#purge(fence.takeDue(this.#now), life);
      this.#after(10, look);
    };
    const begin = () => {
      this.#fence = fence;
      this.#after(this.#below(50), () => follow(this.#acknowledged));
      look();
    };
    if (this.#faults.forgetsRestart) begin();
    else this.#purge([EVERYTHING], life, begin);
  }

  #crash(): void {
    this.#life++;
    this.#fence = undefined;
    const down = { from: this.#now, to: Infinity };
    this.#downs.push(down);
    this.#after(this.#below(500), () => {
      down.to = this.#now;
      this.#start();
    });
  }

  /** A platform's purge: it takes effect in each data centre at another time, and may be refused. */
  #purge(tags: readonly string[], life: number, then?: () => void): void {
    if (life !== this.#life) return;
    if (!tags.length) return then?.();
    this.#outcome.purges++;
    this.#after(this.#below(20), () => {
      if (this.#below(10) === 0) return this.#after(20, () => this.#purge(tags, life, then));
      for (const cache of this.#cache) this.#after(this.#below(TIMES.propagation), () => dropTagged(cache, tags));
      this.#after(this.#below(20), () => life === this.#life && then?.());
    });
  }

  // -- readers -------------------------------------------------------------------------------------------------------

  #read(): void {
    this.#after(this.#below(60), () => this.#read());
    const [statement, centre] = [this.#below(STATEMENTS.length), this.#below(2)];
    const stored = this.#cache[centre]!.get(statement);
    const collapsed = this.#collapsed[centre]!.get(statement);
    if (stored && stored.until > this.#now) {
      this.#outcome.hits++;
      this.#serve(stored.answer);
    } else if (collapsed) this.#serve(collapsed);
    else this.#fill(statement, centre, stored);
  }

  /** A cache has kept the answer. It may have it for another lifetime, though it was purged meanwhile. */
  #confirm(stored: Stored, openedAt: number, statement: number, centre: number): void {
    this.#outcome.confirmed++;
    this.#serve(stored.answer);
    const rest = Math.max(0, openedAt + TIMES.maxFill + TIMES.settle - this.#now);
    this.#after(this.#below(rest), () => {
      this.#cache[centre]!.set(statement, { ...stored, until: this.#now + this.#maxAge });
    });
  }

  /** `stored`: an answer that is too old, which the cache has. */
  #fill(statement: number, centre: number, stored: Stored | undefined): void {
    const isStandby = this.#below(4) === 0;
    const learned = this.#learned.get(statement) ?? this.#learn(statement);
    const tags = learned.relations;
    const id = `${this.#fills++}`;
    const opening = {
      ...{ id, tags, representation: String(statement), maxAge: this.#maxAge },
      learned: readSnapshot(learned.snapshot, false),
    };
    const openedAt = this.#now;
    let opened: boolean | undefined;
    let hasLeft = false;
    let queried: { seen: ReadonlySet<Transaction>; snapshot: string } | undefined;
    const both = () => {
      if (opened === undefined || !queried || hasLeft) return;
      hasLeft = true;
      const { seen, snapshot } = queried;
      const answer = { statement, relations: relationsOf(statement, versionOf(seen)), seen };
      this.#serve(answer);
      const seenBy = readSnapshot(snapshot, isStandby && !this.#faults.trustsStandby);
      const close = () => {
        if (this.#below(15) === 0) return; // lost
        this.#after(
          this.#below(40),
          () => this.#fence && this.#purge(this.#fence.close({ id, tags }, seenBy, this.#now), this.#life),
        );
      };
      if (!opened) return;
      if (this.#faults.closesEarly) close();
      this.#collapsed[centre]!.set(statement, answer);
      const rest = Math.max(0, openedAt + TIMES.maxFill - this.#now);
      this.#after(this.#below(rest), () => {
        if (!this.#faults.closesEarly) close();
        this.#collapsed[centre]!.delete(statement);
        this.#after(this.#below(TIMES.settle), () => {
          const until = this.#now + this.#maxAge;
          this.#cache[centre]!.set(statement, { id, answer, tags: [...tags, EVERYTHING], until });
        });
      });
    };
    this.#after(this.#below(40), () => {
      const isLearned = this.#fence?.isLearned(opening.learned);
      if (isLearned === false) this.#learned.delete(statement);
      if (isLearned && stored && this.#fence!.revalidate(opening, [stored.id], this.#now) !== undefined) {
        hasLeft = true;
        return this.#after(this.#below(40), () => this.#confirm(stored, openedAt, statement, centre));
      }
      const isOpen = isLearned && this.#fence!.open(opening, this.#now);
      this.#after(this.#below(40), () => {
        opened = this.#faults.ignoresRefusals || isOpen === true;
        both();
      });
    });
    this.#after(this.#below(60), () => {
      queried = this.#query(isStandby);
      this.#after(this.#below(20), both);
    });
  }

  #learn(statement: number) {
    const { seen, snapshot } = this.#query(false);
    const learned = { snapshot, relations: relationsOf(statement, versionOf(seen)) };
    this.#learned.set(statement, learned);
    return learned;
  }

  /** The oracle. */
  #serve({ relations, seen, statement }: Answer): void {
    this.#outcome.served++;
    for (const transaction of this.#visible) {
      const concerns = transaction.tags.some((tag) => tag === EVERYTHING || relations.includes(tag));
      if (seen.has(transaction) || !concerns) continue;
      const { visibleAt, purgedAt } = transaction;
      const told = Math.max(visibleAt, Math.min(purgedAt, visibleAt + LONGEST_LAG));
      const down = this.#downs.reduce(
        (sum, { from, to }) => sum + (from >= told - 500 ? Math.min(to, this.#now) - from : 0),
        0,
      );
      const late = this.#now - told - down;
      if (late > TIMES.settle + TIMES.maxFill + TIMES.propagation + TIMES.replay)
        this.#outcome.violations.push(
          `statement ${statement} at ${this.#now} lacks ${transaction.xid}, ${late} ms late`,
        );
    }
  }
}

/** How many changes of definitions have been seen. */
const versionOf = (seen: ReadonlySet<Transaction>) => [...seen].filter(({ tags }) => tags.includes(EVERYTHING)).length;

function dropTagged(cache: Map<number, Stored>, tags: readonly string[]): void {
  for (const [statement, stored] of cache) if (stored.tags.some((tag) => tags.includes(tag))) cache.delete(statement);
}
