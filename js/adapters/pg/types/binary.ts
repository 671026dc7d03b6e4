// Reads values from their binary form, for clients and queries with `binary: true`.
//
// Knows the send functions' formats of the types that pg reads in binary. Values of all other types become a text of
// their binary bytes: a caller that requests binary must bring a parser for them.
import type { Buffer } from "node:buffer";
import { localDate } from "./dates.ts";

type ParseBinary = (bytes: Buffer) => unknown;

/** Milliseconds from 1970 to 2000. */
const EPOCH = 946_684_800_000;

const int8 = (bytes: Buffer): string => bytes.readBigInt64BE(0).toString();
const int4 = (bytes: Buffer): number => bytes.readInt32BE(0);
const int2 = (bytes: Buffer): number => bytes.readInt16BE(0);
const text = (bytes: Buffer): string => bytes.toString("utf8");

/** Reads microseconds since 2000. The ends of the range are the infinities. */
function timestamp(bytes: Buffer): Date | number {
  const micros = bytes.readBigInt64BE(0);
  if (micros === 0x7fff_ffff_ffff_ffffn) return Infinity;
  if (micros === -0x8000_0000_0000_0000n) return -Infinity;
  return new Date(Number(micros / 1000n) + EPOCH);
}

/** Reads a timestamp without a zone, which is a time of this machine. */
function localTimestamp(bytes: Buffer): Date | number {
  const read = timestamp(bytes);
  if (typeof read === "number") return read;
  const time = [read.getUTCHours(), read.getUTCMinutes(), read.getUTCSeconds(), read.getUTCMilliseconds()] as const;
  return localDate(read.getUTCFullYear(), read.getUTCMonth(), read.getUTCDate(), ...time);
}

/** Layout: int16 number of digits to the base 10,000, weight of the first digit, sign, scale; then the digits. */
function numeric(bytes: Buffer): number {
  const sign = bytes.readUInt16BE(4);
  if (sign === 0xc000) return NaN;
  if (sign === 0xd000 || sign === 0xf000) return sign === 0xd000 ? Infinity : -Infinity;
  let value = 0;
  let weight = bytes.readInt16BE(2);
  for (let index = 0; index < bytes.readInt16BE(0); index++)
    value += bytes.readInt16BE(8 + 2 * index) * 10_000 ** weight--;
  return sign === 0x4000 ? -value : value;
}

/**
 * Layout: int32 number of dimensions, int32 flags, int32 element type; int32 length and lower bound of each dimension;
 * then the elements.
 */
function array(element: ParseBinary): ParseBinary {
  return (bytes) => {
    const dimensions = bytes.readInt32BE(0);
    let at = 12 + 8 * dimensions;
    const item = (): unknown => {
      const length = bytes.readInt32BE(at);
      at += 4;
      if (length < 0) return null;
      return element(bytes.subarray(at, (at += length)));
    };
    const level = (depth: number): unknown[] =>
      Array.from({ length: bytes.readInt32BE(12 + 8 * depth) }, () =>
        depth + 1 < dimensions ? level(depth + 1) : item(),
      );
    return dimensions ? level(0) : [];
  };
}

const bool: ParseBinary = (bytes) => bytes[0] === 1;

/** By OID. */
export const binaryParsers: Readonly<Record<number, ParseBinary>> = {
  16: bool,
  20: int8,
  21: int2,
  23: int4,
  25: text,
  26: (bytes) => bytes.readUInt32BE(0),
  700: (bytes) => bytes.readFloatBE(0),
  701: (bytes) => bytes.readDoubleBE(0),
  1700: numeric,
  1114: localTimestamp,
  1184: timestamp,
  1000: array(bool),
  1007: array(int4),
  1008: array(text),
  1009: array(text),
  1016: array(int8),
};
