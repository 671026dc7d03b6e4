// VitePress' settings. Pages, charts and reference are made beforehand (../build.mjs), in .cache/docs.
import path from "node:path";
import { anchorOf, siteLinks } from "../links.mjs";
import { REPOSITORY, SITE, base, navigation, root } from "../pages.mjs";
import { referenceNavigation } from "../reference.mjs";

/** A line of code that goes on below is set in by two columns more than it begins with (style.css). */
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
  /** What is shown of a page where somebody has shared its address. */
  transformHead({ title, description, pageData: { relativePath } }) {
    const page = relativePath.replace(/(index)?\.md$/, (_, index) => (index ? "" : ".html"));
    const facts = { type: "website", site_name: "pgz-edge", title, description, url: SITE + base + page };
    const tags = Object.entries(facts).map(([name, content]) => ["meta", { property: `og:${name}`, content }]);
    return [...tags, ["meta", { name: "twitter:card", content: "summary" }]];
  },
  router: { prefetchLinks: false }, // a phone loads what its reader opens
  markdown: {
    anchor: { slugify: anchorOf },
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    codeTransformers: [hanging],
    config: (markdown) => markdown.use(siteLinks),
  },
  themeConfig: {
    logo: { src: "/mark.svg", alt: "", width: 24, height: 24 },
    // No other host is asked for anything: the index of the search is a file of the site.
    // A guide says more to who searches than the page of an interface.
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
