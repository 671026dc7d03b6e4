// `node tests/run.mjs SUITE… -- WHAT VITEST GETS`

const given = process.argv.slice(2);
const split = given.includes("--") ? given.indexOf("--") : given.length;

/** Names of suites. An empty list means all of them. */
export const wanted = given.slice(0, split);
/** Files and folders that replace a suite's own, and vitest's options. */
export const forVitest = given.slice(split + 1);
