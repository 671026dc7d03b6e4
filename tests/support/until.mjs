// Waiting in tests: for a condition, with a limit that only a broken driver or server reaches. Knows no server and no
// runtime.
//
// A busy machine makes each step slow, so a test that infers a fault of the driver from elapsed time fails without a
// fault. The remaining waits and clocks are listed in tests/clocks.md, each with its reason.

/** Milliseconds between two checks of the condition. */
const STEP = 20;
/**
 * Milliseconds after which a condition counts as never true: on two cores with twelve busy processes the slowest
 * condition took less than two seconds. Once, on cores a third as fast, twenty seconds were not enough for a walsender
 * that had to decode what all other tests wrote.
 */
export const LONGEST = 300_000;

/** Lets some time pass. Waiting for a condition is better: tests/clocks.md counts each use outside this file. */
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Waits until the condition holds. Rejects with the text of the condition when that takes much longer than any machine
 * needs.
 */
export async function until(holds, what = String(holds)) {
  // Counted in pauses, not by a clock: pauses take longer on a busy machine, and workerd's clock is frozen while a
  // request computes.
  for (let waited = 0; !(await holds()); waited += STEP) {
    if (waited >= LONGEST) throw new Error(`This never came to hold: ${what}`);
    await pause(STEP);
  }
}

/** Settles like `work`. Rejects when that takes much longer than any machine needs. */
export async function inTime(work) {
  let isSettled = false;
  const settle = () => void (isSettled = true);
  work.then(settle, settle);
  await until(() => isSettled, "the call has settled");
  return work;
}
