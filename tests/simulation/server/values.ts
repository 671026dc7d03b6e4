// The types of the model: their OIDs, and conversion of their values from and to text and binary.
//
//   bool boolean   int2 int4 oid float4 float8 date number   int8 timestamp timestamptz bigint   bytea Uint8Array
//   arrays and composites: a list   everything else: its text
//
// Knows the forms of values. Must not know columns or statements. The database's own types (`mood`, `pair`) have OIDs
// from 16384 on, which the comparison with a real server ignores.
import { invalidText, outOfRange, PgError } from "./errors.ts";
import { checkJson, normalJson } from "./json.ts";
import { Fields, Message, textOf, utf8 } from "./messages.ts";
import { parseFloat8, parseInteger, parseNumeric, printFloat8, receiveNumeric, sendNumeric } from "./numerics.ts";
import { parseDate, parseTimestamp, printDate, printTimestamp } from "./times.ts";

export type Value = null | boolean | number | bigint | string | Uint8Array | Value[];

/** The settings on which the text of a value depends. */
export interface Forms {
  readonly timeZone: string;
  readonly extraFloatDigits: number;
  readonly byteaOutput: string;
}

export interface Type {
  readonly oid: number;
  /** The name in `::name`. */
  readonly name: string;
  /** The name in messages. */
  readonly fullName: string;
  readonly size: number;
  /** For an array: the type of its items. */
  readonly element?: Type;
  readonly isEnum?: boolean;
  /** For a composite: its attributes. */
  readonly attributes?: readonly { readonly name: string; readonly type: Type }[];
  parse(text: string, forms: Forms): Value;
  print(value: Value, forms: Forms): string;
  receive(bytes: Uint8Array): Value;
  send(value: Value): Uint8Array;
}

export const byOid = new Map<number, Type>();
const byName = new Map<string, Type>();
const arrays = new Map<number, Type>();

export const typeNamed = (name: string): Type | undefined => byName.get(name);
export const arrayOf = (type: Type): Type | undefined => arrays.get(type.oid);

/** Returns the value in the given format. */
export function encode(type: Type, value: Value, format: number, forms: Forms): Uint8Array | null {
  if (value === null) return null;
  return format === 1 ? type.send(value) : utf8(type.print(value, forms));
}

export function decode(type: Type, bytes: Uint8Array | null, format: number, forms: Forms): Value {
  if (bytes === null) return null;
  return format === 1 ? type.receive(bytes) : type.parse(textOf(bytes), forms);
}

interface Definition {
  oid: number;
  name: string;
  fullName?: string;
  aliases?: string[];
  size?: number;
  arrayOid?: number;
  isEnum?: boolean;
  attributes?: Type["attributes"];
  parse: Type["parse"];
  print?: Type["print"];
  receive?: Type["receive"];
  send?: Type["send"];
}

function define({ aliases = [], arrayOid, attributes, ...given }: Definition): Type {
  const type: Type = {
    fullName: given.name,
    size: -1,
    print: String,
    receive: (bytes) => type.parse(textOf(bytes), ANY_FORMS),
    send: (value) => utf8(type.print(value, ANY_FORMS)),
    ...given,
    ...(attributes && { attributes }),
  };
  byOid.set(type.oid, type);
  for (const name of [type.name, type.fullName, ...aliases]) byName.set(name, type);
  if (arrayOid !== undefined) defineArray(type, arrayOid);
  return type;
}

/** For types whose text depends on no setting. */
const ANY_FORMS: Forms = { timeZone: "UTC", extraFloatDigits: 1, byteaOutput: "hex" };

const body = (message: Message): Uint8Array => message.done().subarray(5);
const out = (): Message => new Message(" ");

