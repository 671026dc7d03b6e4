// Numbers as PostgreSQL writes and reads them: float8 in its shortest form, numeric as text and in base 10,000.
//
// Knows digits. A numeric is kept as its text; the digits after the point are its scale. It has no infinity and no NaN,
// because no program sends them. Must not know types.
import { invalidText, outOfRange } from "./errors.ts";
import { Fields, Message } from "./messages.ts";

export function parseInteger(text: string, type: string, low: bigint, high: bigint): bigint {
  if (!/^-?\d+$/.test(text)) throw invalidText(type, text);
  const value = BigInt(text);
  if (value < low || value > high) throw outOfRange(type, text);
  return value;
}

export function parseFloat8(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value)) throw invalidText("double precision", text);
  return value;
}

/** Prints the fewest digits that identify the value. */
export function printFloat8(value: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [mantissa, power] = value.toExponential().split("e") as [string, string];
  const digits = mantissa.replace(/[-.]/g, "");
  const exponent = Number(power);
  const sign = value < 0 ? "-" : "";
  if (exponent < -4 || exponent >= 15) {
    const behind = digits.length > 1 ? `.${digits.slice(1)}` : "";
    return `${sign}${digits[0]}${behind}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return sign + whole + (digits.length > exponent + 1 ? `.${digits.slice(exponent + 1)}` : "");
}

export function parseNumeric(text: string): string {
  const [, sign, whole, fraction] = /^(-?)0*(\d+)(\.\d+)?$/.exec(text) ?? [];
  if (whole === undefined) throw invalidText("numeric", text);
  const size = whole + (fraction ?? "");
  return (/[1-9]/.test(size) ? sign : "") + size;
}

/** The number of groups, weight, sign and scale, then groups of four digits. */
export function sendNumeric(value: string): Uint8Array {
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
  const message = new Message(" ").int16(groups.length).int16(groups.length ? weight : 0);
  message.int16(value.startsWith("-") ? 0x4000 : 0).int16(fraction.length);
  for (const group of groups) message.int16(group);
  return message.done().subarray(5);
}

export function receiveNumeric(bytes: Uint8Array): string {
  const fields = new Fields(bytes);
  const [length, weight] = [fields.int16(), (fields.int16() << 16) >> 16];
  const [sign, scale] = [fields.int16(), fields.int16()];
  const groups = Array.from({ length }, () => fields.int16());
  fields.end();
  const group = (at: number) => String(groups[at] ?? 0).padStart(4, "0");
  let whole = "0";
  for (let at = 0; at <= weight; at++) whole += group(at);
  let fraction = "";
  for (let at = weight + 1; fraction.length < scale; at++) fraction += at < 0 ? "0000" : group(at);
  return parseNumeric(`${sign === 0x4000 ? "-" : ""}${whole}${scale ? `.${fraction.slice(0, scale)}` : ""}`);
}
