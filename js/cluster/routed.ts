// The calls of a pool, each on the server that is chosen for it: the common part of `reads` and `reads.after()`.
//
// A queue whose calls all run in the queues of other pools. Must not know how a server is chosen.
import { TransactionCalls, type UsageError } from "../index.ts";
import { queueOf } from "./pool-queue.ts";
import type { Router } from "./router.ts";

/** The part of the cluster that is used here. */
export interface Owner {
  refused(): UsageError | undefined;
  close(): Promise<void>;
}

export abstract class Routed extends TransactionCalls {
  /** @internal */
  protected readonly router: Router;
  /** @internal */
  protected readonly owner: Owner;

  /** @internal */
  constructor(router: Router, owner: Owner) {
    // Any server's options will do: they differ in their hosts only.
    const { config, counters } = queueOf(router.servers.list[0]!.pool);
    super(config, counters);
    this.router = router;
    this.owner = owner;
  }

  /** @internal */
  protected override readonly signal = undefined;

  /** @internal */
  protected override refused(): UsageError | undefined {
    return this.owner.refused();
  }

  /** Called after a stream with `closeWhenDone`. @internal */
  protected override close(): Promise<void> {
    return this.owner.close();
  }

  /** Streams of a pool block no other call. @internal */
  protected override unfinished(): undefined {}

  /** @internal */
  protected override connected(): never {
    throw new Error("a cluster has no connection of its own");
  }
}
