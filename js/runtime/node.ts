// Sockets of Node, Deno and Bun, over node:net and node:tls.
//
// Knows streams that push, and makes them pull. A plain socket reads into two buffers in turn (`onread`, half the CPU
// of 'data' events in Node). A socket that may get TLS uses 'data' with pause and resume. Must not know PostgreSQL.
import { Buffer } from "node:buffer"; // not a global in every Deno
import { createHash } from "node:crypto";
import * as net from "node:net";
import { homedir } from "node:os";
import process from "node:process";
import type { Duplex } from "node:stream";
import * as tls from "node:tls";
import { passfiles } from "./passfile.ts";
import type { Capabilities } from "./runtime.ts";
import {
  connectFailed,
  connectionLost,
  tlsFailed,
  type ConnectOptions,
  type Connector,
  type Socket,
  type TlsOptions,
} from "./contract.ts";

/** MD5 for AuthenticationMD5Password. */
export const md5 = (bytes: Uint8Array): Uint8Array => createHash("md5").update(bytes).digest();
export const unref = (timer: unknown): void => void (timer as NodeJS.Timeout).unref();

export const capabilities: Capabilities = {
  canSkipVerification: true,
  canUseCustomCa: true,
  canAlpn: true,
  canClientCertificate: true,
  canShowCertificate: true,
  canUseUnixSockets: true,
};

/** An environment variable of the process. */
export const environment = (name: string): string | undefined => process.env[name];

export const passfile = passfiles({ home, variable: environment, mayRead: () => true });

function home(): string | undefined {
  try {
    return environment("HOME") || homedir();
  } catch {
    // In a container, where the user has no name and HOME is not set.
    return undefined;
  }
}

export const connect: Connector = async (options) => {
  const { host, port, path, signal, tls: security, readBuffer, keepAlive } = options;
  const inbox = new Inbox({ mayGather: true });
  // Half open, so that the last message of a server is read even if our next write comes too late.
  const raw = net.connect({
    ...(path === undefined ? { host, port } : { path }),
    allowHalfOpen: true,
    ...(!security && { onread: twoBuffers(inbox, readBuffer) }),
  });
  if (security) flowing(raw, inbox);
  await settled(raw, "connect", signal, (cause) =>
    connectFailed(
      cause.syscall === "getaddrinfo" || cause.syscall === "queryA" ? "dns" : "tcp",
      reasonOf(cause),
      cause,
      options,
    ),
  );
  raw.setNoDelay(true);
  if (keepAlive) raw.setKeepAlive(true, keepAlive);
  const plain = new NodeSocket(raw, inbox, options);
  return security?.negotiation === "direct" ? plain.startTls(security.servername) : plain;
};

/** Maximum number of bytes that are copied rather than waited for. */
const SHORT_WRITE = 4096;

class NodeSocket implements Socket {
  readonly address: string | undefined;
  readonly readsWhileIdle = true;
  readonly #raw: net.Socket;
  readonly #inbox: Inbox;
  readonly #options: ConnectOptions;
  /** Number of short writes that Node has taken and not yet handed to the kernel. */
  #leaving = 0;
  /** Callers of `flushed` that wait until there are none. */
  readonly #waiting: (() => void)[] = [];

  constructor(raw: net.Socket, inbox: Inbox, options: ConnectOptions, source?: Source) {
    this.#raw = raw;
    this.#inbox = inbox;
    this.#options = options;
    this.address = source ? source.address : raw.remoteAddress;
    inbox.resume = () => (source ? source.release() : raw.resume());
    raw.on("end", () => inbox.end(null));
    raw.on("error", (cause: NodeJS.ErrnoException) => inbox.end(connectionLost(reasonOf(cause), { cause })));
    raw.on("close", () => inbox.end(connectionLost("the socket was closed")));
    // A reset right after the handshake is reported before the code that waits for the handshake continues.
    if (raw.destroyed) inbox.end(connectionLost("the socket was closed"));
  }

  get certificate(): Uint8Array | undefined {
    return this.#raw instanceof tls.TLSSocket ? this.#raw.getPeerX509Certificate()?.raw : undefined;
  }

