/** The JSON of a result: each of its fields on a line, and each of its `rows`. */
export function textOf(result: object): string;
