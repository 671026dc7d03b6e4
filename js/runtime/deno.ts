// TLS in Deno, over its own sockets; without TLS Deno uses node.ts.
//
// The reason for a third adapter is that node:tls in Deno has no back-pressure. When a consumer stopped after 20 MB of
// 140 MB, Deno 2.9.6 read to the end (769 MB RSS, the server idle); over Deno.startTls the server waits in ClientWrite.
// But Deno's own TLS cannot skip verification, upgrade with a client certificate or show the server's. In those cases
// node:tls runs over a stream that takes no bytes from the socket while no reader wants any (`PausableConn`): of 300 MB
// it has taken 2.03 MB when the reader stops after 2.01.
import { passfiles } from "./passfile.ts";
import type { Capabilities } from "./runtime.ts";
import { PIECE } from "../util/limits.ts";
import {
  connectFailed,
  connectionLost,
  tlsFailed,
  type ConnectOptions,
  type Connector,
  type Socket,
} from "./contract.ts";
import { Duplex } from "node:stream";
import * as node from "./node.ts";

interface Conn {
  readonly remoteAddr: { hostname?: string };
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  close(): void;
  setNoDelay?(on: boolean): void;
  setKeepAlive?(on: boolean): void;
}

interface DenoNet {
  connect(options: { hostname: string; port: number; signal: AbortSignal }): Promise<Conn>;
  startTls(
    conn: Conn,
    options: {
      hostname: string;
      caCerts?: string[];
      alpnProtocols?: string[];
      unsafelyDisableHostnameVerification?: boolean;
    },
  ): Promise<Conn & { handshake(): Promise<{ alpnProtocol: string | null }> }>;
}

interface DenoEnvironment {
  readonly env: { get(name: string): string | undefined };
  unrefTimer(timer: number): void;
  readonly permissions: {
    querySync(permission: { name: "env"; variable: string } | { name: "read"; path: string }): { state: string };
  };
}

const deno = (globalThis as unknown as { Deno: DenoNet & DenoEnvironment }).Deno;

/**
 * An environment variable, if the program already has permission to read it: asking for permission would stop the
 * program until the user answers.
 */
export const environment = (name: string): string | undefined =>
  deno.permissions.querySync({ name: "env", variable: name }).state === "granted" ? deno.env.get(name) : undefined;

const mayRead = (path: string): boolean => deno.permissions.querySync({ name: "read", path }).state === "granted";
/** The folder of the user by its variable alone: to ask the system takes a permission of its own. */
export const passfile = passfiles({ home: () => environment("HOME"), variable: environment, mayRead });

export const capabilities: Capabilities = node.capabilities;
export const md5 = node.md5;
/** Deno's timers are numbers, or Node's objects where setTimeout is Node's. */
export const unref = (timer: unknown): void => (typeof timer === "number" ? deno.unrefTimer(timer) : node.unref(timer));

export const connect: Connector = async (options) => {
  const { host, port, tls, signal } = options;
  if (!tls) return node.connect(options);
  let conn;
  try {
    conn = await deno.connect({ hostname: host, port, signal });
  } catch (cause) {
    const reason = reasonOf(cause);
    // Deno itself refuses what can be no name, before it asks the system.
    const isName = cause instanceof URIError || /lookup|resolve/i.test(reason);
    throw connectFailed(isName ? "dns" : "tcp", reason, cause, options);
  }
  conn.setNoDelay?.(true);
  conn.setKeepAlive?.(options.keepAlive > 0);
  const plain = new DenoSocket(conn, options);
  return tls.negotiation === "direct" ? plain.startTls(tls.servername) : plain;
};

class DenoSocket implements Socket {
  readonly address: string | undefined;
  readonly readsWhileIdle = true;
  readonly #conn: Conn;
  readonly #options: ConnectOptions;
  readonly #buffer: Uint8Array;
  #closed = false;

  constructor(conn: Conn, options: ConnectOptions) {
    this.#conn = conn;
    this.#options = options;
    this.#buffer = new Uint8Array(options.readBuffer);
    this.address = conn.remoteAddr.hostname;
  }

  async read(): Promise<Uint8Array | null> {
    try {
      const length = await this.#conn.read(this.#buffer);
      return length === null ? null : this.#buffer.subarray(0, length);
    } catch (cause) {
      throw connectionLost(reasonOf(cause), { cause });
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let rest = bytes; rest.length;) rest = rest.subarray(await this.#conn.write(rest));
    } catch (cause) {
      throw connectionLost(reasonOf(cause), { cause });
    }
  }

  async startTls(servername: string): Promise<Socket> {
    const { tls, signal } = this.#options;
    if (tls?.verify === "none" || tls?.cert !== undefined || tls?.showCertificate) {
      const pausable = new PausableConn(this.#conn);
      return node.secure(pausable, servername, this.#options, pausable);
    }
    const direct = tls?.negotiation === "direct";
    let close = () => this.close();
    // A handshake that the server never answers is abandoned, but Deno 2.9.6 keeps its socket until the server closes
    // it.
    const abort = () => void close();
    signal.addEventListener("abort", abort, { once: true });
    try {
      const conn = await deno.startTls(this.#conn, {
        hostname: servername,
        ...(tls?.ca !== undefined && { caCerts: [tls.ca] }),
        ...(direct && { alpnProtocols: ["postgresql"] }),
        ...(tls?.verify === "ca" && { unsafelyDisableHostnameVerification: true }),
      });
      const secured = new DenoSocket(conn, this.#options);
      close = () => secured.close();
      const { alpnProtocol } = await conn.handshake();
      if (!direct || alpnProtocol === "postgresql") return secured;
      throw new Error(
        "the server did not select ALPN protocol postgresql; sslnegotiation=direct needs PostgreSQL 17 or newer",
      );
    } catch (cause) {
      abort();
      throw tlsFailed(reasonOf(cause), cause);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      try {
        this.#conn.close();
      } catch {
        // Upgraded or broken: there is nothing left to close.
      }
    }
    return Promise.resolve();
  }
}

/** The socket as a stream below node:tls. node:tls keeps reading even if its reader has paused; `stop` stops it. */
class PausableConn extends Duplex implements node.Source {
  readonly address: string | undefined;
  readonly #conn: Conn;
  readonly #buffer = new Uint8Array(PIECE);
  #stopped: Promise<void> | undefined;
  #release = () => {};

  constructor(conn: Conn) {
    super();
    this.#conn = conn;
    this.address = conn.remoteAddr.hostname;
  }

  stop(): void {
    this.#stopped ??= new Promise((resolve) => (this.#release = resolve));
  }

  release(): void {
    this.#stopped = undefined;
    this.#release();
  }

  override async _read(): Promise<void> {
    try {
      while (this.#stopped) await this.#stopped;
      const length = await this.#conn.read(this.#buffer);
      this.push(length === null ? null : this.#buffer.slice(0, length));
    } catch (cause) {
      this.destroy(cause as Error);
    }
  }

  override async _write(bytes: Uint8Array, _: string, done: (cause?: Error) => void): Promise<void> {
    try {
      for (let rest = bytes; rest.length;) rest = rest.subarray(await this.#conn.write(rest));
      done();
    } catch (cause) {
      done(cause as Error);
    }
  }

  override _destroy(cause: Error | null, done: (cause: Error | null) => void): void {
    this.release();
    try {
      this.#conn.close();
    } catch {
      // It is already closed.
    }
    done(cause);
  }
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message.replace(/\.$/, "") || cause.name : String(cause);
}
