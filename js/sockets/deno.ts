// Verified TLS in Deno, over its own sockets; everything else in Deno is node.ts.
//
// Why a third adapter: node:tls in Deno knows no back-pressure. With a consumer that stops after 20 MB of 140 MB, Deno
// 2.9.6 read on to the end (769 MB RSS, the server idle); over Deno.startTls the server waits in ClientWrite. But
// Deno's own TLS cannot skip verification nor upgrade with a client certificate, so those go the other way.
import type { Capabilities } from "./runtime.ts";
import {
  connectFailed,
  connectionLost,
  tlsFailed,
  type ConnectOptions,
  type Connector,
  type Socket,
} from "./contract.ts";
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
  readonly permissions: { querySync(permission: { name: "env"; variable: string }): { state: string } };
}

const deno = (globalThis as unknown as { Deno: DenoNet & DenoEnvironment }).Deno;

/** A variable that may be read already: asking for permission would stop the program until somebody answers. */
export const environment = (name: string): string | undefined =>
  deno.permissions.querySync({ name: "env", variable: name }).state === "granted" ? deno.env.get(name) : undefined;

export const capabilities: Capabilities = node.capabilities;
export const md5 = node.md5;

export const connect: Connector = async (options) => {
  const { host, port, tls, signal } = options;
  if (!tls || tls.verify === "none" || tls.cert !== undefined) return node.connect(options);
  let conn;
  try {
    conn = await deno.connect({ hostname: host, port, signal });
  } catch (cause) {
    const reason = reasonOf(cause);
    throw connectFailed(/lookup|resolve/i.test(reason) ? "dns" : "tcp", reason, cause);
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
    const direct = tls?.negotiation === "direct";
    let close = () => this.close();
    // A handshake that the server never answers is given up, but Deno 2.9.6 keeps its socket until the server closes
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

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message.replace(/\.$/, "") || cause.name : String(cause);
}
