// `cluster.reads.after(position)`: calls whose answers are never older than a position.
//
//   in READ COMMITTED   [guard, statement] Sync          if the guard fails, the server skips the statement
//   otherwise           [guard] Sync [statement] Sync    if the guard fails, the statement is not sent
//
// A guard is a SELECT that fails unless the server has reached the position (questions.ts). In both ways the
// statement's snapshot is taken after the guard, and replay never goes back. Nothing can precede COPY or several
// statements in one text, so these always use the second way.
//
// Knows guards and what their failures mean. Must not know how a server is chosen, or how far each server is.
import {
  ofPreludes,
  PgzError,
  UsageError,
  type CallOptions,
  type QueryResult,
  type RouteReason,
  type SimpleOptions,
  type TransactionOptions,
} from "../index.ts";
import { needsPrimary, reasonToLeaveGuarded, trackBegin } from "./again.ts";
import { CallLimits } from "./call-limits.ts";
import type { Choice } from "./choice.ts";
import {
  queueOf,
  type Body,
  type CallArguments,
  type PoolQueue,
  type Operation,
  type Session,
  type RowInput,
  type SessionOf,
  type Work,
} from "./pool-queue.ts";
import { ask, patienceOf, simpleQuery } from "./internal-queries.ts";
import { UNKNOWN, type Position } from "./position.ts";
import { primaryGuard, refusalOf, standbyGuardAlone, standbyGuardWithStatement, type Refusal } from "./questions.ts";
import { Routed, type Owner } from "./routed.ts";
import type { Router } from "./router.ts";
import type { Server } from "./servers.ts";
import { learnVersion, Waiting } from "./waiting.ts";

/** Marks the options of a call whose guard must be sent in a Sync group of its own. */
const OWN_GROUP = Symbol("own group");
/** Milliseconds between two questions for how far a standby is. The pause doubles each time, up to the longest. */
const FIRST_REPLAY_PAUSE = 1,
  LONGEST_REPLAY_PAUSE = 50;
/** Milliseconds by which the pause grows each time another primary turns out to be stale. */
const STALE_PRIMARY_PAUSE = 50;
/** Maximum number of primaries that are asked before the call fails because each is of an older timeline. */
const MOST_PRIMARIES = 5;

/** In which Sync group a guard is sent: in that of its statement, or in an earlier group, a transaction of its own. */
type GuardPlacement = "same group" | "own group";

/** The guard for one server, and where it is sent. */
class Guard {
  readonly statement: string;
  readonly placement: GuardPlacement;
  readonly #server: Server | undefined;
  readonly #waiting: Waiting | undefined;

  constructor(statement: string, placement: GuardPlacement, server?: Server, waiting?: Waiting) {
    this.statement = statement;
    this.placement = placement;
    this.#server = server;
    this.#waiting = waiting;
  }

  /** The call may keep its connection for longer than a round trip. */
  get waits(): boolean {
    return this.#waiting !== undefined;
  }

  /**
   * Called just before the guard is sent on this session. Learns the server's version, and sends WAIT if the call waits
   * in the server. `whenOver` registers a listener for the end of the call, after which the wait is not needed.
   */
  beforeSend(session: Session, whenOver: (listener: () => void) => void): void {
    if (this.#server) learnVersion(this.#server, session);
    this.#waiting?.send(session, whenOver);
  }
}

/** Makes the call on the queue of one server. */
type Attempt<T> = (queue: PoolQueue, guard: Guard | undefined) => Promise<T>;

/** The calls of `reads` whose answers are never older than a position: `cluster.reads.after(position)`. */
export class After extends Routed {
  readonly #position: Position;

  /** @internal Use `cluster.reads.after()`. */
  constructor(router: Router, owner: Owner, position: Position) {
    super(router, owner);
    this.#position = position;
  }

  /** The text may have several statements, so its guard needs a Sync group of its own. */
  override async simple<Row = Record<string, unknown>>(
    text: RowInput<Row>,
    options: SimpleOptions = {},
  ): Promise<QueryResult<Row>[]> {
    return await super.simple(text, { ...options, [OWN_GROUP]: true } as SimpleOptions);
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected override run<T>(...call: CallArguments<T>): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const [asked, options, body, way] = call;
    if ((options as { cache?: boolean }).cache)
      throw new UsageError("INVALID_OPTION", 'After a position, option "cache" cannot be true: a cache may be older.');
    const needsOwnGroup = asked.kind === "copy" || OWN_GROUP in options;
    const limits = new CallLimits([options.signal, this.config.signal], options.timeout ?? this.config.timeout);
    const attempt: Attempt<T> = async (queue, guard) => {
      const isInOwnGroup = guard && (needsOwnGroup || guard.placement === "own group");
      const guarded = !guard ? body : isInOwnGroup ? guardedInOwnGroup(body, guard) : guardedInSameGroup(body, guard);
      const turn = guard?.waits && way === "shared" ? "alone" : way;
      const result = await limits.attempt(options, (left) => queue.run(asked, left, guarded, turn));
      // The items of a batch that is not atomic fail one by one: the batch resolves although a guard has failed.
      const failed = asked.kind === "batch" && (result as PromiseSettledResult<unknown>[]).find(isRefused);
      if (failed) throw (failed as PromiseRejectedResult).reason;
      return result;
    };
    return this.#route(needsOwnGroup, limits, attempt, options);
  }

