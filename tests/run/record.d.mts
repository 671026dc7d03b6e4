interface Row {
  passed: number;
  failed: number;
}
export function recordOf(
  commit: string | undefined,
  file: string,
): {
  passed(suite: string): (Row & { commit: string }) | undefined;
  add(suite: string, rows: Row[], cost: { seconds: number; cpu: number }): void;
  lines(suites: string[]): (string | number)[][];
};
