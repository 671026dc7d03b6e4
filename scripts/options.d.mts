export interface Told {
  readonly name: string;
  readonly text: string;
  readonly values: string;
  readonly fallback: string;
  readonly differs: string;
  readonly calls: string;
}
export function entriesOf(file: string, ...tables: readonly string[]): Told[];
/** Returns the options that only calls have, from the interfaces of these files. */
export function callEntriesOf(...files: readonly string[]): Pick<Told, "name" | "text" | "values" | "calls">[];
