// `types`: the parsers of types for all clients (docs/pg.md lists the differences from pg-types).
//
// Knows OIDs and parsers. Must not know clients: their own parsers are in type-overrides.ts.
import { arrayOf, arrayParser } from "./arrays.ts";
import { binaryParsers } from "./binary.ts";
import { builtins } from "./builtins.ts";
import { parseDate, parseInterval } from "./dates.ts";
import {
  parseBigInteger,
  parseBoolean,
  parseBytea,
  parseCircle,
  parseInteger,
  parseJson,
  parsePoint,
  parseText,
} from "./scalars.ts";

export type TypeFormat = "text" | "binary";
// As in @types/pg: text or bytes, whichever format it is for.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type TypeParser = (value: any) => any;

/** A source of parsers: `types`, a client's overrides, or the user's own, per client or per query. */
export interface CustomTypes {
  getTypeParser(oid: number, format?: TypeFormat): TypeParser;
}

const dates = arrayOf(parseDate);
const floats = arrayOf(parseFloat);
const integers = arrayOf(parseInteger);
const texts = arrayOf((text) => text);
const jsons = arrayOf(parseJson);

const parsers: Record<TypeFormat, Record<number, TypeParser>> = {
  text: {
    16: parseBoolean,
    17: parseBytea,
    20: parseBigInteger,
    21: parseInteger,
    23: parseInteger,
    26: parseInteger,
    114: parseJson,
    199: jsons,
    600: parsePoint,
    651: texts,
    700: parseFloat,
    701: parseFloat,
    718: parseCircle,
    791: texts,
    1000: arrayOf(parseBoolean),
    1001: arrayOf(parseBytea),
    1005: integers,
    1007: integers,
    1008: texts,
    1009: texts,
    1014: texts,
    1015: texts,
    1016: arrayOf(parseBigInteger),
    1017: arrayOf(parsePoint),
    1021: floats,
    1022: floats,
    1028: integers,
    1040: texts,
    1041: texts,
    1082: parseDate,
    1114: parseDate,
    1115: dates,
    1182: dates,
    1183: texts,
    1184: parseDate,
    1185: dates,
    1186: parseInterval,
    1187: arrayOf(parseInterval),
    1231: floats,
    1270: texts,
    2951: texts,
    3802: parseJson,
    3807: jsons,
    3907: texts,
  },
  binary: { ...binaryParsers },
};

/** Returns the parser of a type. A type without a parser stays text. */
export function getTypeParser(oid: number, format: TypeFormat = "text"): TypeParser {
  return parsers[format]?.[oid] ?? parseText;
}

/** Sets the parser of a type for all clients. The option `types` of a client or a query overrides it. */
export function setTypeParser(oid: number, parser: TypeParser): void;
export function setTypeParser(oid: number, format: TypeFormat, parser: TypeParser): void;
export function setTypeParser(oid: number, format: TypeFormat | TypeParser, parser?: TypeParser): void {
  if (typeof format === "function") parsers.text[oid] = format;
  else parsers[format][oid] = parser!;
}

export const types = { getTypeParser, setTypeParser, arrayParser, builtins };
