// `pgz-edge/changes` where the wasm travels inside.
export * from "../adapters/changes.ts";
import wasm from "../../pkg/pgz_changes_bg.wasm";
import { provide } from "../adapters/changes/core.ts";
import { decoded } from "../wasm/inside.ts";

provide(() => decoded(wasm as string));
