// The basis of a fault test: the host of the scripted servers, and a runtime that runs jobs against them.
//
// Knows plans, ports and reports. Must not know what a job does, or what is right (cuts.ts, suite.ts).
import { expect } from "vitest";

import { isRelease } from "../support/release.ts";
import { FaultHost, type ConnectionReport, type Fault } from "./control.ts";
import type { Job, Outcome, Target } from "./jobs.ts";

export interface FaultSuite {
  /** For the printed lines: "node", "workerd 2026-04-26". */
  label: string;
  /** tests/faults/host.mjs */
  control: string;
  /** The CA of the scripted servers, for a runtime that takes it as text. */
  ca: string | undefined;
  run(job: Job): Promise<Outcome>;
  /** Returns the uncaught errors of the driver's runtime so far. */
  uncaught(): Promise<string[]>;
}

export class Stage {
  readonly host: FaultHost;
  readonly #suite: FaultSuite;
  #identity = { user: "", password: "" };

  constructor(suite: FaultSuite) {
    this.#suite = suite;
    this.host = new FaultHost(suite.control);
  }

  async begin(): Promise<void> {
    const { user, password } = await this.host.info();
    this.#identity = { user, password };
    // The wasm is compiled at the first connection, and that time is not a server's.
    await this.play({}, (to) => ({ kind: "cut", target: to, script: "described" }));
  }

  // Each plan has its own database name: ports are reused, and a known shape would shorten the session.
  target({ id, port }: { id: number; port: number }, tls = false, sslmode?: "require"): Target {
    const { ca } = this.#suite;
    return {
      host: "127.0.0.1",
      port,
      database: `scripted_${id}`,
      ...this.#identity,
      sslmode: sslmode ?? (tls ? "verify-full" : "disable"),
      ...(tls && !sslmode && ca !== undefined ? { ca } : {}),
    };
  }

  /** Runs one plan with one job, and returns the outcome and the report. */
  async play(fault: Fault, job: (target: Target) => Job): Promise<{ outcome: Outcome; report: ConnectionReport[] }> {
    const plan = only(await this.host.plans([fault]));
    const outcome = await this.#suite.run(job(this.target(plan, fault.tls)));
    return { outcome, report: only(await this.host.reports([plan.id])) };
  }
}

/** Whether this suite runs what no runtime changes, too. In `make test` only Node's does. */
export const isWhole = ({ label }: Pick<FaultSuite, "label">): boolean => isRelease || label === "node";

/**
 * Returns the offsets to cut at: the first, the last and every `each`th between them, in other runtimes than Node every
 * `elsewhere`th; for a release, all of them.
 *
 * The simulator (tests/simulation) tries an end at each byte, and no runtime changes the driver's reaction. These tests
 * show that real sockets report an end as the simulated ones do, and a sample is enough for that.
 */
export function sampled(
  offsets: readonly number[],
  suite: Pick<FaultSuite, "label">,
  { each, elsewhere }: { each: number; elsewhere: number },
): number[] {
  const step = isWhole(suite) ? each : elsewhere;
  return offsets.filter((_, at) => isRelease || at % step === 0 || at === offsets.length - 1);
}

export const range = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => from + i);

export function item<T>(list: T[], i: number): T {
  const found = list[i];
  if (found === undefined) throw new Error(`nothing at ${i}`);
  return found;
}

export function only<T>(list: T[]): T {
  expect(list.length).toBe(1);
  return item(list, 0);
}
