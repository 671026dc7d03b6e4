// Starts pglite-socket: PostgreSQL in WebAssembly behind a socket, whose clients share one session.
import path from "node:path";
import { root } from "./home.mjs";
import { startOther } from "./others.mjs";

const program = path.join(root, "node_modules/@electric-sql/pglite-socket/dist/scripts/server.js");

export function startPglite({ log }) {
  return startOther({
    name: "pglite-socket",
    log,
    account: { user: "postgres", password: "postgres", database: "postgres" },
    command: (folder, port) => [process.execPath, program, "--db=memory://", `--port=${port}`, "--max-connections=10"],
    ready: /PGLiteSocketServer listening/,
  });
}
