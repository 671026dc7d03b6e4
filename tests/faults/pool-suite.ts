// Registers, for one runtime, the tests of a pool whose connection ends or falls silent after some byte. The pool is
// used by one job, or kept by a Durable Object from one request to the next.
//
// Runs in the test's process, as suite.ts does; the driver runs wherever `run` brings a job.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { How } from "./control.ts";
import { cutAll, whole, type Cut } from "./cuts.ts";
import { range, sampled, Stage, type FaultSuite } from "./stage.ts";

export interface PoolSuite extends Omit<FaultSuite, "ca"> {
  modes: Mode[];
  /** The first offset at which the connection ends. Default 0. */
  from?: number;
}

interface Mode {
  how: How;
  /** Calls that may share the pool's one connection. */
  pipelining?: number;
}

/** Which bytes of a session are cut. */
const BYTES = { each: 32, elsewhere: 128 };

export function poolSuite({ modes, from = 0, ...suite }: PoolSuite): void {
  const { label, run, uncaught } = suite;
  const stage = new Stage({ ...suite, ca: undefined });
  const waits = ({ how }: Mode) => how === "silence" || how === "half-open";

  const play = ({ how, pipelining }: Mode) => {
    test(`settles its calls rightly when cut by ${how} after any byte`, async () => {
      const { end, steps } = await whole(stage, "pool", false, pipelining);
      const offsets = sampled(range(from, end), suite, BYTES);
      const cut: Cut = { script: "pool", unit: "byte", how, tls: false, steps, pipelining };
      const { wrong, cut: done, longest } = await cutAll(stage, run, cut, offsets);
      console.log(
        `[faults] ${label}: pool, ${how} at ${done.length} byte offsets of a session of ${end} bytes; ` +
          `longest ${longest} ms`,
      );
      expect(wrong.slice(0, 10), `${wrong.length} of ${offsets.length} offsets`).toEqual([]);
      expect(done).toEqual(offsets);
    });
  };

  describe(`a pool of ${label}`, () => {
    beforeAll(() => stage.begin());
    modes.filter((mode) => !waits(mode)).forEach(play);
    // Sessions that wait for a silent server leave the processor to others.
    describe.concurrent("without a signal from the network", () => modes.filter(waits).forEach(play));
    afterAll(async () => {
      expect(await uncaught(), "an error was left uncaught").toEqual([]);
    });
  });
}
