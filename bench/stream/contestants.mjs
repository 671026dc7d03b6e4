// The contestants of CASE=stream: each library on each runtime, in a process of its own.
import { command, pgx } from "../lib/runtimes.mjs";
import { start } from "../lib/worker.mjs";
import { startWorkerd } from "../workerd/contestant.mjs";

const libraries = {
  node: ["pgz-edge", "postgres.js", "postgres.js cursor", "pg", "pg-query-stream", "pg-copy-streams", "drain"],
  native: ["pgx"],
  deno: ["pgz-edge", "postgres.js", "postgres.js cursor", "pg"],
  bun: ["pgz-edge", "bun.sql", "postgres.js", "postgres.js cursor", "pg"],
  workerd: ["pgz-edge", "postgres.js", "postgres.js cursor"],
};
const child = new URL("../ndjson/child.mjs", import.meta.url);

export const key = (library, runtime) => (runtime === "native" ? library : `${library} on ${runtime}`);

/** Returns `{ contestants, stop }`. A contestant is `{ key, library, runtime, ask }`, and has answered once. */
export async function startContestants(runtimes, server) {
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  const running = [];
  const stop = async () => void (await Promise.all(running.map((one) => one.stop())));
  try {
    for (const runtime of runtimes) {
      for (const library of libraries[runtime]) {
        const name = key(library, runtime);
        running.push({ key: name, library, runtime, ...(await begin(runtime, library, name, url)) });
        await running.at(-1).ask({ hello: true });
      }
    }
    return { contestants: running, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function begin(runtime, library, name, url) {
  if (runtime === "workerd") return startWorkerd(library, name, url);
  return start(name, runtime === "native" ? [...pgx(), url] : command(runtime, child, library, url));
}
