// Waits with a bound.

/** Waits for `work`, which never rejects, but at most this long. */
export async function withDeadline(milliseconds: number, work: Promise<unknown>): Promise<void> {
  let timer;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, milliseconds)))]);
  clearTimeout(timer);
}
