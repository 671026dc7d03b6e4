// Reads environment variables, if the runtime has them and they may be read.
//
// Knows `process.env`, which Node, Deno, Bun and Workers with nodejs_compat have.

export function environment(name: string): string | undefined {
  try {
    return globalThis.process?.env?.[name];
  } catch {
    return undefined; // Deno without --allow-env
  }
}
