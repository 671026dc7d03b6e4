// The documentation site as `make docs` builds it: every page is in the navigation, every link leads somewhere, and
// Chromium opens pages at a phone's and a screen's width. No page asks another host for anything.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium, type BrowserContext, type Locator, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { REPOSITORY, navigation, root, sources, unlisted } from "../../scripts/docs/pages.mjs";
import { serve } from "../../scripts/docs/serve.mjs";
import { chromiumFile } from "../demo/chromium.ts";
import { isRelease } from "../support/release.ts";
import { LONGEST } from "../support/until.mjs";
import { contentsPage } from "../../scripts/docs/llms.mjs";
import { BASE, build, folder, htmlOf, pages, type Html } from "./built.ts";

const PHONE = { width: 390, height: 844 };
const SCREEN = { width: 1440, height: 900 };
/** Pages that are open at a time: the machine of the tests has two cores. */
const TABS = 2;

let names: string[];
let html: Map<string, Html>;
let site: Awaited<ReturnType<typeof serve>>;
let profile: string;
let browser: BrowserContext | undefined;
beforeAll(async () => {
  build();
  names = pages();
  html = new Map(names.map((name) => [name, htmlOf(name)]));
  site = await serve(0, BASE);
  profile = mkdtempSync(path.join(tmpdir(), "pgz-edge-site-"));
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumFile(),
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"],
    viewport: PHONE,
    timeout: LONGEST,
  });
  browser.setDefaultTimeout(LONGEST);
});
afterAll(async () => {
  await browser?.close();
  site?.stop();
  if (profile) rmSync(profile, { recursive: true, force: true });
});

test("the navigation leads to every page of docs/, and each has its HTML", () => {
  expect(unlisted()).toEqual([]);
  const wanted = [...sources().values()].map((page) => page.replace(/\.md$/, ".html"));
  expect(wanted.filter((name) => !html.has(name))).toEqual([]);
  expect(navigation().map(({ text }) => text)).toContain("Decisions");
});

test("the reference leaves out what only the package's own entries use", () => {
  const own = names.filter((name) => name.startsWith("reference/pgz-edge/"));
  expect(own.length).toBeGreaterThan(10);
  expect(own.filter((name) => /\b(ofPreludes|TransactionCalls|logIn)\b/.test(name))).toEqual([]);
});

test("the reference has a page for what the driver's first calls are", () => {
  for (const name of ["classes/Client", "classes/Pool", "functions/createClient", "interfaces/Options"])
    expect(names).toContain(`reference/pgz-edge/${name}.html`);
});

interface Row {
  readonly shape: string;
  readonly library: string;
  readonly runtime: string;
  readonly metric: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly median: number;
}

test("the charts show what bench/results has, and say where it comes from", () => {
  const { text } = html.get("performance.html")!;
  const charts = [...text.matchAll(/<h2 id="([^"]*)"([^]*?)(?=<h2 |<\/main>)/g)].map(([, id, chart]) => [id!, chart!]);
  expect(charts.length).toBeGreaterThan(8);
  for (const [id, chart] of charts) {
    const [, name] = /make bench CASE=(\w+)/.exec(chart!) ?? [];
    expect(name, id).toBeDefined();
    const file = path.join(root, `bench/results/${name}.json`);
    const { date, machine, versions, rows } = JSON.parse(readFileSync(file, "utf8")) as {
      date: string;
      machine: { cpu: string; cores: number };
      versions: Record<string, string>;
      rows: Row[];
    };
    for (const said of [
      date.slice(0, 10),
      machine.cpu,
      `commit ${versions.commit}`,
      `pgz-edge ${versions["pgz-edge"]}`,
    ])
      expect(chart, id).toContain(said);
    const values = [...chart!.matchAll(/class="value">([\d,.]+)/g)].map(([, value]) => value!.replaceAll(",", ""));
    expect(values.length, id).toBeGreaterThan(0);
    const digits = (value: string) => value.split(".")[1]?.length ?? 0;
    const strange = values.filter((value) => !rows.some(({ median }) => median.toFixed(digits(value)) === value));
    expect(strange, id).toEqual([]);
  }
  // One of them in full: who has which bar.
  const { rows } = JSON.parse(readFileSync(path.join(root, "bench/results/stream.json"), "utf8")) as { rows: Row[] };
  const [, figure = ""] = /<figcaption>five columns of five types<\/figcaption>([^]*?)<\/figure>/.exec(text) ?? [];
  const bars = [...figure.matchAll(/class="label \w+">([^<]*)<[^]*?class="value">([\d,.]+)/g)];
  const drawn = bars.map(([, label, value]) => [label!, Number(value)]);
  const wanted = rows
    .filter(({ shape, runtime, metric }) => shape === "mixed_5col" && runtime === "node" && metric === "cpu_ms")
    .filter(({ config }) => config.format === undefined)
    .map(({ library, median }) => [library, Number(median.toPrecision(3))]);
  expect(Object.fromEntries(drawn)).toEqual(Object.fromEntries(wanted));
});

