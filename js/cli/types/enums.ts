// PostgreSQL's enums as they appear in a tree: numbers, as text (src/include/nodes/nodes.h, parsenodes.h, primnodes.h).
//
// Knows only the values that are used. A number that is not here is an unknown value.

export const RTE = {
  relation: "0",
  subquery: "1",
  join: "2",
  function: "3",
  values: "5",
  cte: "6",
  group: "9",
} as const;
export const COMMAND = { select: "1", update: "2", insert: "3", delete: "4", merge: "5", utility: "6" } as const;
export const JOIN = { inner: "0", left: "1", full: "2", right: "3" } as const;
export const SUBLINK = { exists: "0", all: "1", any: "2", scalar: "4", array: "6" } as const;
export const RETURNING = { current: "0", old: "1", new: "2" } as const;
export const SETOP = { union: "1", intersect: "2", except: "3" } as const;
