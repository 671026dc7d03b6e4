// `make quick` chooses the tests that the changed files can break, and lists what it leaves out (tests/run/plan.mjs).
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { changedFiles, plan } from "../run/plan.mjs";
import { root } from "./repository.ts";

const cases = "tests/integration/cases.test.ts";

test("a changed file of the driver chooses type checks, the unit tests that import it directly or not, and the cases on a server", async () => {
  const { rust, types, tests, needs } = await plan(["js/pool/slots.ts"]);
  expect({ rust, types, needs }).toEqual({ rust: false, types: true, needs: ["build", "servers"] });
  expect(tests).toEqual(expect.arrayContaining([cases, "tests/unit/client.test.ts", "tests/unit/rooms.test.ts"]));
  expect(tests).not.toContain("tests/unit/toon.test.ts");
});

test("of the many unit tests that see a file which all others import, only the nearest run, and the others are counted", async () => {
  const { tests, leftOut } = await plan(["js/util/errors.ts"]);
  expect(tests.filter((file) => file.startsWith("tests/unit/"))).toHaveLength(60);
  expect(tests).toEqual(expect.arrayContaining([cases, "tests/unit/errors.test.ts"]));
  expect(leftOut[0]).toMatch(/^\d+ files of tests\/unit that see a changed file from further away$/);
});

test("a changed Rust file chooses its unit tests, the unit tests that load the wasm, and the cases", async () => {
  const { rust, types, tests, leftOut } = await plan(["src/types/oid.rs"]);
  expect({ rust, types }).toEqual({ rust: true, types: false });
  expect(tests).toEqual(expect.arrayContaining([cases, "tests/unit/transcripts.test.ts", "tests/unit/module.test.ts"]));
  expect(tests).not.toContain("tests/unit/sql.test.ts");
  expect(leftOut.join("\n")).toMatch(/cargo test: all but the unit tests/);
});

test.each([
  ["js/cli/files.ts", "tests/cli"],
  ["js/adapters/kysely.ts", "tests/adapters"],
])("%s is in no bundle that the cases see: they do not run, and %s is left out by name", async (file, folder) => {
  const { tests, needs, leftOut } = await plan([file]);
  expect(tests).not.toContain(cases);
  expect(needs).toEqual(["build"]);
  expect(leftOut.join("\n")).toContain(folder);
});

test("a test that reads a changed file by its name is chosen, and a page chooses the tests of pages", async () => {
  const { tests } = await plan(["docs/options.md"]);
  expect(tests).toEqual([
    "tests/unit/config-mistakes.test.ts",
    "tests/unit/options.test.ts",
    "tests/packaging/docs.test.ts",
  ]);
});

test("a file imported by tests counts as the driver does, and a test of another folder is listed as left out", async () => {
  const { tests } = await plan(["tests/unit/parameter-blocks.ts"]);
  expect(tests).toContain("tests/unit/parameters.test.ts");
  const { leftOut, tests: none } = await plan(["tests/cli/ping.test.ts"]);
  expect(none).toEqual([]);
  expect(leftOut).toContain("tests/cli/ping.test.ts");
});

test("files that no quick test reads need neither a build nor a server", async () => {
  expect(await plan(["bench/run.mjs"])).toMatchObject({ rust: false, types: false, tests: [], needs: [] });
});

test("a plan leaves no process behind, which the run would count as a failure", async () => {
  const code = `const { plan } = await import("./tests/run/plan.mjs");
    await plan(["js/pool/slots.ts"]);
    const { processesOf } = await import("./tests/run/leftovers.mjs");
    console.log(JSON.stringify(processesOf({ mark: "quick-plan" })));`;
  const env = { ...process.env, PGZ_TEST_RUN: "quick-plan" };
  const options = { cwd: root, env };
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", code], options);
  expect(JSON.parse(stdout)).toEqual([]);
});

test("changed files are those that differ from the commit, as whole paths without quotes", () => {
  const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"; // git knows it in any clone, also in a shallow one
  expect(changedFiles(emptyTree)).toEqual(expect.arrayContaining(["package.json", "tests/run/plan.mjs"]));
  expect(() => changedFiles("no-such-commit")).toThrow(/no-such-commit/);
});
