// Deno, no permission beyond --allow-net.
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { installRuntime } from "../core/runtime.ts";
import { capabilities, connect } from "../sockets/deno.ts";

installRuntime({ name: "deno", module: () => wasm, connect, background: () => {}, capabilities });
export * from "../index.ts";
