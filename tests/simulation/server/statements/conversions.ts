// Conversions between types: which exist, and which apply without a cast.
//
// Knows types and their values. Must not know expressions.
import { outOfRange, PgError } from "../errors.ts";
import type { Session } from "../session.ts";
import * as types from "../values.ts";
import { checkRange, typeNamed, type Type, type Value } from "../values.ts";

/** Forms of values where no session has chosen others. */
export const ANY = { timeZone: "UTC", extraFloatDigits: 1, byteaOutput: "hex" };

export const WHOLE = [types.int2, types.int4, types.int8, types.oid];
export const NUMBERS = [...WHOLE, types.numeric, types.float4, types.float8];
export const TEXTS = [types.text, types.varchar, types.name, types.unknown];
export const MOMENTS = [types.timestamp, types.timestamptz, types.date];

type Conversion = (value: Value, context: { readonly session: Session }) => Value;

/** Returns the conversion, or `undefined` if there is none. Every type converts from and to text. */
export function conversion(from: Type, to: Type): Conversion | undefined {
  if (from === to) return (value) => value;
  if (TEXTS.includes(from) && TEXTS.includes(to)) return (value) => value;
  if (TEXTS.includes(from)) return (value, { session }) => to.parse(value as string, session.forms);
  if (TEXTS.includes(to) && from === types.bool) return (value) => (value ? "true" : "false");
  if (TEXTS.includes(to)) return (value, { session }) => from.print(value, session.forms);
  if (NUMBERS.includes(from) && NUMBERS.includes(to)) return (value) => number(value, from, to);
  if (from === types.bool && to === types.int4) return (value) => (value ? 1 : 0);
  if (from === types.int4 && to === types.bool) return (value) => value !== 0;
  if (from === types.json && to === types.jsonb)
    return (value, { session }) => to.parse(value as string, session.forms);
  if (from === types.jsonb && to === types.json) return (value) => value;
  if (MOMENTS.includes(from) && MOMENTS.includes(to))
    return (value, { session }) => to.parse(from.print(value, session.forms), session.forms);
  if (from.element && to.element) {
    const items = conversion(from.element, to.element);
    return (
      items && ((value, context) => (value as Value[]).map((item) => (item === null ? null : items(item, context))))
    );
  }
  if (WHOLE.includes(from) && to === types.regtype)
    return (value) => types.byOid.get(Number(value))?.fullName ?? String(value);
  if (from === types.bit && to === types.int8) return (value) => BigInt(`0b0${value as string}`);
  if (from === types.regtype && WHOLE.includes(to)) return (value) => typeNamed(value as string)?.oid ?? 0;
  return undefined;
}

function number(value: Value, from: Type, to: Type): Value {
  if (to === types.float8) return Number(value);
  if (to === types.float4) return Math.fround(Number(value));
  if (to === types.numeric)
    return from === types.float8 || from === types.float4
      ? types.numeric.parse(types.float8.print(Number(value), ANY), ANY)
      : String(value);
  const whole = wholeOf(value, from, to);
  checkRange(to, whole);
  return to === types.int8 ? whole : Number(whole);
}

function wholeOf(value: Value, from: Type, to: Type): bigint {
  if (from === types.numeric) {
    const [whole, fraction = ""] = (value as string).split(".") as [string, string?];
    if (!/^-?\d+$/.test(whole)) throw new PgError("0A000", `cannot convert ${value as string} to ${to.fullName}`);
    const away = Number(fraction[0] ?? 0) >= 5 ? 1n : 0n;
    return BigInt(whole) + (whole.startsWith("-") ? -away : away);
  }
  if (typeof value !== "number") return value as bigint;
  if (!Number.isFinite(value)) throw outOfRange(to.fullName);
  return BigInt(halfToEven(value));
}

function halfToEven(value: number): number {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

/**
 * Whether a value of `from` is accepted for `to` without a cast. An assignment to a column (`assigns`) accepts more.
 */
export function isImplicit(from: Type, to: Type, assigns = false): boolean {
  if (from === to) return true;
  if (TEXTS.includes(from) && TEXTS.includes(to)) return true;
  if (assigns && NUMBERS.includes(from) && NUMBERS.includes(to)) return true;
  if (assigns && TEXTS.includes(to)) return true;
  const rank = (type: Type) => NUMBERS.filter((it) => it !== types.oid).indexOf(type);
  if (rank(from) >= 0 && rank(to) >= 0) return rank(from) < rank(to);
  if (WHOLE.includes(from) && to === types.oid) return true;
  if (from === types.date && MOMENTS.includes(to)) return true;
  return from === types.timestamp && to === types.timestamptz;
}
