// The results of operators for two values: comparisons, arithmetic, texts.
//
// Knows types and their values. Must not know expressions.
import { divisionByZero } from "../errors.ts";
import { positionOf } from "../replication/log.ts";
import type { Session } from "../session.ts";
import * as types from "../values.ts";
import { checkRange, type Type, type Value } from "../values.ts";
import { NUMBERS, TEXTS } from "./conversions.ts";

interface Operation {
  readonly type: Type;
  of(left: Value, right: Value, context: { readonly session: Session }): Value;
}

const COMPARISONS: Readonly<Record<string, (order: number) => boolean>> = {
  "=": (order) => order === 0,
  "<>": (order) => order !== 0,
  "<": (order) => order < 0,
  ">": (order) => order > 0,
  "<=": (order) => order <= 0,
  ">=": (order) => order >= 0,
};

export function operation(symbol: string, left: Type, right: Type): Operation | undefined {
  const compares = COMPARISONS[symbol];
  const areNumbers = NUMBERS.includes(left) && NUMBERS.includes(right);
  const areTexts = TEXTS.includes(left) && TEXTS.includes(right);
  if (compares) {
    if (!areNumbers && !areTexts && left !== right) return undefined;
    if (left === types.json) return undefined;
    return { type: types.bool, of: (a, b) => compares(compare(a, b, left)) };
  }
  if (symbol === "||" && (areTexts || TEXTS.includes(left) || TEXTS.includes(right)) && !left.element && !right.element)
    return {
      type: types.text,
      of: (a, b, { session }) => left.print(a, session.forms) + right.print(b, session.forms),
    };
  if (symbol === "||" && left.element && left === right)
    return { type: left, of: (a, b) => [...(a as Value[]), ...(b as Value[])] };
  if ((symbol === "~" || symbol === "!~") && areTexts)
    return { type: types.bool, of: (a, b) => new RegExp(b as string).test(a as string) === (symbol === "~") };
  if ((symbol === "like" || symbol === "ilike") && areTexts)
    return { type: types.bool, of: (a, b) => isLike(a as string, b as string, symbol === "ilike") };
  if (areNumbers && "+-*/%".includes(symbol)) return arithmetic(symbol, left, right);
  return undefined;
}

function isLike(text: string, pattern: string, ignoresCase: boolean): boolean {
  const source = pattern
    .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
    .replaceAll("%", "[^]*")
    .replaceAll("_", "[^]");
  return new RegExp(`^${source}$`, ignoresCase ? "i" : "").test(text);
}

/** Returns the wider of two numeric types. */
function wider(left: Type, right: Type): Type {
  const rank = (type: Type) => NUMBERS.indexOf(type === types.oid ? types.int8 : type);
  return rank(left) >= rank(right) ? left : right;
}

function arithmetic(symbol: string, left: Type, right: Type): Operation {
  const type = wider(left, right);
  if (type === types.float8 || type === types.float4 || type === types.numeric)
    return type === types.numeric
      ? { type, of: (a, b) => inNumeric(symbol, String(a), String(b)) }
      : { type, of: (a, b) => inFloats(symbol, Number(a), Number(b)) };
  return {
    type,
    of: (a, b) => {
      const result = checkRange(type, inWhole(symbol, BigInt(a as number), BigInt(b as number)));
      return type === types.int8 ? result : Number(result);
    },
  };
}

function inWhole(symbol: string, a: bigint, b: bigint): bigint {
  if ((symbol === "/" || symbol === "%") && b === 0n) throw divisionByZero();
  if (symbol === "+") return a + b;
  if (symbol === "-") return a - b;
  if (symbol === "*") return a * b;
  return symbol === "/" ? a / b : a % b;
}

function inFloats(symbol: string, a: number, b: number): number {
  if ((symbol === "/" || symbol === "%") && b === 0) throw divisionByZero();
  if (symbol === "+") return a + b;
  if (symbol === "-") return a - b;
  if (symbol === "*") return a * b;
  return symbol === "/" ? a / b : a % b;
}

/** A quotient has sixteen digits after the point, which sometimes differs from the server. */
const SCALE_OF_QUOTIENTS = 16;

function inNumeric(symbol: string, a: string, b: string): string {
  const scaleOf = (text: string) => text.split(".")[1]?.length ?? 0;
  const scale = Math.max(scaleOf(a), scaleOf(b));
  const scaled = (text: string, to: number) => BigInt(text.replace(".", "") + "0".repeat(to - scaleOf(text)));
  const print = (digits: bigint, to: number) => {
    const text = String(digits < 0n ? -digits : digits).padStart(to + 1, "0");
    const point = text.length - to;
    return `${digits < 0n ? "-" : ""}${text.slice(0, point)}${to ? `.${text.slice(point)}` : ""}`;
  };
  if (symbol === "*") return print(scaled(a, scaleOf(a)) * scaled(b, scaleOf(b)), scaleOf(a) + scaleOf(b));
  const [x, y] = [scaled(a, scale), scaled(b, scale)];
  if (symbol === "/") {
    const quotient = inWhole("/", x * 10n ** BigInt(SCALE_OF_QUOTIENTS + 1), y);
    return print((quotient + (quotient < 0n ? -5n : 5n)) / 10n, SCALE_OF_QUOTIENTS);
  }
  return print(inWhole(symbol, x, y), scale);
}

export function compare(a: Value, b: Value, type: Type): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) {
      const order = compare(a[at]!, b[at]!, type.element ?? type);
      if (order) return order;
    }
    return a.length - b.length;
  }
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compare([...a], [...b], type);
  if (type.isEnum) return types.MOOD_LABELS.indexOf(a as string) - types.MOOD_LABELS.indexOf(b as string);
  if (type === types.lsn) return positionOf(a as string) - positionOf(b as string);
  if (NUMBERS.includes(type))
    return Number(a) - Number(b) || (typeof a === "bigint" && typeof b === "bigint" ? Number(a - b) : 0);
  return a < b ? -1 : a > b ? 1 : 0;
}
