// Finds Chromium, which scripts/setup installs.
import { existsSync } from "node:fs";

const candidates = [
  process.env.CHROMIUM,
  ...["chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`),
];

export function chromiumFile(): string {
  const file = candidates.find((candidate) => candidate !== undefined && existsSync(candidate));
  if (file === undefined) throw new Error("no Chromium: run scripts/setup, or name one in CHROMIUM");
  return file;
}
