// No wasm and no socket inside: the user brings both, `installRuntime({ name, module, connect, background, capabilities })`.
export { installRuntime } from "../core/runtime.ts";
export type { ByteChannel, Capabilities, Runtime } from "../core/runtime.ts";
export * from "../index.ts";
