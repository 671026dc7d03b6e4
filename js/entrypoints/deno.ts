// Deno, with no permission beyond --allow-net.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { gzip } from "../runtime/gzip.ts";
import { installRuntime } from "../runtime/runtime.ts";
import { capabilities, connect, environment, md5, passfile, unref } from "../runtime/deno.ts";
import { decoded } from "../wasm/inside.ts";

installRuntime({
  name: "deno",
  module: () => decoded(wasm as string),
  connect,
  background: () => {},
  abortsBeforeCancel: true,
  environment,
  passfile,
  capabilities,
  gzip,
  md5,
  unref,
});
