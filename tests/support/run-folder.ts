// The environment that all test files of one run of vitest share: a folder in PGZ_TEST_RUN_FOLDER, which is removed at
// the end of the run, and neither caches nor a registry for package managers (scripts/own-caches.mjs).
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { withoutCaches } from "../../scripts/own-caches.mjs";

export default function setup(): () => void {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-run-"));
  process.env["PGZ_TEST_RUN_FOLDER"] = folder;
  Object.assign(process.env, withoutCaches(process.env));
  return () => rmSync(folder, { recursive: true, force: true });
}
