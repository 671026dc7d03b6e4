// VitePress' settings. ../build.mjs first makes pages, charts and reference in .cache/docs.
import path from "node:path";
import { anchorOf, siteLinks } from "../links.mjs";
import { REPOSITORY, SITE, base, navigation, root } from "../pages.mjs";
import { referenceNavigation } from "../reference.mjs";
import { rowAnchors, searched } from "../rows.mjs";

/** Indents the continuation of a wrapped line of code by two columns more than its first line (style.css). */
const hanging = {
  name: "hanging-indent",
  line(line, number) {
    const [, blanks] = /^( *)/.exec(this.source.split("\n")[number - 1]);
    if (blanks !== "") line.properties.style = `--indent: ${blanks.length + 2}ch`;
  },
};

/**
 * Guides, options and errors rank above what is seldom looked for: the history, the inside, lists and measurements.
 * (Runs in the browser, so it names nothing outside of itself.)
 */
function weightOf(page) {
  if (page.includes("/reference/")) return 0.1;
  const seldom =
    /\/(decisions|changelog|architecture|boundary|hacking|promises|support|benchmark|performance|reliability|contents|sqlstates|comparison|limits)/;
  return seldom.test(page) ? 0.2 : 1;
}

export default {
  title: "pgz-edge",
  description: "A PostgreSQL driver for Cloudflare Workers, Deno, Bun and Node.",
  base,
  srcDir: path.join(root, ".cache/docs"),
  outDir: path.join(root, ".cache/site"),
  cacheDir: path.join(root, ".cache/vitepress"),
  head: [["link", { rel: "icon", type: "image/svg+xml", href: `${base}mark.svg` }]],
  sitemap: { hostname: SITE + base },
  /** The preview that other sites show for a shared link. */
  transformHead({ title, description, pageData: { relativePath } }) {
    const page = relativePath.replace(/(index)?\.md$/, (_, index) => (index ? "" : ".html"));
    const facts = { type: "website", site_name: "pgz-edge", title, description, url: SITE + base + page };
    const tags = Object.entries(facts).map(([name, content]) => ["meta", { property: `og:${name}`, content }]);
    return [...tags, ["meta", { name: "twitter:card", content: "summary" }]];
  },
  router: { prefetchLinks: false }, // a phone loads only the pages that its reader opens
  markdown: {
    anchor: { slugify: anchorOf },
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    codeTransformers: [hanging],
    config: (markdown) => markdown.use(siteLinks).use(rowAnchors),
  },
  themeConfig: {
    logo: { src: "/mark.svg", alt: "", width: 24, height: 24 },
    // No request goes to another host: the search index is a file of the site.
    search: {
      provider: "local",
      options: {
        _render: searched,
        miniSearch: { searchOptions: { boostDocument: weightOf } },
      },
    },
    nav: [
      { text: "Guides", link: "/workers", activeMatch: "^/(workers|durable-objects|node|deno|bun|vercel)" },
      { text: "API", link: "/reference/", activeMatch: "^/reference/" },
      { text: "Performance", link: "/performance" },
    ],
    sidebar: { "/reference/": referenceNavigation(), "/": navigation() },
    outline: { level: [2, 3] },
    socialLinks: [{ icon: "github", link: REPOSITORY }],
  },
};
