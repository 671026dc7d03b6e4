// What the driver must be given by the runtime it runs in, and the one place that holds it.
//
// An entrypoint installs it; core and client ask here. Must not know any runtime by itself: no import of `cloudflare:*` or `node:*`.
import { UsageError } from "../util/errors.ts";
import type { Connector } from "./contract.ts";

/** What TLS of this runtime can do besides verified links with the runtime's own certificates; `tlsPlan` refuses the rest before a byte is sent. */
export interface Capabilities {
  /** TLS without verification (`sslmode` require and prefer as libpq means them). */
  readonly canSkipVerification?: boolean;
  /** A CA of the user's own (`ca`). */
  readonly canUseCustomCa?: boolean;
  /** ALPN, which `sslnegotiation=direct` needs. */
  readonly canAlpn?: boolean;
  readonly canClientCertificate?: boolean;
}

/** A body that takes bytes with back-pressure, where the runtime has a better one than ReadableStream. */
export interface ByteChannel {
  readonly readable: ReadableStream<Uint8Array>;
  /** Must take `write(view)` by copying at call time: the view is wasm memory. */
  readonly writable: WritableStream<Uint8Array>;
}

export interface Runtime {
  readonly name: string;
  /** Called once, at the first connect. */
  module(): WebAssembly.Module | BufferSource;
  readonly connect: Connector;
  /** Keeps work alive that nobody awaits: a stream being fed, a CancelRequest. Never throws; the promise never rejects. */
  background(work: Promise<unknown>): void;
  readonly capabilities?: Capabilities;
  readonly responseBody?: () => ByteChannel;
  /** Where its CompressionStream cannot be left safely. */
  readonly gzip?: (stream: ReadableStream<Uint8Array>) => ReadableStream<Uint8Array>;
  /** For servers that still ask for MD5; without it they are refused. */
  readonly md5?: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;
}

let installed: Runtime | undefined;

/** For entrypoints, and for users of `pgz-edge/slim`, before the first connection. */
export function installRuntime(runtime: Runtime): void {
  installed = runtime;
}

export function runtime(): Runtime {
  if (!installed) throw new UsageError("UNSUPPORTED_ON_RUNTIME", "Call installRuntime() of pgz-edge/slim first.");
  return installed;
}