function exact(bytes: Uint8Array, size: number): DataView {
  if (bytes.length < size) throw new PgError("08P01", "insufficient data left in message");
  if (bytes.length > size) throw new PgError("22P03", "incorrect binary data format");
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function view(size: number, write: (view: DataView) => void): Uint8Array {
  const bytes = new Uint8Array(size);
  write(new DataView(bytes.buffer));
  return bytes;
}

// -- scalars ----------------------------------------------------------------------------------------------------------

export const bool = define({
  oid: 16,
  name: "bool",
  fullName: "boolean",
  size: 1,
  arrayOid: 1000,
  parse: (text) => {
    const word = text.trim().toLowerCase();
    const is = (all: string, least: number) => word.length >= least && all.startsWith(word);
    if (is("true", 1) || is("yes", 1) || is("on", 2) || word === "1") return true;
    if (is("false", 1) || is("no", 1) || is("off", 2) || word === "0") return false;
    throw invalidText("boolean", text);
  },
  print: (value) => (value ? "t" : "f"),
  receive: (bytes) => exact(bytes, 1).getUint8(0) !== 0,
  send: (value) => Uint8Array.of(value ? 1 : 0),
});

function parseBytea(text: string): Uint8Array {
  if (text.startsWith("\\x")) {
    const digits = text.slice(2).replace(/\s/g, "");
    const bad = /[^0-9a-f]/i.exec(digits);
    if (bad) throw new PgError("22023", `invalid hexadecimal digit: "${bad[0]}"`);
    if (digits.length % 2) throw new PgError("22023", "invalid hexadecimal data: odd number of digits");
    return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  const bytes: number[] = [];
  for (let at = 0, all = utf8(text); at < all.length; at++) {
    if (all[at] !== 92) bytes.push(all[at]!);
    else if (all[at + 1] === 92) bytes.push(all[++at]!);
    else {
      const octal = String.fromCharCode(...all.subarray(at + 1, at + 4));
      if (!/^[0-3][0-7]{2}$/.test(octal)) throw new PgError("22P02", "invalid input syntax for type bytea");
      bytes.push(parseInt(octal, 8));
      at += 3;
    }
  }
  return Uint8Array.from(bytes);
}

export const bytea = define({
  oid: 17,
  name: "bytea",
  arrayOid: 1001,
  parse: parseBytea,
  print: (value, { byteaOutput }) => {
    const bytes = [...(value as Uint8Array)];
    if (byteaOutput !== "escape") return `\\x${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    const octal = (byte: number) => `\\${byte.toString(8).padStart(3, "0")}`;
    const shown = (byte: number) => (byte < 32 || byte > 126 ? octal(byte) : String.fromCharCode(byte));
    return bytes.map((byte) => (byte === 92 ? "\\\\" : shown(byte))).join("");
  },
  receive: (bytes) => bytes.slice(),
  send: (value) => value as Uint8Array,
});

const text_ = (oid: number, name: string, more: Partial<Definition> = {}): Type =>
  define({ oid, name, parse: (text) => text, ...more });

/** `"char"`, which the catalog uses often. */
export const char = text_(18, '"char"', { size: 1, arrayOid: 1002 });
export const name = text_(19, "name", { size: 64, arrayOid: 1003 });
export const text = text_(25, "text", { arrayOid: 1009 });
export const varchar = text_(1043, "varchar", { fullName: "character varying", arrayOid: 1015 });
export const unknown = text_(705, "unknown", { size: -2 });
export const void_ = text_(2278, "void", { size: 4 });
export const regtype = text_(2206, "regtype", { size: 4, arrayOid: 2211 });
export const lsn = text_(3220, "pg_lsn", {
  size: 8,
  arrayOid: 3221,
  parse: (text) => {
    const [, high, low] = /^([\da-f]{1,8})\/([\da-f]{1,8})$/i.exec(text) ?? [];
    if (!high || !low) throw invalidText("pg_lsn", text);
    return [high, low].map((half) => parseInt(half, 16).toString(16).toUpperCase()).join("/");
  },
});
/** The text is its digits. A text that begins with `x` is hexadecimal. */
export const bit = text_(1560, "bit", {
  arrayOid: 1561,
  parse: (text) => {
    const [, mark, digits] = /^([bx]?)([\da-f]*)$/i.exec(text)!;
    const four = (digit: string) => parseInt(digit, 16).toString(2).padStart(4, "0");
    return mark?.toLowerCase() === "x" ? [...digits!].map(four).join("") : digits!;
  },
});

export const int8 = define({
  oid: 20,
  name: "int8",
  fullName: "bigint",
  size: 8,
  arrayOid: 1016,
  parse: (text) => parseInteger(text, "bigint", -(2n ** 63n), 2n ** 63n - 1n),
  receive: (bytes) => exact(bytes, 8).getBigInt64(0),
  send: (value) => view(8, (to) => to.setBigInt64(0, value as bigint)),
});
export const int2 = define({
  oid: 21,
  name: "int2",
  fullName: "smallint",
  size: 2,
  arrayOid: 1005,
  parse: (text) => Number(parseInteger(text, "smallint", -32768n, 32767n)),
  receive: (bytes) => exact(bytes, 2).getInt16(0),
  send: (value) => view(2, (to) => to.setInt16(0, value as number)),
});
export const int4 = define({
  oid: 23,
  name: "int4",
  fullName: "integer",
  aliases: ["int"],
  size: 4,
  arrayOid: 1007,
  parse: (text) => Number(parseInteger(text, "integer", -(2n ** 31n), 2n ** 31n - 1n)),
  receive: (bytes) => exact(bytes, 4).getInt32(0),
  send: (value) => view(4, (to) => to.setInt32(0, value as number)),
});
export const oid = define({
  oid: 26,
  name: "oid",
  size: 4,
  arrayOid: 1028,
  parse: (text) => Number(parseInteger(text, "oid", 0n, 2n ** 32n - 1n)),
  receive: (bytes) => exact(bytes, 4).getUint32(0),
  send: (value) => view(4, (to) => to.setUint32(0, value as number)),
});
export const float4 = define({
  oid: 700,
  name: "float4",
  fullName: "real",
  size: 4,
  arrayOid: 1021,
  parse: (text) => Math.fround(parseFloat8(text)),
  print: (value) => printFloat4(value as number),
  receive: (bytes) => exact(bytes, 4).getFloat32(0),
  send: (value) => view(4, (to) => to.setFloat32(0, value as number)),
});
export const float8 = define({
  oid: 701,
  name: "float8",
  fullName: "double precision",
  size: 8,
  arrayOid: 1022,
  parse: parseFloat8,
  print: (value, { extraFloatDigits }) => printFloat8(value as number, extraFloatDigits),
  receive: (bytes) => exact(bytes, 8).getFloat64(0),
  send: (value) => view(8, (to) => to.setFloat64(0, value as number)),
});
export const numeric = define({
  oid: 1700,
  name: "numeric",
  aliases: ["decimal"],
  arrayOid: 1231,
  parse: parseNumeric,
  receive: receiveNumeric,
  send: (value) => sendNumeric(value as string),
});

function printFloat4(value: number): string {
  for (let digits = 1; digits < 9; digits++)
    if (Math.fround(Number(value.toPrecision(digits))) === value)
      return printFloat8(Number(value.toPrecision(digits)), 1, 6);
  return printFloat8(Number(value.toPrecision(9)), 1, 6);
}

export const date = define({
  oid: 1082,
  name: "date",
  size: 4,
  arrayOid: 1182,
  parse: parseDate,
  print: (value) => printDate(value as number),
  receive: (bytes) => exact(bytes, 4).getInt32(0),
  send: (value) => view(4, (to) => to.setInt32(0, value as number)),
});
export const timestamp = define({
  oid: 1114,
  name: "timestamp",
  fullName: "timestamp without time zone",
  size: 8,
  arrayOid: 1115,
  parse: (text) => parseTimestamp(text, "timestamp", undefined),
  print: (value) => printTimestamp(value as bigint),
  receive: (bytes) => exact(bytes, 8).getBigInt64(0),
  send: (value) => view(8, (to) => to.setBigInt64(0, value as bigint)),
});
export const timestamptz = define({
  oid: 1184,
  name: "timestamptz",
  fullName: "timestamp with time zone",
  size: 8,
  arrayOid: 1185,
  parse: (text, { timeZone }) => parseTimestamp(text, "timestamp with time zone", timeZone),
  print: (value, { timeZone }) => printTimestamp(value as bigint, timeZone),
  receive: (bytes) => exact(bytes, 8).getBigInt64(0),
  send: (value) => view(8, (to) => to.setBigInt64(0, value as bigint)),
});

export const uuid = define({
  oid: 2950,
  name: "uuid",
  size: 16,
  arrayOid: 2951,
  parse: (text) => {
    const digits = text.toLowerCase().replace(/^\{(.*)\}$/, "$1");
    if (!/^([0-9a-f]{4}-?){7}[0-9a-f]{4}$/.test(digits)) throw invalidText("uuid", text);
    return digits.replaceAll("-", "").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  },
  receive: (bytes) => {
    exact(bytes, 16);
    return uuid.parse([...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(""), ANY_FORMS);
  },
  send: (value) => Uint8Array.from((value as string).replaceAll("-", "").match(/../g)!, (pair) => parseInt(pair, 16)),
});

/** In binary: family, bits of the mask, whether it is a cidr, length, address. The model knows IPv4 only. */
export const inet = define({
  oid: 869,
  name: "inet",
  arrayOid: 1041,
  parse: (text) => {
    const [, address, bits] = /^(\d+(?:\.\d+){3})(?:\/(\d+))?$/.exec(text) ?? [];
    if (address === undefined || address.split(".").some((part) => Number(part) > 255) || Number(bits ?? 32) > 32)
      throw invalidText("inet", text);
    return bits === undefined || bits === "32" ? address : text;
  },
  receive: (bytes) => {
    const address = [...bytes.subarray(4, 8)].join(".");
    return bytes[1] === 32 ? address : `${address}/${bytes[1]}`;
  },
  send: (value) => {
    const [address, bits = 32] = (value as string).split("/") as [string, string?];
    return Uint8Array.of(2, Number(bits), 0, 4, ...address.split(".").map(Number));
  },
});

const EMPTY_RANGE = 1,
  LOW_INCLUDED = 2,
  NO_LOW = 8,
  NO_HIGH = 16;

/** Its text is always `[low,high)`, `(,high)`, `[low,)`, `(,)` or `empty`. */
export const int4range = define({
  oid: 3904,
  name: "int4range",
  arrayOid: 3905,
  parse: (text) => {
    if (/^\s*empty\s*$/i.test(text)) return "empty";
    const found = /^\s*([[(])\s*(-?\d*)\s*,\s*(-?\d*)\s*([\])])\s*$/.exec(text);
    if (!found) throw new PgError("22P02", `malformed range literal: "${text}"`);
    const [, opening, first, last, closing] = found as unknown as [string, string, string, string, string];
    const low = first === "" ? "" : Number(first) + (opening === "(" ? 1 : 0);
    const high = last === "" ? "" : Number(last) + (closing === "]" ? 1 : 0);
    if (low !== "" && high !== "" && Number(first) > Number(last))
      throw new PgError("22000", "range lower bound must be less than or equal to range upper bound");
    if (low !== "" && high !== "" && low >= high) return "empty";
    return `${low === "" ? "(" : "["}${low},${high})`;
  },
  receive: (bytes) => {
    const flags = bytes[0]!;
    if (flags & EMPTY_RANGE) return "empty";
    const fields = new Fields(bytes.subarray(1));
    const bound = (isMissing: number) => (isMissing ? "" : (readField(fields, int4) as number));
    const [low, high] = [bound(flags & NO_LOW), bound(flags & NO_HIGH)];
    return int4range.parse(`${flags & LOW_INCLUDED ? "[" : "("}${low},${high}${flags & 4 ? "]" : ")"}`, ANY_FORMS);
  },
  send: (value) => {
    if (value === "empty") return Uint8Array.of(EMPTY_RANGE);
    const [low, high] = (value as string).slice(1, -1).split(",") as [string, string];
    const message = out().byte((low === "" ? NO_LOW : LOW_INCLUDED) | (high === "" ? NO_HIGH : 0));
    for (const bound of [low, high]) if (bound !== "") writeField(message, int4, Number(bound));
    return body(message);
  },
});

export const json = define({ oid: 114, name: "json", arrayOid: 199, parse: checkJson });
/** Its binary form is the number of the format followed by the text. */
export const jsonb = define({
  oid: 3802,
  name: "jsonb",
  arrayOid: 3807,
  parse: normalJson,
  receive: (bytes) => {
    if (bytes[0] !== 1) throw new PgError("XX000", `unsupported jsonb version number ${bytes[0]}`);
    return normalJson(textOf(bytes.subarray(1)));
  },
  send: (value) => Uint8Array.of(1, ...utf8(value as string)),
});

// -- arrays -----------------------------------------------------------------------------------------------------------

function defineArray(element: Type, arrayOid: number): Type {
  const fullName = `${element.fullName}[]`;
  const type = define({
    oid: arrayOid,
    name: `_${element.name}`,
    fullName,
    aliases: [`${element.name}[]`],
    parse: (text, forms) => parseArray(text, element, forms),
    print: (value, forms) => printArray(value as Value[], element, forms),
    receive: (bytes) => receiveArray(bytes, element),
    send: (value) => sendArray(value as Value[], element),
  });
  Object.assign(type, { element });
  arrays.set(element.oid, type);
  return type;
}

function printArray(items: readonly Value[], element: Type, forms: Forms): string {
  const shown = items.map((item) => {
    if (item === null) return "NULL";
    if (Array.isArray(item) && !element.attributes) return printArray(item, element, forms);
    const printed = element.print(item, forms);
    const needsQuotes = printed === "" || /^null$/i.test(printed) || /[\s"\\{},]/.test(printed);
    return needsQuotes ? `"${printed.replace(/["\\]/g, "\\$&")}"` : printed;
  });
  return `{${shown.join(",")}}`;
}

