// The codecs of Drizzle 1.0 for the driver. The driver decodes values of built-in types and of arrays of them, so the
// codecs cast no column to text in SQL. Values of extension types arrive as text and are parsed here. (Inside the JSON
// of a relational query Drizzle's own casts remain.)
//
// Knows Drizzle's codecs. A codec gets node-postgres' form of a value (forms.ts), as a user's own codecs do. Where
// v1-columns.ts has a direct conversion for the codec and the result's type OID, it does not call the codec.
import {
  makeGeometryArray,
  parseGeometryArrayAndNormalize,
  parseGeometryTuple,
  parseGeometryXY,
  parsePgArrayAndNormalize,
  parsePgVector,
  refineGenericPgCodecs,
  type PgCodecs,
} from "drizzle-orm-v1/pg-core/codecs";
import { bufferOf, eachOf, type Convert } from "./forms.ts";

/** A codec that normalizes values, and the elements of arrays. NULL elements stay NULL. */
const withArrays = (normalize: Convert) => ({
  normalize,
  normalizeArray: (value: unknown) => eachOf(value, normalize),
});

/** A codec for an extension's type, whose values come as text, and whose arrays come as text too. */
const ofText = (
  normalize: (text: string) => unknown,
  ofArray: (text: string, dimensions: number) => unknown,
  more: object = {},
) => ({
  normalize,
  normalizeArray: (value: unknown, dimensions: number) =>
    typeof value === "string" ? ofArray(value, dimensions) : eachOf(value, normalize as Convert),
  ...more,
});

const parseDay = (text: unknown) => new Date(String(text));
/**
 * Returns a parser for the server's text, such as `2024-02-29 12:00:00.123456+00`. `zoneSuffix` is appended to the
 * text: `Z` if the type has no zone. The fraction is cut to milliseconds, because not every engine's Date parses more
 * than three digits.
 */
const timeParser = (zoneSuffix: string) => (text: unknown) => {
  if (text instanceof Date) return text; // made by a parser of the client
  const iso = String(text)
    .replace(" ", "T")
    .replace(/(\.\d{3})\d+/, "$1")
    .replace(/([+-]\d\d)$/, "$1:00");
  return new Date(iso + zoneSuffix);
};
const unchanged = (value: unknown) => value;
const tuple = (value: unknown) => {
  const { x, y } = value as { x: number; y: number };
  return [x, y];
};
const lineNumbers = (text: unknown) => String(text).slice(1, -1).split(",").map(Number);
const lineObject = (text: unknown) => {
  const [a, b, c] = lineNumbers(text);
  return { a, b, c };
};
const asJson = (value: unknown) => JSON.stringify(value);
/** Descends exactly as many levels as the column has dimensions, because an element may itself be a JSON array. */
const eachAsJson = (value: unknown, dimensions: number): unknown =>
  dimensions > 0 ? (value as unknown[]).map((item) => eachAsJson(item, dimensions - 1)) : asJson(value);
const json = { normalizeParam: asJson, normalizeParamArray: eachAsJson };
const hexBytes = (text: unknown) =>
  bufferOf(Uint8Array.from(String(text).slice(2).match(/../g) ?? [], (digits) => parseInt(digits, 16)));
const bigint = withArrays(BigInt as Convert);
const number = withArrays(Number);
const vector = ofText(parsePgVector, parsePgArrayAndNormalize(parsePgVector));
const geometryOf = (normalize: (text: string) => unknown) =>
  ofText(normalize, parseGeometryArrayAndNormalize(normalize), { normalizeParamArray: makeGeometryArray });

/** The default codecs of a Drizzle database over this driver. */
export const pgzCodecs: PgCodecs = refineGenericPgCodecs({
  bigint,
  bigserial: bigint,
  "bigint:number": number,
  "bigserial:number": number,
  "numeric:number": number,
  "numeric:bigint": bigint,
  date: withArrays(parseDay),
  timestamp: withArrays(timeParser("Z")),
  timestamptz: withArrays(timeParser("")),
  point: withArrays(unchanged),
  "point:tuple": withArrays(tuple),
  line: withArrays(lineObject),
  "line:tuple": withArrays(lineNumbers),
  bytea: { normalizeInJson: hexBytes, normalizeArrayInJson: (value: unknown) => eachOf(value, hexBytes) },
  json,
  jsonb: json,
  vector,
  halfvec: vector,
  "geometry(point)": geometryOf(parseGeometryXY),
  "geometry(point):tuple": geometryOf(parseGeometryTuple),
} as never);
