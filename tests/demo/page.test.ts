// The page in a real browser: what a visitor sees while rows arrive and when a query fails, and what Stop does in
// PostgreSQL.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium, type BrowserContext, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Format } from "../../js/index.ts";
import { eventRows } from "../../worker-example/sample-data.mjs";
import { isRelease } from "../support/release.ts";
import { LONGEST } from "../support/until.mjs";
import { chromiumFile } from "./chromium.ts";
import { startDemo, type DemoWorker } from "./demo-server.ts";

const flags =
  "--no-sandbox --disable-gpu --disable-quic --no-first-run " +
  "--disable-background-networking --disable-component-update --disable-sync";

let demo: Awaited<ReturnType<typeof startDemo>>;
let browser: BrowserContext | undefined;
let profile: string;
beforeAll(async () => {
  demo = await startDemo();
  profile = await mkdtemp(path.join(tmpdir(), "pgz-edge-chromium-"));
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumFile(),
    headless: true,
    args: flags.split(" "),
    viewport: { width: 1200, height: 900 },
    timeout: LONGEST,
  });
  browser.setDefaultTimeout(LONGEST);
});
afterAll(async () => {
  await browser?.close();
  if (profile) await rm(profile, { recursive: true, force: true });
});

// The page is the same for each workerd and in each width, so only a release opens it in the others.
const workerds = ["newest" as const, ...(isRelease ? ["node-20" as const] : [])];
describe.each(workerds)("workerd %s", (workerd) => {
  let worker: DemoWorker;
  let page: Page;
  const complaints: string[] = [];
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
  });
  beforeEach(async () => {
    complaints.length = 0;
    page = (await browser?.newPage()) as Page;
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    await page.goto(`${worker.url}#${new URLSearchParams(demo.sample.tokens)}`);
  });
  afterEach(async () => {
    await page.close();
    // The browser itself logs responses other than 2xx and broken streams. A refusal by the content policy or an
    // exception is the page's fault.
    expect(complaints.filter((text) => !text.startsWith("Failed to load resource"))).toEqual([]);
  });

  const text = (id: string) => page.locator(`#${id}`).innerText();
  const count = async () => Number((await text("row-count")).replaceAll(",", ""));
  const ends = (state: string) => page.locator(`#status[data-state="${state}"]`).waitFor();
  const run = async (sql: string) => {
    await page.getByLabel("SQL").fill(sql);
    await page.keyboard.press("Control+Enter");
  };

  test("rows appear on the page while the stream runs, and all are counted at its end", async () => {
    // A lock in the middle of the result holds the stream there until the test has looked.
    await demo.admin.query("select pg_advisory_lock(42)");
    await run(
      "select *, case when id = 9000100000 then pg_advisory_xact_lock(42) is null end as locked " +
        "from (select * from events order by id) e",
    );
    await page.waitForFunction(
      () => Number(document.getElementById("row-count")?.textContent.replaceAll(",", "")) > 99_000,
    );
    await page.locator("#latest tr").nth(150).waitFor(); // in the table, not only counted
    expect(await count()).toBeLessThan(100_000);
    expect(await text("status")).toBe("Rows are arriving…");
    expect((await demo.untilBusyWith("pg_advisory_xact_lock")).waiting).toBe("advisory");
    await demo.admin.query("select pg_advisory_unlock(42)");

    await ends("done");
    expect(await count()).toBe(eventRows);
    const bytes = await demo.admin.query<{ bytes: string }>(
      "select sum(octet_length(row_to_json(e)::text) + length(',\"locked\":') + " +
        "case id when 9000100000 then 5 else 4 end + 1) as bytes from events e",
    );
    expect(Number((await text("byte-count")).replaceAll(",", ""))).toBe(Number(bytes.rows[0]?.bytes));
    expect(await text("first-byte")).toMatch(/^\d+ ms$/);
    expect(Number(await text("seconds"))).toBeGreaterThan(0);
    expect(Number(await text("speed"))).toBeGreaterThan(0);
    expect(await page.locator("#rows tr").count()).toBeLessThan(500); // 200,000 rows do not become 200,000 elements
    expect(await page.locator("#latest tr").last().locator("th").innerText()).toBe("200,000");
    expect(await page.locator("#latest tr").last().locator("td").first().innerText()).toBe("9000200000");
  });

  /**
   * How the page shows the beginning of each format; NDJSON is a table there. A format that is missing here does not
   * compile.
   */
  const begins: Readonly<Record<Exclude<Format, "ndjson">, string>> = {
    json: '[{"n":1,"t":',
    columnar: '{"columns":[',
    toon: "[?]{n,t,list",
    csv: "n,t,list,met",
  };
  test.each(Object.entries(begins))("%s is shown unchanged, and its rows are counted", async (format, beginning) => {
    await page.locator("#format").selectOption(format);
    await run(
      "select n, E'a,\"]}\\r\\n' || n as t, array[n] as list, '{\"k\": [1]}'::jsonb as meta " +
        "from generate_series(1, 20000) n",
    );
    await ends("done");
    expect(await count()).toBe(20_000);
    const shown = await page.locator("#output").textContent();
    expect(shown?.slice(0, 12)).toBe(beginning);
    expect(await page.locator("#rows").isVisible()).toBe(false);
    await page.locator("#format").selectOption("ndjson");
  });

  test("values keep every digit, NULL differs from text, and columns keep their order", async () => {
    await run(
      `select 9007199254740993 as b, 0.10000000000000000001 as a, null as "2", 'null' as "1", 1 as b,
       '{"k": [1, "}"]}'::jsonb as j`,
    );
    await ends("done");
    expect(await page.locator("#columns th").allInnerTexts()).toEqual(["#", "b", "a", "2", "1", "b", "j"]);
    expect(await page.locator("#first td").allInnerTexts()).toEqual([
      "9007199254740993",
      "0.10000000000000000001",
      "null",
      "null",
      "1",
      '{"k": [1, "}"]}',
    ]);
    expect(await page.locator("#first td.null").count()).toBe(1);
  });

  test("an error is shown with its code, its position and its hint", async () => {
    await run("select 1,\n  length(1)");
    await ends("failed");
    const shown = await text("failure");
    expect(shown).toContain("42883: function length(integer) does not exist");
    expect(shown).toContain("  length(1)\n  ^");
    expect(shown).toMatch(/Hint: .*type casts/);
    await run("select 1 as fine");
    await ends("done");
    expect(await page.locator("#failure").isVisible()).toBe(false);
  });

  // The workerd for Node 20 ends the stream cleanly (worker-example/serve.mjs), so a client cannot know.
  if (workerd === "newest")
    test("a stream that breaks off is not shown as the whole result", async () => {
      await page.getByRole("button", { name: "Fails half way" }).click();
      await page.locator("#run").click();
      await ends("failed");
      expect(await text("status")).toMatch(/broke off after [\d,]+ rows/);
      expect(await count()).toBeLessThan(150_000);
    });

  test("Stop cancels a running stream in PostgreSQL", async () => {
    await run("select * from events, generate_series(1, 4) n");
    await page.waitForFunction(
      () => Number(document.getElementById("row-count")?.textContent.replaceAll(",", "")) > 1000,
    );
    await demo.untilBusyWith("generate_series(1, 4)");
    await page.locator("#stop").click();
    await demo.untilQuiet();
    await ends("stopped");
    expect(await count()).toBeLessThan(4 * eventRows);
    expect(await page.locator("#run").isEnabled()).toBe(true);
  });

  test("Stop cancels a query without rows in PostgreSQL", async () => {
    await run("select pg_sleep(30)");
    await demo.untilBusyWith("pg_sleep(30)");
    await page.locator("#stop").click();
    await demo.untilQuiet();
    await ends("stopped");
  });

  test("closing the tab cancels the query as well", async () => {
    await run("select pg_sleep(31)");
    await demo.untilBusyWith("pg_sleep(31)");
    await page.close();
    await demo.untilQuiet();
  });

  test("text from the database and from errors never becomes HTML", async () => {
    const trap = `<img src=x onerror="document.title='owned'">`;
    await run(`select '${trap.replaceAll("'", "''")}' as "${trap.replaceAll('"', '""')}"`);
    await ends("done");
    expect(await page.locator("#columns th").last().innerText()).toBe(trap.slice(0, 63));
    expect(await page.locator("#first td").innerText()).toBe(trap);
    await run(`select "${trap.replaceAll('"', '""')}"`);
    await ends("failed");
    expect(await text("failure")).toContain("<img src=x onerror=");
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.title()).not.toBe("owned");
  });

  test("the page can load nothing from other hosts and run no other script", async () => {
    const response = await page.goto(worker.url);
    const policy = response?.headers()["content-security-policy"] ?? "";
    expect(policy).toMatch(/^default-src 'none'; script-src 'nonce-[-0-9a-f]{36}';/);
    expect(policy).not.toContain("unsafe");
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "document.title = 'owned'";
      document.body.append(script);
    });
    expect(await page.title()).not.toBe("owned");
    expect(complaints.splice(0).join()).toContain("Content Security Policy");
  });

  test("every control has a name, and the page fits a small phone", async () => {
    const names = await page
      .locator("button, select, textarea, input")
      .evaluateAll((nodes) => nodes.map((node) => ((node as HTMLInputElement).labels?.[0] ?? node).textContent.trim()));
    expect(names).not.toContain("");
    await page.setViewportSize({ width: 360, height: 700 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  });
});

