// Starts H2 (Java) with its PostgreSQL protocol and an empty database in memory.
import { java, startOther } from "./others.mjs";

export function startH2({ log }) {
  return startOther({
    name: "H2",
    log,
    account: { user: "sa", password: "sa", database: "mem:app;DB_CLOSE_DELAY=-1" },
    command: (folder, port) =>
      java("h2", "org.h2.tools.Server", "-pg", "-pgPort", String(port), "-ifNotExists", "-baseDir", folder),
    ready: /PG server running at/,
  });
}
