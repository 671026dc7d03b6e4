// Leases that are out: which are held for too long, and which nobody has any more.
//
// Knows leases by what takes them back, not by the lease itself, which would keep one that was forgotten for ever. Must
// not know how a connection is cleaned, or who gets it next.
import type { Counters } from "../api/queue.ts";
import type { Config } from "../config/options.ts";
import { onAbort } from "../util/abort.ts";
import { emit } from "../util/observer.ts";
import { Lease } from "./lease.ts";
import type { Member } from "./member.ts";

interface Loan {
  readonly since: number;
  /** Where it was acquired. */
  readonly trace: Error;
  isTold: boolean;
  giveBack(): Promise<void> | undefined;
}

export class Loans {
  readonly #config: Config;
  readonly #counters: Counters;
  /** Milliseconds; 0: nobody is told. */
  readonly #threshold: number;
  readonly #loans = new Set<Loan>();
  readonly #lost: FinalizationRegistry<Loan> | undefined;

  constructor(config: Config, counters: Counters, threshold: number) {
    this.#config = config;
    this.#counters = counters;
    this.#threshold = threshold;
    // The old workerd has none.
    if (typeof FinalizationRegistry === "undefined") return;
    this.#lost = new FinalizationRegistry((loan) => {
      this.#tell(loan, performance.now());
      void loan.giveBack();
    });
  }

  /** `until`: it is taken back when this aborts. `giveBack` is called once. */
  lend(
    member: Member,
    trace: Error,
    until: AbortSignal | undefined,
    giveBack: (member: Member) => Promise<void> | undefined,
  ): Lease {
    let stop = () => {};
    const back = (isDoomed = false) => {
      if (!this.#loans.delete(loan)) return undefined;
      stop();
      this.#lost?.unregister(loan);
      member.isDoomed ||= isDoomed;
      return giveBack(member);
    };
    const loan: Loan = { since: performance.now(), trace, isTold: false, giveBack: back };
    const lease = new Lease(this.#config, this.#counters, member, back);
    this.#loans.add(loan);
    this.#lost?.register(lease, loan, loan);
    if (until) stop = onAbort(until, releaser(new WeakRef(lease)));
    return lease;
  }

  /** Tells of those that are held for too long. */
  look(now: number): void {
    if (!this.#threshold) return;
    for (const loan of this.#loans) if (now - loan.since >= this.#threshold) this.#tell(loan, now);
  }

  #tell(loan: Loan, now: number): void {
    if (loan.isTold) return;
    loan.isTold = true;
    const { observer } = this.#config;
    const event = { heldMs: now - loan.since, stack: loan.trace.stack ?? "" };
    if (observer?.onLeaseLeak) emit(observer, "onLeaseLeak", event);
    // eslint-disable-next-line no-console -- what nobody watches has to be seen somewhere
    else console.warn(`pgz-edge: a lease has not been released for ${Math.round(event.heldMs)} ms; ${event.stack}`);
  }
}

/** A signal that lives long must not hold the lease. */
function releaser(lease: WeakRef<Lease>): () => void {
  return () => void lease.deref()?.release();
}
