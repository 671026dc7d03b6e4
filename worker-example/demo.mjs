/**
 * `make demo`: starts PostgreSQL, loads 200,000 rows, starts the Worker in workerd, streams one query and prints its
 * figures, listens through the Durable Object, then serves the page until Ctrl-C.
 *
 *   ONCE=1            ends after the figures
 *   DATABASE_URL=…    another server, which is left unchanged; the role must be allowed to create databases and roles
 *   PORT=8787         the page's port; if it is taken, a free one
 *
 * Each run makes a token for each tenant, valid until the run ends. The page gets the tokens in the fragment of the
 * printed address. A browser sends the fragment nowhere, so it reaches no server, no log and no other page, and the
 * page removes it from the address at once.
 *
 * It needs `make setup build`. Everything started here is stopped here, in reverse order, also on Ctrl-C.
 */
import { createServer } from "node:net";
import { startServers } from "../tests/servers/index.mjs";
import { eventRows, orderRows, sampleDatabase } from "./sample-data.mjs";
import { serve } from "./serve.mjs";

const once = Boolean(process.env.ONCE) && process.env.ONCE !== "0";
const started = performance.now();
const undo = [];
let ending;
let open = false; // the page is served, and Ctrl-C is the normal end

/** Stops everything, the latest first. A second call waits for the first. */
function end() {
  ending ??= (async () => {
    for (const step of undo.reverse())
      await step().catch((error) => console.error(`  while stopping: ${error.message}`));
  })();
  return ending;
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (!ending) console.log("\nStopping …");
    void end().then(() => process.exit(signal === "SIGINT" && open ? 0 : 130));
  });
}

try {
  await demo();
} catch (error) {
  if (!ending) {
    const hint =
      error.code === "42501" ? "\nThe role of DATABASE_URL must be allowed to create databases and roles." : "";
    console.error(`\nThe demo failed: ${error.message}${hint}`);
    process.exitCode = 1;
  }
  await end();
}

async function demo() {
  console.log("pgz-edge demo\n");
  const server = await step("PostgreSQL", async () => {
    const { servers, stop } = await startServers({ majors: [18] });
    undo.push(stop);
    return [servers[0], `${servers[0].major} at ${servers[0].host}:${servers[0].port}`];
  });
  const sample = sampleDatabase(server.superuserUrl);
  await step("sample data", async () => {
    undo.push(sample.drop);
    await sample.load();
    const orders = Object.entries(orderRows).map(([tenant, count]) => `${count.toLocaleString("en")} of ${tenant}`);
    return [undefined, `${eventRows.toLocaleString("en")} events, 12 columns each; orders, ${orders.join(", ")}`];
  });
  const worker = await step("Worker in workerd", async () => {
    const found = await serve({
      ...sample,
      onLog: (line) => open && console.log(line),
      port: once ? 0 : await freePort(Number(process.env.PORT ?? 8787)),
    });
    undo.push(found.stop);
    return [found, found.url];
  });

  const query = "select * from events";
  console.log(`\n${query}   -- through the Worker, as NDJSON`);
  const get = (path, headers = {}) =>
    fetch(new URL(path, worker.url), { headers: { authorization: `Bearer ${sample.tokens.acme}`, ...headers } });
  const figures = await measure(get, `query?${new URLSearchParams({ q: query, format: "ndjson" })}`);
  const expected = await countRows(get);
  if (figures.rows !== expected) throw new Error(`${figures.rows} rows arrived, count(*) says ${expected}`);
  for (const line of figures.firstLines) console.log(`  ${line}`);
  console.log("  …");
  console.log(`\n  rows        ${figures.rows.toLocaleString("en")}, as many as count(*) says`);
  console.log(`  bytes       ${figures.bytes.toLocaleString("en")}`);
  console.log(`  seconds     ${(figures.milliseconds / 1000).toFixed(3)}`);
  console.log(`  MB/s        ${(figures.bytes / 1000 / figures.milliseconds).toFixed(1)}`);
  console.log(`  first byte  after ${figures.firstByte.toFixed(1)} ms`);

  console.log(
    "\nGET /listen, POST /api/orders   -- a trigger notifies, the Durable Object sends it as server-sent events",
  );
  await hear(worker.url, sample.tokens.acme, "listen", "DEMO-1");

  console.log(
    "\nGET /changes, POST /api/orders   -- each row as it commits, by logical replication, kept by a Durable Object",
  );
  if (sample.feedUrl) await hear(worker.url, sample.tokens.acme, "changes", "DEMO-2");
  else console.log("  This server has no wal_level = logical, or the role is no superuser: there is no feed.");

  if (once) {
    await end();
    console.log(`\nDone in ${((performance.now() - started) / 1000).toFixed(1)} s.`);
    return;
  }
  console.log(
    `\nThe page is open at ${worker.url}#${new URLSearchParams(sample.tokens)}\n` +
      "Press its buttons, watch the rows arrive, stop them. Ctrl-C here ends everything.",
  );
  open = true;
  await worker.gone;
  if (!ending) throw new Error("the process of workerd has ended");
}

