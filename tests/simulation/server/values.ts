// The types of the model: their OIDs, and conversion of their values from and to text and binary.
//
//   bool boolean   int2 int4 oid float8 date number   int8 timestamptz bigint   bytea Uint8Array
//   arrays and records: a list   everything else: its text
//
// Knows the forms of the values that programs send. Must not know columns or statements. The database's own type `mood`
// has an OID from 16384 on, which the comparison with a real server ignores.
import { invalidText, outOfRange, PgError } from "./errors.ts";
import { Fields, Message, textOf, utf8 } from "./messages.ts";
import { parseFloat8, parseInteger, parseNumeric, printFloat8, receiveNumeric, sendNumeric } from "./numerics.ts";
import { parseDate, parseTimestamp, printDate, printTimestamp } from "./times.ts";

export type Value = null | boolean | number | bigint | string | Uint8Array | Value[];

/** The setting on which the text of a value depends. */
export interface Forms {
  readonly timeZone: string;
}

export interface Attribute {
  readonly name: string;
  readonly type: Type;
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
  /** For a record: its attributes. */
  readonly attributes?: readonly Attribute[];
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

type Conversions = Pick<Type, "parse"> & Partial<Pick<Type, "print" | "receive" | "send">>;
type More = Partial<Pick<Type, "fullName" | "size" | "element" | "isEnum">> & {
  readonly aliases?: readonly string[];
  readonly arrayOid?: number;
};

function define(oid: number, name: string, conversions: Conversions, { aliases = [], arrayOid, ...more }: More): Type {
  const type: Type = {
    oid,
    name,
    fullName: name,
    size: -1,
    print: String,
    receive: (bytes) => type.parse(textOf(bytes), UTC),
    send: (value) => utf8(type.print(value, UTC)),
    ...conversions,
    ...more,
  };
  byOid.set(oid, type);
  for (const each of [name, type.fullName, ...aliases]) byName.set(each, type);
  if (arrayOid !== undefined) defineArray(type, arrayOid);
  return type;
}

/** For types whose text depends on no setting. */
const UTC: Forms = { timeZone: "UTC" };

const body = (message: Message): Uint8Array => message.done().subarray(5);
const out = (): Message => new Message(" ");
const hexadecimal = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const bytesOf = (digits: string): Uint8Array =>
  Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** The binary form of numbers of a fixed size. */
function fixed<V extends Value>(
  size: number,
  read: (view: DataView) => V,
  write: (view: DataView, value: V) => void,
): { size: number; receive: Type["receive"]; send: Type["send"] } {
  return {
    size,
    receive: (bytes) => {
      if (bytes.length < size) throw new PgError("08P01", "insufficient data left in message");
      if (bytes.length > size) throw new PgError("22P03", "incorrect binary data format");
      return read(new DataView(bytes.buffer, bytes.byteOffset, size));
    },
    send: (value) => {
      const bytes = new Uint8Array(size);
      write(new DataView(bytes.buffer), value as V);
      return bytes;
    },
  };
}

const int32 = fixed<number>(
  4,
  (view) => view.getInt32(0),
  (view, value) => view.setInt32(0, value),
);
const int64 = fixed<bigint>(
  8,
  (view) => view.getBigInt64(0),
  (view, value) => view.setBigInt64(0, value),
);

// -- scalars ----------------------------------------------------------------------------------------------------------

export const bool = define(
  16,
  "bool",
  {
    parse: (text) => {
      if (["t", "true"].includes(text)) return true;
      if (["f", "false"].includes(text)) return false;
      throw invalidText("boolean", text);
    },
    print: (value) => (value ? "t" : "f"),
    ...fixed<boolean>(
      1,
      (view) => view.getUint8(0) !== 0,
      (view, value) => view.setUint8(0, value ? 1 : 0),
    ),
  },
  { fullName: "boolean", arrayOid: 1000 },
);

export const bytea = define(
  17,
  "bytea",
  {
    parse: (text) => bytesOf(text.replace(/^\\x/, "")),
    print: (value) => `\\x${hexadecimal(value as Uint8Array)}`,
    receive: (bytes) => bytes.slice(),
    send: (value) => value as Uint8Array,
  },
  { arrayOid: 1001 },
);

const text_ = (oid: number, name: string, more: More, parse: Type["parse"] = (text) => text): Type =>
  define(oid, name, { parse }, more);

/** `"char"`, which the catalog uses often. */
export const char = text_(18, '"char"', { size: 1, arrayOid: 1002 });
export const name = text_(19, "name", { size: 64, arrayOid: 1003 });
export const text = text_(25, "text", { arrayOid: 1009 });
export const varchar = text_(1043, "varchar", { fullName: "character varying", arrayOid: 1015 });
export const void_ = text_(2278, "void", { size: 4 });
/** A position of the log. Its value is the text, `1/FFFFF000`; the binary form is the number. */
export const lsn = define(
  3220,
  "pg_lsn",
  {
    parse: (text) => text,
    ...fixed<string>(
      8,
      (view) => [view.getUint32(0), view.getUint32(4)].map((half) => half.toString(16).toUpperCase()).join("/"),
      (view, value) => value.split("/").forEach((half, at) => view.setUint32(4 * at, parseInt(half, 16))),
    ),
  },
  { arrayOid: 3221 },
);

const whole = (type: string, bits: bigint) => (text: string) =>
  parseInteger(text, type, -(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n);

export const int8 = define(
  20,
  "int8",
  { parse: whole("bigint", 64n), ...int64 },
  { fullName: "bigint", arrayOid: 1016 },
);
export const int2 = define(
  21,
  "int2",
  {
    parse: (text) => Number(whole("smallint", 16n)(text)),
    ...fixed<number>(
      2,
      (view) => view.getInt16(0),
      (view, value) => view.setInt16(0, value),
    ),
  },
  { fullName: "smallint", arrayOid: 1005 },
);
export const int4 = define(
  23,
  "int4",
  { parse: (text) => Number(whole("integer", 32n)(text)), ...int32 },
  { fullName: "integer", aliases: ["int"], arrayOid: 1007 },
);
export const float8 = define(
  701,
  "float8",
  {
    parse: parseFloat8,
    print: (value) => printFloat8(value as number),
    ...fixed<number>(
      8,
      (view) => view.getFloat64(0),
      (view, value) => view.setFloat64(0, value),
    ),
  },
  { fullName: "double precision", arrayOid: 1022 },
);
export const numeric = define(
  1700,
  "numeric",
  { parse: parseNumeric, receive: receiveNumeric, send: (value) => sendNumeric(value as string) },
  { arrayOid: 1231 },
);

define(1082, "date", { parse: parseDate, print: (value) => printDate(value as number), ...int32 }, { arrayOid: 1182 });
define(
  1184,
  "timestamptz",
  {
    parse: (text, { timeZone }) => parseTimestamp(text, timeZone),
    print: (value, { timeZone }) => printTimestamp(value as bigint, timeZone),
    ...int64,
  },
  { fullName: "timestamp with time zone", arrayOid: 1185 },
);

const uuidOf = (digits: string): string => digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
define(
  2950,
  "uuid",
  {
    parse: (text) => text,
    receive: (bytes) => uuidOf(hexadecimal(bytes)),
    send: (value) => bytesOf((value as string).replaceAll("-", "")),
  },
  { size: 16, arrayOid: 2951 },
);

/** In binary: family, bits of the mask, whether it is a cidr, length, address. The model knows addresses of IPv4. */
define(
  869,
  "inet",
  {
    parse: (text) => text,
    receive: (bytes) => bytes.subarray(4, 8).join("."),
    send: (value) => Uint8Array.of(2, 32, 0, 4, ...(value as string).split(".").map(Number)),
  },
  { arrayOid: 1041 },
);

/** Its text is always `[low,high)`. In binary the lower bound is included, too. */
define(
  3904,
  "int4range",
  {
    parse: (text) => text,
    receive: (bytes) => {
      const fields = new Fields(bytes.subarray(1));
      return `[${readField(fields, int4) as number},${readField(fields, int4) as number})`;
    },
    send: (value) => {
      const message = out().byte(2);
      for (const bound of (value as string).slice(1, -1).split(",")) writeField(message, int4, Number(bound));
      return body(message);
    },
  },
  { arrayOid: 3905 },
);

export const json = text_(114, "json", { arrayOid: 199 });
/** Its binary form is the number of the format followed by the text. */
define(
  3802,
  "jsonb",
  {
    parse: (text) => printJson(JSON.parse(text)),
    receive: (bytes) => printJson(JSON.parse(textOf(bytes.subarray(1)))),
    send: (value) => Uint8Array.of(1, ...utf8(value as string)),
  },
  { arrayOid: 3807 },
);

/** Returns the text of jsonb: shorter keys first, and one form of whitespace. */
function printJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(printJson).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => a.length - b.length || (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}: ${printJson(item)}`).join(", ")}}`;
}

// -- arrays of one dimension ------------------------------------------------------------------------------------------

function defineArray(element: Type, oid: number): void {
  const conversions: Conversions = {
    parse: (text, forms) => parseArray(text, element, forms),
    print: (value, forms) => printArray(value as Value[], element, forms),
    receive: (bytes) => receiveArray(bytes, element),
    send: (value) => sendArray(value as Value[], element),
  };
  const names = { fullName: `${element.fullName}[]`, aliases: [`${element.name}[]`] };
  arrays.set(element.oid, define(oid, `_${element.name}`, conversions, { ...names, element }));
}

function printArray(items: readonly Value[], element: Type, forms: Forms): string {
  const shown = items.map((item) => {
    if (item === null) return "NULL";
    const printed = element.print(item, forms);
    const needsQuotes = printed === "" || /^null$/i.test(printed) || /[\s"\\{},]/.test(printed);
    return needsQuotes ? `"${printed.replace(/["\\]/g, "\\$&")}"` : printed;
  });
  return `{${shown.join(",")}}`;
}

function parseArray(text: string, element: Type, forms: Forms): Value[] {
  const items = text.slice(1, -1).matchAll(/"((?:[^"\\]|\\[^])*)"|([^",]+)/g);
  return [...items].map(([, quoted, plain]) => {
    if (quoted !== undefined) return element.parse(quoted.replace(/\\([^])/g, "$1"), forms);
    return /^null$/i.test(plain!) ? null : element.parse(plain!, forms);
  });
}

