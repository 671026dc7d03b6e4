export interface Run {
  readonly mark: string;
  readonly folder: string;
}
export function begin(): Run;
export function variablesOf(run: Run): Record<"PGZ_TEST_RUN" | "TMPDIR", string>;
export function leftBy(run: Run, folders?: readonly string[], steps?: number): Promise<string[]>;
export function remove(run: Run): void;
export function removeFiles(run: Run): void;
