// The text of a file in bench/results: one row a line, so that a diff shows which figures a run has changed.
//
// Must not know what the figures mean.

/** Returns the JSON of a result: each of its fields on a line, and each of its `rows`. */
export function textOf(result) {
  const fields = Object.entries(result).map(([name, value]) => {
    const text = name === "rows" ? listOf(value) : JSON.stringify(value);
    return `  ${JSON.stringify(name)}: ${text}`;
  });
  return `{\n${fields.join(",\n")}\n}\n`;
}

function listOf(rows) {
  return `[\n${rows.map((row) => `    ${JSON.stringify(row)}`).join(",\n")}\n  ]`;
}
