// Converts each output mode back into NDJSON lines, so that one check serves all modes. Slow and simple, because it
// only checks.

/** The rows of `text` as one JSON text each. */
export function linesOf(text, format) {
  return readers[format](text);
}

/** One reader for each format (tests/packaging/formats.test.ts checks that none is missing). */
export const readers = {
  ndjson(text) {
    const lines = text.split("\n");
    if (lines.pop() !== "") throw new Error("the last line has no end");
    return lines;
  },
  json: (text) => JSON.parse(text).map((row) => JSON.stringify(row)),
  columnar(text) {
    const { columns, rows } = JSON.parse(text);
    return rows.map((row) => object(columns, row));
  },
  // `[?]{id,"n m"}`, then the values of a row per line, as JSON joined by commas; json is raw, without newlines.
  toon(text) {
    const [header, ...lines] = readers.ndjson(text);
    const names = /^\[[^\]]*\]\{(.*)\}:?$/
      .exec(header)[1]
      .split(",")
      .map((name) => (name.startsWith('"') ? JSON.parse(name) : name));
    return lines.map((line) => object(names, JSON.parse(`[${line}]`)));
  },
  // The server's texts: numbers, booleans and json are parsed; an empty field without quotes is NULL.
  csv(text) {
    const [names, ...rows] = csvRecords(text);
    return rows.map((row) =>
      object(
        names.map((name) => name ?? ""),
        row.map(csvValue),
      ),
    );
  },
};

const object = (names, values) => JSON.stringify(Object.fromEntries(names.map((name, index) => [name, values[index]])));

function csvValue(text) {
  if (text === null) return null;
  if (text === "t" || text === "f") return text === "t";
  // An array is the server's `{1,2}` or JSON's `[1,2]`: both are accepted here.
  const json = /^\{-?\d+(,-?\d+)*\}$/.test(text) ? `[${text.slice(1, -1)}]` : text;
  try {
    return JSON.parse(json);
  } catch {
    return text;
  }
}

/** Splits CSV into records of fields. An empty field without quotes is `null`. */
function csvRecords(text) {
  const records = [];
  let record = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n)/gy;
  while (field.lastIndex < text.length) {
    const found = field.exec(text);
    if (!found) throw new Error("a CSV record has no end");
    const [, quoted, plain, end] = found;
    record.push(quoted?.replaceAll('""', '"') ?? (plain === "" ? null : plain));
    if (end === ",") continue;
    records.push(record);
    record = [];
  }
  return records;
}
