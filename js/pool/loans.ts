// Leases that are out: which are held for too long, and which no code refers to any more.
//
// Knows a lease by the function that takes it back. A reference to the lease itself would keep a forgotten lease alive
// for ever. Must not know how a connection is cleaned, or who gets it next.
import type { Counters } from "../api/ledger.ts";
import type { Config } from "../config/options.ts";
import { onAbort } from "../util/abort.ts";
import { emit } from "../util/observer.ts";
import { Lease } from "./lease.ts";
import type { Member } from "./member.ts";

interface Loan {
  readonly member: Member;
  /** Where it was acquired, if that is recorded. */
  readonly trace: Error | undefined;
  /**
   * Undefined once the lease is watched. Most leases are released before that, and watching costs more than all else.
   */
  lease: Lease | undefined;
  isReported: boolean;
  giveBack(): Promise<void> | undefined;
}

export class Loans {
  readonly #config: Config;
  readonly #counters: Counters;
  /** Milliseconds. 0: no leak is reported. */
  readonly #threshold: number;
  /** Whether `checkAll` is called periodically. */
  readonly #isCheckedPeriodically: boolean;
  /** See {@link recordsStacks}. */
  #recordsStacks: boolean;
  readonly #loans = new Set<Loan>();
  readonly #lost: FinalizationRegistry<Loan> | undefined;

  constructor(config: Config, counters: Counters, threshold: number, isCheckedPeriodically: boolean) {
    this.#config = config;
    this.#counters = counters;
    this.#threshold = threshold;
    this.#isCheckedPeriodically = isCheckedPeriodically;
    this.#recordsStacks = threshold > 0 && Boolean(config.debug || config.observer?.onLeaseLeak);
    // Old versions of workerd have none.
    if (typeof FinalizationRegistry === "undefined") return;
    this.#lost = new FinalizationRegistry((loan) => {
      this.#report(loan, performance.now());
      void loan.giveBack();
    });
  }

  get count(): number {
    return this.#loans.size;
  }

  /**
   * Whether the stack of an `acquire` is recorded. Recording is most of what a lease costs (3 to 5 us), and few stacks
   * are ever reported: without `debug` and `onLeaseLeak` it begins with the first warning.
   */
  get recordsStacks(): boolean {
    return this.#recordsStacks;
  }

  /** Makes a lease, which is taken back when `until` aborts. `giveBack` is called once. */
  lend(
    member: Member,
    trace: Error | undefined,
    until: AbortSignal | undefined,
    giveBack: (member: Member) => Promise<void> | undefined,
  ): Lease {
    let stop = () => {};
    const back = (isDoomed = false) => {
      if (!this.#loans.delete(loan)) return undefined;
      stop();
      if (!loan.lease) this.#lost?.unregister(loan);
      member.isDoomed ||= isDoomed;
      return giveBack(member);
    };
    const lease = new Lease(this.#config, this.#counters, member, back);
    const loan: Loan = { member, trace, lease, isReported: false, giveBack: back };
    this.#loans.add(loan);
    if (!this.#isCheckedPeriodically) this.#watch(loan);
    if (until) stop = onAbort(until, releaser(new WeakRef(lease)));
    return lease;
  }

  /** Watches the leases that are still out, and reports those that are held for too long. */
  checkAll(now: number): void {
    for (const loan of this.#loans) {
      this.#watch(loan);
      if (loan.member.stream) continue; // it was released, and its stream is still read
      if (this.#threshold && now - loan.member.since >= this.#threshold) this.#report(loan, now);
    }
  }

  /** From now on the lease is taken back when no code refers to it any more. */
  #watch(loan: Loan): void {
    if (!loan.lease) return;
    this.#lost?.register(loan.lease, loan, loan);
    loan.lease = undefined;
  }

  #report(loan: Loan, now: number): void {
    if (loan.isReported || !this.#threshold) return;
    loan.isReported = true;
    const { observer } = this.#config;
    const event = { heldMs: now - loan.member.since, stack: loan.trace?.stack ?? "" };
    if (observer?.onLeaseLeak) {
      emit(observer, "onLeaseLeak", event);
      return;
    }
    this.#recordsStacks = true;
    // eslint-disable-next-line no-console -- without an observer there is no other place for it
    console.warn(
      `pgz-edge: a lease has not been released for ${Math.round(event.heldMs)} ms; ` +
        (event.stack || "where it was acquired is recorded from now on, and always with debug: true"),
    );
  }
}

/** Holds the lease weakly: a signal that lives long must not keep it alive. */
function releaser(lease: WeakRef<Lease>): () => void {
  return () => void lease.deref()?.takeBack();
}
