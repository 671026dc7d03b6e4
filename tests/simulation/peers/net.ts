// `node:net` for pg and postgres.js: the sockets that they make lead here, and to the simulated network.
//
// A Socket behaves as Node's: writes wait until it is connected, `end()` sends FIN and waits for the peer's, `close` is
// emitted in an event of its own, and errors have Node's codes. The network's sockets cannot send FIN and continue to
// read. So FIN is one extra byte, which `HalfClosing` in front of the server recognises. A kernel that gives up on a
// silent peer after a quarter of an hour is not modelled. Knows streams, hosts and bytes. Must not know PostgreSQL.
import { Duplex } from "node:stream";
import type { ConnectOptions, Socket as Plain } from "../../../js/sockets/contract.ts";
import type { Accepted, Host, Wire } from "../contract.ts";
import { soon } from "./immediates.ts";

/** The target of connections to one host name. */
export interface Place {
  connect(options: ConnectOptions): Promise<Plain>;
  /** The host in front of the server. */
  readonly host: HalfClosing;
  /** Replaces the bytes that are written with bytes of the same length. */
  readonly edit?: ((bytes: Buffer) => Buffer) | undefined;
}

const places = new Map<string, Place>();

/** Directs sockets for `name` to this place, until the returned function is called. */
export function addPlace(name: string, place: Place): () => void {
  places.set(name, place);
  return () => void places.delete(name);
}

// -- FIN --------------------------------------------------------------------------------------------------------------

export class HalfClosing implements Host {
  readonly #server: Host;
  /** The newest connection, which its requester learns of before anything else happens. */
  newest: Half | undefined;

  constructor(server: Host) {
    this.#server = server;
  }

  accept(wire: Wire): Accepted {
    return (this.newest = new Half(this.#server.accept(wire)));
  }
}

class Half implements Accepted {
  readonly #server: Accepted;
  /** The client's FIN is the byte after this many bytes. */
  finBehind = Infinity;
  #received = 0;
  #hasEnded = false;

  constructor(server: Accepted) {
    this.#server = server;
  }

  receive(bytes: Uint8Array): void {
    const left = this.finBehind - this.#received;
    this.#received += bytes.length;
    if (left >= bytes.length) return this.#server.receive(bytes);
    if (left > 0) this.#server.receive(bytes.subarray(0, left));
    this.ended();
  }

  ended(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#server.ended();
  }

  wasReset(): void {
    this.#server.wasReset();
  }
}

// -- the socket -------------------------------------------------------------------------------------------------------

const FIN = new Uint8Array(1);

type Done = (error?: Error | null) => void;

export class Socket extends Duplex {
  connecting = false;
  readonly #giveUp = new AbortController();
  #socket: Plain | undefined;
  #half: Half | undefined;
  #edit = (bytes: Buffer): Buffer => bytes;
  #written = 0;
  #isReading = false;

  constructor() {
    super({ allowHalfOpen: false, emitClose: false });
    this.on("end", () => Object.assign(this, { write: writeBehindEnd }));
  }

  get readyState(): string {
    if (this.connecting) return "opening";
    if (this.readable && this.writable) return "open";
    if (this.readable) return "readOnly";
    return this.writable ? "writeOnly" : "closed";
  }

  connect(port: number, name: string): this {
    this.connecting = true;
    void this.#connect(port, name);
    return this;
  }

  async #connect(port: number, name: string): Promise<void> {
    const place = places.get(name);
    const { signal } = this.#giveUp;
    let socket: Plain;
    try {
      if (!place) throw new Error("unresolved");
      socket = await place.connect({ host: name, port, tls: null, readBuffer: 65_536, keepAlive: 0, signal });
    } catch (error) {
      this.destroy(connectError(error, name, port));
      return;
    }
    if (this.destroyed) return void socket.close();
    this.#socket = socket;
    this.#half = place.host.newest;
    this.#edit = place.edit ?? this.#edit;
    this.connecting = false;
    this.emit("connect");
    this.emit("ready");
    this.read(0);
  }

  override _read(): void {
    if (this.connecting) this.once("connect", () => this._read());
    else void this.#pull();
  }

  async #pull(): Promise<void> {
    if (this.#isReading || !this.#socket) return;
    this.#isReading = true;
    try {
      for (let goesOn = true; goesOn && !this.destroyed;) {
        const chunk = await this.#socket.read().catch(() => resetError("read"));
        if (this.destroyed) return;
        if (chunk instanceof Error) return void this.destroy(chunk);
        // The next read may reuse the same buffer.
        goesOn = chunk ? this.push(Buffer.from(chunk)) : this.push(null);
      }
    } finally {
      this.#isReading = false;
    }
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: Done): void {
    if (this.connecting) return void this.once("connect", () => this._write(chunk, _, done));
    const socket = this.#socket;
    if (!socket) return done(resetError("write"));
    const bytes = new Uint8Array(this.#edit(chunk));
    this.#written += bytes.length;
    Promise.resolve(socket.write(bytes)).then(
      () => done(),
      () => done(resetError("write")),
    );
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: Done): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "binary", done);
  }

  override _final(done: Done): void {
    if (this.connecting) return void this.once("connect", () => this._final(done));
    if (this.#half) this.#half.finBehind = this.#written;
    Promise.resolve(this.#socket?.write(FIN)).catch(() => {});
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.connecting = false;
    this.#giveUp.abort();
    void this.#socket?.close();
    soon(() => this.emit("close", !!error));
    done(error);
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

/** Behaves as Node's socket after the peer has ended: a later write fails the socket. */
function writeBehindEnd(this: Socket, ...args: Parameters<Duplex["write"]>): boolean {
  if (!this.writableEnded) return Duplex.prototype.write.apply(this, args);
  const error = Object.assign(new Error("This socket has been ended by the other party"), { code: "EPIPE" });
  const done = args.find((arg) => typeof arg === "function") as Done | undefined;
  if (done) process.nextTick(done, error);
  this.destroy(error);
  return false;
}

function resetError(syscall: "read" | "write"): Error {
  const code = syscall === "read" ? "ECONNRESET" : "EPIPE";
  return Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
}

function connectError(cause: unknown, name: string, port: number): Error {
  const isUnresolved = String(cause).includes("unresolved");
  const code = isUnresolved ? "ENOTFOUND" : "ECONNREFUSED";
  const text = isUnresolved ? `getaddrinfo ENOTFOUND ${name}` : `connect ECONNREFUSED ${name}:${port}`;
  return Object.assign(new Error(text), { code, syscall: isUnresolved ? "getaddrinfo" : "connect" });
}

export const isIP = (_: string): number => 0;

export default { Socket, isIP };