/**
 * Runs one step: prints its name before it and its time after it. `work` returns the value and the text to print after
 * the time.
 */
async function step(name, work) {
  process.stdout.write(`  ${name.padEnd(18)}`);
  const dots = setInterval(() => process.stdout.write("."), 1000);
  const from = performance.now();
  try {
    const [value, text] = await work();
    process.stdout.write(` ${((performance.now() - from) / 1000).toFixed(1)} s   ${text}\n`);
    return value;
  } finally {
    clearInterval(dots);
  }
}

/** Streams one response, keeps its first three lines and counts the rest. */
async function measure(get, path) {
  const from = performance.now();
  const response = await get(path, { "accept-encoding": "identity" });
  if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${await response.text()}`);
  const figures = { rows: 0, bytes: 0, firstByte: 0, milliseconds: 0, firstLines: [] };
  const decoder = new TextDecoder();
  let head = "";
  for await (const chunk of response.body) {
    figures.firstByte ||= performance.now() - from;
    figures.bytes += chunk.length;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) figures.rows++;
    if (figures.rows < 3 || head === "") head += decoder.decode(chunk, { stream: true });
  }
  figures.milliseconds = performance.now() - from;
  figures.firstLines = head.split("\n").slice(0, 3);
  return figures;
}

/** Makes an order while it reads the events of `path`. Prints the events and how long they took. */
async function hear(url, token, path, reference) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(new URL(path, url), { headers, signal: AbortSignal.timeout(10_000) });
  // A Worker checks the certificate of a server that it connects to directly; Hyperdrive's local stand-in does not.
  if (!response.ok) return console.log(`  ${(await response.json()).detail}`);
  let from;
  for await (const event of response.body.pipeThrough(new TextDecoderStream())) {
    console.log(`  ${event.trimEnd().replaceAll("\n", "\n  ")}`);
    if (from !== undefined) break;
    from = performance.now();
    const body = JSON.stringify({ reference, customer: "Ada Lovelace", total: "19.99" });
    const made = await fetch(new URL("api/orders", url), { method: "POST", headers, body });
    if (made.status !== 201) throw new Error(`the Worker answered ${made.status}: ${await made.text()}`);
  }
  console.log(`\n  POST to event  ${(performance.now() - from).toFixed(1)} ms`);
}

async function countRows(get) {
  const response = await get(`query?${new URLSearchParams({ q: "select count(*) from events" })}`);
  return Number((await response.json()).count);
}

/** Returns the wanted port, or 0 (any) if it is taken. */
function freePort(wanted) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(0));
    probe.listen(wanted, "127.0.0.1", () => probe.close(() => resolve(wanted)));
  });
}
