// Translates the links of a page for the site. The files are written for GitHub: their links are relative paths to
// other pages and to files of the repository.
import { existsSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { REPOSITORY, root, sources, titleOf } from "./pages.mjs";

/** GitHub's rule, so that the same `#anchor` works in both places. */
export function anchorOf(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
}

/**
 * A plugin of markdown-it: a link to a page becomes a link within the site, a link to another file becomes a link to
 * the repository. Throws if the file does not exist.
 */
export function siteLinks(markdown) {
  const pages = sources();
  const files = new Map([...pages].map(([file, page]) => [page, file]));
  const follow = (href, from) => {
    const [, target, anchor] = /^([^#]*)(#.*)?$/.exec(href);
    if (target === "" || /^[a-z]+:|^\//.test(target)) return href;
    const file = path.posix.normalize(path.posix.join(path.posix.dirname(from), target)).replace(/\/$/, "");
    const page = pages.get(file) ?? pages.get(`${file}/README.md`);
    if (page !== undefined) return `/${page}${anchor ?? ""}`;
    if (!existsSync(path.join(root, file))) throw new Error(`${from} links ${href}, which is not there`);
    const kind = statSync(path.join(root, file)).isDirectory() ? "tree" : "blob";
    return `${REPOSITORY}/${kind}/main/${file}${anchor ?? ""}`;
  };
  markdown.core.ruler.push("site_links", ({ tokens, env }) => {
    const from = env.relativePath === "index.md" ? "README.md" : files.get(env.relativePath);
    if (from === undefined) return; // made by the build
    for (const { children } of tokens)
      for (const [index, token] of (children ?? []).entries()) {
        if (token.type !== "link_open") continue;
        const href = follow(token.attrGet("href"), from);
        token.attrSet("href", href);
        const [, page] = /^\/([^#]+\.md)/.exec(href) ?? [];
        const text = children[index + 1];
        // A file's name is useful on GitHub; on the site the page's title is better.
        if (page !== undefined && /^[\w/-]+\.md$/.test(text?.content))
          text.content = titleOf(readFileSync(path.join(root, files.get(page)), "utf8"));
      }
  });
}
