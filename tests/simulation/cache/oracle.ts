// Judges each answer that the cache serves, from what the server's tables have had, and when.
//
// The property: no answer lacks a commit which was visible for longer than
//
//   the lag of purges + what a cache takes (`settle`, `maxFill`, propagation)
//
// An answer that was stored before the commit is gone as soon as the invalidator says so by its lag, but for the
// propagation.
//
// Time in which the invalidator says itself that it is down or far behind does not count, since nothing can be purged
// then, nor does the time until its life has purged everything for the second time (docs/cache.md). That it comes back,
// the session checks.
//
// A life of the invalidator purges everything when it begins, so a while later nothing is stored from before it.
//
// Rows are numbers, `1000 * table` and up, each written once. So an answer shows which commits it has seen. A row comes
// back only where a crash has lost its delete.
import type { Clock } from "../contract.ts";
import type { Server } from "../server/server.ts";
import type { Table } from "../server/tables.ts";
import type { Served } from "./front.ts";

/** A moment: the clock, and how much of it did not count. */
interface When {
  readonly at: number;
  readonly excused: number;
}

/** Maximum milliseconds. */
export interface Bounds {
  /** From when a commit is visible to the last answer without it. */
  readonly age: number;
  /** From the beginning of a life that is well until what was stored before it is purged. */
  readonly beginning: number;
  /** From a purge until no data centre has what it purges. */
  readonly propagation: number;
  /** From when a commit may be told until it is visible. */
  readonly told: number;
  /** From the beginning of a life until that holds. */
  readonly recovery: number;
}

export interface State {
  readonly isFollowing: boolean;
  readonly isWell: boolean;
  /** Milliseconds: what was committed before has been purged. */
  readonly lag: number;
}

/** The table of a view from then on. */
interface Stay extends When {
  readonly table: number;
}

const isOurs = ({ name }: Table): boolean => /^t\d$/.test(name);
const numbersOf = (table: Table): number[] => table.visible().map(({ values }) => values[0] as number);

export class Oracle {
  readonly faults: string[] = [];
  served = 0;
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #standby: Server | undefined;
  readonly #bounds: Bounds;
  /** What the invalidator says: whether it follows, and whether purges happen in time. */
  readonly #state: () => State;
  /** By table and number: when it became visible. */
  readonly #rows: Map<number, When>[] = [];
  /** Rows that a standby has had, which may be before they are visible on the primary. */
  readonly #early = new Set<number>();
  /** Rows that were deleted, or that a crash of the server has lost, and when. */
  readonly #gone = new Map<number, When>();
  /** By name of the view. */
  readonly #stays = new Map<string, Stay[]>();
  #commits = -1;
  /** The commits of the standby. */
  #replayed = -1;
  /** What was committed before has been purged, as the invalidator says; and so in each data centre. */
  #answered = -Infinity;
  #purged = -Infinity;
  readonly #purges: { readonly answered: number; readonly everywhereAt: number }[] = [];
  #excused = 0;
  #last = 0;
  /** Since when it has been well, and since when it has followed. */
  #wellSince: number | undefined;
  #lifeSince: number | undefined;

