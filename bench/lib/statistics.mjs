// Medians with their spread. In a mean, one busy moment of the machine would distort the result of all trials.

export function summary(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return {
    median: median(sorted),
    min: sorted[0],
    max: sorted.at(-1),
    stddev: Math.sqrt(variance),
    trials: values.length,
  };
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Returns a random order, so that no library always runs after the same other one. */
export function shuffled(values) {
  const order = values.map((value) => [Math.random(), value]).sort(([a], [b]) => a - b);
  return order.map(([, value]) => value);
}
