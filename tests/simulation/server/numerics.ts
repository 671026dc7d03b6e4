// Numbers as PostgreSQL writes and reads them: float8 in its shortest form, numeric as text and in base 10,000.
//
// Knows digits. A numeric is kept as its text; the digits after the point are its scale. Must not know types.
import { invalidText, outOfRange, PgError } from "./errors.ts";
import { Fields, Message } from "./messages.ts";

export function parseInteger(text: string, type: string, low: bigint, high: bigint): bigint {
  const trimmed = text.trim();
  if (!/^[+-]?\d+$/.test(trimmed)) throw invalidText(type, text);
  const value = BigInt(trimmed.replace("+", ""));
  if (value < low || value > high) throw outOfRange(type, text);
  return value;
}

export function parseFloat8(text: string): number {
  const trimmed = text.trim().toLowerCase();
  if (/^[+-]?inf(inity)?$/.test(trimmed)) return trimmed.startsWith("-") ? -Infinity : Infinity;
  if (trimmed === "nan") return NaN;
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(trimmed)) throw invalidText("double precision", text);
  const value = Number(trimmed);
  if (!Number.isFinite(value) || (value === 0 && /[1-9]/.test(trimmed.split("e")[0]!)))
    throw new PgError("22003", `"${text}" is out of range for type double precision`);
  return value;
}

/**
 * Prints the fewest digits that identify the value, or 15 where `extra_float_digits` asks only for the digits that are
 * certain.
 */
export function printFloat8(value: number, extraDigits: number, digitsOfType = 15): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const shortest = extraDigits > 0 ? value.toExponential() : value.toExponential(Math.max(0, 14 + extraDigits));
  const [mantissa, power] = shortest.split("e") as [string, string];
  const digits = mantissa.replace(/[-.]/g, "").replace(/0+$/, "");
  const exponent = Number(power);
  const sign = value < 0 ? "-" : "";
  if (exponent < -4 || exponent >= digitsOfType) {
    const behind = digits.length > 1 ? `.${digits.slice(1)}` : "";
    return `${sign}${digits[0]}${behind}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return sign + whole + (digits.length > exponent + 1 ? `.${digits.slice(exponent + 1)}` : "");
}

export function parseNumeric(text: string): string {
  const trimmed = text.trim();
  if (/^nan$/i.test(trimmed)) return "NaN";
  if (/^[+-]?inf(inity)?$/i.test(trimmed)) return trimmed.startsWith("-") ? "-Infinity" : "Infinity";
  const [, sign, whole, fraction = "", power = "0"] = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i.exec(trimmed) ?? [];
  if (whole === undefined || whole + fraction === "") throw invalidText("numeric", text);
  const scale = fraction.length - Number(power);
  let digits = whole + fraction;
  if (scale < 0) digits += "0".repeat(-scale);
  digits = digits.padStart(Math.max(0, scale) + 1, "0");
  const point = digits.length - Math.max(0, scale);
  const before = digits.slice(0, point).replace(/^0+(?=\d)/, "");
  const isZero = !/[1-9]/.test(digits);
  return (sign === "-" && !isZero ? "-" : "") + before + (scale > 0 ? `.${digits.slice(point)}` : "");
}

const SPECIAL = { NaN: 0xc000, Infinity: 0xd000, "-Infinity": 0xf000 } as const;

/** The number of groups, weight, sign and scale, then groups of four digits. */
export function sendNumeric(value: string): Uint8Array {
  const message = new Message(" ");
  const body = () => message.done().subarray(5);
  if (value in SPECIAL) {
    message
      .int16(0)
      .int16(0)
      .int16(SPECIAL[value as keyof typeof SPECIAL]);
    message.int16(value === "NaN" ? 0 : 32);
    return body();
  }
  const [whole, fraction = ""] = value.replace("-", "").split(".") as [string, string?];
  const padded = whole.padStart(Math.ceil(whole.length / 4) * 4, "0");
  const all = padded + fraction.padEnd(Math.ceil(fraction.length / 4) * 4, "0");
  const groups = (all.match(/.{4}/g) ?? []).map(Number);
  let weight = padded.length / 4 - 1;
  while (groups.length && groups[0] === 0) {
    groups.shift();
    weight--;
  }
  while (groups.length && groups.at(-1) === 0) groups.pop();
  message.int16(groups.length).int16(groups.length ? weight : 0);
  message.int16(value.startsWith("-") ? 0x4000 : 0).int16(fraction.length);
  for (const group of groups) message.int16(group);
  return body();
}

export function receiveNumeric(bytes: Uint8Array): string {
  const fields = new Fields(bytes);
  const [length, weight] = [fields.int16(), (fields.int16() << 16) >> 16];
  const [sign, scale] = [fields.int16(), fields.int16()];
  const special = Object.entries(SPECIAL).find(([, code]) => code === sign);
  if (special) return special[0];
  const groups = Array.from({ length }, () => fields.int16());
  fields.end();
  const group = (at: number) => String(groups[at] ?? 0).padStart(4, "0");
  let whole = "";
  for (let at = 0; at <= weight; at++) whole += group(at);
  let fraction = "";
  for (let at = weight + 1; fraction.length < scale; at++) fraction += at < 0 ? "0000" : group(at);
  const text = `${sign === 0x4000 ? "-" : ""}${whole || "0"}`;
  return parseNumeric(scale ? `${text}.${fraction.slice(0, scale)}` : text);
}
