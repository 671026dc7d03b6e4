// `pgz-edge/changes` where files can be read: the wasm stands beside this one, as on Workers. A bundler does not take it
// along, so the package stays external there (docs/changes.md).
export * from "../adapters/changes.ts";
import { readFileSync } from "node:fs";
import { provide } from "../adapters/changes/core.ts";

provide(() => readFileSync(new URL("./pgz_changes_bg.wasm", import.meta.url)));
