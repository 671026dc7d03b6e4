// VitePress' settings. ../build.mjs first makes pages, charts and reference in .cache/docs.
import path from "node:path";
import { anchorOf, siteLinks } from "../links.mjs";
import { REPOSITORY, SITE, base, navigation, root } from "../pages.mjs";
import { referenceNavigation } from "../reference.mjs";

/** Indents the continuation of a wrapped line of code by two columns more than its first line (style.css). */
const hanging = {
  name: "hanging-indent",
  line(line, number) {
    const [, blanks] = /^( *)/.exec(this.source.split("\n")[number - 1]);
    if (blanks !== "") line.properties.style = `--indent: ${blanks.length + 2}ch`;
  },
};

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
    config: (markdown) => markdown.use(siteLinks),
  },
  themeConfig: {
    logo: { src: "/mark.svg", alt: "", width: 24, height: 24 },
    // No request goes to another host: the search index is a file of the site. Guides rank above the reference, because
    // they help a searching reader more.
    search: {
      provider: "local",
      options: {
        miniSearch: { searchOptions: { boostDocument: (page) => (page.includes("/reference/") ? 0.1 : 1) } },
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
