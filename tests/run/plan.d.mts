export interface Plan {
  rust: boolean;
  types: boolean;
  tests: string[];
  needs: ("build" | "servers")[];
  leftOut: string[];
}
export function changedFiles(since?: string): string[];
export function plan(changed: readonly string[]): Promise<Plan>;
export const typesOfJs: object;
