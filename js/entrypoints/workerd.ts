// Cloudflare Workers: no nodejs_compat; the wasm is a file beside this one.
export * from "../index.ts";
/** @internal For `pgz-edge/vpc`. */
export { connectorOf } from "../runtime/cloudflare.ts";
import { waitUntil } from "cloudflare:workers";
import wasm from "../../pkg/pgz_edge_bg.wasm";
import { gzip } from "../runtime/gzip.ts";
import { installRuntime } from "../runtime/runtime.ts";
import { connect, inRequest, keepAlive, md5 } from "../runtime/cloudflare.ts";

const background = keepAlive(waitUntil);
installRuntime({
  name: "workerd",
  module: () => wasm as WebAssembly.Module,
  connect,
  background,
  inRequest,
  responseBody: () => new IdentityTransformStream(),
  gzip: (stream) => gzip(stream, true),
  md5,
});
