// The types of numbers.mjs.
export const numbers: Readonly<Record<string, number>>;
export const formats: Readonly<Record<string, number>>;
