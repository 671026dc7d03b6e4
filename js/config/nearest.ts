// Finds the name that a user meant by an unknown one.
//
// Knows spelling. Must not know which names there are. A wrong guess is worse than none: `timezone` is no `timeout`,
// and `server` no `servername`, so letters that two names begin with say nothing.

/** Two names have so much in common, of 1, that the one may be meant by the other. */
const ENOUGH = 2 / 3;
/** A word of fewer letters, such as `max`, says too little of what is meant. */
const TELLING = 4;

/** Of a name that is longer, which no option is, only the beginning is looked at. */
const LONGEST = 40;

/** The known name that is meant: the same letters, a slip of the hand, or most of the same words. */
export function nearestOf(given: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let most = 0;
  for (const other of known) {
    const common = Math.max(commonLetters(given, other), commonWords(given, other));
    if (common > most) [nearest, most] = [other, common];
  }
  return most >= ENOUGH ? nearest : undefined;
}

/** Whether the one is the other with different case and punctuation, or with slips. */
export function isMisspelt(name: string, other: string): boolean {
  return commonLetters(name, other) > 0;
}

/** 1 for the same letters, whatever their case and what is between them; less for one or two slips; else 0. */
function commonLetters(given: string, other: string): number {
  const [a, b] = [lettersOf(given), lettersOf(other)];
  const length = Math.min(a.length, b.length);
  const slips = slipsBetween(a, b);
  return slips <= Math.min(2, Math.floor(length / 3)) ? 1 - slips / 10 : 0;
}

const lettersOf = (name: string) =>
  name
    .slice(0, LONGEST)
    .toLowerCase()
    .replace(/[^a-z]/g, "");

/** Number of letters that were left out, added, mistaken for another, or swapped with the next one. */
function slipsBetween(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row[j] = Math.min(last[j]! + 1, row[j - 1]! + 1, replaced, isSwapped ? before[j - 2]! + 1 : Infinity);
    }
    [before, last] = [last, row];
  }
  return last[b.length]!;
}

/**
 * How much of both names is words that they share. `connection` shares `connect`, and `app` may stand for `application`
 * beside a word that is shared. Less than for slips, which are the better guess.
 */
function commonWords(given: string, other: string): number {
  const [words, others] = [wordsOf(given), wordsOf(other)];
  const isTelling = others.some((known) => known.length >= TELLING && words.some((word) => word.startsWith(known)));
  if (!isTelling) return 0;
  const shared = others.filter((known) =>
    words.some((word) => word.startsWith(known) || (word.length > 2 && known.startsWith(word))),
  );
  return Math.min(0.79, (2 * shared.length) / (words.length + others.length));
}

const wordsOf = (name: string) =>
  name
    .slice(0, LONGEST)
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .match(/[a-z]+/g) ?? [];
