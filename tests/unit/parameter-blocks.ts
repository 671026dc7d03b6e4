// Shared by the tests of parameters: a block decoded by the protocol's layout, and refusals as text.
import { expect } from "vitest";
import { UsageError } from "../../js/util/errors.ts";
import { encodeParameters } from "../../js/values/parameters.ts";

export type Value = { format: number; bytes: Uint8Array | null };

/** Decodes the block by the protocol's layout. */
export function decode(block: Uint8Array): Value[] {
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  const count = view.getUint16(0);
  const formats = Array.from({ length: count }, (_, index) => view.getUint16(2 + 2 * index));
  let at = 2 + 2 * count;
  expect(view.getUint16(at)).toBe(count);
  at += 2;
  const values = formats.map((format) => {
    const length = view.getInt32(at);
    at += 4;
    if (length === -1) return { format, bytes: null };
    const bytes = block.slice(at, at + length);
    expect(bytes.length).toBe(length);
    at += length;
    return { format, bytes };
  });
  expect(at).toBe(block.length);
  return values;
}

/** `text:…` or `binary:` and hexadecimal digits. */
export const show = ({ format, bytes }: Value) =>
  bytes === null
    ? "NULL"
    : format === 1
      ? `binary:${Buffer.from(bytes).toString("hex")}`
      : `text:${Buffer.from(bytes).toString("utf8")}`;
export const one = (type: number, value: unknown) => show(decode(encodeParameters([value], [type]))[0] as Value);

export const refused = (values: unknown[], types: number[]) => {
  try {
    encodeParameters(values, types);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return `${(error as UsageError).code}: ${(error as UsageError).message}`;
  }
  return "accepted";
};
export const why = (type: number, value: unknown) => refused([value], [type]);

/**
 * As much of Temporal as the driver looks at. The real one gives the same texts
 * (tests/integration/cases/parameters.ts).
 */
export const temporal = (type: string, text: string, more = {}) => ({
  [Symbol.toStringTag]: `Temporal.${type}`,
  toString: () => text,
  ...more,
});