function parseArray(text: string, element: Type, forms: Forms): Value[] {
  const malformed = (detail: string) => new PgError("22P02", `malformed array literal: "${text}"`, { detail });
  let at = 0;
  const space = () => {
    while (/\s/.test(text[at] ?? "")) at++;
  };
  const item = (): Value => {
    space();
    if (text[at] === "{") return list();
    let word = "";
    if (text[at] === '"') {
      for (at++; text[at] !== '"'; at++) {
        if (text[at] === "\\") at++;
        if (at >= text.length) throw malformed("Unexpected end of input.");
        word += text[at];
      }
      at++;
      space();
      return element.parse(word, forms);
    }
    for (; at < text.length && !",{}".includes(text[at]!); at++) {
      if (text[at] === "\\") at++;
      word += text[at];
    }
    word = word.trimEnd();
    if (word === "") throw malformed(`Unexpected "${text[at] ?? ""}" character.`);
    return /^null$/i.test(word) ? null : element.parse(word, forms);
  };
  const list = (): Value[] => {
    const items: Value[] = [];
    at++;
    space();
    if (text[at] === "}") {
      at++;
      return items;
    }
    for (;;) {
      items.push(item());
      space();
      if (text[at] === ",") at++;
      else break;
    }
    if (text[at] !== "}") throw malformed("Unexpected end of input.");
    at++;
    return items;
  };
  space();
  if (text[at] !== "{") throw malformed('Array value must start with "{" or dimension information.');
  const items = list();
  space();
  if (at < text.length) throw malformed("Junk after closing right brace.");
  return items;
}

