// No wasm and no socket inside: the user brings both, `installRuntime({ name, module, connect, background, capabilities })`; `md5` too for servers that ask for it.
export { installRuntime } from "../core/runtime.ts";
export type { ByteChannel, Capabilities, Runtime } from "../core/runtime.ts";
export * from "../index.ts";
