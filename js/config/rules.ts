// What a value of an option must be, and what is said when it is not that, or when an option is none.
//
// Knows kinds of values, and UsageError. Must not know which options there are. No error repeats a value.

import { UsageError } from "../util/errors.ts";
import { isText } from "../util/text.ts";

/** Gives the value back, or throws and says what the option of this name must be. */
export type Rule<Value> = (value: unknown, name: string) => Value;

export function rule<Value>(must: string, holds: (value: unknown) => unknown): Rule<Value> {
  return (value, name) => (holds(value) ? (value as Value) : invalid(name, must));
}

export function oneOf<const Value>(...values: readonly Value[]): Rule<Value> {
  return rule(`one of ${values.join(", ")}`, (value) => values.includes(value as Value));
}

export function whole(min: number, max: number): Rule<number> {
  return rule(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

export const anyText = rule<string>("text without NUL", isText);
export const someText = rule<string>("text without NUL, not empty", (value) => value && isText(value));
export const flag = oneOf<boolean>(true, false);
/** Of a list with commas between. */
export const wordsOf = (value: unknown): string[] => String(value).split(",");
export const isFunction = (value: unknown): boolean => typeof value === "function";
/** Of something that is tried again. */
export const attempts = rule<boolean | number>(
  "a boolean or the number of attempts",
  (value) => typeof value === "boolean" || (Number.isInteger(value) && (value as number) > 0),
);

export function invalid(name: string, must: string): never {
  throw new UsageError(name === "sslmode" ? "INVALID_SSLMODE" : "INVALID_OPTION", `Option "${name}" must be ${must}.`);
}

// -- names -----------------------------------------------------------------------------------------------------------

/** The names of an interface's options. The compiler wants each of them here, and no other. */
export function namesOf<Options>(names: { readonly [Name in keyof Options]-?: true }): readonly string[] {
  return Object.keys(names);
}

/** What other drivers take in their place is told apart. */
export function checkObject(options: unknown): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return;
  if (Array.isArray(options))
    throw new UsageError("INVALID_QUERY", "Values belong into the query: sql`… ${value} …`, or { text, values }.");
  throw new UsageError(
    "INVALID_OPTION",
    typeof options === "function"
      ? "No call takes a callback: await the promise that it returns."
      : "Options must be an object.",
  );
}

/** A cap that is misspelt must not be none. */
export function checkOptions(options: object, known: readonly string[]): void {
  checkObject(options);
  for (const name in options) {
    if (!known.includes(name) && (options as Record<string, unknown>)[name] !== undefined)
      throw unknown(`option "${name}"`, name, known);
  }
}

/**
 * The nearest name is the one with the longest beginning in common, whatever the case and the punctuation; two letters
 * say nothing.
 */
export function unknown(what: string, name: string, known: readonly string[]): UsageError {
  const letters = (text: string) => text.toLowerCase().replace(/[^a-z]/g, "");
  let beginning = letters(name.slice(0, 40));
  let nearest;
  while (beginning.length > 2 && !(nearest = known.find((other) => letters(other).startsWith(beginning))))
    beginning = beginning.slice(0, -1);
  return new UsageError(
    "UNKNOWN_OPTION",
    `Unknown ${what}. ${nearest ? `The nearest known name is "${nearest}"` : `Known names: ${known.join(", ")}`}.`,
  );
}
