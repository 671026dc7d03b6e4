// Looks at the servers: asks each one who it is and how far, and remembers the answers.
//
// The primary is asked first: what it has is then compared with what the standbys say afterwards, by our clock alone. So
// a lag is a bound, and does not depend on the clocks of servers. Nothing here runs by itself: calls look when what is
// known has become old, so that no timer is needed, and none runs between the requests of a Worker.
//
// Knows when a look is due. Must not know who is chosen by what it finds.
import { PostgresError, type Pool } from "../../index.ts";
import { withDeadline } from "../../util/deadline.ts";
import type { ClusterConfig } from "./options.ts";
import { HOW_FAR, hasNoIdentity, told, whoAreYou, type Told, type ToldRow } from "./questions.ts";
import { lsnOf } from "./position.ts";
import { lagOf } from "./choice.ts";
import type { Facts } from "./memory.ts";
import type { Server, Servers } from "./servers.ts";

/** Milliseconds that a server has for its answer, connecting included. */
const PATIENCE = 2_000;
/** Between two questions how far a standby is: 1, 2, 4 … up to here, which is a quarter of a second in all. */
const LONGEST_PAUSE = 128;
/** Nobody observes our own questions. */
const QUIETLY = { observer: {}, timeout: PATIENCE, rowMode: "array" } as const;

export class Lookout {
  readonly #servers: Servers;
  readonly #config: ClusterConfig;
  #looking: Promise<void> | undefined;
  /** Those who wait for a standby. */
  #waiters: (() => void)[] = [];
  /** In this look all have answered that can be expected to. */
  #hasAnswers = false;
  /** Of the pool that finds the primary by itself. */
  readonly #primary = { isIdentified: true };
  /** It did not answer the last time. */
  #isLost = false;
  /** The servers of `discover`, which is asked. */
  #discovering: Promise<void> | undefined;

  constructor(servers: Servers, config: ClusterConfig) {
    this.#servers = servers;
    this.#config = config;
  }

  /** What is known is old, or not to be trusted. */
  isDue(now: number): boolean {
    const { memory } = this.#servers;
    return memory.isSuspect || now - memory.lookedAt >= this.#config.lookInterval;
  }