const sizes = {
  phone: { width: 390, height: 844 },
  ...(isRelease && { desktop: { width: 1440, height: 900 } }),
};
describe.each(Object.entries(sizes))("examples at the size of a %s", (name, size) => {
  let worker: DemoWorker;
  let page: Page;
  const complaints: string[] = [];
  beforeAll(async () => {
    worker = await demo.worker();
    page = (await browser?.newPage()) as Page;
    await page.setViewportSize(size);
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    await page.goto(`${worker.url}#${new URLSearchParams(demo.sample.tokens)}`);
  });
  afterEach(async () => {
    // The browser itself logs answers other than 2xx.
    expect(complaints.filter((text) => !text.startsWith("Failed to load resource"))).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(size.width);
  });
  afterAll(() => page?.close());

  const section = (id: string) => page.locator(`section#${id}`);
  const status = (id: string) => section(id).locator("[role=status]");
  /** Shows the page's text on failure, because nothing else remains of the page. */
  const ends = async (id: string, state: string) => {
    const ended = section(id).locator(`[role=status][data-state="${state}"]`);
    await ended.waitFor().catch(async (error: unknown) => {
      const log = await section(id).locator("ol.log").allInnerTexts();
      const said = [await status(id).getAttribute("data-state"), await status(id).innerText(), ...log];
      throw new Error(`${id} is not ${state}: ${said.join("\n")}`, { cause: error });
    });
  };
  /** Presses a button and waits until its work has ended. */
  const press = async (id: string, button: string, state = "done") => {
    await section(id)
      .locator("[role=status]")
      .evaluate((node) => (node.dataset["state"] = "idle"));
    await section(id).getByRole("button", { name: button, exact: true }).click();
    await ends(id, state);
    return status(id).innerText();
  };
  const curl = (id: string) => section(id).locator("pre.curl").innerText();
  const rows = (id: string) => section(id).locator("tbody tr").count();

  test("the tokens leave the address, and a reload keeps them", async () => {
    expect(page.url()).toBe(worker.url);
    await page.reload();
    expect(await page.getByLabel("Token of a tenant").inputValue()).toBe(demo.sample.tokens.acme);
    expect(await page.locator("body").innerText()).not.toContain(demo.sample.tokens.acme);
  });

  test("Stream shows rows", async () => {
    await section("stream").getByRole("button", { name: "Aggregate" }).click();
    await page.locator("#run").click();
    await ends("stream", "done");
    expect(await page.locator("#first tr").count()).toBe(7);
    expect(await curl("stream")).toContain(`"authorization: Bearer $TOKEN"`);
    expect(await curl("stream")).not.toContain(demo.sample.tokens.acme);
  });

  test("REST shows pages, an order's life and refusals", async () => {
    expect(await press("rest", "A page")).toMatch(/^200 .*bytes · first byte \d+ ms · \d+\.\d+ s$/);
    expect(await rows("rest")).toBe(50);
    expect(await curl("rest")).toContain("/api/orders?limit=50'");
    const first = await section("rest").locator("tbody td").first().innerText();
    await press("rest", "The next page");
    expect(Number(await section("rest").locator("tbody td").first().innerText())).toBe(Number(first) + 50);
    expect(await press("rest", "1,000 rows as NDJSON")).toContain("1,000 lines");
    expect(await press("rest", "Create an order")).toMatch(/^201 /);
    expect(await section("rest").locator(".output").innerText()).toContain('"tenant": "acme"');
    expect(await press("rest", "Create it again", "failed")).toMatch(/^409 Conflict/);
    expect(await section("rest").locator(".output").innerText()).toContain("orders_reference_taken");
    expect(await press("rest", "Mark it paid")).toMatch(/^200 /);
    expect(await section("rest").locator(".output").innerText()).toContain('"status": "paid"');
    expect(await press("rest", "Delete it")).toMatch(/^204 /);
    expect(await section("rest").getByRole("button", { name: "Delete it" }).isDisabled()).toBe(true);
    expect(await press("rest", "A bad one", "failed")).toMatch(/^422 /);
    for (const pointer of ["#/customer", "#/reference", "#/total", "#/tenant"])
      expect(await section("rest").locator(".output").innerText()).toContain(pointer);
  });

  test("Export gives a file to save", async () => {
    const { rows: counted } = await demo.admin.query<{ n: string }>(
      "select count(*) + 1 as n from orders where tenant = 'acme'",
    );
    expect(await press("export", "Export")).toContain(`${Number(counted[0]!.n).toLocaleString("en")} lines`);
    expect(await section("export").locator(".output").innerText()).toContain("id,tenant,reference");
    const download = page.waitForEvent("download");
    await page.locator("#save").click();
    expect((await download).suggestedFilename()).toBe("orders-acme.csv");
    await page.locator("#export-format").selectOption("columnar");
    await press("export", "Export");
    expect(await section("export").locator(".output").innerText()).toMatch(/^\{"columns":/);
  });

  test("Import counts lines, names a wrong line, and accepts the visitor's own file", async () => {
    expect(await press("import", "Import 20,000 rows")).toMatch(
      /^Stored: 20,000\. There already: 0\. Bytes: [\d,]+\.$/,
    );
    expect(await section("import").locator("li").last().innerText()).toContain('"inserted":20000');
    expect(await page.locator("#progress").evaluate((node: HTMLProgressElement) => node.value)).toBe(1);
    expect(await press("import", "One bad line", "failed")).toBe(
      "Line 701 is not what it must be. Nothing was stored.",
    );
    await page.locator("#file").setInputFiles({
      name: "orders.csv",
      mimeType: "text/csv",
      buffer: Buffer.from(`reference,customer,status,total\nFILE-${name.toUpperCase()},Ada,open,1\n`),
    });
    await ends("import", "done");
    expect(await status("import").innerText()).toMatch(/^Stored: 1\. /);
  });

  test("Import reports a wrong line at the beginning of a file of 20 MB", async () => {
    const lines = "reference,customer,status,total\nX-1,Ada,lost,1\n" + "X-2,Ada,open,1\n".repeat(1_400_000);
    await section("import")
      .locator("[role=status]")
      .evaluate((node) => (node.dataset["state"] = "idle"));
    const file = path.join(profile, "long.csv");
    await writeFile(file, lines);
    await page.locator("#file").setInputFiles(file);
    await ends("import", "failed");
    expect(await status("import").innerText()).toBe("Line 2 is not what it must be. Nothing was stored.");
  });

  test("Listen shows the tenant's changes only, and Stop ends it", async () => {
    expect(await press("listen", "Listen")).toBe("Listening to orders_acme.");
    const events = section("listen").locator("li");
    const change = { reference: `LISTEN-${name.toUpperCase()}`, customer: "Ada", total: 1 };
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(change) };
    expect((await worker.globex("/api/orders", init)).status).toBe(201);
    await section("listen").getByRole("button", { name: "Create an order" }).click();
    await events.nth(1).waitFor();
    expect(await events.allInnerTexts()).toEqual([
      'listening {"channel":"orders_acme"}',
      expect.stringMatching(/^orders_acme: \{"change" : "insert", "rows" : 1, "id" : \d+\}$/),
    ]);
    expect(await press("listen", "Stop listening", "stopped")).toBe("Stopped.");
    expect(await section("listen").getByRole("button", { name: "Listen", exact: true }).isEnabled()).toBe(true);
  });

  test("Changes shows rows as they change, and a pause loses none", async () => {
    expect(await press("changes", "Follow")).toMatch(/^Following, after line \d+\.$/);
    const lines = section("changes").locator("li");
    const stir = section("changes").getByRole("button", { name: "Create, pay and delete an order" });
    await stir.click();
    await lines.nth(2).waitFor();
    expect((await lines.allInnerTexts()).map((line) => line.split(" ")[1])).toEqual(["insert", "update", "delete"]);
    expect(await lines.nth(1).innerText()).toContain('"status":"paid"');
    const last = (await lines.nth(2).innerText()).split(" ")[0];
    expect(await press("changes", "Stop", "stopped")).toBe("Stopped.");

    const change = { reference: `MISSED-${name.toUpperCase()}`, customer: "Ada", total: 1 };
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(change) };
    for (const ask of [worker.globex, worker.acme]) expect((await ask("/api/orders", init)).status).toBe(201);
    expect(await press("changes", "Follow")).toBe(`Following, after line ${last}.`);
    await lines.first().waitFor();
    expect(await lines.allInnerTexts()).toEqual([expect.stringContaining(change.reference)]);
    expect(await curl("changes")).toContain(`/changes?from=`);
    await press("changes", "Stop", "stopped");
  });

  test("Cache shows an answer that is read, confirmed without a query, and read anew after a commit", async () => {
    const button = "Read, confirm, change an order, read";
    expect(await press("cache", button)).toMatch(
      /^Read in \d+ ms, confirmed in \d+ ms, fresh \d+ ms after the commit\.$/,
    );
    const lines = await section("cache").locator("li").allInnerTexts();
    expect(lines[0]).toMatch(/^200 · read from PostgreSQL · \d+ ms$/);
    expect(lines[1]).toMatch(/^304 · confirmed without a query · \d+ ms$/);
    expect(lines[2]).toMatch(/^order \d+ was \w+ and is \w+: committed$/);
    expect(lines.at(-1)).toMatch(/^200 · read from PostgreSQL · \d+ ms.* · \d+ ms after the commit$/);
    const { rows: expected } = await demo.admin.query<{ line: string[] }>(
      "select array[status, count(*)::text, sum(total)::text] as line from orders where tenant = 'acme' " +
        "group by status order by status",
    );
    expect(await section("cache").locator("tbody td").allInnerTexts()).toEqual(expected.flatMap(({ line }) => line));
    expect(await curl("cache")).toContain("if-none-match");
  });

  test("Tenants shows that neither sees the other's rows", async () => {
    expect(await press("tenants", "Ask as both")).toMatch(/^1,000 rows are all of acme, \d+ are all of globex\.$/);
    expect(await section("tenants").locator("h3").allInnerTexts()).toEqual(["acme sees", "globex sees"]);
    expect(await section("tenants").locator("article").nth(1).innerText()).not.toContain("acme\t");
    expect(await section("tenants").locator("p").last().innerText()).toMatch(/is globex's: acme is answered 404\.$/);
  });

  test("Cancel shows that PostgreSQL stops when the client leaves", async () => {
    expect(await press("cancel", "Run and leave")).toMatch(/^Cancelled in PostgreSQL within \d+ ms\.$/);
    expect(await section("cancel").locator("li").count()).toBe(3);
    await demo.untilQuiet();
  });

  test("a wrong token is reported in each section", async () => {
    const field = page.getByLabel("Token of a tenant");
    await field.fill("wrong");
    expect(await press("rest", "A page", "failed")).toMatch(/^401 Unauthorized/);
    expect(await press("export", "Export", "failed")).toMatch(/^401 /);
    expect(await press("listen", "Listen", "failed")).toBe("Nobody has this token.");
    expect(await press("changes", "Follow", "failed")).toBe("Nobody has this token.");
    expect(await press("cache", "Read, confirm, change an order, read", "failed")).toContain("Nobody has this token.");
    expect(await press("tenants", "Ask as both", "failed")).toMatch(/^401 /);
    expect(await press("cancel", "Run and leave", "failed")).toContain("Nobody has this token.");
    await field.fill(demo.sample.tokens.acme);
    await press("rest", "A page");
  });

  test("Cache says that there is no invalidator", async () => {
    const without = await demo.worker({ feedUrl: "" });
    await page.goto(`${without.url}#${new URLSearchParams(demo.sample.tokens)}`);
    expect(await press("cache", "Read, confirm, change an order, read", "stopped")).toBe(
      "Such an answer is not stored: there is no invalidator: README.md says how.",
    );
    expect(await section("cache").locator("li").innerText()).toContain("cache-status: pgz-edge; fwd=bypass");
  });
});
