// The types of a statement's values, for the compiler.
//
// Types only. Knows which values the encoder (parameters.ts) takes for which type. It takes text for every type, as the
// server reads it. Must not know rows.

import type { JsonText } from "../util/json.ts";

/** Exists only in types: no row has such a member. */
declare const TAKES: unique symbol;

/**
 * A row type that extends this says which values its statement takes, one for each `${…}` of the template. `pgz-edge
 * types` writes it (docs/sql-types.md).
 *
 * @example
 * interface FindUser extends Takes<[id: Parameter<"int8">]> { name: string }
 */
export interface Takes<Values extends readonly unknown[]> {
  readonly [TAKES]?: Values;
}

/**
 * What `${…}` in a template takes: a value, or a fragment. `undefined`, promises, functions and symbols are refused by
 * the compiler, because the driver refuses them too. The compiler cannot know of a value of type `unknown`; say what it
 * is.
 *
 * @example
 * const body = (await request.json()) as Record<string, SqlValue>;
 * sql`insert into users ${sql.values([body], "name", "age")}`;
 */
export type SqlValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | { readonly [member: string]: unknown; readonly then?: never }
  | (object & { readonly then?: never; readonly bind?: never });

/** A row with a value in each of these columns. */
export type SqlRow<Column extends PropertyKey> = { readonly [Name in Column]: SqlValue };

/** The values of a template that asks for this row type. Any values if the row type does not say. */
export type TakenBy<Row> = [Row] extends [Takes<infer Values>] ? Values : readonly SqlValue[];

/**
 * An object, but no promise, and no query builder that was not awaited. The first form is for object literals, whose
 * members the compiler compares one by one.
 */
type Plain = { readonly [member: string]: unknown; readonly then?: never } | (object & { readonly then?: never });
type Digits = number | bigint;
type Words = number | bigint | boolean;
type Bytes = ArrayBuffer | ArrayBufferView;

/**
 * Accepted values by PostgreSQL's type name, besides text and NULL. Dates and times also accept objects of `Temporal`.
 */
interface ParameterTypes {
  bool: boolean;
  int2: Digits;
  int4: Digits;
  int8: Digits;
  oid: Digits;
  float4: Digits;
  float8: Digits;
  numeric: Digits;
  money: Digits;
  text: Words;
  varchar: Words;
  bpchar: Words;
  name: Words;
  json: Words | Plain;
  jsonb: Words | Plain;
  bytea: Bytes;
  date: Plain;
  time: Plain;
  timestamp: Plain;
  timestamptz: Plain;
  interval: Plain;
  int4range: Plain;
  int8range: Plain;
  numrange: Plain;
  tsrange: Plain;
  tstzrange: Plain;
  daterange: Plain;
}

/**
 * A value for a parameter of this type, by PostgreSQL's name: `int8`, `text[]`. A type that is not known here, such as
 * an enum, a domain or a type of an extension, takes text, a number, a boolean or an array.
 *
 * @example
 * const id: Parameter<"int8"> = 7n;
 */
export type Parameter<Type extends string> =
  | string
  | null
  | JsonText
  | (Type extends `${infer Element}[]`
      ? readonly (Parameter<Element> | readonly unknown[])[]
      : Type extends keyof ParameterTypes
        ? ParameterTypes[Type]
        : Words | readonly unknown[]);
