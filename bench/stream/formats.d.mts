// The types of formats.mjs, as far as tests use it.
export const readers: Readonly<Record<string, (text: string) => string[]>>;