/** Where a link of a page leads: the file and the anchor in it. */
function target(from: string, href: string): [string, string] {
  const { pathname, hash } = new URL(href, `http://site${BASE}${from}`);
  return [
    decodeURIComponent(pathname)
      .replace(BASE, "")
      .replace(/(^|\/)$/, "$1index.html"),
    decodeURIComponent(hash.slice(1)),
  ];
}

test("every link to a page and to an anchor leads there", () => {
  const dead = new Set<string>();
  let followed = 0;
  for (const [from, { links }] of html)
    for (const href of links) {
      if (/^[a-z]+:/.test(href)) continue;
      followed++;
      const [name, anchor] = target(from, href);
      const page = html.get(name);
      if (page === undefined || (anchor !== "" && !page.ids.has(anchor))) dead.add(`${from}: ${href}`);
    }
  expect(followed).toBeGreaterThan(1000);
  expect([...dead]).toEqual([]);
});

test("every link to the repository names a file that is there, and other links are URLs", () => {
  const outside = new Set([...html.values()].flatMap(({ links }) => links.filter((href) => /^[a-z]+:/.test(href))));
  const source = [...outside].filter((href) => href.startsWith(`${REPOSITORY}/`));
  expect(source.length).toBeGreaterThan(100);
  const lost = source.filter((href) => {
    const [, file, line] = /\/(?:blob|tree)\/main\/([^#]*)(?:#L(\d+))?/.exec(href) ?? [];
    if (file === undefined || !existsSync(path.join(root, file))) return true;
    return line !== undefined && Number(line) > readFileSync(path.join(root, file), "utf8").split("\n").length;
  });
  expect(lost).toEqual([]);
  const odd = [...outside].filter((href) => {
    const { protocol, hostname } = new URL(href);
    return protocol !== "https:" || !/^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(hostname);
  });
  expect(odd).toEqual([]);
});

/** Until Vue has taken the page over. A tab behind another draws no frames to wait for. */
async function untilItRuns(page: Page): Promise<void> {
  await page.waitForFunction(() => "__vue_app__" in document.getElementById("app")!, null, { polling: 20 });
}

/** Opens a page, and says what is wrong with it. */
async function look(page: Page, name: string): Promise<string[]> {
  const wrong: string[] = [];
  const note = (text: string) => wrong.push(`${name}: ${text}`);
  page.removeAllListeners();
  page.on("pageerror", (error) => note(String(error)));
  page.on("console", (message) => message.type() === "error" && note(message.text()));
  page.on("requestfailed", (request) => note(`${request.url()} failed`));
  page.on("response", (response) => response.status() >= 400 && note(`${response.url()}: ${response.status()}`));
  page.on("request", (request) => !request.url().startsWith(site.url) && note(`it asks for ${request.url()}`));
  await page.setViewportSize(PHONE);
  await page.goto(`${site.url}${name}`, { waitUntil: "load" });
  await untilItRuns(page);
  if (!/ \| pgz-edge$|^pgz-edge$/.test(await page.title())) note(`its title is ${await page.title()}`);
  const heading = await page.locator("h1").first().innerText();
  if (heading.replaceAll("\u200b", "").trim() === "") note("its heading is empty");
  for (const size of [PHONE, SCREEN]) {
    await page.setViewportSize(size);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) note(`at ${size.width} pixels it is ${wide} wider than the window`);
    const cut = await page.evaluate(
      () => [...document.querySelectorAll("pre")].filter((code) => code.scrollWidth > code.clientWidth).length,
    );
    if (cut > 0) note(`at ${size.width} pixels ${cut} blocks of code are cut`);
  }
  return wrong;
}

/**
 * Every guide, a decision, and one page of each folder of the reference, whose pages come out of one template; all
 * pages for a release.
 */
function opened(): string[] {
  const folders = new Set<string>();
  return names.filter((name) => {
    const folder = path.dirname(name);
    const isFirst = !folders.has(folder);
    folders.add(folder);
    return isRelease || isFirst || !/^(reference|decisions)\//.test(name);
  });
}

test("Chromium opens the pages: no error, no failed request, nothing of another host, nothing too wide", async () => {
  const all = opened();
  const left = [...all];
  const wrong: string[] = [];
  const tab = async () => {
    const page = await browser!.newPage();
    for (let name = left.shift(); name !== undefined; name = left.shift()) wrong.push(...(await look(page, name)));
    await page.close();
  };
  await Promise.all(Array.from({ length: TABS }, tab));
  expect(all.length).toBeGreaterThan(50);
  expect(wrong).toEqual([]);
});

test("a page that is shared says what it is, and tools find every page", () => {
  for (const [name, { text }] of html) {
    const [, title] = /<meta property="og:title" content="([^"]*)"/.exec(text) ?? [];
    expect(title, name).toMatch(/pgz-edge$/);
    expect(text, name).toContain(`<meta property="og:url" content="https://pgz-edge.github.io${BASE}`);
  }
  const [map, index, full] = ["sitemap.xml", "llms.txt", "llms-full.txt"].map((name) =>
    readFileSync(path.join(folder, name), "utf8"),
  ) as [string, string, string];
  expect(map.match(/<loc>/g)!.length).toBeGreaterThan(names.length - 2);
  const links = [...index.matchAll(/\]\(https:\/\/pgz-edge\.github\.io\/somewhere\/else\/([^)]*)\): .*\.$/gm)];
  expect(links.length).toBeGreaterThan(40);
  expect(links.map(([, page]) => page!).filter((page) => !html.has(page))).toEqual([]);
  expect(full).toContain("\n# Pools\n");
});

