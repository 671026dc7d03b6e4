// Declares what TypeScript does not know of the runtimes: wasm imports, and the parts of workerd that are used here.
// The whole of @cloudflare/workers-types contradicts the DOM's types.

declare module "*.wasm" {
  /** A module in workerd; base64 text if esbuild's loader included it. */
  const wasm: WebAssembly.Module | string;
  export default wasm;
}

declare module "*.wasm?module" {
  const wasm: WebAssembly.Module;
  export default wasm;
}

declare module "cloudflare:workers" {
  export function waitUntil(work: Promise<unknown>): void;
  /** Not in every version of workerd. js/adapters/native-tracing.ts has its type. */
  export const tracing: unknown;
}

declare module "cloudflare:sockets" {
  export interface Socket {
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable: WritableStream<Uint8Array>;
    readonly opened: Promise<unknown>;
    readonly closed: Promise<void>;
    close(): Promise<void>;
    startTls(): Socket;
  }
  export function connect(
    address: { hostname: string; port: number },
    options: { secureTransport: "off" | "on" | "starttls"; allowHalfOpen: boolean },
  ): Socket;
}

declare class WebSocketPair {
  readonly 0: WebSocket;
  readonly 1: WebSocket;
}

declare class IdentityTransformStream extends TransformStream<Uint8Array, Uint8Array> {}
