// The version of this package.
import manifest from "./package.json" with { type: "json" };

export function version(): string {
  return manifest.version;
}
