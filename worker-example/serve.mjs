/**
 * Runs the Worker in workerd, in a separate process, with a stand-in for Cloudflare's edge in front.
 *
 * Why a stand-in: Cloudflare's edge notices at once when a client leaves. A bare workerd (2026-04-26 and 2026-11-17)
 * takes the FIN of a closed browser connection as the end of the request's data only. It notices that the client has
 * left only at its next write, and a query without rows never writes. It notices a reset at once, so the stand-in
 * forwards bytes and turns a FIN into a reset.
 *
 * Why a separate process: miniflare's Hyperdrive proxy has no error handler. When PostgreSQL goes away or a Worker
 * drops its socket, miniflare's process gets an uncaught exception. Only those exceptions are ignored here.
 *
 *   const worker = await serve({ readerUrl, appUrl, objectUrl, feedUrl, feedSlot, tokens, port });
 *   // { url, gone, stop }
 *
 * The child has its own process group, so Ctrl-C reaches it only through this process. It ends when its channel to this
 * process closes, so no workerd outlives the demo.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { workerd as workerdOf } from "../scripts/node/index.mjs";
import { bundleWorker, here } from "./build.mjs";

/**
 * Starts the Worker. `port` 0 takes any free port. `onLog` gets each line that the Worker logs with console.log. `tail`
 * is for tests: the script of a second Worker, which receives the spans of the first. `workerd: "node-20"`
 * (scripts/node) is for tests: a bug of that workerd's HTTP server ends the body of every failed stream cleanly,
 * whatever the Worker does. (Only FixedLengthStream breaks off.)
 */
export async function serve({
  readerUrl,
  appUrl,
  standbyUrl,
  objectUrl,
  feedUrl,
  feedSlot,
  tokens,
  port = 0,
  workerd = "newest",
  plugins = [],
  onLog = () => {},
  tail,
}) {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-worker-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const script = await bundleWorker(folder, { plugins }).catch((error) => {
    remove();
    throw error;
  });
  const { MINIFLARE_WORKERD_PATH: _, ...env } = { ...process.env, TMPDIR: folder }; // miniflare leaves files there
  const { execPath, miniflare } = workerdOf(workerd);
  const child = fork(fileURLToPath(import.meta.url), { env, execPath, detached: true });
  const gone = new Promise((resolve) => child.once("exit", resolve)).then(remove);
  const stop = () => {
    if (child.connected) child.disconnect();
    return gone;
  };
  child.send({ script, readerUrl, appUrl, standbyUrl, objectUrl, feedUrl, feedSlot, tokens, port, miniflare, tail });
  const answer = await new Promise((resolve) => {
    child.on("message", (message) => (message.log === undefined ? resolve(message) : onLog(message.log)));
    child.once("exit", (code) => resolve({ failure: `the process of workerd ended with code ${code}` }));
  });
  if (answer.failure) {
    await stop();
    throw new Error(answer.failure);
  }
  return { url: answer.url, gone, stop };
}

/** Parses wrangler.jsonc, whose comments are on lines of their own. */
function wranglerConfig() {
  const text = readFileSync(path.join(here, "wrangler.jsonc"), "utf8");
  return JSON.parse(text.replace(/^\s*\/\/.*$/gm, ""));
}

async function run(options) {
  const {
    script,
    readerUrl,
    appUrl,
    standbyUrl,
    objectUrl,
    feedUrl,
    feedSlot,
    tokens,
    port,
    miniflare: file,
    tail,
  } = options;
  let miniflare;
  const end = (code) =>
    void Promise.resolve(miniflare?.dispose()).finally(() => {
      rmSync(path.dirname(script), { recursive: true, force: true }); // the parent does this too, unless it was killed
      process.exit(code);
    });
  process.once("disconnect", () => end(0));
  process.on("uncaughtException", (error) => {
    if (["ECONNRESET", "ECONNREFUSED", "EPIPE", "ERR_STREAM_DESTROYED"].includes(error.code)) return;
    console.error(error);
    end(1);
  });
  const module = await import(pathToFileURL(file).href);
  const { Miniflare, supportedCompatibilityDate: newestDate } = module.default ?? module;
  const { compatibility_date: date } = wranglerConfig();
  const isOlder = newestDate < date; // the workerd for Node 20
  const worker = {
    name: "main",
    modules: true,
    scriptPath: script,
    modulesRoot: path.dirname(script),
    modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
    compatibilityDate: isOlder ? newestDate : date,
    compatibilityFlags: isOlder ? ["enable_request_signal"] : [],
    hyperdrives: {
      HYPERDRIVE: readerUrl,
      HYPERDRIVE_APP: appUrl,
      ...(standbyUrl && { HYPERDRIVE_STANDBY: standbyUrl }),
    },
    durableObjects: {
      DATABASE: { className: "Database", useSQLite: true },
      FEED: { className: "Feed", useSQLite: true },
      INVALIDATIONS: { className: "Invalidations", useSQLite: true },
    },
    bindings: {
      DATABASE_URL: directUrl(objectUrl),
      ...(feedUrl && { CHANGES_URL: directUrl(feedUrl), CHANGES_SLOT: feedSlot, CACHE_SLOT: `${feedSlot}_cache` }),
      TOKENS: JSON.stringify(tokens),
    },
    ...(tail && { streamingTails: ["tail"] }),
  };
  const tailing = {
    name: "tail",
    modules: true,
    script: tail,
    compatibilityDate: newestDate,
    compatibilityFlags: ["experimental"],
  };
  miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    workers: tail ? [worker, tailing] : [worker],
    handleRuntimeStdio: (stdout, stderr) => {
      createInterface({ input: stdout }).on("line", (log) => process.connected && process.send({ log }));
      // Shows the Worker's log, but not workerd's own stack traces when the body of a failed query ends with an
      // exception.
      createInterface({ input: stderr }).on("line", (line) => /^(workerd\/|stack: )/.test(line) || console.error(line));
    },
  });
  const edge = await standIn(port, Number((await miniflare.ready).port));
  if (process.connected) process.send({ url: `http://127.0.0.1:${edge}/` });
}

/** The URL for a Durable Object. A Worker checks certificates, and a server on this machine has a self-signed one. */
function directUrl(databaseUrl) {
  const url = new URL(databaseUrl);
  const isHere = /^(localhost|127\.0\.0\.1)$/.test(url.hostname);
  if (isHere && !url.searchParams.has("sslmode")) url.searchParams.set("sslmode", "disable");
  return url.href;
}

/** Listens on `port` (0: any free port) in front of workerd's port, and returns its own port. */
async function standIn(port, behind) {
  const server = createServer((client) => {
    const worker = connect(behind, "127.0.0.1");
    client.pipe(worker).pipe(client);
    client.once("close", () => worker.resetAndDestroy());
    worker.once("close", () => client.end()); // a broken-off body has no last chunk, so the client notices
    for (const socket of [client, worker]) socket.setNoDelay().on("error", () => {});
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  return server.address().port;
}

if (process.send && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.once("message", (task) => {
    run(task).catch((error) => process.send({ failure: error.message }));
  });
}
