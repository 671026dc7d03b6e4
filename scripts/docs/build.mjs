// Builds the documentation site: `make docs`, and with SERVE=1 serves it.
//
// The pages are copied to .cache/docs. The reference and the charts of bench/results are added there, and VitePress
// turns all of it into .cache/site. The site is files only: any server can serve it, and it sends no requests to other
// hosts.
//
// Why VitePress: the pages are read on GitHub and in the npm package too, so they stay plain Markdown with relative
// links; the reference comes from the comments in the source; and the search must work without a service. VitePress
// takes such pages, runs on Node 20, and its local search is a file of the site. TypeDoc's own site has no guides.
// Docusaurus brings React and a search that is a service or another's plugin. Starlight wants front matter in place of
// a heading, and Astro refuses links with `.md`. What differs from VitePress's defaults:
//
// - A rule leads links to pages to the site, and links to other files to the repository (links.mjs). Anchors are
//   GitHub's.
// - No fonts of its own, and no links loaded ahead: a phone loads what its reader opens.
// - Charts are SVG with lengths in percent, because libraries that scale a picture make its text unreadable.
// - `overrides` in package.json keep the search box for a service (`@docsearch`, installed but not loaded) from
//   choosing React's types for the whole repository.
//
// It is a workspace of its own, because `make demo` and the build do not need it.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vitepress";
import { indexPage } from "./home.mjs";
import { llms } from "./llms.mjs";
import { SITE, base, root, sources } from "./pages.mjs";
import { performancePage } from "./performance.mjs";
import { writeReference } from "./reference.mjs";
import { serve } from "./serve.mjs";
import { withTabs } from "./tabs.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const staged = path.join(root, ".cache/docs");
const say = (text) => process.stdout.write(`[docs] ${text}\n`);

/** Creates .cache/docs anew. */
async function stage() {
  rmSync(staged, { recursive: true, force: true });
  const pages = sources();
  for (const [file, page] of pages) {
    mkdirSync(path.dirname(path.join(staged, page)), { recursive: true });
    writeFileSync(path.join(staged, page), withTabs(file, readFileSync(path.join(root, file), "utf8")));
  }
  cpSync(path.join(here, "mark.svg"), path.join(staged, "public/mark.svg"));
  const readme = readFileSync(path.join(root, "README.md"), "utf8");
  writeFileSync(path.join(staged, "index.md"), indexPage(readme));
  writeFileSync(path.join(staged, "performance.md"), performancePage());
  await writeReference();
}

const from = performance.now();
await stage();
await build(here);
for (const [name, text] of Object.entries(llms(SITE + base))) writeFileSync(path.join(root, ".cache/site", name), text);
say(`.cache/site in ${((performance.now() - from) / 1000).toFixed(0)} s; \`make docs SERVE=1\` serves it`);
if (process.env.SERVE) say(`${(await serve(Number(process.env.PORT ?? 4173), base)).url}, until Ctrl-C`);
