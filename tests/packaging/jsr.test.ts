// The package for JSR: `deno publish` accepts it with its types, and a Deno program that uses it type-checks and runs.
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { beforeAll, expect, test } from "vitest";
import { ownCaches } from "../../scripts/own-caches.mjs";
import { testServers } from "../integration/servers.ts";
import { bin, read, root } from "./repository.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly exports: Record<string, string>;
}
const temporary = mkdtempSync(path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, "jsr-"));
const folder = path.join(temporary, "package");
const manifestOf = (name: string) => JSON.parse(read(name)) as Manifest;
const manifest = manifestOf("jsr.json");
/** The JSR package has no package.json, and Deno would take one of any folder above it. */
const deno = (words: string[], more: NodeJS.ProcessEnv = {}) => {
  const env = {
    ...process.env,
    ...ownCaches(path.join(temporary, "caches")),
    DENO_NO_PACKAGE_JSON: "1",
    ...more,
  };
  return execFileSync(bin("deno"), words, { cwd: folder, env, encoding: "utf8", stdio: "pipe" });
};

beforeAll(() => execFileSync(process.execPath, [path.join(root, "scripts/jsr.mjs"), folder]));

test("the JSR package has the version of the npm package", () => {
  const { version, license } = manifestOf("package.json");
  expect(manifest).toMatchObject({ version, license });
});

test("deno publish accepts the JSR package", () => {
  expect(() => deno(["publish", "--dry-run", "--allow-dirty"])).not.toThrow();
  writeFileSync(path.join(folder, "dist/sqlstates.js"), "export const broken: number = 1;");
  expect(() => deno(["publish", "--dry-run", "--allow-dirty"])).toThrow();
  execFileSync(process.execPath, [path.join(root, "scripts/jsr.mjs"), folder]);
});

test("a program with the JSR package passes Deno's type check and runs", () => {
  const imports = Object.entries(manifest.exports).map(([name, file]) => [manifest.name + name.slice(1), file]);
  writeFileSync(path.join(folder, "map.json"), JSON.stringify({ imports: Object.fromEntries(imports) }));
  writeFileSync(
    path.join(folder, "app.ts"),
    `import { connect, PostgresError, sql, UsageError } from "${manifest.name}";
     import { SQLSTATES } from "${manifest.name}/sqlstates";
     import { webSocket } from "${manifest.name}/websocket";
     const db = await connect(Deno.env.get("URL")!);
     const { rows } = await db.query<{ n: number }>(sql\`select \${20}::int4 + 1 as n\`);
     const n: number | undefined = rows[0]?.n;
     // @ts-expect-error: a row has no such member
     rows[0]?.nothing;
     const error = await db.exec("select 1 / 0").catch((error: unknown) => error);
     await db.close();
     let refused: unknown;
     try { webSocket("https://x"); } catch (error) { refused = error; }
     const text: string = SQLSTATES.division_by_zero;
     console.log(n, error instanceof PostgresError && error.code === text, refused instanceof UsageError);`,
  );
  const URL = `${testServers().servers[0]!.url.split("?")[0]}?sslmode=disable`;
  const words = ["run", "--check", "--import-map", "map.json", "--allow-net", "--allow-env=URL", "app.ts"];
  expect(deno(words, { URL })).toBe("21 true true\n");
});
