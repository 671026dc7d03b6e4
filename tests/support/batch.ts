// Writes batches like src/encode/columns.rs, for tests of the code that reads them.
export const INT = 0;
export const BOOL = 1;
export const FLOAT = 2;
export const TEXT = 3;
export const JSON_ = 4;

/** A text may be bytes that are not valid UTF-8. */
export function batchOf(kinds: readonly number[], rows: readonly (readonly unknown[])[]): Uint8Array {
  const head = new Uint8Array((4 + kinds.length + 7) & ~7);
  new DataView(head.buffer).setUint32(0, kinds.length, true);
  head.set(kinds, 4);
  const pieces: Uint8Array[] = [];
  const texts: Uint8Array[] = [];
  const json: unknown[] = [];
  for (const row of rows) {
    kinds.forEach((kind, index) => {
      const value = row[index];
      if (kind === JSON_) return void json.push(value);
      const slot = new DataView(new ArrayBuffer(8));
      if (kind === TEXT) {
        const text =
          typeof value === "string" ? new TextEncoder().encode(value) : ((value ?? new Uint8Array(0)) as Uint8Array);
        texts.push(text);
        slot.setInt32(0, value === null ? -1 : typeof value === "string" ? value.length : text.length, true);
        slot.setInt32(4, value === null ? -1 : text.length, true);
      } else if (value === null) {
        if (kind === FLOAT) slot.setBigUint64(0, 0x7ff8000000000001n, true);
        else slot.setInt32(4, 1, true);
      } else if (kind === FLOAT) slot.setFloat64(0, value as number, true);
      else slot.setInt32(0, Number(value), true);
      pieces.push(new Uint8Array(slot.buffer));
    });
  }
  const text = Buffer.concat(texts);
  const array = json.length ? new TextEncoder().encode(JSON.stringify(json)) : new Uint8Array(0);
  const tail = new Uint8Array(Uint32Array.of(rows.length, text.length, array.length).buffer);
  return new Uint8Array(Buffer.concat([head, ...pieces, text, array, tail]));
}
