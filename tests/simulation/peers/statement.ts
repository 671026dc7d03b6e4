// A statement with its values, for drivers that take `$1` and for one that takes a template.
//
// Knows texts and values. Must not know drivers.

export type Value = number | string | readonly number[];

export interface Statement {
  /** The text around the values. It is the same array each time, as a template in source code is. */
  readonly strings: TemplateStringsArray;
  readonly values: readonly Value[];
  /** The text with `$1`, `$2` … in place of the values. */
  readonly text: string;
}

/** Tag of a template: `statement`select ${1}::int4 as n``. */
export function statement(strings: TemplateStringsArray, ...values: Value[]): Statement {
  let text = strings[0]!;
  for (let at = 1; at < strings.length; at++) text += `$${at}${strings[at]!}`;
  return { strings, values, text };
}
