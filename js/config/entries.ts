// An option: the rule for its value, its default, and which calls may set it too. And the values of a table of options.
//
// Knows what an entry is. Must not know which options there are, or where a value was given.

import type { Rule } from "./rules.ts";

/** Facts about the runtime that a default needs. */
export interface Surroundings {
  /** Workers have 128 MB in all, and the platform ends what is idle: some bounds are smaller there. */
  readonly isWorkerd?: boolean | undefined;
}

/**
 * Which calls may set an option for themselves: `every` call, those that return `rows` in any form, or those whose rows
 * become JavaScript `values`. `none`: only the connection has it.
 */
export type Setters = "none" | "every" | "rows" | "values";

/** A default that depends on the options before it in the table, or on the runtime. */
type Following<Value> = (sofar: Readonly<Record<string, unknown>>, runtime: Surroundings) => Value;

/** `Default` is `undefined` if the option may be left out. */
export interface Entry<Value, Default extends Value | undefined, By extends Setters> {
  readonly rule: Rule<Value>;
  readonly fallback: Default | Following<Default>;
  readonly by: By;
}

type AnyEntry = Entry<unknown, unknown, Setters>;
export type ValueOf<One> = One extends Entry<infer Value, infer _, Setters> ? Value : never;

/**
 * The rule defines the value's type, and the default must fit it. (`NoInfer` needs TypeScript 5.4, our users have 5.2.)
 */
type Checked<Value> = [Value][Value extends unknown ? 0 : never];

/** An option with a default. */
export function option<Value, By extends Setters = "none">(
  rule: Rule<Value>,
  fallback: Checked<Value> | Following<Checked<Value>>,
  by = "none" as By,
): Entry<Value, Value, By> {
  return { rule, fallback, by };
}

/** An option without a default, which may be left out. */
export function optional<Value, By extends Setters = "none">(
  rule: Rule<Value>,
  by = "none" as By,
): Entry<Value, undefined, By> {
  return { rule, fallback: undefined, by };
}

/** Returns the value of each option, checked by its rule: the given value, or else the default. */
export function valuesOf(
  table: Readonly<Record<string, AnyEntry>>,
  given: (name: string) => unknown,
  runtime: Surroundings,
): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  for (const [name, { rule, fallback }] of Object.entries(table)) {
    const value = given(name) === undefined ? defaultOf(fallback, all, runtime) : given(name);
    all[name] = value === undefined ? undefined : rule(value, name);
  }
  return all;
}

function defaultOf(fallback: unknown, sofar: Readonly<Record<string, unknown>>, runtime: Surroundings): unknown {
  return typeof fallback === "function" ? (fallback as Following<unknown>)(sofar, runtime) : fallback;
}
