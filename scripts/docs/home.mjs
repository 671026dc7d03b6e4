// The first page. Its claims are taken from README: if a heading or a marker there has gone, the build fails. Must not
// know how the page looks (.vitepress/theme/style.css).
import { pictureOf } from "./picture.mjs";

const links = {
  "Start on your runtime": [
    ["/workers", "Workers with Hyperdrive", "a client for each request, closed after its Response"],
    ["/durable-objects", "Durable Objects", "a pool that outlives requests, LISTEN for many clients"],
    ["/node", "Node", "one pool for the process, streams into `node:http`"],
    ["/deno", "Deno", "permissions, `deno serve`"],
    ["/bun", "Bun", "`bun server.ts`"],
    ["/vercel", "Vercel and Next", "where the pool belongs"],
  ],
  "Next steps": [
    ["/queries", "Writing queries", "templates, lists, identifiers"],
    ["/pg", "From pg", "the same API over this driver, and what differs"],
    ["/from-postgres", "From postgres.js", "call by call"],
    ["/options", "Options", "each with the reason for its default"],
    ["/errors", "Errors", "every code, and what to do"],
    ["/reference/", "API", "from the comments in the source"],
    ["/performance", "Performance", "charts of what was measured, and on which machine"],
  ],
};

/** Returns the part of README that the pattern captures. */
function piece(readme, pattern) {
  const [, text] = pattern.exec(readme) ?? [];
  if (text === undefined) throw new Error(`README.md has no ${pattern}`);
  return text;
}

export function indexPage(readme) {
  const what = piece(readme, /^# pgz-edge\n\n([^]*?)\n\n/).replaceAll("\n", " ");
  const saves = piece(readme, /\n(\*\*Use it\*\* where [^]*?\.) It also suits/).replaceAll("\n", " ");
  const install = piece(readme, /(```sh\nnpm install[^]*?```)/);
  const worker = piece(readme, /```ts run\n(import \{ createClient[^]*?)```/);
  const streams = piece(readme, /\n(The result streams [^]*?\.) /);
  const picture = pictureOf(piece(readme, /\n## How it works\n\n```\n([^]*?)```/));
  const stops = piece(readme, /\n(A client that stops reading [^]*?)\n\n/);
  const costs = piece(readme, /<!-- costs: [^>]*-->\n([^]*?)<!-- \/costs -->/);
  const caveats = piece(readme, /\n## Limitations\n\n(- [^]*?)\n\n/);
  const lists = Object.entries(links).map(([title, rows]) => {
    const lines = rows.map(([link, text, why]) => `- [${text}](${link}): ${why}`);
    return `<div>\n\n## ${title}\n\n${lines.join("\n")}\n\n</div>`;
  });
  return `---
layout: home
---

<div class="hero"><div class="says">

<h1><img src="/mark.svg" alt="" width="56" height="56"> <span>pgz-edge</span> PostgreSQL for edge runtimes</h1>

${what}

${saves}

[Quickstart](/quickstart) [API](/reference/) [Performance](/performance) {.actions}

</div><div class="worker">

${install}

\`\`\`ts
${worker}\`\`\`

${streams}

</div></div>

## How it works

${picture}

${stops}

## What it saves and costs

<div class="costs">

${costs}

</div>

[Performance](/performance) shows what was measured, [Benchmarks](/benchmarks) says what to decide by, and what is lost.

<div class="beside">

${lists.join("\n")}

</div>

## Limitations

${caveats}
`;
}
