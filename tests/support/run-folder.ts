// A folder that all test files of one run of vitest share, in PGZ_TEST_RUN_FOLDER. It is removed at the end of the run.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";

export default function setup(): () => void {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-run-"));
  process.env["PGZ_TEST_RUN_FOLDER"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
