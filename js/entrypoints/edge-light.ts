// Edge functions of Next and Vercel: no TCP, and no code from bytes. `?module` makes the bundler compile the file ahead
// of time.
export * from "../index.ts";
import wasm from "../../pkg/pgz_edge_bg.wasm?module";
import { gzip } from "../runtime/gzip.ts";
import { connect } from "../runtime/none.ts";
import { installRuntime } from "../runtime/runtime.ts";

/** Where Vercel keeps the context of a request. */
interface RequestContext {
  get?(): { waitUntil?(work: Promise<unknown>): void } | undefined;
}

const background = (work: Promise<unknown>) => {
  const context = (globalThis as Record<symbol, RequestContext | undefined>)[Symbol.for("@vercel/request-context")];
  context?.get?.()?.waitUntil?.(work);
};

/**
 * In local development Next compiles the module outside of the function's realm, where `instanceof` does not recognise
 * it.
 */
const module = () => Object.setPrototypeOf(wasm, WebAssembly.Module.prototype) as WebAssembly.Module;

// It is not known whether this CompressionStream holds writers back. `true` is right in both cases.
installRuntime({ name: "edge-light", module, connect, background, gzip: (stream) => gzip(stream, true) });