function sendArray(items: readonly Value[], element: Type): Uint8Array {
  const message = out().int32(items.length ? 1 : 0);
  message.int32(items.includes(null) ? 1 : 0).int32(element.oid);
  if (items.length) message.int32(items.length).int32(1);
  for (const item of items) writeField(message, element, item);
  return body(message);
}

function writeField(message: Message, type: Type, value: Value): void {
  if (value === null) return void message.int32(-1);
  const bytes = type.send(value);
  message.int32(bytes.length).bytes(bytes);
}

function receiveArray(bytes: Uint8Array, element: Type): Value[] {
  const fields = new Fields(bytes);
  const [dimensions, , given] = [fields.int32(), fields.int32(), fields.int32()];
  if (given !== element.oid)
    throw new PgError("42804", `binary data has array element type ${given} instead of expected ${element.oid}`);
  if (!dimensions) return [];
  const [length] = [fields.int32(), fields.int32()];
  return Array.from({ length }, () => readField(fields, element));
}

function readField(fields: Fields, type: Type): Value {
  const length = fields.int32();
  return length < 0 ? null : type.receive(fields.take(length));
}

// -- the database's own type, and records -----------------------------------------------------------------------------

const MOOD_LABELS = ["calm", "glad", "ü €"];

/** An enum: its binary form is its text. */
export const mood = text_(16_402, "mood", { size: 4, isEnum: true, arrayOid: 16_401 }, (text) => {
  if (!MOOD_LABELS.includes(text)) throw new PgError("22P02", `invalid input value for enum mood: "${text}"`);
  return text;
});

