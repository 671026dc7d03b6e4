// worker-example as a user copies it out of the repository: it installs the driver's tarball, uses the types that
// wrangler writes, and passes strict TypeScript.
import { execFile } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bin, npmInstall, Project, root } from "../packaging/project.ts";
import { wrangler } from "../support/wrangler.ts";

const run = promisify(execFile);
let project: Project;
beforeAll(() => {
  project = new Project();
  for (const name of ["src", "wrangler.jsonc", "tsconfig.json"])
    cpSync(path.join(root, "worker-example", name), project.at(name), { recursive: true });
  const manifest = JSON.parse(readFileSync(path.join(root, "worker-example/package.json"), "utf8")) as object;
  // wrangler and TypeScript come from the registry for a user, and from this repository here.
  project.write("package.json", JSON.stringify({ ...manifest, devDependencies: {} }));
});
afterAll(() => project.remove());

test("`npm install` of the driver replaces the link to the folder above", () => {
  npmInstall(project.folder, [project.tarball]);
  const { dependencies } = JSON.parse(readFileSync(project.at("package.json"), "utf8")) as { dependencies: object };
  expect(dependencies).toEqual({ "pgz-edge": expect.stringMatching(/^file:pgz-edge-.*\.tgz$/) as unknown });
});

test("npm run check runs `wrangler types`, and tsc accepts the result", async () => {
  await wrangler(["types"], { cwd: project.folder });
  const compiled = run(bin("tsc"), ["-p", project.folder], { cwd: project.folder }).catch(({ stdout }) => ({ stdout }));
  expect((await compiled).stdout).toBe("");
  // A mistake must fail, which shows that the types are there.
  project.write("src/wrong.ts", 'import { sql } from "pgz-edge";\nexport const wrong: number = sql`select 1`;\n');
  await expect(run(bin("tsc"), ["-p", project.folder], { cwd: project.folder })).rejects.toMatchObject({
    stdout: expect.stringMatching(/wrong\.ts\(2,14\): error TS2322/) as unknown,
  });
});
