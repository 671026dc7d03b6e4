// The first page. What it claims is README's, taken from there: a heading or a marker that has gone fails the build.

const links = {
  "Start on your runtime": [
    ["/workers", "Workers with Hyperdrive", "a client for each request, closed behind its Response"],
    ["/durable-objects", "Durable Objects", "a pool that outlives requests, LISTEN for many clients"],
    ["/node", "Node", "one pool for the process, streams into `node:http`"],
    ["/deno", "Deno", "permissions, `deno serve`"],
    ["/bun", "Bun", "`bun server.ts`"],
    ["/vercel", "Vercel and Next", "where the pool belongs"],
  ],
  "Go on from there": [
    ["/queries", "Writing queries", "templates, lists, identifiers"],
    ["/pg", "From pg", "the same API over this driver, and what differs"],
    ["/from-postgres", "From postgres.js", "call by call"],
    ["/options", "Options", "each with the reason for its default"],
    ["/errors", "Errors", "every code, and what to do"],
    ["/reference/", "API", "from the comments in the source"],
    ["/performance", "Performance", "charts of what was measured, and on which machine"],
  ],
};

/** The text between two pieces of README. */
function piece(readme, pattern) {
  const [, text] = pattern.exec(readme) ?? [];
  if (text === undefined) throw new Error(`README.md has no ${pattern}`);
  return text;
}

export function indexPage(readme) {
  const what = piece(readme, /^# pgz-edge\n\n([^]*?)\n\n/).replaceAll("\n", " ");
  const install = piece(readme, /(```sh\nnpm install[^]*?```)/);
  const worker = piece(readme, /(```ts run\nimport \{ createClient[^]*?```)/).replace("ts run", "ts");
  const costs = piece(readme, /<!-- costs: [^>]*-->\n([^]*?)<!-- \/costs -->/);
  const caveats = piece(readme, /\n## What it does not do yet\n\n(- [^]*?)\n\n/);
  const lists = Object.entries(links).map(([title, rows]) => {
    const lines = rows.map(([link, text, why]) => `- [${text}](${link}): ${why}`);
    return `## ${title}\n\n${lines.join("\n")}\n`;
  });
  return `---
layout: home
hero:
  name: pgz-edge
  text: PostgreSQL for edge runtimes
  tagline: ${JSON.stringify(what)}
  actions:
    - { theme: brand, text: Start, link: /readme }
    - { theme: alt, text: API, link: /reference/ }
    - { theme: alt, text: Performance, link: /performance }
---

## A Worker

${install}

${worker}

The result streams from PostgreSQL to the client and is never held in memory.

## What it saves and costs

${costs}
[Performance](/performance) shows what was measured, [Benchmarks](/benchmarks) says what to decide by, and what is lost.

${lists.join("\n")}
## What it does not do yet

${caveats}
`;
}
