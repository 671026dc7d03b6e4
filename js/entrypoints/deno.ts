// Deno, no permission beyond --allow-net.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { installRuntime } from "../sockets/runtime.ts";
import { capabilities, connect, environment, md5 } from "../sockets/deno.ts";

installRuntime({ name: "deno", module: () => wasm, connect, background: () => {}, environment, capabilities, md5 });