function sendArray(items: readonly Value[], element: Type): Uint8Array {
  const dimensions: number[] = [];
  for (let level: Value = items as Value[]; Array.isArray(level) && level.length; level = level[0]!) {
    dimensions.push(level.length);
    if (element.attributes) break;
  }
  const flat = element.attributes ? items : (items as Value[]).flat(Infinity as 1);
  const message = out()
    .int32(dimensions.length)
    .int32(flat.includes(null) ? 1 : 0)
    .int32(element.oid);
  for (const length of dimensions) message.int32(length).int32(1);
  for (const item of flat) writeField(message, element, item);
  return body(message);
}

function writeField(message: Message, type: Type, value: Value): void {
  if (value === null) return void message.int32(-1);
  const bytes = type.send(value);
  message.int32(bytes.length).bytes(bytes);
}

function receiveArray(bytes: Uint8Array, element: Type): Value[] {
  const fields = new Fields(bytes);
  const count = fields.int32();
  fields.int32();
  const given = fields.int32();
  if (given !== element.oid)
    throw new PgError(
      "42804",
      "binary data has array element type " +
        `${given} (${byOid.get(given)?.fullName ?? "???"}) instead of expected ${element.oid} (${element.fullName})`,
    );
  const dimensions = Array.from({ length: count }, () => [fields.int32(), fields.int32()] as const);
  const read = (level: number): Value[] =>
    Array.from({ length: dimensions[level]![0] }, () =>
      level + 1 < count ? read(level + 1) : readField(fields, element),
    );
  return count ? read(0) : [];
}

