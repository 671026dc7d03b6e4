// What a runtime must provide to reach a server: the socket contract of docs/architecture.md, and the texts that all
// its errors share.
//
// Pull-based, so back-pressure needs no code: bytes are read only when the consumer asks. Knows bytes and addresses;
// must not know PostgreSQL. Each runtime's adapter is beside this file; users may pass their own.
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
  /** The login must be bound to the server's certificate, so the socket must provide it as `certificate`. */
  readonly showCertificate?: boolean | undefined;
}

/** The options that a {@link Connector} gets. */
export interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  /** The path of a Unix socket, to use instead of host and port. */
  readonly path?: string | undefined;
  /** `null`: TLS will not be used on this socket. */
  readonly tls: TlsOptions | null;
  /** Bytes of one read, if the runtime offers the choice. */
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
   * Whether the bytes are encrypted by something else than PostgreSQL's TLS, such as a WebSocket with `wss:`. The
   * server is then not asked for TLS.
   */
  readonly isEncrypted?: boolean | undefined;
  /** Once TLS is on: the server's certificate (DER), if the runtime provides it. SCRAM-SHA-256-PLUS needs it. */
  readonly certificate?: Uint8Array | undefined;
  /**
   * Whether a read may stay pending while the connection is idle, so that its end is noticed at once. Leave it out
   * where that is not allowed, as on Workers, where a read belongs to its request.
   */
  readonly readsWhileIdle?: boolean | undefined;
  /**
   * The next bytes, or `null` at the peer's FIN. Rejects with a `ConnectionError` on RST, after `close`, and on any
   * other end. The bytes are valid until the next `read`. It is never called while a read is pending.
   *
   * Where the runtime calls the socket with its bytes, the socket may offer them to `take` instead, which saves a
   * promise for each chunk. While `take` returns true the read stays pending, and the next bytes may come. When it
   * returns false it has taken these bytes too, but wants no more: the read resolves with no bytes. Bytes that are
   * offered are valid until `take` returns. A socket that wraps another and looks at its bytes must not pass `take` on,
   * or must wrap it as well.
   */
  read(take?: (bytes: Uint8Array) => boolean): Promise<Uint8Array | null>;
  /**
   * Resolves when more may be written. The caller does not change the bytes before that. `undefined`: the bytes have
   * been taken, more may be written at once, and a failure rejects the next `read`.
   */
  write(bytes: Uint8Array): Promise<void> | undefined;
  /**
   * Resolves when everything that `write` has taken is on its way, so that `close` loses none of it; `undefined` if it
   * already is. Leave it out if `write` always returns a promise.
   */
  flushed?(): Promise<void> | undefined;
  /**
   * Upgrades to TLS, with no read pending, and returns the new socket. The old one is not used any more. On workerd a
   * failed handshake shows only at the first write or read.
   */
  startTls(servername: string): Promise<Socket>;
  /** The open socket keeps the process alive, as it does from the beginning. Leave both out if sockets never do. */
  ref?(): void;
  /** The open socket does not keep the process alive. */
  unref?(): void;
  /**
   * Closes the socket, even while a read or write is pending. It never rejects, settles at once, and may be called
   * again.
   */
  close(): Promise<void>;
}

/** Makes a socket. With option `connect` a client uses yours instead of the runtime's. */
export type Connector = (options: ConnectOptions) => Promise<Socket>;

/**
 * `to`: what was connected to, which only Node names by itself. A name without an address stays so for now. (A pool
 * that has been connected waits for it all the same.)
 */
export function connectFailed(
  stage: Stage,
  reason: string,
  cause?: unknown,
  to?: Pick<ConnectOptions, "host" | "port" | "path">,
): ConnectionError {
  const place = to ? ` to ${to.path ?? `${to.host}:${to.port}`}` : "";
  const facts = { stage, hasNoEffect: true, isLasting: stage === "dns" && !PASSING.test(reason), cause };
  return new ConnectionError("CONNECT_FAILED", `Could not connect${place}: ${reason}.`, facts);
}

/** What Node, Bun and Deno say if the name server did not answer. */
const PASSING = /EAI_AGAIN|temporary failure|try again|timed out/i;

/** If only the network failed, trying again may help. It does not help if a certificate is wrong or missing. */
export function tlsFailed(reason: string, cause?: unknown, hasNoEffect = isOfNetwork(cause)): ConnectionError {
  return new ConnectionError("TLS_FAILED", `TLS failed: ${reason}.`, { stage: "tls", hasNoEffect, cause });
}

/**
 * Codes of Node and Bun (including that of a write to a socket that has just closed), class names of Deno, and messages
 * of workerd. The newest workerd says only "internal error" when a connection is cut. Any other error belongs to a
 * certificate or TLS itself.
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

/**
 * Returns an error's message so that it can end one of the sentences above. If it is such a sentence itself, only its
 * reason is returned.
 */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message.replace(/^The connection[^:]*: |\.$/g, "") : String(cause);
}
