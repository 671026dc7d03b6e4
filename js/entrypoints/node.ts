// Node: the wasm is included, so bundlers and single-file compilers cannot lose it.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { gzip } from "../runtime/gzip.ts";
import { installRuntime } from "../runtime/runtime.ts";
import { capabilities, connect, environment, md5, passfile, unref } from "../runtime/node.ts";
import { decoded } from "../wasm/inside.ts";

installRuntime({
  name: "node",
  module: () => decoded(wasm as string),
  connect,
  background: () => {},
  environment,
  passfile,
  capabilities,
  gzip,
  md5,
  unref,
});