  /** Asks; those who ask at the same time share the answers. Never rejects. */
  look(): Promise<void> {
    return (this.#looking ??= this.#look().finally(() => (this.#looking = undefined)));
  }

  /**
   * The same, but resolves as soon as a standby is known that may answer, or all have answered that did the last time:
   * one that is silent does not delay others.
   */
  async lookForStandby(): Promise<void> {
    const looked = this.look();
    if (this.#hasAnswers) return;
    await Promise.race([looked, new Promise<void>((resolve) => this.#waiters.push(resolve))]);
  }

  async #look(): Promise<void> {
    const { memory } = this.#servers;
    this.#hasAnswers = false;
    await this.#discover();
    const { isSuspect } = memory;
    memory.isSuspect = false;
    memory.lookedAt = performance.now();
    const { primary } = this.#servers;
    const answer = primary && this.#askPrimary(primary);
    // While it is lost nobody waits for its answer: another server may be the primary, and tells so sooner.
    const wasLost = this.#isLost;
    const isMissed = !wasLost && (await answer) === false;
    const isNews = memory.isSuspect || isMissed;
    // Who is the primary needs no second connection.
    const isAny = isSuspect || wasLost || isNews;
    const asked = this.#servers.list.filter(({ facts }) => isAny || !isPrimary(facts));
    memory.isSuspect = false;
    await this.#askAll(asked);
    this.#isLost = (await answer) === false;
    const isClear = this.#servers.elect();
    const { primary: found, primaries } = this.#servers;
    const isBack = this.#isLost ? primaries.length > 0 : wasLost;
    // It was another one, or not known, until now. What the standbys have said is older.
    if (found && (found !== primary || isBack)) {
      this.#isLost = !(await this.#askPrimary(found));
      await this.#askAll(asked.filter(({ facts }) => facts.told?.isStandby));
    }
    memory.isSuspect ||= !isClear || (isNews && !isSuspect && !this.#servers.primaries.length);
  }

  async #askAll(servers: readonly Server[]): Promise<void> {
    const wereThere = servers.map(({ facts }) => facts.failure === undefined);
    const asked = servers.map((server) => this.#ask(server));
    await Promise.all(asked.filter((_, index) => wereThere[index]));
    this.#hasAnswers = true;
    this.#wake();
    await Promise.all(asked);
  }

  #wake(): void {
    this.#waiters.splice(0).forEach((wake) => wake());
  }

  /** Those who give the servers may be slow: what is known is looked at meanwhile. They are not asked twice at a time. */
  async #discover(): Promise<void> {
    const { discover } = this.#config;
    if (!discover) return;
    this.#discovering ??= this.#update(discover).finally(() => (this.#discovering = undefined));
    await withDeadline(PATIENCE, this.#discovering);
  }

  async #update(discover: NonNullable<ClusterConfig["discover"]>): Promise<void> {
    try {
      this.#servers.update(await discover());
    } catch {
      // Those that are known go on.
    }
  }

  /** `false`: it did not answer. */
  async #askPrimary(pool: Pool): Promise<boolean> {
    const at = performance.now();
    try {
      const found = await ask(pool, this.#primary);
      if (!found.isStandby) this.#servers.memory.mark(found, at);
      return true;
    } catch {
      // Lags grow, until it is asked again.
      return false;
    }
  }

  async #ask(server: Server): Promise<void> {
    const { pool, facts } = server;
    const { memory } = this.#servers;
    try {
      // The first answer takes a connection and a first run too.
      if (!pool.stats().idle) await ask(pool, facts);
      const began = performance.now();
      const found = await ask(pool, facts);
      const roundTrip = performance.now() - began;
      memory.answered(facts, found, roundTrip);
      if (!found.isStandby) return this.#servers.wake();
      await this.#untilKnown(server);
      if (lagOf(facts, performance.now()) <= this.#config.maxLag) this.#wake();
    } catch (failure) {
      // Where all connections are in use it is only busy: another standby can answer, but there is no other primary.
      const { acquired, max } = pool.stats();
      const isBusy = acquired >= max;
      if (isBusy && isPrimary(facts)) return;
      memory.failed(facts, failure);
      if (!isBusy && !(failure instanceof PostgresError)) server.leave();
    }
  }

  /**
   * A primary that works is further than its standbys in each moment. How far it was a moment ago tells a lag, so the
   * standby is asked until it has come there, for a short time.
   */
  async #untilKnown(server: Server): Promise<void> {
    const { memory } = this.#servers;
    const { maxLag } = this.#config;
    for (let pause = 1; pause <= LONGEST_PAUSE && lagOf(server.facts, performance.now()) > maxLag; pause *= 2) {
      if (!memory.canTell(server.facts)) return;
      await new Promise((resolve) => setTimeout(resolve, pause));
      await this.howFar(server, PATIENCE);
    }
  }

  /** How far a standby is now; `undefined`: it is none. */
  async howFar({ pool, facts }: Server, timeout: number): Promise<bigint | undefined> {
    const { rows } = await pool.query<[string | null]>(HOW_FAR, {
      ...QUIETLY,
      timeout: Math.max(Math.ceil(timeout), 1),
    });
    const text = rows[0]![0];
    if (text === null) return undefined;
    const lsn = lsnOf(text);
    this.#servers.memory.reached(facts, lsn);
    return lsn;
  }
}

function isPrimary({ told: said }: Facts): boolean {
  return said !== undefined && !said.isStandby;
}

/** Once more without its identity, where the role may not ask for that. */
async function ask(pool: Pool, known: { isIdentified: boolean }): Promise<Told> {
  try {
    const { rows } = await pool.query<ToldRow>(whoAreYou(known.isIdentified), QUIETLY);
    return told(rows[0]!);
  } catch (error) {
    if (!known.isIdentified || !hasNoIdentity(error as { code?: unknown })) throw error;
    known.isIdentified = false;
    return ask(pool, known);
  }
}
