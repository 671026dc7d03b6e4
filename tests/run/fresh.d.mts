export function freshEnvironment(folder: string, env?: NodeJS.ProcessEnv): Record<string, string>;
export function commands(options: { readonly ORDER?: string; readonly SUITES?: string }): string[][];
