// What the program answers by path: rows of `variable` and `version`. Imported by the program on Node and in a Worker.

/** Options of both sides. `settle` and `maxFill` are short, so that an answer that stays too long is seen soon. */
export const TIMES = { settle: 1_500, maxFill: 4_000, maxLag: 3_000 };
export const SLOT = "cache_history";
export const PUBLICATION = "cache_history";

export const TABLES = ["a", "b", "c", "d", "e", "f"];
/** Of the partitioned table `whole`: each holds one row. */
export const LEAVES = ["whole_0", "whole_1"];
export const TENANTS = [1, 2];

const rowsOf = (table) => `select variable, version from ${table}`;

/** By path. Short ages make a cache ask again; long ones leave an answer that was missed for a purge. */
const statements = {
  ...Object.fromEntries(TABLES.map((table, n) => [`/${table}`, { text: rowsOf(table), maxAge: n % 2 ? 2 : 3_600 }])),
  "/a+b": { text: `${rowsOf("a")} union all ${rowsOf("b")}`, maxAge: 3_600 },
  "/c+d": { text: `${rowsOf("c")} union all ${rowsOf("d")}`, maxAge: 3_600 },
  "/moving": { text: "select variable, version from moving", maxAge: 3_600 },
  "/whole": { text: rowsOf("whole"), maxAge: 3_600 },
  "/one": { text: `${rowsOf("e")} where variable = any (array['e', $1::text])`, values: [1], maxAge: 3_600 },
  ...Object.fromEntries(TENANTS.map((tenant) => [`/t${tenant}`, { text: rowsOf("tenants"), maxAge: 3_600, tenant }])),
};

export const PATHS = Object.keys(statements);
export const statementOf = (path) => statements[path];
