// For other runtimes: contains no wasm and no socket. The user passes both:
// `installRuntime({ name, module, connect, background, capabilities })`, and `md5` for servers that ask for it.
export { installRuntime } from "../runtime/runtime.ts";
export type { ByteChannel, Capabilities, Runtime } from "../runtime/runtime.ts";
export * from "../index.ts";
