// Node: the wasm travels inside, so bundlers and single-file compilers cannot lose it.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { gzip } from "../sockets/gzip.ts";
import { installRuntime } from "../sockets/runtime.ts";
import { capabilities, connect, environment, md5 } from "../sockets/node.ts";

installRuntime({
  name: "node",
  module: () => wasm,
  connect,
  background: () => {},
  environment,
  capabilities,
  gzip,
  md5,
});
