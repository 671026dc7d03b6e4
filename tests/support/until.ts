// How a test waits: for a condition, with a bound that only a broken driver or server reaches. Knows no server and no
// runtime.
//
// A busy machine makes each step slow, so a test that concludes from the clock that the driver is wrong fails without a
// fault. Waits and clocks that are left are listed, with the reason for each, in tests/clocks.md.

/** Milliseconds between two looks. */
const STEP = 20;
/** About ten times what the slowest condition took on two cores with twelve processes running. */
const LONGEST = 15_000;

/** Lets some time pass. A condition is better: each use outside this file is counted in tests/clocks.md. */
export const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** Waits until it holds; rejects, showing the condition, when that takes much longer than any machine needs. */
export async function until(holds: () => boolean | Promise<boolean>, longest = LONGEST): Promise<void> {
  // Counted in pauses, not by a clock: those of a busy machine take longer, and workerd's clock is frozen while a
  // request computes.
  for (let waited = 0; !(await holds()); waited += STEP) {
    if (waited >= longest) throw new Error(`This never came to hold: ${String(holds)}`);
    await pause(STEP);
  }
}
