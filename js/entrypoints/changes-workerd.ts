// `pgz-edge/changes` on Cloudflare Workers: one wasm file beside this one.
export * from "../changes.ts";
import wasm from "../../pkg/pgz_changes_bg.wasm";
import { provide } from "../changes/core.ts";

provide(() => wasm as WebAssembly.Module);