function readField(fields: Fields, type: Type): Value {
  const length = fields.int32();
  return length < 0 ? null : type.receive(fields.take(length));
}

// -- types of the database --------------------------------------------------------------------------------------------

export const MOOD_LABELS = ["calm", "glad", "ü €"];

/** An enum: its binary form is its text. */
export const mood = define({
  oid: 16_402,
  name: "mood",
  size: 4,
  isEnum: true,
  arrayOid: 16_401,
  parse: (text) => {
    if (!MOOD_LABELS.includes(text)) throw new PgError("22P02", `invalid input value for enum mood: "${text}"`);
    return text;
  },
});

function defineComposite(
  given: { oid: number; name: string; arrayOid: number },
  attributes: NonNullable<Type["attributes"]>,
): Type {
  return define({
    ...given,
    attributes,
    parse: (text, forms) => parseComposite(text, attributes, forms),
    print: (value, forms) => printComposite(value as Value[], attributes, forms),
    receive: (bytes) => {
      const fields = new Fields(bytes);
      if (fields.int32() !== attributes.length) throw new PgError("42804", "wrong number of columns");
      return attributes.map(({ type }) => (fields.int32(), readField(fields, type)));
    },
    send: (value) => sendComposite(value as Value[], attributes),
  });
}

function sendComposite(values: readonly Value[], attributes: NonNullable<Type["attributes"]>): Uint8Array {
  const message = out().int32(attributes.length);
  attributes.forEach(({ type }, at) => writeField(message.int32(type.oid), type, values[at] ?? null));
  return body(message);
}

