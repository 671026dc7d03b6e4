// `cluster.reads`: offers a pool's calls, and runs each on a standby, or on the primary if no standby is suitable.
//
// Knows how a call goes from one server to the next. Must not know how a server is chosen (choice.ts), what is known
// about it (memory.ts), or when SQL may run twice (again.ts).
import type { CallOptions, RouteReason, TransactionOptions } from "../index.ts";
import { needsPrimary, reasonToLeave, trackBegin } from "./again.ts";
import { After } from "./after.ts";
import type { Choice } from "./choice.ts";
import { queueOf, type CallArguments, type PoolQueue, type SessionOf, type Work } from "./pool-queue.ts";
import { positionOf } from "./position.ts";
import { Routed } from "./routed.ts";
import type { Server } from "./servers.ts";

/** Makes the call on the queue of one server. */
type Attempt<T> = (queue: PoolQueue) => Promise<T>;

const FIRST = {};

/** The calls of a pool that a standby may answer: `cluster.reads`. */
export class Reads extends Routed {
  /**
   * Returns the same calls, with answers that are never older than this position. If the chosen standby has not
   * reached the position, the call waits for it, and then asks the primary. A position is a text from
   * `cluster.position()` or from a call with `position: true`. Without one, as in a visitor's first request, returns
   * `reads` itself. If the text is not a position, the primary answers.
   *
   * @example
   * const { rows } = await cluster.reads.after(cookie).query(sql`select * from orders where customer = ${7}`);
   */
  after(position: string | null | undefined): Reads | After {
    if (position === undefined || position === null || position === "") return this;
    return new After(this.router, this.owner, positionOf(position));
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected override run<T>(...call: CallArguments<T>): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const attempt: Attempt<T> = (queue) => queue.run(...call);
    const [{ text }, options] = call;
    const choice = this.router.choose(FIRST, options);
    // The fast path: the choice is made at once. A call that succeeds then costs one promise more than a pool's.
    if (choice instanceof Promise || choice.is === "primary") return this.#route(text, options, attempt, choice);
    const { server } = choice;
    this.router.recordStandby(server);
    return attempt(queueOf(server.pool)).then(undefined, (error: unknown) =>
      this.#elsewhere(text, options, attempt, server, error),
    );
  }

  /** @internal */
  protected override runTransaction<T>(work: Work<T>, options: TransactionOptions, sessionOf: SessionOf): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const { tracked, hasBegun } = trackBegin(work);
    const attempt: Attempt<T> = async (queue) => {
      try {
        return await queue.runTransaction(tracked, options, sessionOf);
      } catch (error) {
        // The callback must not run twice.
        throw hasBegun() ? new Begun(error) : error;
      }
    };
    const routed = needsPrimary(options)
      ? this.#onPrimary("write", options, attempt)
      : this.#route("", options, attempt);
    return routed.catch((error: unknown) => {
      throw error instanceof Begun ? error.cause : error;
    });
  }

  /** `choice`: the choice for the first attempt, if the caller has made it already. */
  async #route<T>(
    text: string,
    options: CallOptions,
    attempt: Attempt<T>,
    choice: Choice<Server> | Promise<Choice<Server>> = this.router.choose(FIRST, options),
  ): Promise<T> {
    const chosen = await choice;
    if (chosen.is === "primary") return this.#onPrimary(chosen.reason, options, attempt);
    const { server } = chosen;
    this.router.recordStandby(server);
    try {
      return await attempt(queueOf(server.pool));
    } catch (error) {
      return await this.#elsewhere(text, options, attempt, server, error);
    }
  }

  /**
   * Continues a call that has failed on one standby: tries the other standbys in turn and then the primary, if the call
   * may run again.
   */
  async #elsewhere<T>(
    text: string,
    options: CallOptions,
    attempt: Attempt<T>,
    first: Server,
    cause: unknown,
  ): Promise<T> {
    const { router } = this;
    const tried = new Set<string>();
    let server = first;
    let error = cause;
    for (;;) {
      const reason = reasonToLeave(error, text);
      if (!reason) throw error;
      if (reason === "unreachable") router.markUnreachable(server, error);
      tried.add(server.key);
      const choice = reason === "write" ? undefined : await router.choose({ tried }, options);
      if (choice?.is !== "standby") return this.#onPrimary(reason, options, attempt);
      server = choice.server;
      router.recordStandby(server);
      try {
        return await attempt(queueOf(server.pool));
      } catch (again) {
        error = again;
      }
    }
  }

  async #onPrimary<T>(reason: RouteReason, options: CallOptions, attempt: Attempt<T>): Promise<T> {
    this.router.recordPrimary(reason);
    return await this.router.onPrimary(options, (pool) => attempt(queueOf(pool)));
  }

  /** @internal */
  protected override get shown() {
    return { name: "Reads", ...this.router.reads };
  }
}

/** Wraps the error of a transaction whose callback had begun. */
class Begun extends Error {
  constructor(cause: unknown) {
    super("begun", { cause });
  }
}