  read(take?: Take): Promise<Uint8Array | null> {
    return this.#inbox.next(take);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#inbox.sent();
    // The server has closed the connection, so the bytes would not arrive. TLS never reports that. The reader gets the
    // reason.
    const { over } = this.#inbox;
    if (over !== undefined) return over ? Promise.reject(over) : undefined;
    if (bytes.length <= SHORT_WRITE && this.#raw.writableLength <= SHORT_WRITE) return this.#writeShort(bytes);
    return new Promise((resolve, reject) => {
      this.#raw.write(bytes, (cause) => (cause ? reject(connectionLost(reasonOf(cause), { cause })) : resolve()));
    });
  }

  /**
   * The first write of a turn of the event loop leaves at once, and the others together, when the turn is over. Mostly
   * there is one, since the driver gathers what is sent in a turn.
   */
  #writeShort(bytes: Uint8Array): undefined {
    const raw = this.#raw;
    if (++this.#leaving === 2) {
      raw.cork();
      process.nextTick(() => raw.uncork());
    }
    // A copy, because the caller may change the bytes as soon as this returns. A failure becomes an "error" event of
    // the socket.
    raw.write(Buffer.from(bytes), this.#left);
  }

  flushed(): Promise<void> | undefined {
    return this.#leaving ? new Promise((resolve) => void this.#waiting.push(resolve)) : undefined;
  }

  readonly #left = (): void => {
    if (--this.#leaving) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
  };

  startTls(servername: string): Promise<Socket> {
    this.#raw.removeAllListeners("data");
    return secure(this.#raw, servername, this.#options);
  }

  ref(): void {
    this.#raw.ref();
  }

  unref(): void {
    this.#raw.unref();
  }

  close(): Promise<void> {
    // The kernel already has what was written and flushed, so Terminate still goes out before the FIN.
    this.#raw.destroy();
    return Promise.resolve();
  }
}

/** A stream below TLS that gives no more bytes after `stop`, until `release`. */
export interface Source extends Duplex {
  readonly address: string | undefined;
  stop(): void;
  release(): void;
}

/** Starts TLS over a stream. `source`: the same stream, if pausing TLS does not stop its bytes. */
export async function secure(
  raw: Duplex,
  servername: string,
  options: ConnectOptions,
  source?: Source,
): Promise<Socket> {
  const { tls: security, signal, host } = options;
  if (!security) throw tlsFailed("the socket was opened without TLS options");
  const inbox = new Inbox({ mayGather: false }); // a record has 16 KiB at most, however many wait
  let secured: tls.TLSSocket;
  try {
    secured = tls.connect({ ...tlsOptions(security, servername || host), socket: raw });
  } catch (cause) {
    raw.destroy();
    throw tlsFailed("ca, cert or key cannot be read", cause); // OpenSSL's own text may quote them
  }
  flowing(secured, inbox, source && (() => source.stop()));
  await settled(secured, "secureConnect", signal, (cause) => tlsFailed(reasonOf(cause), cause));
  // Without ALPN a server of another protocol could be made to answer ("ALPACA"). PostgreSQL 17 always selects it.
  if (security.negotiation === "direct" && secured.alpnProtocol !== "postgresql") {
    secured.destroy();
    throw tlsFailed(
      "the server did not select ALPN protocol postgresql; sslnegotiation=direct needs PostgreSQL 17 or newer",
    );
  }
  return new NodeSocket(secured, inbox, options, source);
}

/**
 * Node asks for a buffer once at the start, and after each callback for the next read. The chunk passed on stays
 * unchanged while the other buffer fills, and a third read waits until the reader asks (`push` returns false).
 */
function twoBuffers(inbox: Inbox, size: number): net.OnReadOpts {
  const buffers: Uint8Array[] = [];
  let next = 0;
  return {
    buffer: () => (buffers[(next ^= 1)] ??= new Uint8Array(size)),
    callback: (length, buffer) => inbox.push(buffer.subarray(0, length)),
  };
}

/** Reads by 'data' events: TLS ignores `onread`, and Deno cannot upgrade a socket that was opened with it. */
function flowing(socket: net.Socket, inbox: Inbox, stop: () => void = () => socket.pause()): void {
  socket.on("data", (chunk: Uint8Array) => void (inbox.push(chunk) || stop()));
}

function tlsOptions({ verify, negotiation, ca, cert, key }: TlsOptions, servername: string): tls.ConnectionOptions {
  return {
    host: servername, // what the certificate must name; SNI below is for names only (RFC 6066, 3)
    servername: net.isIP(servername) ? "" : servername,
    rejectUnauthorized: verify !== "none",
    ...(verify === "ca" && { checkServerIdentity: () => undefined }),
    ...(negotiation === "direct" && { ALPNProtocols: ["postgresql"] }),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  };
}

/**
 * A result that has taken this many reads without a write is a stream, and its chunks are gathered. PostgreSQL sends 8
 * KiB at a time, so a reader that keeps up pays a wake-up for each (100,000 rows of five columns: 770 reads). One
 * millisecond later the kernel holds several, at no cost to throughput: 33 ms of CPU became 23, and the wall time
 * stayed the same.
 */
const STREAMING = 32;
/** A chunk of at least this size is worth a read. */
const SMALL = 32_768;

type Take = (bytes: Uint8Array) => boolean;

interface Reader {
  readonly resolve: (chunk: Uint8Array | null) => void;
  readonly reject: (error: Error) => void;
  readonly take: Take | undefined;
}

const NO_BYTES = new Uint8Array();

/**
 * Connects a socket that pushes with a reader that pulls. At most one chunk waits, unless the socket cannot stop at
 * once (TLS).
 */
class Inbox {
  resume = (): void => {};
  #chunks: Uint8Array[] = [];
  #reader: Reader | undefined;
  #end: Error | null | undefined;
  #paused = false;
  #reads = 0;
  #gathers = false;
  readonly #mayGather: boolean;

  /** `mayGather`: a chunk below `SMALL` means that no more was there. */
  constructor({ mayGather }: { readonly mayGather: boolean }) {
    this.#mayGather = mayGather;
  }

  /** Called after a write: the next chunk is a response that a call waits for, so it is not delayed. */
  sent(): void {
    this.#reads = 0;
    this.#gathers = false;
  }

  /** Returns `false` if the socket must stop reading until `resume`. */
  push(chunk: Uint8Array): boolean {
    this.#gathers = this.#mayGather && ++this.#reads > STREAMING && chunk.length < SMALL;
    const reader = this.#reader;
    if (reader?.take?.(chunk)) {
      // `end` may have been called meanwhile, by the code that the chunk has led to.
      if (this.#gathers && this.#reader) this.#resumeLater();
      return !this.#gathers;
    }
    this.#reader = undefined;
    if (reader) reader.resolve(reader.take ? NO_BYTES : chunk);
    else this.#chunks.push(chunk);
    this.#paused = !reader || this.#gathers || reader.take !== undefined;
    return !this.#paused;
  }

  #resumeLater(): void {
    setTimeout(() => this.resume(), 1);
  }

  /** Why nothing follows the waiting chunks; `null` after a clean end. */
  get over(): Error | null | undefined {
    return this.#end;
  }

  end(error: Error | null): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    if (error) this.#reader?.reject(error);
    else this.#reader?.resolve(null);
    this.#reader = undefined;
  }

  next(take?: Take): Promise<Uint8Array | null> {
    const chunk = this.#chunks.shift();
    if (this.#paused && this.#chunks.length === 0) {
      this.#paused = false;
      // Not before the chunk has been taken, because the socket may fill only the other buffer.
      if (this.#gathers) this.#resumeLater();
      else this.resume();
    }
    if (chunk) return Promise.resolve(chunk);
    if (this.#end) return Promise.reject(this.#end);
    if (this.#end === null) return Promise.resolve(null);
    return new Promise((resolve, reject) => (this.#reader = { resolve, reject, take }));
  }
}

/**
 * Waits for `event`, and destroys the socket if it fails or the signal aborts: DNS, connect and handshake have no
 * deadline of their own.
 */
function settled(
  socket: net.Socket,
  event: string,
  signal: AbortSignal,
  toError: (cause: NodeJS.ErrnoException) => Error,
): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const fail = (error: unknown): void => {
      done();
      socket.destroy();
      reject(error);
    };
    const failed = (cause: NodeJS.ErrnoException): void => fail(toError(cause));
    const closed = (): void =>
      failed(Object.assign(new Error("the server closed the connection"), { name: "ConnectionReset" }));
    const aborted = (): void => fail(signal.reason);
    const ready = (): void => {
      done();
      resolve();
    };
    const done = (): void => {
      socket
        .off(event, ready)
        .off("error", failed)
        .off("close", closed)
        .on("error", () => {});
      signal.removeEventListener("abort", aborted);
    };
    socket.once(event, ready).once("error", failed).once("close", closed);
    signal.addEventListener("abort", aborted, { once: true });
    if (signal.aborted) aborted();
  });
}

/** Returns one sentence without the address. Happy eyeballs gives an AggregateError with an empty message. */
function reasonOf(cause: NodeJS.ErrnoException & { errors?: unknown[]; reason?: string }): string {
  const first = cause.errors?.[0];
  const text = cause.message || (first instanceof Error ? first.message : "") || cause.code || "unknown reason";
  return cause.code && !text.includes(cause.code) ? `${text} (${cause.code})` : text;
}
