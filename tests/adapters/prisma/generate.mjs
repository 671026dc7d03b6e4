// Generates Prisma's client from schema.prisma for a runtime ("nodejs", "workerd"), once per schema and version of
// Prisma, and returns the path of its TypeScript. Prisma's own generator does so, and needs only its package.
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
  // Runs on Node even when the tests run in another runtime.
  execFileSync("node", [path.join(prisma, "build/index.js"), "generate", `--schema=${schema}`, "--no-hints"], {
    cwd: root,
    // The generator requires the engine of migrations, and would download it, though it never starts the engine.
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: "1" },
    stdio: "pipe",
  });
  // As wrangler reads it: `?module` is not part of the file's name.
  const own = path.join(folder, "client/internal/class.ts");
  writeFileSync(own, readFileSync(own, "utf8").replace(".wasm?module", ".wasm"));
  return client;
}
