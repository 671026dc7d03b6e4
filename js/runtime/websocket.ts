// A WebSocket as the socket to a server, for runtimes without TCP. A proxy takes its binary messages as the bytes of a
// TCP connection, as Neon's proxy and docker/websocket-proxy do.
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

/**
 * The address of the proxy: its URL, to which `?address=host:port` is added, or a function that returns the whole URL
 * for a server.
 */
type WebSocketProxy = string | URL | ((host: string, port: number) => string | URL);

/** Options of {@link webSocket}. */
export interface WebSocketOptions {
  /**
   * The WebSocket class, for runtimes that have none, such as Node 20: pass that of the package `ws`. Default: the
   * global class.
   */
  readonly WebSocket?: new (url: string) => AnyWebSocket;
  /**
   * Maximum number of bytes that may wait to be read, at least 1. A WebSocket cannot make its server wait, so a result
   * that arrives faster than it is read accumulates in memory. Above this limit the connection ends. Read large results
   * with `cursor`, which requests its batches one by one. Default 67,108,864.
   */
  readonly maxWaiting?: number;
}

/** The part of a WebSocket that the driver uses. */
export interface AnyWebSocket {
  binaryType: string;
  readonly bufferedAmount?: number;
  send(bytes: Uint8Array): void;
  close(code?: number): void;
  addEventListener(type: string, listener: (event: AnyEvent) => void): void;
}

/** The part of its events that the driver uses: `data` of messages, the other fields of "close". */
export interface AnyEvent {
  readonly type: string;
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: string;
}

/** Unsent bytes above which a write waits, and milliseconds between two checks of them. */
const UNSENT = 1 << 20,
  LOOK = 5;

/**
 * Returns a connector for option `connect` that reaches the server through a WebSocket. With `wss:` the link counts as
 * encrypted, and no TLS is used inside it. The certificate that is checked is the proxy's.
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

/** Checks a proxy's URL and returns a copy. */
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
    // A page does not learn the reason. "close" follows "error" on every runtime, so "error" needs no handling.
    raw.addEventListener("close", () => {
      stop();
      reject(connectFailed("tcp", `the proxy ${url.host} refused the WebSocket, or cannot be reached`));
    });
    raw.addEventListener("error", () => {});
  });
}

class WebSocketSocket implements Socket {
  readonly isEncrypted: boolean;
  /** Not in a Worker, where a promise of another request never settles. */
  readonly readsWhileIdle = globalThis.navigator?.userAgent !== "Cloudflare-Workers";
  readonly #raw: AnyWebSocket;
  readonly #maxWaiting: number;
  /** Chunks that have not been read, and their total length. */
  #chunks: Uint8Array[] = [];
  #waiting = 0;
  /** How the connection ended; `null`: properly. */
  #end: Error | null | undefined;
  /** Wakes the pending read. */
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
      // In some runtimes this throws before the WebSocket has opened; it then closes by itself.
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
