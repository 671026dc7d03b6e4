// `connection.stream`: the part of pg's socket that applications and tools use.
//
// Knows the few members that others call. Must not know messages. It is not a stream of Node: no data can be read from
// it.
import { EventEmitter } from "node:events";

/** The connection's functions behind the stream. */
interface Wire {
  write(bytes: Uint8Array, done?: (error?: Error) => void): void;
  destroy(error?: Error): void;
  ref(): void;
  unref(): void;
  isWritable(): boolean;
  isDestroyed(): boolean;
  isEncrypted(): boolean;
  /** Whether TLS starts with the first byte. */
  isDirect(): boolean;
}

/** With this many unsent bytes, writers should wait for `drain`. */
const HIGH_WATER_MARK = 1 << 16;

export class WireStream extends EventEmitter {
  readonly #wire: Wire;
  /** Bytes written through this stream that the socket has not taken yet. */
  #unsent = 0;
  #wantsDrain = false;
  #paused: Promise<void> | undefined;
  #resume: (() => void) | undefined;

  constructor(wire: Wire) {
    super();
    this.#wire = wire;
  }

  get writable(): boolean {
    return this.#wire.isWritable();
  }

  get destroyed(): boolean {
    return this.#wire.isDestroyed();
  }

  get encrypted(): boolean {
    return this.#wire.isEncrypted();
  }

  /** The protocol negotiated when TLS starts with the first byte. The driver accepts only this one. */
  get alpnProtocol(): string | false {
    return this.encrypted && this.#wire.isDirect() ? "postgresql" : false;
  }

  /** While paused, a promise that settles when reading may continue. */
  get paused(): Promise<void> | undefined {
    return this.#paused;
  }

  /** Returns `false` if the caller should wait for `drain`. */
  write(bytes: Uint8Array, done?: (error?: Error) => void): boolean {
    this.#unsent += bytes.length;
    this.#wantsDrain ||= this.#unsent >= HIGH_WATER_MARK;
    const goesOn = !this.#wantsDrain;
    this.#wire.write(bytes, (error) => {
      this.#unsent -= bytes.length;
      done?.(error);
      if (error || this.#unsent || !this.#wantsDrain) return;
      this.#wantsDrain = false;
      this.emit("drain");
    });
    return goesOn;
  }

  /**
   * Throws for `data`: code that takes over the reader of a stream of Node would wait forever, because this stream has
   * none.
   */
  override listeners(event: string | symbol): ReturnType<EventEmitter["listeners"]> {
    if (event === "data")
      throw new Error("client.connection.stream has no data to read: use pgz-edge/pg-copy-streams for pg-copy-streams");
    return super.listeners(event);
  }

  end(): void {
    this.#wire.destroy();
  }

  destroy(error?: Error): this {
    this.#wire.destroy(error);
    return this;
  }

  pause(): this {
    this.#paused ??= new Promise((resolve) => (this.#resume = resolve));
    return this;
  }

  resume(): this {
    this.#resume?.();
    this.#paused = undefined;
    return this;
  }

  ref(): this {
    this.#wire.ref();
    return this;
  }

  unref(): this {
    this.#wire.unref();
    return this;
  }

  /** Does nothing, because writes are gathered anyway. */
  cork(): void {}
  uncork(): void {}
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
}
