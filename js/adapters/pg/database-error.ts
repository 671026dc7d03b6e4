// The server's errors, with pg's names for their parts.
//
// Knows the field codes of ErrorResponse. Must not know which query gets the error.

/** Names by field code. As in pg, every error has all of them, `undefined` where the server sent none. */
const PARTS = {
  S: "severity",
  C: "code",
  D: "detail",
  H: "hint",
  P: "position",
  p: "internalPosition",
  q: "internalQuery",
  W: "where",
  s: "schema",
  t: "table",
  c: "column",
  d: "dataType",
  n: "constraint",
  F: "file",
  L: "line",
  R: "routine",
} as const;

type Part = (typeof PARTS)[keyof typeof PARTS];

/** The parts of an error or a notice besides its message. */
type Facts = { [Name in Part]: string | undefined };

/** An error that the server has sent. */
export class DatabaseError extends Error implements Facts {
  declare severity: string | undefined;
  declare code: string | undefined;
  declare detail: string | undefined;
  declare hint: string | undefined;
  declare position: string | undefined;
  declare internalPosition: string | undefined;
  declare internalQuery: string | undefined;
  declare where: string | undefined;
  declare schema: string | undefined;
  declare table: string | undefined;
  declare column: string | undefined;
  declare dataType: string | undefined;
  declare constraint: string | undefined;
  declare file: string | undefined;
  declare line: string | undefined;
  declare routine: string | undefined;
  /** The length of the ErrorResponse. */
  readonly length: number;

  constructor(message: string, length: number, name = "error") {
    super(message);
    this.length = length;
    this.name = name;
  }
}

/**
 * Makes an error from its parts. `read` returns a part for its field code and its name here. (Not a static method:
 * esbuild gives a class that names itself another name, which users see.)
 */
export function databaseError(
  message: string,
  length: number,
  read: (code: string, name: Part) => string | undefined,
): DatabaseError {
  return Object.assign(new DatabaseError(message, length), partsOf(read));
}

/** Returns all parts, including missing ones. */
export function partsOf(read: (code: string, name: Part) => string | undefined): Facts {
  const parts: Partial<Record<Part, string | undefined>> = {};
  for (const code in PARTS) {
    const name = PARTS[code as keyof typeof PARTS];
    parts[name] = read(code, name);
  }
  return parts as Facts;
}
