// A question of our own. Its rows come as JSON: a client's parsers, limits and names of columns are for the rows of its
// user.
//
// Must not know what is asked.

/** A client, a pool, a transaction. */
export interface QuestionCaller {
  json(query: { readonly text: string; readonly values: readonly unknown[] }, options: object): Promise<Uint8Array>;
}

/** Drops notices: only the user's own settings cause them. */
export const QUIET = { observer: {} };
const decoder = new TextDecoder();
const WHOLE = { maxRows: 0, maxBytes: 0, maxFieldBytes: 0, duplicates: "keep", columnNames: "keep" } as const;

interface QuestionOptions {
  /** The user's observer hears of it. Default false. */
  readonly isObserved?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly timeout?: number | undefined;
}

/** The rows as objects. */
export async function rowsOf<Row>(
  caller: QuestionCaller,
  text: string,
  values: readonly unknown[] = [],
  options: QuestionOptions = {},
): Promise<readonly Row[]> {
  return (await answered(caller, { text, values }, options, "json")) as Row[];
}

/** The rows as arrays, for columns without names. */
export async function arraysOf<Row extends readonly unknown[]>(
  caller: QuestionCaller,
  text: string,
  options: QuestionOptions = {},
): Promise<readonly Row[]> {
  const { rows } = (await answered(caller, { text, values: [] }, options, "columnar")) as { rows: Row[] };
  return rows;
}

async function answered(
  caller: QuestionCaller,
  question: { readonly text: string; readonly values: readonly unknown[] },
  { isObserved, ...options }: QuestionOptions,
  format: "json" | "columnar",
): Promise<unknown> {
  const bytes = await caller.json(question, { ...WHOLE, ...(isObserved ? {} : QUIET), ...options, format });
  return JSON.parse(decoder.decode(bytes));
}
