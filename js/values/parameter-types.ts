// What the values of a statement may be, for the compiler.
//
// Types only. Knows what the encoder (parameters.ts) takes for which type: a text is taken for every one, as the server
// reads it. Must not know rows.

import type { JsonText } from "../util/text.ts";

/** Only in types: no row has such a member. */
declare const TAKES: unique symbol;

/**
 * Of a row type: which values its statement takes, one for each `${…}` of the template. `pgz-edge types` writes it
 * (docs/sql-types.md).
 *
 * @example
 * interface FindUser extends Takes<[id: Parameter<"int8">]> { name: string }
 */
export interface Takes<Values extends readonly unknown[]> {
  readonly [TAKES]?: Values;
}

/** The values of a template that asks for this row type; anything where nobody has said it. */
export type TakenBy<Row> = [Row] extends [Takes<infer Values>] ? Values : readonly unknown[];

/**
 * No promise, nor a query builder that was not awaited. The first form is for objects that are written out, whose
 * members the compiler compares one by one.
 */
type Plain = { readonly [member: string]: unknown; readonly then?: never } | (object & { readonly then?: never });
type Digits = number | bigint;
type Words = number | bigint | boolean;
type Bytes = ArrayBuffer | ArrayBufferView;

/** By PostgreSQL's name, beside text and NULL. Dates and times take those of `Temporal` too. */
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
 * A value for a parameter of this type, by PostgreSQL's name: `int8`, `text[]`. Of types that are not known here, such
 * as enums, domains and those of extensions, it is a text, a number, a boolean or an array.
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
