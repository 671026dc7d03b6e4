// What a fault test stands on: the host of the scripted servers, and a runtime that plays jobs against them.
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
  /** The CA of the scripted servers, where the runtime takes one as text. */
  ca: string | undefined;
  run(job: Job): Promise<Outcome>;
  /** Errors nobody caught in the driver's runtime, so far. */
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
    // The wasm is compiled at the first connection: the clock of the tests is for servers.
    await this.play({}, (to) => ({ kind: "cut", target: to, script: "described" }));
  }

  // A database of its own per plan: ports are used again, and what the driver knows of a shape would shorten the
  // session.
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

  /** One plan, one job, one report. */
  async play(fault: Fault, job: (target: Target) => Job): Promise<{ outcome: Outcome; report: ConnectionReport[] }> {
    const plan = only(await this.host.plans([fault]));
    const outcome = await this.#suite.run(job(this.target(plan, fault.tls)));
    return { outcome, report: only(await this.host.reports([plan.id])) };
  }
}

/**
 * The offsets to cut at: the first, the last and every `each`th between them; all of them for a release.
 *
 * What the driver makes of an end at each byte is the simulator's to try (tests/simulation), and no runtime changes it.
 * On a runtime it is shown that real sockets tell of an end as the simulated ones do, and for that a sample is enough.
 */
export function sampled(offsets: readonly number[], each: number): number[] {
  if (isRelease) return [...offsets];
  return offsets.filter((_, at) => at % each === 0 || at === offsets.length - 1);
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
