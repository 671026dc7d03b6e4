// A question of our own. Its rows come as JSON, since parsers and limits of a client are for its user's rows.
//
// Must not know what is asked.
import type { CallOptions, JsonOptions, QueryInput } from "../index.ts";

/** A client, a pool, a transaction. */
export interface QuestionCaller {
  json(query: QueryInput, options: JsonOptions): Promise<Uint8Array>;
}

/** The observer drops notices, which are caused only by settings of the user's. */
export const QUIET = { observer: {} };
const decoder = new TextDecoder();
const WHOLE = { ...QUIET, format: "json", maxRows: 0, maxBytes: 0, maxFieldBytes: 0 } as const;

export async function rowsOf<Row>(
  caller: QuestionCaller,
  text: string,
  values: readonly unknown[] = [],
  options: CallOptions = {},
): Promise<readonly Row[]> {
  const bytes = await caller.json({ text, values }, { ...WHOLE, ...options });
  return JSON.parse(decoder.decode(bytes)) as Row[];
}
