// The calls of a pool, each on the server that is chosen for it: what `reads` and `reads.after()` have in common.
//
// A queue whose calls all run in the queues of other pools. Must not know how a server is chosen.
import { TransactionCalls, type UsageError } from "../../index.ts";
import { inside } from "./inside.ts";
import type { Router } from "./router.ts";

/** What is used of the cluster. */
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
    // Options are those of any server: they differ in their hosts only.
    const { config, counters } = inside(router.servers.list[0]!.pool);
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

  /** Behind a stream with `closeWhenDone`. @internal */
  protected override close(): Promise<void> {
    return this.owner.close();
  }

  /** Streams of a pool stand in nobody's way. @internal */
  protected override unfinished(): undefined {}

  /** @internal */
  protected override connected(): never {
    throw new Error("a cluster has no connection of its own");
  }
}
