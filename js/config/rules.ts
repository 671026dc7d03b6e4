// Rules for values of options, and the errors for wrong values and unknown options.
//
// Knows kinds of values, and UsageError. Must not know which options there are. No error repeats a value.

import { UsageError, type Code } from "../util/errors.ts";
import { isText } from "../util/text.ts";
import { isMisspelt, nearestOf } from "./nearest.ts";

/** Returns the value, or throws an error that says what the option of this name must be. */
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
/** Splits a list at its commas. */
export const wordsOf = (value: unknown): string[] => String(value).split(",");
export const isFunction = (value: unknown): boolean => typeof value === "function";
/** For options that say how often something is tried. */
export const attempts = rule<boolean | number>(
  "a boolean or the number of attempts",
  (value) => typeof value === "boolean" || (Number.isInteger(value) && (value as number) > 0),
);

export function invalid(name: string, must: string): never {
  throw new UsageError(codeOf(name), `Option "${name}" must be ${must}.`);
}

/** The code of the error for a wrong value. */
export const codeOf = (name: string): Code => (name === "sslmode" ? "INVALID_SSLMODE" : "INVALID_OPTION");

// -- names -----------------------------------------------------------------------------------------------------------

/** The names of an interface's options. The compiler requires all of them, and no other name. */
export function namesOf<Options>(names: { readonly [Name in keyof Options]-?: true }): readonly string[] {
  return Object.keys(names);
}

/** Throws unless this is an object. Arrays and functions, which other drivers take here, have errors of their own. */
export function checkObject(options: unknown): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return;
  if (Array.isArray(options)) throw new UsageError("INVALID_QUERY", VALUES);
  throw new UsageError(
    "INVALID_OPTION",
    typeof options === "function"
      ? "No call takes a callback: await the promise that it returns."
      : `Options must be an object. ${VALUES}`,
  );
}

const VALUES = "Values belong in the query: sql`… ${value} …`, or { text, values }.";

/** An object of values, as other drivers take it for named placeholders, has names that are like no option's. */
export const unknownCallOption = (name: string, known: readonly string[]): UsageError =>
  unknown(`option "${name}"`, name, known, `${VALUES} ${knownNames(known)}`);

/** Refuses unknown names: a misspelt limit must not mean no limit. */
export function checkOptions(
  options: object,
  known: readonly string[],
  refusal = (name: string, known: readonly string[]) => unknown(`option "${name}"`, name, known),
): void {
  checkObject(options);
  for (const name in options)
    if (!known.includes(name) && (options as Record<string, unknown>)[name] !== undefined) throw refusal(name, known);
}

/**
 * The error for an unknown name, with the name that may be meant. `otherwise`: said if there is no such name.
 * `mayBeSetting`: a setting of the server may be meant.
 */
export function unknown(
  what: string,
  name: string,
  known: readonly string[],
  otherwise = knownNames(known),
  mayBeSetting = false,
): UsageError {
  const nearest = nearestOf(name, known);
  const isSetting = mayBeSetting && SETTING.test(name) && !(nearest && isMisspelt(name, nearest));
  const guess = nearest && `The nearest known name is "${nearest}".`;
  const member = name.includes(".") ? `"${name}"` : name;
  const setting = isSetting && `If it is a setting of the server, pass option startup: { ${member}: … }.`;
  const advice = [guess, setting].filter(Boolean).join(" ") || otherwise;
  return new UsageError("UNKNOWN_OPTION", `Unknown ${what}. ${advice}`);
}

/**
 * Names of the server's settings. Most have an underscore, which no option of ours has, or the dot of an extension's.
 * The others are those that clients set.
 */
const SETTING = /^([a-z]\w*[_.][\w.]+|TimeZone|DateStyle|IntervalStyle|role|geqo|jit|xmlbinary|xmloption)$/i;

/** Letters of a list that a reader still looks through. */
const LONGEST_LIST = 160;

/** The known names, or the page that has them if they are many. */
export function knownNames(known: readonly string[], page = "docs/options.md"): string {
  const list = known.join(", ");
  return list.length > LONGEST_LIST ? `The known names are in ${page}.` : `Known names: ${list}.`;
}
