// What the driver needs from the runtime it runs in, and the one place that holds it.
//
// An entrypoint installs it; core and client ask here. Must not know any particular runtime: no import of
// `cloudflare:*` or `node:*`.
import { UsageError } from "../util/errors.ts";
import type { Connector } from "./contract.ts";
import type { Bytes, OwnBytes } from "../util/bytes.ts";
import type { Observer } from "../util/observer.ts";

/**
 * What sockets of this runtime support besides TLS verified with the runtime's own certificates. An option that needs
 * more is refused before a byte is sent. Each default is false.
 */
export interface Capabilities {
  /** TLS without verification, as libpq does for `sslmode` `require` and `prefer`. */
  readonly canSkipVerification?: boolean;
  /** The option `ca`. */
  readonly canUseCustomCa?: boolean;
  /** ALPN, which `sslnegotiation: "direct"` needs. */
  readonly canAlpn?: boolean;
  /** The options `cert` and `key`. */
  readonly canClientCertificate?: boolean;
  /** The server's certificate: `certificate` of a socket with TLS. */
  readonly canShowCertificate?: boolean;
  /** Unix sockets: the connector takes `path`. */
  readonly canUseUnixSockets?: boolean;
}

/** A response body with back-pressure, for runtimes with a faster one than a plain ReadableStream. */
export interface ByteChannel {
  readonly readable: ReadableStream<Uint8Array>;
  /** `write(view)` must copy the bytes at call time, because the view is wasm memory. */
  readonly writable: WritableStream<Uint8Array>;
}

/**
 * The client's options that decide which password file is read, and the observer that is told why a file is not used.
 */
export interface PassfileOptions {
  readonly passfile?: string | undefined;
  readonly environment?: unknown;
  readonly observer?: Observer | undefined;
}

/** The fields by which a line of a password file is found. */
export interface PassfileEntry {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
}

/** The result of a lookup. `undefined`: no line is for this login. */
export interface FoundPassword {
  readonly password: string | undefined;
}

/** What a runtime provides. With `pgz-edge/slim` you pass a runtime to {@link installRuntime}. */
export interface Runtime {
  /** Used in error messages. `"workerd"` also means the limits of Cloudflare Workers. */
  readonly name: string;
  /** The wasm (`pgz-edge/pgz_edge_bg.wasm`), compiled or as bytes. Called once, at the first connect. */
  module(): WebAssembly.Module | Bytes;
  /** Makes the sockets. */
  readonly connect: Connector;
  /**
   * Keeps work alive that no caller awaits, such as a stream being fed or a CancelRequest. Must not throw; `work` never
   * rejects.
   */
  background(work: Promise<unknown>): void;
  /**
   * Returns a function that tells whether it is called in the request in which this was called, if sockets belong to
   * requests. Default: they do not.
   */
  readonly inRequest?: () => () => boolean;
  /** The value of an environment variable, if the runtime has them and may read this one without asking the user. */
  readonly environment?: (name: string) => string | undefined;
  /**
   * Returns a function that looks up the password of a login in libpq's password file: the file of option `passfile`,
   * else the user's own, unless `environment` is given. It is called only if there is no password. Leave it out if
   * there are no files.
   */
  readonly passfile?: (options: PassfileOptions) => ((attempt: PassfileEntry) => Promise<FoundPassword>) | undefined;
  /** Stops a timer of `setTimeout` from keeping the process alive. Leave it out if timers never do. */
  readonly unref?: (timer: unknown) => void;
  /** Default: none. */
  readonly capabilities?: Capabilities;
  /**
   * Whether a server aborts a request's signal before it cancels the body of the response, and prints an error that the
   * body has by then. The error of an aborted stream then waits for the cancel, for one turn of the event loop.
   */
  readonly abortsBeforeCancel?: boolean;
  /** Makes the body of `respond`. Default: a plain ReadableStream. */
  readonly responseBody?: () => ByteChannel;
  /** Replaces a pipe through CompressionStream, if the runtime's cannot be cancelled, or holds no writer back. */
  readonly gzip?: (stream: ReadableStream<Uint8Array>) => ReadableStream<Uint8Array>;
  /**
   * Computes MD5, for servers that still ask for it. Without it such servers are refused (`AUTH_METHOD_UNSUPPORTED`).
   */
  readonly md5?: (bytes: OwnBytes) => Uint8Array | Promise<Uint8Array>;
}

let installed: Runtime | undefined;

/** Sets the runtime. Entrypoints call it; with `pgz-edge/slim` call it before the first connection. */
export function installRuntime(runtime: Runtime): void {
  installed = runtime;
}

/** What the runtime offers. @internal */
export function runtime(): Runtime {
  if (!installed) throw new UsageError("UNSUPPORTED_ON_RUNTIME", "Call installRuntime() of pgz-edge/slim first.");
  return installed;
}
