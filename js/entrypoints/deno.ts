// Deno, over its node:net and node:tls: no permission beyond --allow-net.
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { installRuntime } from "../core/runtime.ts";
import { capabilities, connect } from "../sockets/node.ts";

installRuntime({ name: "deno", module: () => wasm, connect, background: () => {}, capabilities });
export * from "../index.ts";
