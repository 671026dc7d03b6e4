// The request that owns a client or pool. On Workers a socket works only in the request that made it, and a promise of
// another request may never settle. So a call from another request must be refused before it waits for anything.
//
// Knows whose request it is. Must not know connections or calls.
import { runtime } from "../runtime/runtime.ts";
import { UsageError } from "../util/errors.ts";

export class OwnerCheck {
  readonly #what: string;
  #isHere: (() => boolean) | undefined;

  /** `what` belongs to a request: `"client"` or `"pool"`. */
  constructor(what: string) {
    this.#what = what;
  }

  /** Returns the error if it cannot be used from here. The first request that asks becomes the owner. */
  refused(): UsageError | undefined {
    this.#isHere ??= runtime().inRequest?.() ?? (() => true);
    if (this.#isHere()) return undefined;
    const what = this.#what;
    return new UsageError(
      "OTHER_REQUEST",
      `This ${what} belongs to another request, whose sockets cannot be used here: make a ${what} in each request, ` +
        "or keep it in a Durable Object.",
    );
  }
}
