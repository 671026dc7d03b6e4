// What a runtime must bring to reach a server: the socket contract of docs/architecture.md, and the words its errors
// share.
//
// Pull-based, so back-pressure is natural: nobody reads, nothing arrives. Knows bytes and addresses; must not know
// PostgreSQL. Each runtime's adapter lives beside this file; a user may pass one of their own.
import { ConnectionError, type Facts, type Stage } from "../util/errors.ts";

/** How a socket is secured. */
export interface TlsOptions {
  /**
   * `request`: without TLS until `startTls`. `direct`: TLS with ALPN `postgresql` from the first byte; `connect`
   * resolves after the handshake.
   */
  readonly negotiation: "request" | "direct";
  /** `none`: encrypt only. `ca`: the chain must be trusted. `full`: the certificate must also name the server. */
  readonly verify: "none" | "ca" | "full";
  /** The name to send (SNI) and to check. */
  readonly servername: string;
  /** Certificates (PEM) to trust instead of the runtime's. */
  readonly ca?: string | undefined;
  /** The client's certificate (PEM). */
  readonly cert?: string | undefined;
  /** The private key (PEM) of `cert`. */
  readonly key?: string | undefined;
  /** The login must be bound to the server's certificate: the socket has to show it. */
  readonly showCertificate?: boolean | undefined;
}

/** What a {@link Connector} gets. */
export interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  /** A Unix socket, instead of host and port. */
  readonly path?: string | undefined;
  /** `null`: TLS will not be used on this socket. */
  readonly tls: TlsOptions | null;
  /** Bytes of one read, if the runtime lets one choose. */
  readonly readBuffer: number;
  /** Milliseconds until the first TCP keep-alive probe, if the runtime supports it. 0: none. */
  readonly keepAlive: number;
  /** When it aborts, `connect` and `startTls` give up and reject, with any reason. */
  readonly signal: AbortSignal;
}

/** A connection to a server, by the contract in docs/architecture.md. */
export interface Socket {
  /** The address that was connected to, if the runtime reports it: a CancelRequest must reach the same server. */
  readonly address?: string | undefined;
  /**
   * Its bytes are encrypted on their way without TLS of PostgreSQL, as inside of a WebSocket by `wss:`: the server is
   * not asked for TLS.
   */
  readonly isEncrypted?: boolean | undefined;
  /** Behind TLS: the server's certificate (DER), if the runtime shows it. SCRAM-SHA-256-PLUS needs it. */
  readonly certificate?: Uint8Array | undefined;
  /**
   * Whether a read may stay pending while nothing is asked of the server, so that the end of an idle connection is
   * noticed at once. Leave it out where that is not allowed, as on Workers, where a read belongs to its request.
   */
  readonly readsWhileIdle?: boolean | undefined;
  /**
   * The next bytes, or `null` at the peer's FIN. Rejects with a `ConnectionError` on RST, after `close`, and on any
   * other end. The bytes are valid until the next `read`. It is never called while a read is pending.
   */
  read(): Promise<Uint8Array | null>;
  /**
   * Resolves when more may be written. The bytes do not change before. `undefined`: they have been taken, more may be
   * written at once, and a failure rejects the next `read`.
   */
  write(bytes: Uint8Array): Promise<void> | undefined;
  /**
   * Resolves when all that `write` has taken is on its way, so that `close` loses none of it; `undefined` when it is.
   * Leave it out where `write` always returns a promise.
   */
  flushed?(): Promise<void> | undefined;
  /**
   * Upgrades to TLS, with no read pending, and returns the new socket. This one is not used any more. On workerd a
   * failed handshake shows only at the first write or read.
   */
  startTls(servername: string): Promise<Socket>;
  /** `false`: the open socket does not keep the process alive. Leave it out where nothing does. */
  hold?(isHeld: boolean): void;
  /** Closes the socket, whatever is under way. It never rejects, settles at once, and may be called again. */
  close(): Promise<void>;
}

/** Makes a socket. With option `connect` a client uses yours instead of the runtime's. */
export type Connector = (options: ConnectOptions) => Promise<Socket>;

export function connectFailed(stage: Stage, reason: string, cause?: unknown): ConnectionError {
  return new ConnectionError("CONNECT_FAILED", `Could not connect: ${reason}.`, { stage, retryable: true, cause });
}

/** Where only the network failed, trying again may help. A wrong certificate, or one that is missing, stays so. */
export function tlsFailed(reason: string, cause?: unknown, retryable = isOfNetwork(cause)): ConnectionError {
  return new ConnectionError("TLS_FAILED", `TLS failed: ${reason}.`, { stage: "tls", retryable, cause });
}

/**
 * Codes of Node and Bun (also of a write to a socket that has just gone), class names of Deno, and sentences of
 * workerd, whose newest says no more than "internal error" of a cut. All else is a certificate or TLS itself.
 */
const NETWORK =
  /^(E(CONN[A-Z]+|NOTCONN|PIPE|TIMEDOUT|NETUNREACH|HOSTUNREACH)|ERR_STREAM_DESTROYED|Connection(Reset|Aborted)|NotConnected|BrokenPipe|UnexpectedEof|TimedOut|Network connection lost\.|internal error; reference = \w+)$/;

function isOfNetwork(cause: unknown): boolean {
  const { code, name, message } = Object(cause) as { code?: unknown; name?: unknown; message?: unknown };
  return [code, name, message].some((word) => typeof word === "string" && NETWORK.test(word));
}

export function connectionLost(reason: string, facts?: Facts, stage: Stage = "session"): ConnectionError {
  return new ConnectionError("CONNECTION_LOST", `The connection was lost: ${reason}.`, { ...facts, stage });
}

/** An error's words as the end of one of the sentences above, or of one again. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message.replace(/^The connection[^:]*: |\.$/g, "") : String(cause);
}
