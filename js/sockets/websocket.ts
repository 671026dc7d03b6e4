// A WebSocket as the socket to a server, for runtimes without TCP. A proxy takes its binary messages as the bytes of a
// TCP connection: Neon's does, and so does docker/websocket-proxy.
//
// Knows WebSockets and the socket contract (docs/architecture.md). Must not know PostgreSQL.
import {
  connectFailed,
  connectionLost,
  tlsFailed,
  type ConnectOptions,
  type Connector,
  type Socket,
} from "./contract.ts";
import { onAbort } from "../util/abort.ts";
import { UsageError } from "../util/errors.ts";

/** Where the proxy is: its URL, to which `?address=host:port` is added, or what gives the whole URL for a server. */
export type WebSocketProxy = string | URL | ((host: string, port: number) => string | URL);

/** Options of {@link webSocket}. */
export interface WebSocketOptions {
  /** The class, for runtimes that have none, such as Node 20: that of the package `ws`. Default: the global one. */
  readonly WebSocket?: new (url: string) => AnyWebSocket;
  /**
   * Bytes that may wait to be read, from 1. A WebSocket cannot tell its server to wait, so a result that comes faster
   * than it is read gathers in memory; behind this many the connection ends. Read large results by `cursor`, whose
   * batches are asked for one by one. Default 67,108,864.
   */
  readonly maxWaiting?: number;
}

/** What is used of a WebSocket. */
export interface AnyWebSocket {
  binaryType: string;
  readonly bufferedAmount?: number;
  send(bytes: Uint8Array): void;
  close(code?: number): void;
  addEventListener(type: string, listener: (event: AnyEvent) => void): void;
}

/** What is used of its events: `data` of messages, the others of "close". */
export interface AnyEvent {
  readonly type: string;
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: string;
}

/** Bytes that wait to be sent before a write waits too, and milliseconds between two looks at them. */
const UNSENT = 1 << 20,
  LOOK = 5;

/**
 * A connector for option `connect` that reaches the server through a WebSocket. Behind `wss:` the link counts as
 * encrypted, and TLS is not spoken inside of it; the certificate that is checked is the proxy's.
 *
 * `proxy` defaults to Neon's: `wss://<host>/v2`.
 *
 * @throws UsageError `INVALID_OPTION`
 * @example
 * const db = createClient(url, { connect: webSocket("wss://proxy.example.com/") });
 */
export function webSocket(proxy: WebSocketProxy = neon, options: WebSocketOptions = {}): Connector {
  const { WebSocket = globalThis.WebSocket as WebSocketOptions["WebSocket"], maxWaiting = 64 << 20 } = options;
  if (typeof proxy !== "function") checked(proxy);
  if (!WebSocket)
    throw new UsageError("INVALID_OPTION", 'There is no WebSocket here: pass one, as option "WebSocket" of webSocket.');
  return async (wanted) => {
    const url = urlFor(proxy, wanted);
    return await opened(new WebSocket(url.href), url, maxWaiting, wanted);
  };
}

function neon(host: string): string {
  return `wss://${host}/v2`;
}

function urlFor(proxy: WebSocketProxy, { host, port }: ConnectOptions): URL {
  if (typeof proxy === "function") return checked(proxy(host, port));
  const url = checked(proxy);
  url.searchParams.set("address", `${host.includes(":") ? `[${host}]` : host}:${port}`);
  return url;
}

/** A copy. */
function checked(proxy: string | URL): URL {
  const url = URL.canParse(proxy) ? new URL(proxy) : undefined;
  if (url && /^wss?:$/.test(url.protocol)) return url;
  throw new UsageError("INVALID_OPTION", "The proxy of webSocket() must be a URL that begins with wss: or ws:.");
}

function opened(raw: AnyWebSocket, url: URL, maxWaiting: number, { signal }: ConnectOptions): Promise<Socket> {
  raw.binaryType = "arraybuffer";
  const socket = new WebSocketSocket(raw, url.protocol === "wss:", maxWaiting);
  return new Promise((resolve, reject) => {
    const stop = onAbort(signal, () => {
      reject(signal.reason);
      void socket.close();
    });
    raw.addEventListener("open", () => {
      stop();
      resolve(socket);
    });
    // A page is not told why, and behind "error" comes "close" everywhere.
    raw.addEventListener("close", () => {
      stop();
      reject(connectFailed("tcp", `the proxy ${url.host} refused the WebSocket, or cannot be reached`));
    });
    raw.addEventListener("error", () => {});
  });
}

class WebSocketSocket implements Socket {
  readonly isEncrypted: boolean;
  /** A promise of another request never settles in a Worker. */
  readonly readsWhileIdle = globalThis.navigator?.userAgent !== "Cloudflare-Workers";
  readonly #raw: AnyWebSocket;
  readonly #maxWaiting: number;
  /** What nobody has read yet, and its length. */
  #chunks: Uint8Array[] = [];
  #waiting = 0;
  /** How it ended: `null` properly. */
  #end: Error | null | undefined;
  /** The read that is pending. */
  #wake: (() => void) | undefined;

  constructor(raw: AnyWebSocket, isEncrypted: boolean, maxWaiting: number) {
    this.isEncrypted = isEncrypted;
    this.#raw = raw;
    this.#maxWaiting = maxWaiting;
    raw.addEventListener("message", ({ data }) => this.#take(data));
    raw.addEventListener("close", ({ code, reason }) =>
      this.#ended(
        code === 1000 || code === 1005 ? null : connectionLost(reason || `the WebSocket closed with ${code}`),
      ),
    );
  }

  async read(): Promise<Uint8Array | null> {
    while (!this.#chunks.length) {
      if (this.#end === null) return null;
      if (this.#end) throw this.#end;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    const chunk = this.#chunks.shift()!;
    this.#waiting -= chunk.length;
    return chunk;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#end !== undefined) throw this.#end ?? connectionLost("the proxy closed the WebSocket");
    this.#raw.send(bytes);
    while (this.#end === undefined && (this.#raw.bufferedAmount ?? 0) > UNSENT)
      await new Promise((resolve) => setTimeout(resolve, LOOK));
  }

  startTls(): Promise<Socket> {
    return Promise.reject(
      tlsFailed("a WebSocket has no TLS inside: reach the proxy by wss:, or set sslmode=disable", undefined, false),
    );
  }

  close(): Promise<void> {
    this.#ended(connectionLost("it was closed"));
    try {
      this.#raw.close(1000);
    } catch {
      // It has not opened yet, in some runtimes; then it closes by itself.
    }
    return Promise.resolve();
  }

  #take(data: unknown): void {
    if (this.#end !== undefined) return;
    if (!(data instanceof ArrayBuffer)) return this.#fail("the proxy sent text");
    this.#chunks.push(new Uint8Array(data));
    this.#waiting += data.byteLength;
    if (this.#waiting > this.#maxWaiting)
      return this.#fail(
        `more than ${this.#maxWaiting} bytes wait to be read (maxWaiting): read the result by cursor()`,
      );
    this.#wake?.();
  }

  #fail(reason: string): void {
    this.#chunks = [];
    this.#ended(connectionLost(reason));
    this.#raw.close(1000);
  }

  #ended(end: Error | null): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#wake?.();
  }
}