test("docs/contents.md, which the package has, names every page", () => {
  expect(readFileSync(path.join(root, "docs/contents.md"), "utf8")).toBe(contentsPage());
});

/** A page as wide as a screen, once Vue has taken it over. */
async function screen(): Promise<Page> {
  const page = await browser!.newPage();
  await page.setViewportSize(SCREEN);
  await page.goto(site.url);
  await untilItRuns(page);
  return page;
}

/** What the first page's search finds. */
async function search(words: string): Promise<{ page: Page; found: Locator }> {
  const page = await screen();
  await page.locator(".VPNavBarSearch button").click();
  await page.locator("#localsearch-input").fill(words);
  const found = page.locator("#localsearch-list a");
  await found.first().waitFor();
  return { page, found };
}

// What a user types, and a place that helps. The reference, the history and the lists have the same words more often.
test.each([
  ["STREAM_OPEN", "errors.html#stream_open"],
  ["timeout", "options.html#timeout"],
  ["insert many rows", "recipes.html#insert-many-rows"],
  ["jsonb", "recipes.html#json-and-jsonb"],
  ["pgbouncer", "poolers.html"],
  ["retry", "transactions.html#retry-isolation-and-deadlines"],
  ["undefined", "recipes.html#filters-that-may-be-absent"],
  ["too many connections", "recipes.html#too-many-connections"],
  ["pagination", "recipes.html#pagination"],
  ["transaction retry", "transactions.html#retry-isolation-and-deadlines"],
])("the search for %s has %s among its first three results, and none of the reference", async (words, wanted) => {
  const { page, found } = await search(words);
  const links = await found.evaluateAll((all) => all.map((a) => a.getAttribute("href")!));
  await page.close();
  const shown = links.slice(0, 3);
  expect(
    shown.some((href) => href.includes(`/${wanted}`)) && !shown.some((href) => href.includes("/reference/")),
    links.slice(0, 6).join(" "),
  ).toBe(true);
});

test("the search finds an option without a network, and the page turns dark", async () => {
  const { page, found } = await search("leakThreshold");
  await found.filter({ hasText: "Pools" }).first().click();
  await page.waitForURL(/\/pool\.html/);
  const isDark = () => page.evaluate(() => document.documentElement.classList.contains("dark"));
  const before = await isDark();
  await page.locator(".VPNavBarAppearance button").click();
  expect(await isDark()).toBe(!before);
  await page.close();
});

const readme = readFileSync(path.join(root, "README.md"), "utf8");
const ofReadme = (pattern: RegExp) => pattern.exec(readme)![1]!;

test("the first page begins with README's Worker, and its figures are README's", async () => {
  const page = await screen();
  const worker = page.locator(".hero .language-ts code");
  expect(await worker.textContent()).toBe(ofReadme(/```ts run\n(import \{ createClient[^]*?)\n```/));
  const { y, height } = (await worker.boundingBox())!;
  expect(y + height).toBeLessThan(SCREEN.height); // nobody has to scroll to it
  const figure = (await page.locator(".says p", { hasText: "a tenth of the CPU time" }).boundingBox())!;
  expect(figure.y + figure.height).toBeLessThan(SCREEN.height);
  const rows = await page
    .locator(".costs tr")
    .evaluateAll((all) => all.map((row) => [...(row as HTMLTableRowElement).cells].map((cell) => cell.textContent)));
  const table = ofReadme(/<!-- costs: .*\n([^]*?)\n\n/).replaceAll("`", "");
  const cells = table.split("\n").map((row) => row.split("|").slice(1, -1));
  expect(rows).toEqual(cells.filter((_, index) => index !== 1).map((row) => row.map((cell) => cell.trim())));
  await page.close();
});

