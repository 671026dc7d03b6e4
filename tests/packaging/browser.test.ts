// The driver in a page of Chromium, bundled as for a user: it connects through a WebSocket, with the proxy of docker/.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chromiumFile } from "../demo/chromium.ts";
import { testServers } from "../integration/servers.ts";
import { LONGEST } from "../support/until.mjs";
import { Project } from "./project.ts";

const { servers, webSockets } = testServers();
const url = `${servers[0]!.url.split("?")[0]}?sslmode=disable`;
const PAGE = `
  import { createClient, sql } from "pgz-edge";
  import { webSocket } from "pgz-edge/websocket";
  window.run = async (url, proxy) => {
    const db = createClient(url, { connect: webSocket(proxy) });
    const { rows } = await db.query(sql\`select \${41}::int4 + 1 as n\`);
    let count = 0;
    for await (const row of db.rows("select n from generate_series(1, 50000) n")) count += row.n > 0;
    const response = await db.respond("select 1 as a", { closeWhenDone: true });
    return [rows, count, await response.text()];
  };
  window.without = (url) => createClient(url).query("select 1").catch((error) => error.code + ": " + error.message);`;
let project: Project;
let browser: Awaited<ReturnType<typeof chromium.launch>>;
let address: string;
const server = createServer();

beforeAll(async () => {
  project = new Project();
  const entry = project.write("page.js", PAGE);
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
  server.on("request", ({ url: asked }, response) => {
    const isPage = asked === "/";
    response.setHeader("content-type", isPage ? "text/html" : "text/javascript");
    response.setHeader("content-security-policy", "script-src 'self' 'wasm-unsafe-eval'");
    response.end(isPage ? '<script type="module" src="/page.js"></script>' : outputFiles[0]!.text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  browser = await chromium.launch({
    executablePath: chromiumFile(),
    args: ["--no-sandbox", "--disable-gpu"],
    timeout: LONGEST,
  });
});
afterAll(async () => {
  await browser?.close();
  server.close();
  project?.remove();
});

test("a page queries and streams through a WebSocket, and without a WebSocket its error says what is needed", async () => {
  const page = await browser.newPage();
  page.setDefaultTimeout(LONGEST);
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(address);
  await page.waitForFunction("window.run");
  const found = await page.evaluate(`run(${JSON.stringify(url)}, ${JSON.stringify(webSockets.plain)})`);
  expect(found).toEqual([[{ n: 42 }], 50_000, '{"a":1}\n']);
  expect(await page.evaluate(`without(${JSON.stringify(url)})`)).toMatch(
    /^UNSUPPORTED_ON_RUNTIME: There is no TCP here/,
  );
  expect(complaints).toEqual([]);
});
