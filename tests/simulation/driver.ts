// The driver as simulated sessions use it: its sources, with a runtime that has no sockets of its own. Each client gets
// its sockets by the option `connect` (network.ts).
//
// The patches come first, because the wasm's glue looks for FinalizationRegistry while it loads. Both wasms are
// compiled here, before the first session.
import "./patches.ts";
import { createHash } from "node:crypto";
import changesWasm from "../../pkg/pgz_changes_bg.wasm";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { Core, provide } from "../../js/changes/core.ts";
import { installRuntime } from "../../js/runtime/runtime.ts";
import type { OwnBytes } from "../../js/util/bytes.ts";
import * as driver from "../../js/index.ts";

installRuntime({
  name: "simulation",
  module: () => new WebAssembly.Module(wasm as unknown as BufferSource),
  connect: () => Promise.reject(new Error("a simulated client needs option connect")),
  background: () => {},
  capabilities: { canSkipVerification: true },
  md5: (bytes: OwnBytes) => new Uint8Array(createHash("md5").update(bytes).digest()),
});

provide(() => new WebAssembly.Module(changesWasm as unknown as BufferSource));
// The wasm's instance is made with the first core.
new Core(1 << 20, 0).free();

export { driver };