  /** @internal */
  protected override runTransaction<T>(work: Work<T>, options: TransactionOptions, sessionOf: SessionOf): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const { tracked, hasBegun } = trackBegin(work);
    // The callback is the user's, and runs only once. So the guard is sent before the callback. It is sent again in
    // front of the transaction's first statement, because a pooler may send that to another server.
    const limits = new CallLimits([Object(options).signal, this.config.signal], Object(options).timeout);
    const attempt: Attempt<T> = (queue, guard) =>
      limits.attempt(options, (left) => {
        // Made first: a pool with a free connection asks for the session before it returns.
        let ended!: () => void;
        const over = new Promise<void>((resolve) => (ended = resolve));
        const running = queue.runTransaction(tracked, left, async (session) => {
          if (!guard) return sessionOf(session);
          guard.beforeSend(session, (listener) => void over.then(listener));
          await passed(ask(session, patienceOf(queue.config, left), simpleQuery(guard.statement)));
          return sessionOf(
            isSnapshot(options) || guard.placement === "own group" ? session : session.guarded(guard.statement),
          );
        });
        running.then(ended, ended);
        return running;
      });
    return this.#route(true, limits, attempt, options, hasBegun);
  }

  async #route<T>(
    needsOwnGroup: boolean,
    limits: CallLimits,
    attempt: Attempt<T>,
    options: CallOptions,
    hasBegun = () => false,
  ): Promise<T> {
    const router = this.router;
    const position = this.#position;
    const onPrimary = (why: RouteReason, waited: number) =>
      this.#onPrimary(why, waited, limits, attempt, options, hasBegun);
    if (position === UNKNOWN) return onPrimary("unknown", 0);
    if (needsPrimary(options)) return onPrimary("write", 0);
    // The position is of another timeline. Either this cluster has not learned of a promotion yet, or there was a
    // promotion since then, which may have lost the position.
    const { memory } = router.servers;
    if (memory.timeline < position.timeline) await this.#learn(memory.timeline, options);
    if (memory.timeline && memory.timeline !== position.timeline) return onPrimary("unknown", 0);
    const began = performance.now();
    const until = began + router.config.wait;
    const waited = () => performance.now() - began;
    const tried = new Set<string>();
    /** A standby that has said that it is behind, and in which a call can wait. */
    let late: Server | undefined;
    let reason: RouteReason | undefined;
    let waitedMs = 0;
    for (;;) {
      const chosen = late ? ofLate(late) : router.choose({ tried, lsn: position.lsn }, options);
      const choice: Choice<Server> = chosen instanceof Promise ? await chosen : chosen;
      if (choice.is === "primary") return onPrimary(reason ?? choice.reason, waitedMs);
      const { server } = choice;
      router.recordStandby(server, waitedMs);
      const placement: GuardPlacement = server.facts.isReadCommitted ? "same group" : "own group";
      const isAlone = needsOwnGroup || placement === "own group";
      const guard = isAlone ? standbyGuardAlone(position) : standbyGuardWithStatement(position);
      const waiting = Waiting.begin(server, position, until, server === late);
      try {
        const running = attempt(queueOf(server.pool), new Guard(guard, placement, server, waiting));
        return await (waiting ? this.#waited(running, server, waiting) : running);
      } catch (error) {
        if (hasBegun()) throw error;
        const refusal = refusalOf(error);
        if (refusal === "isolation" && placement === "same group") {
          server.facts.isReadCommitted = false;
          continue;
        }
        late = refusal === "behind" && !waiting && Waiting.isPossible(server, until) ? server : undefined;
        if (late || (refusal === "behind" && (await this.#isThere(server, until, limits)))) {
          waitedMs = waited();
          continue;
        }
        waitedMs = waited();
        reason = refusal ? REASONS[refusal] : reasonToLeaveGuarded(error);
        if (!reason) throw error;
        if (refusal === "role") router.suspect();
        if (reason === "write") return onPrimary(reason, waitedMs);
        if (!refusal && reason === "unreachable") router.markUnreachable(server, error);
        tried.add(server.key);
      }
    }
  }

  /** Runs a call that waits in the server. If the call succeeds, the standby has reached the position. */
  async #waited<T>(running: Promise<T>, { facts }: Server, waiting: Waiting): Promise<T> {
    const { memory } = this.router.servers;
    try {
      const result = await running;
      if (memory.timeline === this.#position.timeline) memory.reached(facts, this.#position.lsn);
      return result;
    } finally {
      waiting.end();
    }
  }

  /**
   * Asks the servers, because the position is of a newer timeline than the known one. `timeline`: that one; 0: none.
   */
  async #learn(timeline: number, options: CallOptions): Promise<void> {
    if (timeline) this.router.suspect();
    await this.router.probeForStandby(options);
  }

  /**
   * Waits until the standby has reached the position, or is no longer a standby. Returns `false` if neither has
   * happened by `until`, or if the standby cannot be asked.
   */
  async #isThere(server: Server, until: number, limits: CallLimits): Promise<boolean> {
    const { probes } = this.router;
    for (let pause = FIRST_REPLAY_PAUSE; ; pause = Math.min(pause * 2, LONGEST_REPLAY_PAUSE)) {
      const left = until - performance.now();
      if (left <= 0) return false;
      await limits.pause(Math.min(pause, left));
      try {
        const lsn = await probes.replayPosition(server, until - performance.now());
        if (lsn === undefined || lsn >= this.#position.lsn) return true;
      } catch {
        return false;
      }
    }
  }

  /**
   * Makes the call on the primary, which has everything that has committed. The exceptions are a stale primary, which
   * does not know that a standby was promoted, and one that was restored. The guard detects them, and the pool then
   * looks for the current primary.
   */
  async #onPrimary<T>(
    reason: RouteReason,
    waitedMs: number,
    limits: CallLimits,
    attempt: Attempt<T>,
    options: CallOptions,
    hasBegun: () => boolean,
  ): Promise<T> {
    const router = this.router;
    const position = this.#position;
    router.recordPrimary(reason, waitedMs);
    const guard = position === UNKNOWN ? undefined : new Guard(primaryGuard(position), "same group");
    for (let attempts = 1; ; attempts++) {
      const pool = await router.primary(options);
      try {
        return await attempt(queueOf(pool), guard);
      } catch (error) {
        if (hasBegun()) throw error;
        if (attempts < MOST_PRIMARIES && (await router.wasQueuedOnDroppedPool(pool, error))) continue;
        if (refusalOf(error) !== "role") throw error;
        router.suspect();
        if (attempts === MOST_PRIMARIES) throw leftBehind(error);
        pool.reset();
        await limits.wait(router.probes.probe());
        if (attempts > 1) await limits.pause(STALE_PRIMARY_PAUSE * attempts);
      }
    }
  }

  /** @internal */
  protected override get shown() {
    const { system, timeline, lsn } = this.#position;
    return { name: "After", system, timeline, lsn };
  }
}

