// Rows of a page's table as places of their own: each code of docs/errors.md has an anchor, and the search finds it as
// it finds a heading. (As one section of a hundred rows, the table was found for no code.)
import { anchorOf } from "./links.mjs";

/** A plugin of markdown-it: gives a row that begins with a code and nothing else the anchor of that code. */
export function rowAnchors(markdown) {
  markdown.core.ruler.push("row_anchors", ({ tokens, env }) => {
    if (env.relativePath !== "errors.md") return;
    for (const [index, { type }] of tokens.entries()) {
      const { children } = tokens[index + 2] ?? {};
      if (type !== "tr_open" || children?.length !== 1 || children[0].type !== "code_inline") continue;
      tokens[index].attrSet("id", anchorOf(children[0].content));
    }
  });
}

/** Renders a page for the search, which cuts it at its headings: a row with an anchor becomes one. */
export function searched(source, env, markdown) {
  const html = markdown.render(source, env);
  return html.replaceAll(
    /<tr id="([^"]*)">\s*<td[^>]*>(.*?)<\/td>/g,
    (_, anchor, title) => `<h3 id="${anchor}">${title} <a href="#${anchor}"></a></h3>`,
  );
}
