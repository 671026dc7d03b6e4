// `cluster.reads`: the calls of a pool on a standby, and where none is suitable on the primary.
//
// Knows how a call goes from one server to the next. Must not know how a server is chosen (choice.ts), what is known of
// it (memory.ts), or when SQL may run twice (again.ts).
import type { RouteReason, TransactionOptions } from "../../index.ts";
import { needsPrimary, reasonToLeave } from "./again.ts";
import { After } from "./after.ts";
import type { Choice } from "./choice.ts";
import { inside, type CallArguments, type Inside, type SessionOf, type Work } from "./inside.ts";
import { positionOf } from "./position.ts";
import { Routed } from "./routed.ts";
import type { Server } from "./servers.ts";

/** How a call is made on the queue of a server. `standby`: which one; else it is the primary's. */
type Attempt<T> = (queue: Inside, standby: Server | undefined) => Promise<T>;

/** The calls of a pool that may be answered by a standby: `cluster.reads`. */
export class Reads extends Routed {
  /**
   * The same calls, but none of them answers from before this position: the standby that is chosen has come as far, is
   * waited for, or the primary answers. A position is a text of `cluster.position()` or of a call with `position: true`.
   * Without one, as in a visitor's first request, these are the calls of `reads`; a text that is no position is answered
   * by the primary.
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
    return this.#route(call[0].text, (queue) => queue.run(...call));
  }

  /** @internal */
  protected override begin<T>(work: Work<T>, options: TransactionOptions, sessionOf: SessionOf): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    let hasBegun = false;
    const once: Work<T> = (transaction) => {
      hasBegun = true;
      return work(transaction);
    };
    return this.#route(
      "",
      (queue) => queue.begin(once, options, sessionOf),
      options,
      () => hasBegun,
    );
  }

  async #route<T>(
    text: string,
    attempt: Attempt<T>,
    options?: TransactionOptions,
    isBegun?: () => boolean,
  ): Promise<T> {
    const router = this.router;
    if (needsPrimary(options)) return this.#onPrimary("write", attempt);
    let tried: Set<string> | undefined;
    let reason: RouteReason | undefined;
    for (;;) {
      const chosen = router.choose(tried ? { tried } : {});
      const choice: Choice<Server> = chosen instanceof Promise ? await chosen : chosen;
      if (choice.is === "primary") return this.#onPrimary(reason ?? choice.reason, attempt);
      const { server } = choice;
      router.toStandby(server);
      try {
        return await attempt(inside(server.pool), server);
      } catch (error) {
        if (isBegun?.()) throw error;
        reason = reasonToLeave(error, text, false);
        if (!reason) throw error;
        if (reason === "write") return this.#onPrimary(reason, attempt);
        if (reason === "unreachable") router.gone(server, error);
        (tried ??= new Set()).add(server.key);
      }
    }
  }

  async #onPrimary<T>(reason: RouteReason, attempt: Attempt<T>): Promise<T> {
    this.router.toPrimary(reason);
    return await attempt(inside(await this.router.primary()), undefined);
  }

  /** @internal */
  protected override get shown() {
    return { name: "Reads", ...this.router.reads };
  }
}
