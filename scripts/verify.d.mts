/** Returns the names of files that differ between the two, given as `{ name: hash }`. */
export function differing(one: Record<string, string>, other: Record<string, string>): string[];
