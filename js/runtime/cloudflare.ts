// Sockets of Cloudflare Workers (`cloudflare:sockets`). Each oddity below was seen on workerd 2026-04-26 ("old") or
// 2026-11-17 ("new").
//
// Knows workerd's streams; must not know PostgreSQL. Needs no nodejs_compat. Workers always verify certificates,
// against public roots or those of a binding, and send no ALPN: options beyond that are refused before this file is
// used.
import { connect as openSocket } from "cloudflare:sockets";
import { onAbort } from "../util/abort.ts";
import { READS_IN_A_ROW } from "../util/limits.ts";
import {
  connectFailed,
  connectionLost,
  reasonOf,
  tlsFailed,
  type ConnectOptions,
  type Connector,
  type Socket,
} from "./contract.ts";
import type { OwnBytes } from "../util/bytes.ts";

/** MD5 for AuthenticationMD5Password. Only workerd's WebCrypto has it. */
export const md5 = async (bytes: OwnBytes): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest("MD5", bytes));

/**
 * Passes work to `waitUntil`, if there is a request to keep alive. Without that, the work stops silently when the
 * client disconnects.
 */
export function keepAlive(waitUntil: (work: Promise<unknown>) => void): (work: Promise<unknown>) => void {
  return (work) => {
    try {
      waitUntil(work);
    } catch {
      // Outside a request's context there is nothing to keep alive.
    }
  };
}

/**
 * Returns a function that tells whether it is called in the request in which this was called (or in the same Durable
 * Object). No API says so, and the streams of sockets only reject, or never settle. But the state of a WebSocket cannot
 * be read in any other request. This WebSocket is never opened.
 */
export function inRequest(): () => boolean {
  const [socket] = Object.values(new WebSocketPair());
  return () => {
    try {
      return socket!.readyState >= 0;
    } catch {
      return false;
    }
  };
}

/** What opens a socket: `connect` of the runtime, or of a binding, which may give a promise. */
type Open = (...wanted: Parameters<typeof openSocket>) => RawSocket | Promise<RawSocket>;
type RawSocket = ReturnType<typeof openSocket>;

export function connectorOf(open: Open): Connector {
  return async (options) => {
    const raw = await opened(open, options);
    // There is no connect timeout, and close() of a socket stuck in connect never settles either, so the socket is only
    // abandoned.
    const stop = onAbort(options.signal, () => discard(raw));
    raw.closed.catch(ignore);
    try {
      // Only `opened` reports a refused connection: a pending read would report a clean end. A failure of DNS, a
      // refusal and a forbidden address look alike.
      await raw.opened;
    } catch (cause) {
      throw connectFailed("tcp", reasonOf(cause), cause, options);
    } finally {
      stop();
    }
    return new CloudflareSocket(raw, options.readBuffer);
  };
}

export const connect = connectorOf(openSocket);

async function opened(open: Open, options: ConnectOptions): Promise<RawSocket> {
  const { host, port, tls } = options;
  // startTls() exists only for sockets opened with "starttls".
  const secureTransport = tls ? (tls.negotiation === "direct" ? "on" : "starttls") : "off";
  try {
    return await open({ hostname: host, port }, { secureTransport, allowHalfOpen: false });
  } catch (cause) {
    // workerd refuses what can be no name, before it asks for its address.
    throw connectFailed("dns", reasonOf(cause), cause, options);
  }
}

class CloudflareSocket implements Socket {
  readonly #raw: RawSocket;
  readonly #reader;
  readonly #writer;
  /**
   * Default readers allocate 4 KiB chunks and are 4 to 10 times slower than BYOB into a recycled buffer. A local
   * workerd returns at most 4 KiB here too, at some 20 µs each, however many bytes wait. Resting a millisecond between
   * reads (js/runtime/node.ts) only made it 18 times slower. `readAtLeast` would be four times faster, but it is
   * unknown whether that many bytes will arrive.
   */
  #buffer: ArrayBuffer;
  #reads = 0;

  constructor(raw: RawSocket, size: number) {
    this.#raw = raw;
    this.#buffer = new ArrayBuffer(size);
    this.#reader = raw.readable.getReader({ mode: "byob" });
    this.#writer = raw.writable.getWriter();
    this.#reader.closed.catch(ignore);
    this.#writer.closed.catch(ignore);
  }

  async read(): Promise<Uint8Array | null> {
    if (++this.#reads % READS_IN_A_ROW === 0) await new Promise((resolve) => setTimeout(resolve));
    const { done, value } = await this.#reader.read(new Uint8Array(this.#buffer)).catch(lost);
    // The old workerd reports an RST as a clean end too. The caller treats an end without Terminate as a loss.
    if (done) return null;
    this.#buffer = value.buffer as ArrayBuffer;
    return value;
  }

  write(bytes: Uint8Array): Promise<void> {
    // The only back-pressure there is: `ready` and `desiredSize` do not show it.
    return this.#writer.write(bytes).catch(lost);
  }

  async startTls(): Promise<Socket> {
    // With either lock held, or a read pending, the new socket's `opened` never settles and nothing throws.
    this.#reader.releaseLock();
    this.#writer.releaseLock();
    try {
      // `expectedServerHostname` is ignored in production: the name connected to is the name that is verified.
      const secured = this.#raw.startTls();
      secured.closed.catch(ignore);
      await secured.opened; // the old workerd resolves it even for an untrusted certificate
      return new CloudflareSocket(secured, this.#buffer.byteLength);
    } catch (cause) {
      throw tlsFailed(reasonOf(cause), cause);
    }
  }

  async close(): Promise<void> {
    discard(this.#raw);
  }
}

function lost(cause: unknown): never {
  throw connectionLost(reasonOf(cause), { cause });
}

/**
 * Closes the socket without waiting: on the old workerd close() of another request's socket, or of one stuck in
 * connect, stays pending for ever.
 */
function discard(raw: RawSocket): void {
  try {
    raw.close().catch(ignore);
  } catch {
    // "Cannot perform I/O on behalf of a different request": the runtime closes it with that request.
  }
}

function ignore(): void {}
