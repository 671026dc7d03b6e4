// Starts QuestDB (Java 17) with its PostgreSQL protocol alone and an empty database.
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { java, startOther } from "./others.mjs";

const settings = {
  "http.enabled": false,
  "http.min.enabled": false,
  "line.tcp.enabled": false,
  "telemetry.enabled": false,
  "shared.worker.count": 1,
  "pg.worker.count": 1,
};

export function startQuestDb({ log }) {
  return startOther({
    name: "QuestDB",
    log,
    account: { user: "admin", password: "quest", database: "qdb" },
    prepare(folder, port) {
      const all = Object.entries({ ...settings, "pg.net.bind.to": `127.0.0.1:${port}` });
      mkdirSync(path.join(folder, "conf"), { recursive: true });
      writeFileSync(path.join(folder, "conf", "server.conf"), all.map((pair) => `${pair.join("=")}\n`).join(""));
    },
    command: (folder) => java("questdb", "io.questdb.ServerMain", "-d", folder),
    ready: /server-main enjoy/,
  });
}
