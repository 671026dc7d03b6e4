// The version of the package that this is part of.
import { readFileSync } from "node:fs";

/** Of the built files, which lie two folders below the package's own. */
export function version(): string {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