function ofLate(server: Server): Choice<Server> {
  return { is: "standby", server };
}

/** By a guard's refusal: the reason for trying another server. */
const REASONS: Readonly<Record<Refusal, RouteReason>> = {
  behind: "position",
  unknown: "unknown",
  role: "unreachable",
  isolation: "unknown",
};

/** All statements of the transaction use the snapshot of the first one. */
function isSnapshot({ isolation }: TransactionOptions): boolean {
  return isolation === "repeatable read" || isolation === "serializable";
}

function isRefused(item: PromiseSettledResult<unknown>): boolean {
  return item.status === "rejected" && refusalOf(item.reason) !== undefined;
}

// -- guards on a session ----------------------------------------------------------------------------------------------

/** Rejects if the server may not answer. Nothing else has been sent by then. */
async function passed(operation: Operation): Promise<void> {
  await operation.done.catch((lost: unknown) => {
    throw operation.error ?? lost;
  });
  if (!operation.error) return;
  ofPreludes.add(operation.error);
  throw operation.error;
}

function guardedInSameGroup<T>(body: Body<T>, guard: Guard): Body<T> {
  return (call, session, ending) => {
    guard.beforeSend(session, (listener) => call.whenOver(listener));
    body(call, session.guarded(guard.statement), ending);
  };
}

function guardedInOwnGroup<T>(body: Body<T>, guard: Guard): Body<T> {
  return (call, session, ending) => {
    guard.beforeSend(session, (listener) => call.whenOver(listener));
    // The guard has the deadline and the signals of the call.
    passed(call.operate(session.connection, simpleQuery(guard.statement))).then(
      () => (call.finished ? ending.over() : body(call, session, ending)),
      (error: unknown) => ending.failed(error),
    );
  };
}

function leftBehind(cause: unknown): PgzError {
  return new PgzError(
    "CLUSTER_LEFT_BEHIND",
    "No primary that could be reached has the position: a promotion has left them behind, or they were restored to an " +
      "earlier point.",
    { hasNoEffect: true, cause },
  );
}
