// Names of statements, URLs and answers: equal only for equal things, and short.
//
// Knows JSON and SHA-256. Must not know what is named.
import { BoundedMap } from "../util/bounded.ts";

/**
 * Characters from which on a hash takes the place of a text. In Node a digest takes 30 us and a thread; the invalidator
 * keeps names by the ten thousand.
 */
const LONG = 80;
/** By text: what a program asks again and again. */
const ofStatements = new BoundedMap<string, string>(1_000);

export async function statementName(text: string): Promise<string> {
  const known = ofStatements.get(text);
  if (known !== undefined) return known;
  const name = await nameOf([text]);
  ofStatements.set(text, name);
  return name;
}

/** The thing as JSON, or if that is long a hash of it. No hash begins as JSON does. */
export async function nameOf(what: readonly unknown[]): Promise<string> {
  const text = textOf(what);
  if (text.length < LONG) return text;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(hash, 0, 18)));
}

/** JSON that tells apart what JSON.stringify does not. PostgreSQL's texts cannot contain the NUL of {@link MARK}. */
export const textOf = (what: unknown): string => JSON.stringify(what, marked);

const MARK = "\0";

/** `this` has the value as it was, before toJSON. */
function marked(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const given = this[key];
  if (typeof given === "bigint") return [MARK, "bigint", String(given)];
  if (typeof given === "number" && (!Number.isFinite(given) || Object.is(given, -0)))
    return [MARK, "number", Object.is(given, -0) ? "-0" : String(given)];
  if (typeof given !== "object" || given === null || given instanceof Date) return value;
  const bytes = bytesOf(given);
  if (bytes)
    return [MARK, given.constructor.name, btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))];
  return typeof (given as { toJSON?: unknown }).toJSON === "function" ? [MARK, "json", value] : value;
}

function bytesOf(value: object): Uint8Array | undefined {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/** Objects in objects. One with a cycle has no end. */
const DEEPEST = 100;

/** Whether JSON shows all of a value: texts, numbers, flags, and plain objects and lists of these. */
export function isPlain(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) return !["function", "symbol"].includes(typeof value);
  if (depth > DEEPEST) return false;
  const prototype = Object.getPrototypeOf(value) as unknown;
  const isKnown = Array.isArray(value) || prototype === Object.prototype || prototype === null;
  return isKnown && Object.values(value).every((one) => isPlain(one, depth + 1));
}
