// For pages, their workers and other runtimes without an entry of their own: no TCP, and the wasm is included.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { gzip } from "../runtime/gzip.ts";
import { connect } from "../runtime/none.ts";
import { installRuntime } from "../runtime/runtime.ts";
import { decoded } from "../wasm/inside.ts";

installRuntime({ name: "browser", module: () => decoded(wasm as string), connect, background: () => {}, gzip });