function printComposite(values: readonly Value[], attributes: NonNullable<Type["attributes"]>, forms: Forms): string {
  const fields = attributes.map(({ type }, at) => {
    const value = values[at] ?? null;
    if (value === null) return "";
    const printed = type.print(value, forms);
    return printed === "" || /[\s"\\(),]/.test(printed) ? `"${printed.replace(/["\\]/g, "$&$&")}"` : printed;
  });
  return `(${fields.join(",")})`;
}

function parseComposite(text: string, attributes: NonNullable<Type["attributes"]>, forms: Forms): Value[] {
  const malformed = (detail: string) => new PgError("22P02", `malformed record literal: "${text}"`, { detail });
  if (!text.startsWith("(")) throw malformed("Missing left parenthesis.");
  let at = 1;
  const values = attributes.map(({ type }, index): Value => {
    if (index > 0 && text[at++] !== ",")
      throw malformed(at > text.length ? "Unexpected end of input." : "Too few columns.");
    let word = "";
    let isNull = true;
    for (let quoted = false; at < text.length && (quoted || !",)".includes(text[at]!)); at++) {
      isNull = false;
      if (text[at] === "\\") word += text[++at];
      else if (text[at] === '"' && quoted && text[at + 1] === '"') word += text[at++];
      else if (text[at] === '"') quoted = !quoted;
      else word += text[at];
    }
    return isNull ? null : type.parse(word, forms);
  });
  if (text[at] === ",") throw malformed("Too many columns.");
  if (text[at] !== ")") throw malformed("Unexpected end of input.");
  return values;
}

export const pair = defineComposite({ oid: 16_405, name: "pair", arrayOid: 16_404 }, [
  { name: "a", type: int4 },
  { name: "b", type: text },
]);

/** An anonymous record. Its text does not contain its types; the binary form does. */
export function recordOf(attributes: NonNullable<Type["attributes"]>): Type {
  const print = (value: Value, forms: Forms) => printComposite(value as Value[], attributes, forms);
  return { ...record, attributes, print, send: (value) => sendComposite(value as Value[], attributes) };
}

const record = define({
  oid: 2249,
  name: "record",
  parse: () => {
    throw new PgError("0A000", "input of anonymous composite types is not implemented");
  },
});

/** Checks that a whole number fits the type. Throws the server's error if it does not. */
export function checkRange(type: Type, value: bigint): bigint {
  const bits = { 21: 15n, 23: 31n, 20: 63n }[type.oid];
  if (bits !== undefined && (value < -(2n ** bits) || value >= 2n ** bits)) throw outOfRange(type.fullName);
  return value;
}
