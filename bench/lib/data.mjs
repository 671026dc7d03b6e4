// Rows of text like those of seed 003: letters and digits from a seeded generator, the same as in batch/native/data.go.
const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/** `rows` arrays of `columns` strings of `size` letters. */
export function textRows(rows, columns, size) {
  let state = 1;
  const cell = () => {
    let text = "";
    for (let at = 0; at < size; at++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      text += ALPHABET[(state >>> 16) % 62];
    }
    return text;
  };
  return Array.from({ length: rows }, () => Array.from({ length: columns }, cell));
}

/** pgz's rows for COPY and INSERT: (int4, text, float8), whose text form is always exact. */
export const typedRow = (index) => [index, `name-${index}`, index / 4];
