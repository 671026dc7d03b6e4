// Reduces a program that fails to the smallest one found that still fails in the same way.
//
// Knows lists, and how to go on from a smaller program. Must not know what a program is: `smaller` and `stillFails` do.

/** Yields the list without each half, then without each quarter …, at last without each item. */
export function* shorter<Item>(list: readonly Item[]): Generator<Item[]> {
  for (let size = Math.max(list.length >> 1, 1); size > 0 && list.length; size >>= 1)
    for (let from = 0; from < list.length; from += size) yield [...list.slice(0, from), ...list.slice(from + size)];
}

/** Returns the smallest program that was found within `tries` programs. `smaller`: each a little smaller. */
export async function smallest<Program>(
  program: Program,
  smaller: (program: Program) => Iterable<Program>,
  stillFails: (program: Program) => Promise<boolean>,
  tries: number,
): Promise<Program> {
  let least = program;
  for (let isSmaller = true; isSmaller && tries > 0;) {
    isSmaller = false;
    for (const candidate of smaller(least)) {
      if (tries-- <= 0) break;
      if (!(await stillFails(candidate))) continue;
      least = candidate;
      isSmaller = true;
      break;
    }
  }
  return least;
}
