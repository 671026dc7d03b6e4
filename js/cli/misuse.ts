// The error for a command line that cannot be run.
//
// Knows nothing but its class. main.ts shows it without a stack, adds a line that points to the help, and exits with
// 64.

/** The message says what the user must write instead. It must not repeat a URL or a password. */
export class Misuse extends Error {
  override readonly name = "Misuse";
}

/** "did you mean …?" for a word that is at most two letters away from one of these names; else the empty text. */
export function nearest(word: string, names: readonly string[]): string {
  const found = names
    .map((name) => ({ name, distance: distance(word.toLowerCase(), name) }))
    .sort((one, other) => one.distance - other.distance)[0];
  return found && found.distance <= Math.min(2, word.length / 2) ? `did you mean ${found.name}?` : "";
}

/** How many letters are to be added, left out, replaced, or exchanged with their neighbour. */
function distance(one: string, other: string): number {
  const rows: number[][] = [[...other, ""].map((_, at) => at)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      const isExchanged = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row[j] = Math.min(
        rows[i - 1]![j]! + 1,
        row[j - 1]! + 1,
        rows[i - 1]![j - 1]! + (isSame ? 0 : 1),
        isExchanged ? rows[i - 2]![j - 2]! + 1 : Infinity,
      );
    }
    rows.push(row);
  }
  return rows[one.length]![other.length]!;
}
