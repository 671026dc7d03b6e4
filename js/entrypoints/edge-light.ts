// Edge functions of Next and Vercel: no TCP, no code from bytes. `?module` is what compiles the file ahead of time
// there.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm?module";
import { gzip } from "../sockets/gzip.ts";
import { connect } from "../sockets/none.ts";
import { installRuntime } from "../sockets/runtime.ts";

/** Where Vercel keeps what belongs to the request. */
interface RequestContext {
  get?(): { waitUntil?(work: Promise<unknown>): void } | undefined;
}

const background = (work: Promise<unknown>) => {
  const context = (globalThis as Record<symbol, RequestContext | undefined>)[Symbol.for("@vercel/request-context")];
  context?.get?.()?.waitUntil?.(work);
};

/** On one's own machine Next compiles it outside of the function's realm, whose `instanceof` does not know it then. */
const module = () => Object.setPrototypeOf(wasm, WebAssembly.Module.prototype) as WebAssembly.Module;

// Whether its CompressionStream holds writers back was not looked at: `true` is right for both.
installRuntime({ name: "edge-light", module, connect, background, gzip: (stream) => gzip(stream, true) });
