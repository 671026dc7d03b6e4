// The documentation as text, for tools that read it: an index of the pages, and all of their texts in one file
// (https://llmstxt.org). The package has the same index in docs/contents.md, whose links are files beside it.
//
// Knows the navigation and the pages' first sentences. Must not know how a page is shown.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { REPOSITORY, navigation, root, sources } from "./pages.mjs";

const OWN = "docs/contents.md";
/** Files outside of docs/ that npm's package includes. */
const PACKED = ["README.md", "CHANGELOG.md", "SECURITY.md"];
const WIDTH = 120;

/** Returns sections of `{ title, page, file, says }`, without generated pages and without the decisions. */
function contents() {
  const files = new Map([...sources()].map(([file, page]) => [page, file]));
  const sections = navigation().filter(({ text }) => text !== "Decisions");
  return sections.map(({ text: section, items }) => {
    const pages = items.flatMap(({ text: title, link }) => {
      const page = `${link.slice(1)}.md`;
      const file = files.get(page);
      return file === undefined || file === OWN ? [] : [{ title, page, file, says: firstSentence(textOf(file)) }];
    });
    return { section, pages };
  });
}

const textOf = (file) => readFileSync(path.join(root, file), "utf8");

/** Returns the first sentence of the first paragraph of prose below the heading, or of its first item. */
function firstSentence(text) {
  const paragraphs = text.replaceAll(/^```[^]*?^```$/gm, "").split(/\n{2,}/);
  const prose = paragraphs.find((one) => /^(- |[A-Z`"“[(*])/.test(one) && !one.startsWith("[!")) ?? "";
  const line = prose
    .replace(/^- /, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)|\*\*/g, "$1");
  return /^.*?[.:](?= |$)/.exec(line)?.[0].replace(/:$/, ".") ?? line;
}

/** Wraps a list's item to the width of a page. */
function wrapped(item) {
  const lines = [""];
  for (const word of item.split(" ")) {
    const line = lines.at(-1);
    if (line !== "" && line.length + 1 + word.length > WIDTH) lines.push(`  ${word}`);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.join("\n");
}

function listed(heading, linkOf) {
  const lists = contents().flatMap(({ section, pages }) => {
    const lines = pages.map((one) => `- [${one.title}](${linkOf(one)}): ${one.says}`);
    return lines.length ? [`## ${section}\n\n${lines.join("\n")}\n`] : [];
  });
  return `# ${heading}\n\n${lists.join("\n")}`;
}

/** Returns docs/contents.md. Pages that are not in the package are links to the repository. */
export function contentsPage() {
  const linkOf = ({ file }) => {
    if (file.startsWith("docs/")) return file.slice("docs/".length);
    return PACKED.includes(file) ? `../${file}` : `${REPOSITORY}/blob/main/${file}`;
  };
  const list = listed("Contents", linkOf).replaceAll(/^- .*$/gm, wrapped);
  return list.replace(
    "\n",
    "\n\nEvery page, with the sentence that it begins with. `node scripts/docs/llms.mjs` writes this list.\n",
  );
}

/** Returns llms.txt for a site whose pages are below `url`, and llms-full.txt. */
export function llms(url) {
  const full = contents().flatMap(({ pages }) => pages.map(({ file }) => textOf(file).trim()));
  return {
    "llms.txt": listed("pgz-edge", ({ page }) => `${url}${page.replace(/\.md$/, ".html")}`),
    "llms-full.txt": `${full.join("\n\n---\n\n")}\n`,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(path.join(root, "docs/contents.md"), contentsPage());
