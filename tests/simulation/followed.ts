// Whether consumers of changes have seen what the server's log holds: each transaction once, in the order of commits.
//
// Knows the log of the server's model, and what consumers saw of it. Must not know who has read it, or how.
import type { Followed, Run } from "./calls/call.ts";
import { textOf, type Committed } from "./server/replication/log.ts";
import type { World } from "./server/world.ts";

interface Expected {
  readonly position: string;
  readonly numbers: string;
}

/** Returns what is wrong with the changes that one slot has delivered. */
export function compareWithLog({ slot, runs }: Followed, { log, slots }: World): string[] {
  const since = slots.beginnings.get(slot) ?? Infinity;
  const expected = log.committed.filter(({ begins }) => begins >= since).flatMap(ofLedger);
  return runs.flatMap((run, at) => compareRun(run, expected).map((fault) => `slot ${slot}, run ${at + 1}: ${fault}`));
}

function ofLedger({ ends, changes }: Committed): Expected[] {
  const own = changes.filter(({ tables }) => tables.some(({ name }) => name === "ledger"));
  const numbers = own.flatMap((change) => (change.kind === "insert" ? change.new![0] : [])).join();
  return own.length ? [{ position: textOf(ends), numbers }] : [];
}

function compareRun({ after, isExact, seen }: Run, expected: readonly Expected[]): string[] {
  const [first] = seen;
  if (!first) return [];
  const indexOf = (position: string) => expected.findIndex((one) => one.position === position);
  const must = after === undefined ? 0 : indexOf(after) + 1;
  const begins = indexOf(first.position);
  if (begins < 0) return [`nothing was committed at ${first.position}`];
  if (begins > must || (isExact && begins < must))
    return [
      `begins with ${first.position}, and ${expected[must]?.position ?? "nothing"} follows ${after ?? "the slot"}`,
    ];
  return seen.flatMap(({ position, numbers }, at) => {
    const right = expected[begins + at];
    if (right?.position === position && right.numbers === numbers.join()) return [];
    return [
      `${numbers.join()} at ${position}, and the log has ${right?.numbers ?? "nothing"} at ${right?.position ?? ""}`,
    ];
  });
}
