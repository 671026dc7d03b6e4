// The result of a suite: rows `{ label, passed, failed, seconds, reasons }`, and how they are printed.

export const failure = (label, reason) => ({ label, passed: 0, failed: 1, reasons: [reason] });

export function fail(row, reason) {
  row.failed++;
  row.reasons.push(reason);
}

export const time = (seconds = NaN) => (Number.isNaN(seconds) ? "" : seconds.toFixed(1));

/** The first cell of each line is a name, the others are numbers. */
export function table(head, lines) {
  const line = ([name, ...cells]) =>
    `${String(name).padEnd(28)}${cells.map((cell) => String(cell).padStart(9)).join("")}\n`;
  process.stdout.write(`\n${[head, ...lines].map(line).join("")}`);
}
