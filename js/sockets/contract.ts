// What a runtime must bring to reach a server: the socket contract of docs/architecture.md, and the words its errors share.
//
// Pull-based, so back-pressure is natural: nobody reads, nothing arrives. Knows bytes and addresses; must not know PostgreSQL.
// Each runtime's adapter lives beside this file; a user may pass one of their own.
import { ConnectionError, type Facts, type Stage } from "../util/errors.ts";

/** How a socket is to be secured, when it is. */
export interface TlsOptions {
  /** `request`: plain until `startTls`; `direct`: TLS (with ALPN `postgresql`) from the first byte, `connect` resolves behind the handshake. */
  readonly negotiation: "request" | "direct";
  /** `none`: encrypt only; `ca`: the chain must be trusted; `full`: and the certificate must name the server. */
  readonly verify: "none" | "ca" | "full";
  readonly servername: string;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  /** `null`: this socket will never be asked for TLS. */
  readonly tls: TlsOptions | null;
  /** Bytes of one read, where the adapter can choose. */
  readonly readBuffer: number;
  /** First TCP keep-alive probe (ms), 0: none, where the runtime can. */
  readonly keepAlive: number;
  /** Aborted: give up, `connect` rejects with anything; also bounds `startTls`. */
  readonly signal: AbortSignal;
}

export interface Socket {
  /** The peer's address as connected to, where the runtime tells: a CancelRequest must reach the same server. */
  readonly address?: string | undefined;
  /**
   * A read may stay pending while nothing is asked of the server, so that the end of an idle connection is noticed at once. Leave it out
   * where that is not allowed, as on Workers, where a read belongs to its request.
   */
  readonly readsWhileIdle?: boolean | undefined;
  /**
   * The next bytes, `null` at the peer's FIN. Rejects with a `ConnectionError` on RST, after `close`, and on any other end.
   * The bytes are valid until the next `read`. Never call it while a read is pending.
   */
  read(): Promise<Uint8Array | null>;
  /** Resolves when more may be written; the bytes may not change before. */
  write(bytes: Uint8Array): Promise<void>;
  /** Upgrades; only with no read pending. This socket is then spent. On workerd only the first write and read prove the handshake. */
  startTls(servername: string): Promise<Socket>;
  /** Gives the socket up with whatever is still under way. Never rejects, settles at once, may be called again. */
  close(): Promise<void>;
}

export type Connector = (options: ConnectOptions) => Promise<Socket>;

export function connectFailed(stage: Stage, reason: string, cause?: unknown): ConnectionError {
  return new ConnectionError("CONNECT_FAILED", `Could not connect: ${reason}.`, { stage, retryable: true, cause });
}

export function tlsFailed(reason: string, cause?: unknown): ConnectionError {
  return new ConnectionError("TLS_FAILED", `TLS failed: ${reason}.`, { stage: "tls", retryable: true, cause });
}

export function connectionLost(reason: string, facts?: Facts, stage: Stage = "session"): ConnectionError {
  return new ConnectionError("CONNECTION_LOST", `The connection was lost: ${reason}.`, { ...facts, stage });
}

/** An error's words as the end of one of the sentences above, or of one again. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message.replace(/^The connection[^:]*: |\.$/g, "") : String(cause);
}
