// The built site as files: what each page has, as it is before any script runs.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { root } from "../../scripts/docs/pages.mjs";

export const folder = path.join(root, ".cache/site");

/** Not `/`, so that a link which forgets it is found. */
export const BASE = "/somewhere/else/";

/** What `make docs` runs. */
export function build(): void {
  // An error has what it wrote.
  const options = { cwd: root, stdio: "pipe", env: { ...process.env, BASE } } as const;
  execFileSync(process.execPath, [path.join(root, "scripts/docs/build.mjs")], options);
}

/** Names of the HTML files, without the page that a server shows for what is not there. */
export function pages(): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".html") && name !== "404.html")
    .sort();
}

export interface Html {
  readonly ids: ReadonlySet<string>;
  readonly links: readonly string[];
  readonly text: string;
}

/** What a page's HTML has, as it is before any script runs. */
export function htmlOf(name: string): Html {
  const text = readFileSync(path.join(folder, name), "utf8");
  const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, value]) => unescaped(value!));
  return { ids: new Set(all(/\sid="([^"]*)"/g)), links: all(/<a\s[^>]*?\bhref="([^"]*)"/g), text };
}

const unescaped = (text: string) =>
  text.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