test("the quickstart has a tab for each runtime, and shows the code of the one that is chosen", async () => {
  const page = await screen();
  await page.locator(".hero .actions a", { hasText: "Quickstart" }).click();
  await page.waitForURL(/\/quickstart/);
  const read = page.locator(".vp-code-group").nth(1);
  await read.waitFor();
  expect(await read.locator(".tabs label").allTextContents()).toEqual(["Workers", "Node", "Deno", "Bun"]);
  expect(await read.locator(".active code").textContent()).toContain("env.HYPERDRIVE");
  await read.locator(".tabs label", { hasText: "Node" }).click();
  expect(await read.locator(".active code").textContent()).toContain("one pool for the process");
  await page.close();
});

test("the first page draws README's picture, its arrow back between the same stations", async () => {
  const page = await screen();
  const picture = page.locator(".stream");
  const [line = "", , back = ""] = ofReadme(/\n## How it works\n\n```\n([^]*?)```/).split("\n");
  const stations = await picture.locator("b").allTextContents();
  expect(stations).toEqual(["PostgreSQL", "socket", "wasm core", "Response", "client"]);
  const flows = await picture.locator(".flow").allTextContents();
  expect(stations.flatMap((name, at) => [name, flows[at] ?? ""]).join("")).toBe(line.replaceAll(/ *[─>]+ *|^ /g, ""));
  expect(back).toContain(` ${await picture.locator(".back").textContent()} `);
  for (const [size, from, to] of [
    [SCREEN, "left", "right"],
    [PHONE, "top", "bottom"],
  ] as const) {
    await page.setViewportSize(size);
    const boxes = await picture
      .locator("> *")
      .evaluateAll((all) =>
        all.map((one) => ({ name: one.textContent, ...(one.getBoundingClientRect().toJSON() as DOMRect) })),
      );
    const [socket, response, arrow] = [boxes[2]!, boxes[6]!, boxes.at(-1)!];
    for (const [end, station] of [
      [arrow[from], socket],
      [arrow[to], response],
    ] as const) {
      expect(end, station.name).toBeGreaterThan(station[from]);
      expect(end, station.name).toBeLessThan(station[to]);
    }
    const overlaps = boxes.flatMap((one, index) =>
      boxes
        .slice(index + 1)
        .filter(({ left, right, top, bottom }) => {
          const isBeside = right <= one.left || left >= one.right;
          return !isBeside && bottom > one.top && top < one.bottom;
        })
        .map(({ name }) => `${one.name} and ${name}`),
    );
    expect(overlaps, `at ${size.width} pixels`).toEqual([]);
  }
  await page.close();
});

test("on a phone nothing of the first page is beside the window", async () => {
  const page = await screen();
  await page.setViewportSize(PHONE);
  const [shown, beside] = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const outside = ({ left, right }: DOMRect) => left < 0 || right > width;
    const shown = [...document.querySelectorAll(".VPHome *")].filter((one) => one.getClientRects().length > 0);
    // Words too: those of a cell can be wider than the cell.
    const words = document.createRange();
    const found = shown.flatMap((one) => {
      words.selectNodeContents(one);
      const isBeside = [one.getBoundingClientRect(), ...words.getClientRects()].some(outside);
      return isBeside ? [`${one.tagName}: ${one.textContent.slice(0, 40)}`] : [];
    });
    return [shown.length, found] as const;
  });
  expect(shown).toBeGreaterThan(150);
  expect(beside).toEqual([]);
  await page.close();
});

test("each page has the mark, beside the name and as its icon", async () => {
  for (const [name, { text }] of html) expect(text, name).toContain(`type="image/svg+xml" href="${BASE}mark.svg"`);
  const response = await fetch(`${site.url}mark.svg`);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "image/svg+xml"]);
  expect(await response.text()).toBe(readFileSync(path.join(root, "scripts/docs/mark.svg"), "utf8"));
  const page = await screen();
  for (const place of [".VPNavBarTitle img", ".hero h1 img"]) {
    const image = page.locator(place);
    expect(await image.evaluate((one: HTMLImageElement) => one.src)).toBe(`${site.url}mark.svg`);
    await expect.poll(() => image.evaluate((one: HTMLImageElement) => one.naturalWidth)).toBeGreaterThan(0);
  }
  await page.close();
});
