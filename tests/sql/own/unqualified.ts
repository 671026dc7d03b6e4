// Takes the qualifications of a statement away, one at a time. Tests want each of them reported.
import { SqlReader } from "../../../js/util/sql-reader.ts";

/** Yields the statement without one of its qualifications, for each of them. The body of DO has some, too. */
export function* unqualified(text: string): Generator<string> {
  const values = valuesIn(text);
  for (const { 0: found, index } of text.matchAll(/operator\(pg_catalog\.([^)]+)\)|pg_catalog\.(?=\w)/gi)) {
    if (values.some(([from, to]) => from < index && index < to)) continue;
    const operator = /\.(.+)\)$/.exec(found)?.[1];
    yield text.slice(0, index) + (operator ? ` ${operator} ` : "") + text.slice(index + found.length);
  }
}

/** The places of string constants, which are values and no names. A DO has only its body. */
function valuesIn(text: string): [number, number][] {
  const reader = new SqlReader(text);
  const found: [number, number][] = [];
  for (let kind = reader.next(); kind !== "end"; kind = reader.next())
    if (kind === "text") found.push([reader.start, reader.end]);
  return /^do /i.test(text) ? [] : found;
}
