// Probes the servers: asks each one for its role and position, and remembers the answers.
//
// The standbys are asked after the primary, and all times are this process's. So a lag is an upper bound, and no
// server's clock is involved. Nothing here runs by itself: a call starts a probe when what is known is too old. So no
// timer is needed, and none runs between the requests of a Worker.
//
// Knows when a probe is due. Must not know which server is chosen from the answers.
import { PostgresError, type Pool } from "../index.ts";
import { withDeadline } from "../util/deadline.ts";
import { arraysOf } from "../util/question.ts";
import type { ClusterConfig } from "./options.ts";
import {
  REPLAY_POSITION,
  hasNoIdentity,
  statusOf,
  statusQuestion,
  type ServerStatus,
  type StatusRow,
} from "./questions.ts";
import { lsnOf } from "./position.ts";
import { lagOf } from "./choice.ts";
import type { Facts } from "./memory.ts";
import type { Server, Servers } from "./servers.ts";

/** Milliseconds that a server has for its answer, including the connect. */
const PATIENCE = 2_000;
/**
 * Longest pause in milliseconds between two questions for how far a standby is. The pauses are 1, 2, 4 … up to this
 * one, a quarter of a second in all.
 */
const LAST_REPLAY_PAUSE = 128;

export class Probes {
  readonly #servers: Servers;
  readonly #config: ClusterConfig;
  #probing: Promise<void> | undefined;
  /** Wakes the calls that wait for a standby. */
  #waiters: (() => void)[] = [];
  /** In this probe every server that answered the last time has answered again, or failed. */
  #hasAnswers = false;
  /** `canReadIdentity` of Facts, for the pool that finds the primary by itself, which has no Facts. */
  readonly #primary = { canReadIdentity: true };
  /** The primary did not answer the last time. */
  #isPrimaryLost = false;
  /** The pending call of `discover`. */
  #discovering: Promise<void> | undefined;

  constructor(servers: Servers, config: ClusterConfig) {
    this.#servers = servers;
    this.#config = config;
  }

  /** Returns whether the facts are older than `probeInterval`, or suspect. */
  isDue(now: number): boolean {
    const { memory } = this.#servers;
    return memory.isSuspect || now - memory.probedAt >= this.#config.probeInterval;
  }

