// Serves the built site on this machine, for a look and for the tests. It behaves like any static file server.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { root } from "./pages.mjs";

const folder = path.join(root, ".cache/site");
const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
};

/** Serves the site that was built for `base`. With port 0 the system chooses a port. */
export async function serve(port, base) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const name = decodeURIComponent(pathname).replace(/\/$/, "/index.html");
    const file = path.join(folder, name.replace(base, ""));
    try {
      if (!name.startsWith(base)) throw new Error("not of this site");
      const body = readFileSync(file);
      response.writeHead(200, { "content-type": types[path.extname(file)] ?? "application/octet-stream" }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  }).listen(port, "127.0.0.1");
  await new Promise((resolve, reject) => server.once("listening", resolve).once("error", reject));
  return {
    url: `http://127.0.0.1:${server.address().port}${base}`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
