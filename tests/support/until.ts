// How a test waits: for a condition, with a bound that only a broken driver or server reaches. Knows no server and no
// runtime.
//
// A busy machine makes each step slow, so a test that concludes from the clock that the driver is wrong fails without a
// fault. Waits and clocks that are left are listed, with the reason for each, in tests/clocks.md.

/** Milliseconds between two looks. */
const STEP = 20;
/** What takes this long never comes: on two cores with twelve busy processes the slowest took less than two seconds. */
const LONGEST = 20_000;

/** Lets some time pass. A condition is better: each use outside this file is counted in tests/clocks.md. */
export const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** Waits until it holds; rejects, showing the condition, when that takes much longer than any machine needs. */
export async function until(holds: () => boolean | Promise<boolean>, what = String(holds)): Promise<void> {
  // Counted in pauses, not by a clock: those of a busy machine take longer, and workerd's clock is frozen while a
  // request computes.
  for (let waited = 0; !(await holds()); waited += STEP) {
    if (waited >= LONGEST) throw new Error(`This never came to hold: ${what}`);
    await pause(STEP);
  }
}

/** What `work` settles with; rejects when that takes much longer than any machine needs. */
export async function inTime<T>(work: Promise<T>): Promise<T> {
  let isSettled = false;
  const settle = () => void (isSettled = true);
  work.then(settle, settle);
  await until(() => isSettled, "the call has settled");
  return work;
}