  constructor(
    clock: Clock,
    servers: readonly [primary: Server, standby?: Server | undefined],
    bounds: Bounds,
    state: () => State,
  ) {
    this.#clock = clock;
    [this.#server, this.#standby] = servers;
    this.#bounds = bounds;
    this.#state = state;
  }

  /** Called between two events. */
  look(): void {
    const { now } = this.#clock;
    const isRecovered = this.#lifeSince !== undefined && this.#last - this.#lifeSince > this.#bounds.recovery;
    if (!isRecovered || this.#wellSince === undefined) this.#excused += now - this.#last;
    this.#last = now;
    const { isFollowing, isWell, lag } = this.#state();
    this.#lookAtPurges(now - lag);
    this.#wellSince = isWell ? (this.#wellSince ?? now) : undefined;
    this.#lifeSince = isFollowing ? (this.#lifeSince ?? now) : undefined;
    this.#lookAtStandby();
    const { commits } = this.#server.world;
    if (commits.count === this.#commits) return;
    this.#commits = commits.count;
    const when = { at: now, excused: this.#excused };
    for (const table of this.#server.world.tables) {
      if (table.of) this.#stay(table.name, Number(table.of.name.slice(1)), when);
      else if (isOurs(table)) this.#add(Number(table.name.slice(1)), numbersOf(table), when);
    }
  }

  #lookAtPurges(answered: number): void {
    const { now } = this.#clock;
    if (answered !== this.#answered) this.#purges.push({ answered, everywhereAt: now + this.#bounds.propagation });
    this.#answered = answered;
    while (this.#purges.length && this.#purges[0]!.everywhereAt <= now) this.#purged = this.#purges.shift()!.answered;
  }

  #lookAtStandby(): void {
    if (!this.#standby || this.#standby.world.commits.count === this.#replayed) return;
    this.#replayed = this.#standby.world.commits.count;
    for (const n of this.#standby.world.tables.filter(isOurs).flatMap(numbersOf)) this.#early.add(n);
  }

  #stay(view: string, table: number, when: When): void {
    const stays = this.#stays.get(view) ?? [];
    if (stays.at(-1)?.table !== table) this.#stays.set(view, [...stays, { ...when, table }]);
  }

  #add(table: number, numbers: readonly number[], when: When): void {
    const rows = (this.#rows[table] ??= new Map());
    for (const n of numbers) {
      const isBack = this.#gone.delete(n);
      if (isBack || !rows.has(n)) rows.set(n, when);
    }
    const there = new Set(numbers);
    for (const n of rows.keys()) if (!there.has(n) && !this.#gone.has(n)) this.#gone.set(n, when);
  }

  /** Judges an answer that is served now. One that was read for this request is as old as that took. */
  judge(source: string, { body, isOwn, storedAt = Infinity }: Served): void {
    this.served++;
    const lines = body.split("\n").filter(Boolean);
    const numbers = new Set(lines.map((line) => (JSON.parse(line) as { n: number }).n));
    const [first] = numbers;
    const tables = first === undefined ? this.#tablesOf(source) : [Math.floor(first / 1_000)];
    const faultOf = (table: number) =>
      this.#wrongWith(source, table, numbers) ?? (isOwn ? undefined : this.#oldIn(source, table, numbers, storedAt));
    const faults = tables.map(faultOf);
    if (faults.every((fault) => fault !== undefined)) return this.#fault(source, faults.at(-1)!);
    const [well, life] = [this.#wellSince, this.#lifeSince];
    if (isOwn || well === undefined || life === undefined) return;
    if (storedAt < life && this.#clock.now - well > this.#bounds.beginning)
      this.#fault(source, "it was stored before this life");
  }

  /** The tables that an answer without rows may be of. */
  #tablesOf(source: string): number[] {
    const stays = this.#stays.get(source);
    return stays ? stays.map(({ table }) => table) : [Number(source.slice(1))];
  }

  #wrongWith(source: string, table: number, numbers: ReadonlySet<number>): string | undefined {
    const rows = this.#rows[table] ?? new Map<number, When>();
    const invented = [...numbers].filter((n) => !rows.has(n) && !this.#early.has(n));
    if (invented.length) return `it has what was never visible there: ${invented.join()}`;
    return this.#tablesOf(source).includes(table) ? undefined : `it has rows of t${table}`;
  }

  /** What was stored before a commit is purged with it; what is stored later, when its fill has settled. */
  #oldIn(source: string, table: number, numbers: ReadonlySet<number>, storedAt: number): string | undefined {
    const { age, told } = this.#bounds;
    /** How long an answer lacks what happened then, if that is too long. */
    const overdue = (when: When | undefined) => {
      if (!when) return undefined;
      const since = this.#since(when);
      const isPurged = storedAt < when.at - told && when.at < this.#purged;
      return isPurged || since > age ? since.toFixed(1) : undefined;
    };
    const stays = this.#stays.get(source) ?? [];
    const left = stays[stays.map((stay) => stay.table).lastIndexOf(table) + 1];
    const moved = stays.length ? overdue(left) : undefined;
    if (moved) return `it left t${table} ${moved} ms ago`;
    for (const n of numbers) {
      const gone = overdue(this.#gone.get(n));
      if (gone) return `it has ${n}, which is gone for ${gone} ms`;
    }
    for (const [n, when] of this.#rows[table]!) {
      const isMissing = !numbers.has(n) && !this.#gone.has(n) && (!left || when.at < left.at);
      const missing = isMissing ? overdue(when) : undefined;
      if (missing) return `it lacks ${n}, which was visible for ${missing} ms`;
    }
    return undefined;
  }

  #fault(source: string, fault: string): void {
    this.faults.push(`${source} at ${this.#clock.now.toFixed(1)}: ${fault}`);
  }

  #since({ at, excused }: When): number {
    return this.#clock.now - at - (this.#excused - excused);
  }
}
