// Makes Prisma's client of schema.prisma for a runtime ("nodejs", "workerd"), once per schema and version of Prisma,
// and gives the path of its TypeScript. Prisma's own generator does it, which needs nothing but its package.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const prisma = path.join(root, "node_modules/prisma");

export function generate(runtime) {
  const text = readFileSync(new URL("schema.prisma", import.meta.url), "utf8");
  const { version } = JSON.parse(readFileSync(path.join(prisma, "package.json"), "utf8"));
  const digest = createHash("sha256").update(`${version}\0${text}`).digest("hex").slice(0, 16);
  const folder = path.join(root, ".cache/prisma", `${runtime}-${digest}`);
  const client = path.join(folder, "client/client.ts");
  if (existsSync(client)) return client;
  mkdirSync(folder, { recursive: true });
  const schema = path.join(folder, "schema.prisma");
  writeFileSync(schema, text.replace(/output .*/, `output = "./client"\n  runtime = "${runtime}"`));
  // By Node also where the tests run in another runtime.
  execFileSync("node", [path.join(prisma, "build/index.js"), "generate", `--schema=${schema}`, "--no-hints"], {
    cwd: root,
    // It wants the engine of migrations to be there, and would download it, though it never starts it.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1" },
    stdio: "pipe",
  });
  // As wrangler understands it: the mark is no part of the file's name.
  const own = path.join(folder, "client/internal/class.ts");
  writeFileSync(own, readFileSync(own, "utf8").replace(".wasm?module", ".wasm"));
  return client;
}
