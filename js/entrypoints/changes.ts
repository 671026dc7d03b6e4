// `pgz-edge/changes` for runtimes that can read files: the wasm is a file beside this one, as on Workers. Bundlers do
// not copy it, so programs that are bundled keep the package external (docs/changes.md).
export * from "../changes.ts";
import { readFileSync } from "node:fs";
import { provide } from "../changes/core.ts";

provide(() => readFileSync(new URL("./pgz_changes_bg.wasm", import.meta.url)));