/** The OID of an anonymous record. */
export const RECORD = 2249;
const record = text_(RECORD, "record", {}, () => {
  throw new PgError("0A000", "input of anonymous composite types is not implemented");
});

/** An anonymous record. Its text does not contain its types; the binary form does. */
export function recordOf(attributes: readonly Attribute[]): Type {
  return {
    ...record,
    attributes,
    print: (value, forms) => printRecord(value as Value[], attributes, forms),
    send: (values) => {
      const message = out().int32(attributes.length);
      attributes.forEach(({ type }, at) => writeField(message.int32(type.oid), type, (values as Value[])[at]!));
      return body(message);
    },
  };
}

function printRecord(values: readonly Value[], attributes: readonly Attribute[], forms: Forms): string {
  const fields = attributes.map(({ type }, at) => {
    const value = values[at] ?? null;
    if (value === null) return "";
    const printed = type.print(value, forms);
    return printed === "" || /[\s"\\(),]/.test(printed) ? `"${printed.replace(/["\\]/g, "$&$&")}"` : printed;
  });
  return `(${fields.join(",")})`;
}

/** Checks that a whole number fits the type. Throws the server's error if it does not. */
export function checkRange(type: Type, value: bigint): bigint {
  const bits = { 21: 15n, 23: 31n }[type.oid];
  if (bits !== undefined && (value < -(2n ** bits) || value >= 2n ** bits)) throw outOfRange(type.fullName);
  return value;
}
