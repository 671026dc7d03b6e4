// Looks at the servers: asks each one who it is and how far, and remembers the answers.
//
// The primary is asked first: what it has is then compared with what the standbys say afterwards, by our clock alone. So
// a lag is a bound, and does not depend on the clocks of servers. Nothing here runs by itself: calls look when what is
// known has become old, so that no timer is needed, and none runs between the requests of a Worker.
//
// Knows when a look is due. Must not know who is chosen by what it finds.
import { PostgresError, type Pool } from "../../index.ts";
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
  /** Of the pool that finds the primary by itself. */
  readonly #primary = { isIdentified: true };

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

  /** The same, but resolves as soon as a standby is known that may answer: one that is silent does not delay others. */
  async lookForStandby(): Promise<void> {
    const looked = this.look();
    await Promise.race([looked, new Promise<void>((resolve) => this.#waiters.push(resolve))]);
  }

  async #look(): Promise<void> {
    const { memory } = this.#servers;
    await this.#discover();
    const isSuspect = memory.isSuspect;
    memory.isSuspect = false;
    memory.lookedAt = performance.now();
    const { primary } = this.#servers;
    if (primary) await this.#askPrimary(primary);
    // Who is the primary needs no second connection.
    const asked = this.#servers.list.filter(({ facts }) => isSuspect || memory.isSuspect || !isPrimary(facts));
    const isLost = memory.isSuspect && !isSuspect;
    memory.isSuspect = false;
    await Promise.all(asked.map((server) => this.#ask(server)));
    const isClear = this.#servers.elect();
    const found = this.#servers.primary;
    // It was another one, or not known, until now. What the standbys have said is older.
    if (found && found !== primary) {
      await this.#askPrimary(found);
      await Promise.all(asked.filter(({ facts }) => !isPrimary(facts)).map((server) => this.#ask(server)));
    }
    memory.isSuspect ||= !isClear || (isLost && !this.#servers.primaries.length);
  }

  async #discover(): Promise<void> {
    const { discover } = this.#config;
    if (!discover) return;
    try {
      this.#servers.update(await discover());
    } catch {
      // Those that are known go on.
    }
  }

  async #askPrimary(pool: Pool): Promise<void> {
    const at = performance.now();
    try {
      const found = await ask(pool, this.#primary);
      if (!found.isStandby) this.#servers.memory.mark(found, at);
    } catch {
      // Lags grow, until it is asked again.
      this.#servers.memory.isSuspect = true;
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
      if (!found.isStandby) return;
      await this.#untilKnown(server);
      if (lagOf(facts, performance.now()) <= this.#config.maxLag) this.#waiters.splice(0).forEach((wake) => wake());
    } catch (failure) {
      memory.failed(facts, failure);
      // Where all connections are in use it is only busy.
      const { acquired, max } = pool.stats();
      if (acquired < max && !(failure instanceof PostgresError)) server.leave();
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

  /** How far a standby is now. */
  async howFar({ pool, facts }: Server, timeout: number): Promise<bigint> {
    const { rows } = await pool.query<[string | null]>(HOW_FAR, {
      ...QUIETLY,
      timeout: Math.max(Math.ceil(timeout), 1),
    });
    const lsn = lsnOf(rows[0]![0] ?? "0/0");
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
