/** Names of files that are not the same in both: `{ name: hash }`. */
export function differing(one: Record<string, string>, other: Record<string, string>): string[];
