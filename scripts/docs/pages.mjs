// Lists the pages of the site, and the section of the navigation that each is in.
//
// A page is a Markdown file of the repository, which also reads well on GitHub: the files of docs/ and a few others.
// The decisions are found automatically. All other pages are named here: a test fails for a page of docs/ that is
// missing.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const REPOSITORY = "https://github.com/pgz-edge/pgz-edge";

/** The path below which the site is served: `/`, or the value of BASE, such as `/pgz-edge/` on GitHub Pages. */
export const base = process.env.BASE ?? "/";
if (!/^\/(.*\/)?$/.test(base)) throw new Error(`BASE begins and ends with a slash, as /pgz-edge/; it is ${base}`);

/** The address of the site, without that path. */
export const SITE = process.env.SITE ?? "https://pgz-edge.github.io";

/** Files outside of docs/ that are pages, and their places on the site. */
const beside = new Map([
  ["README.md", "readme.md"],
  ["worker-example/README.md", "worker-example.md"],
  ["HACKING.md", "hacking.md"],
  ["CHANGELOG.md", "changelog.md"],
  ["SECURITY.md", "promises.md"],
]);

/** Pages that the build makes; they are not files of the repository. */
export const made = ["index.md", "performance.md", "reference/index.md"];

/** The title of each section, then its pages in the order of the navigation. */
const chapters = [
  [
    "Start",
    ["quickstart", "readme", "comparison", "examples", "recipes", "connecting", "logins", "bundlers", "worker-example"],
  ],
  ["Guides", ["workers", "durable-objects", "node", "deno", "bun", "vercel", "next"]],
  ["Moving", ["pg", "from-postgres"]],
  [
    "Calls",
    [
      "queries",
      "transactions",
      "scopes",
      "batches",
      "copy",
      "listen",
      "changes",
      "pool",
      "cluster",
      "cache",
      "observer",
    ],
  ],
  ["Command line", ["cli", "sql-types", "mcp"]],
  ["Libraries", ["drizzle", "kysely", "prisma", "testing"]],
  ["Look up", ["contents", "where", "reference/index", "options", "limits", "types", "errors", "sqlstates", "support"]],
  ["Servers", ["poolers", "servers", "security", "websocket", "guard"]],
  ["Measured", ["performance", "benchmarks", "benchmark-tables", "reliability"]],
  ["Inside", ["architecture", "boundary", "hacking", "promises", "changelog"]],
];

/** Returns a map from each file of the repository that is a page to its page. */
export function sources() {
  const docs = readdirSync(path.join(root, "docs"), { recursive: true })
    .filter((name) => name.endsWith(".md"))
    .map((name) => [`docs/${name}`, pageOf(name)]);
  return new Map([...docs, ...beside]);
}

/** A folder's README.md is its index, as on GitHub. */
const pageOf = (name) => name.replace(/(^|\/)README\.md$/, "$1index.md");

/** The page's first heading, without Markdown's marks. */
export function titleOf(text) {
  const [, title] = /^# (.*)$/m.exec(text) ?? [];
  if (title === undefined) throw new Error("a page has no heading");
  return title.replaceAll(/[`*]/g, "");
}

/** The side bar: sections of `{ text, link }`. A name above that has no page is an error of the build. */
export function navigation() {
  const files = new Map([...sources()].map(([file, page]) => [page, file]));
  const titles = { "readme.md": "Overview", "performance.md": "Performance", "reference/index.md": "API" };
  const entry = (page) => {
    const file = files.get(page);
    if (file === undefined && !made.includes(page))
      throw new Error(`scripts/docs/pages.mjs names ${page}: no such page`);
    const whole = titles[page] ?? titleOf(readFileSync(path.join(root, file), "utf8"));
    const text = page.startsWith("decisions/") ? whole : whole.replace(/:.*/, "");
    return { text, link: `/${page.replace(/(index)?\.md$/, "")}` };
  };
  const sections = chapters.map(([text, names]) => ({
    text,
    items: names.map((name) => entry(`${name}.md`)),
  }));
  const decisions = [...files.keys()].filter((page) => page.startsWith("decisions/") && page !== "decisions/index.md");
  const items = [{ text: "All of them", link: "/decisions/" }, ...decisions.sort().map(entry)];
  return [...sections, { text: "Decisions", collapsed: true, items }];
}

/** Returns the pages that the navigation does not lead to. */
export function unlisted() {
  const links = new Set(navigation().flatMap(({ items }) => items.map(({ link }) => link)));
  return [...sources().values()].filter((page) => !links.has(`/${page.replace(/(index)?\.md$/, "")}`));
}