  /** Asks the servers. Callers at the same time share the answers. Never rejects. */
  probe(): Promise<void> {
    return (this.#probing ??= this.#probe().finally(() => (this.#probing = undefined)));
  }

  /**
   * The same, but resolves as soon as a suitable standby is known, or all servers that answered the last time have
   * answered again. So a silent server does not delay calls.
   */
  async probeForStandby(): Promise<void> {
    const probed = this.probe();
    if (this.#hasAnswers) return;
    await Promise.race([probed, new Promise<void>((resolve) => this.#waiters.push(resolve))]);
  }

  async #probe(): Promise<void> {
    const { memory } = this.#servers;
    this.#hasAnswers = false;
    await this.#discover();
    const wereSuspect = memory.isSuspect;
    memory.isSuspect = false;
    memory.probedAt = performance.now();
    const { primary } = this.#servers;
    const answer = primary && this.#askPrimary(primary);
    // A primary that was lost is not waited for: another server may be the primary, and says so sooner.
    const wasLost = this.#isPrimaryLost;
    const hasPrimaryFailed = !wasLost && (await answer) === false;
    // The answer itself makes roles suspect if it is of another timeline than the last one.
    const rolesMayHaveChanged = memory.isSuspect || hasPrimaryFailed;
    // The primary is asked through the primary's pool, and needs no second connection for that.
    const asksEveryServer = wereSuspect || wasLost || rolesMayHaveChanged;
    const asked = this.#servers.list.filter(({ facts }) => asksEveryServer || !isPrimary(facts));
    memory.isSuspect = false;
    await this.#askAll(asked);
    this.#isPrimaryLost = (await answer) === false;
    const isSplit = !this.#servers.elect();
    const { primary: found, primaries } = this.#servers;
    const hasPrimaryReturned = this.#isPrimaryLost ? primaries.length > 0 : wasLost;
    // The primary was another server until now, or not known. The answers of the standbys are older than that.
    if (found && (found !== primary || hasPrimaryReturned)) {
      this.#isPrimaryLost = !(await this.#askPrimary(found));
      await this.#askAll(asked.filter(({ facts }) => facts.status?.isStandby));
    }
    memory.isSuspect ||= isSplit || (rolesMayHaveChanged && !wereSuspect && !this.#servers.primaries.length);
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

  /**
   * `discover` may be slow. After the deadline the probe continues with the known servers. Only one call of it is
   * pending at a time.
   */
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
      // The known servers stay in use.
    }
  }

  /** Returns `false` if the primary did not answer. */
  async #askPrimary(pool: Pool): Promise<boolean> {
    const at = performance.now();
    try {
      const found = await ask(pool, this.#primary);
      if (!found.isStandby) this.#servers.memory.mark(found, at);
      return true;
    } catch {
      // The lags grow until the primary answers again.
      return false;
    }
  }

  async #ask(server: Server): Promise<void> {
    const { pool, facts } = server;
    const { memory } = this.#servers;
    try {
      // The first question pays for a connect and a first run, so it is not the one that is measured.
      if (!pool.stats().idle) await ask(pool, facts);
      const began = performance.now();
      const found = await ask(pool, facts);
      const roundTrip = performance.now() - began;
      memory.answered(facts, found, roundTrip);
      if (!found.isStandby) return this.#servers.wake();
      await this.#untilKnown(server);
      if (lagOf(facts, performance.now()) <= this.#config.maxLag) this.#wake();
    } catch (failure) {
      // If all connections are in use, the server is only busy. Another standby can answer instead, but there is no
      // other primary.
      const { acquired, max } = pool.stats();
      const isBusy = acquired >= max;
      if (isBusy && isPrimary(facts)) return;
      memory.failed(facts, failure);
      if (!isBusy && !(failure instanceof PostgresError)) server.replacePool();
    }
  }

  /**
   * Asks the standby repeatedly, for a short time, until it has reached a recorded position of the primary, because its
   * lag is known only then. A busy primary is always ahead, so its present position would not do.
   */
  async #untilKnown(server: Server): Promise<void> {
    const { memory } = this.#servers;
    const { maxLag } = this.#config;
    for (let pause = 1; pause <= LAST_REPLAY_PAUSE && lagOf(server.facts, performance.now()) > maxLag; pause *= 2) {
      if (!memory.knowsLag(server.facts)) return;
      await new Promise((resolve) => setTimeout(resolve, pause));
      await this.replayPosition(server, PATIENCE);
    }
  }

  /** Returns how far the standby is now, or `undefined` if the server is no longer a standby. */
  async replayPosition({ pool, facts }: Server, timeout: number): Promise<bigint | undefined> {
    const options = { timeout: Math.max(Math.ceil(timeout), 1) };
    const [row] = await arraysOf<[string | null]>(pool, REPLAY_POSITION, options);
    const text = row![0];
    if (text === null) return undefined;
    const lsn = lsnOf(text);
    this.#servers.memory.reached(facts, lsn);
    return lsn;
  }
}

function isPrimary({ status }: Facts): boolean {
  return status !== undefined && !status.isStandby;
}

/** Asks a server. Asks again without the identity if the role may not read it. */
async function ask(pool: Pool, known: { canReadIdentity: boolean }): Promise<ServerStatus> {
  try {
    const [row] = await arraysOf<StatusRow>(pool, statusQuestion(known.canReadIdentity), { timeout: PATIENCE });
    return statusOf(row!);
  } catch (error) {
    if (!known.canReadIdentity || !hasNoIdentity(error as { code?: unknown })) throw error;
    known.canReadIdentity = false;
    return ask(pool, known);
  }
}
