// No wasm and no socket inside: the user brings both, `installRuntime({ name, module, connect, background, capabilities })`; `md5` too for servers that ask for it.
export { installRuntime } from "../sockets/runtime.ts";
export type { ByteChannel, Capabilities, Runtime } from "../sockets/runtime.ts";
export * from "../index.ts";
