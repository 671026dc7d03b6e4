// A login for a caller that then speaks the protocol itself, as pgz-edge/pg does. Hosts, TLS, authentication and the
// deadline are the driver's. After the first ReadyForQuery the connection is the caller's.
//
// Knows where a message of the server ends, so that the core gets the bytes of the login and no more. Must not know
// what is sent afterwards.
import type { Config, ConnectInput, Options } from "../config/options.ts";
import { sendCancelRequest } from "../connection/cancel.ts";
import { openConnection } from "../login/startup.ts";
import type { Socket } from "../runtime/contract.ts";
import { runtime } from "../runtime/runtime.ts";
import { CANCEL_DEADLINE } from "../util/limits.ts";
import { HEADER, READY_FOR_QUERY } from "../wasm/messages.ts";
import { Calls } from "./calls.ts";
import { configured } from "./configured.ts";

/** A connection that has logged in, now owned by the caller. @internal */
export interface Handover {
  /** Reads what the server sends after the ReadyForQuery that ended the login. */
  readonly socket: Socket;
  /** The settings that the server has reported. */
  readonly parameters: ReadonlyMap<string, string>;
  /** The body of BackendKeyData: process ID and cancel key; empty if the server sent none. */
  readonly backendKey: Uint8Array;
  readonly encrypted: boolean;
  /** Whether it can be used from here: on Workers a socket belongs to one request. */
  isHome(): boolean;
  /** Sends a CancelRequest to the same server, secured in the same way. Never rejects. */
  cancel(): Promise<void>;
}

/** Options of {@link logIn}. @internal */
export interface LogInOptions extends Options {
  /** `database` or `true`: the session accepts replication commands, which the driver's own calls cannot use. */
  replication?: string | undefined;
}

/**
 * Connects and logs in. `input` is what {@link connect} takes, or a client or pool, whose server is then used. `signal`
 * of the options ends the login, and nothing later. With a client or pool, only `signal`, `startup` and `replication`
 * of the options count; `startup` is added to its own.
 *
 * @throws PgzError whatever `connect` rejects with
 *
 * @example
 * const { socket, parameters } = await logIn("postgres://app@db/app", { replication: "database" });
 *
 * @internal For `pgz-edge/changes` and `pgz-edge/pg`.
 */
export async function logIn(
  input: ConnectInput | Calls,
  { replication, ...options }: LogInOptions = {},
): Promise<Handover> {
  const asked = input instanceof Calls ? asOf(input, options) : configured(input, { ...options, earlyQuery: false });
  // With several servers, the socket of the last one: the servers before it did not satisfy `targetSessionAttrs`.
  let handed: HandedSocket | undefined;
  const wrapSocket = (socket: Socket) => new HandedSocket(socket, (ready) => (handed = ready));
  const ours = replication ? [["replication", replication] as const] : [];
  const config = { ...asked, wrapSocket, startup: [...asked.startup, ...ours] };
  const isHome = runtime().inRequest?.() ?? (() => true);
  const connection = await openConnection(config, new AbortController());
  await connection.startup.done;
  const request = connection.core.call((handle) => handle.cancel_request());
  const { parameters, link } = connection;
  const socket = handed!.give();
  void connection.close();
  return {
    socket,
    parameters,
    encrypted: link.encrypted,
    backendKey: request.subarray(8),
    isHome,
    async cancel() {
      await sendCancelRequest(link, () => request, AbortSignal.timeout(CANCEL_DEADLINE));
    },
  };
}

/** The configuration of a client or pool, for this login. */
function asOf(calls: Calls, { signal, startup }: Options): Config {
  const { config } = calls as unknown as { readonly config: Config };
  const more = Object.entries((startup ?? {}) as Record<string, string>);
  return { ...config, earlyQuery: false, signal, startup: [...config.startup, ...more] };
}

/**
 * The login's socket. It passes on the bytes up to the end of a ReadyForQuery and keeps the rest. The rest is for the
 * next owner, unless the login reads on, as it does to ask the server about itself (`targetSessionAttrs`).
 */
class HandedSocket implements Socket {
  readonly #socket: Socket;
  /** Called at each ReadyForQuery. */
  readonly #ready: (socket: HandedSocket) => void;
  #given = false;
  /** Bytes that arrived after ReadyForQuery. */
  #rest: Uint8Array | undefined;
  /** The message that is arriving: the bytes of its header so far, and the number of body bytes still missing. */
  #header: number[] = [];
  #missing = 0;

  constructor(socket: Socket, ready: (socket: HandedSocket) => void) {
    this.#socket = socket;
    this.#ready = ready;
  }

  get address(): string | undefined {
    return this.#socket.address;
  }

  get isEncrypted(): boolean | undefined {
    return this.#socket.isEncrypted;
  }

  get certificate(): Uint8Array | undefined {
    return this.#socket.certificate;
  }

  async read(): Promise<Uint8Array | null> {
    const chunk = this.#rest ?? (await this.#socket.read());
    this.#rest = undefined;
    if (!chunk) return chunk;
    const end = this.#endOfLogin(chunk);
    if (end === chunk.length) return chunk;
    this.#rest = chunk.slice(end);
    return chunk.subarray(0, end);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#given) return undefined; // drops the login's Terminate
    return this.#socket.write(bytes);
  }

  flushed(): Promise<void> | undefined {
    return this.#given ? undefined : this.#socket.flushed?.();
  }

  startTls(servername: string): Promise<Socket> {
    return this.#socket.startTls(servername);
  }

  close(): Promise<void> {
    return this.#given ? Promise.resolve() : this.#socket.close();
  }

  /** Gives the socket to its next owner. */
  give(): Socket {
    this.#given = true;
    const socket = this.#socket;
    let rest = this.#rest;
    if (!rest) return socket;
    return {
      address: socket.address,
      readsWhileIdle: socket.readsWhileIdle,
      read(take) {
        const first = rest;
        rest = undefined;
        return first ? Promise.resolve(first) : socket.read(take);
      },
      write: (bytes) => socket.write(bytes),
      flushed: () => socket.flushed?.(),
      startTls: (servername) => socket.startTls(servername),
      close: () => socket.close(),
      ref: () => socket.ref?.(),
      unref: () => socket.unref?.(),
    };
  }

  /** Returns the place in the chunk at which the login ends; the chunk's length while it continues. */
  #endOfLogin(chunk: Uint8Array): number {
    let at = 0;
    while (at < chunk.length) {
      if (this.#header.length < HEADER) {
        this.#header.push(chunk[at++]!);
        if (this.#header.length === HEADER) this.#missing = bodyOf(this.#header);
      } else {
        const part = Math.min(this.#missing, chunk.length - at);
        at += part;
        this.#missing -= part;
      }
      if (this.#header.length < HEADER || this.#missing) continue;
      const [type] = this.#header;
      this.#header = [];
      if (type !== READY_FOR_QUERY) continue;
      this.#ready(this);
      return at;
    }
    return at;
  }
}

/** The body's length. The core refuses an impossible one. */
function bodyOf(header: readonly number[]): number {
  const length = header.slice(1).reduce((sum, byte) => sum * 256 + byte, 0);
  return Math.max(0, length - 4);
}
