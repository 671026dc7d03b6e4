// `connection.stream`: what applications and tools use of pg's socket.
//
// Knows the few members that others call. Must not know messages. It is no stream of Node's: nobody reads from it.
import { EventEmitter } from "node:events";

/** What it does is its connection's. */
export interface Wire {
  write(bytes: Uint8Array, done?: (error?: Error) => void): void;
  destroy(error?: Error): void;
  hold(isHeld: boolean): void;
  isWritable(): boolean;
  isDestroyed(): boolean;
  isEncrypted(): boolean;
  /** TLS from the first byte. */
  isDirect(): boolean;
}

export class WireStream extends EventEmitter {
  readonly #wire: Wire;
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

  /** Of TLS from the first byte, which the driver takes only with this. */
  get alpnProtocol(): string | false {
    return this.encrypted && this.#wire.isDirect() ? "postgresql" : false;
  }

  /** Settles when reading may go on. */
  get paused(): Promise<void> | undefined {
    return this.#paused;
  }

  write(bytes: Uint8Array, done?: (error?: Error) => void): boolean {
    this.#wire.write(bytes, (error) => {
      done?.(error);
      if (!error) this.emit("drain");
    });
    return true;
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
    this.#wire.hold(true);
    return this;
  }

  unref(): this {
    this.#wire.hold(false);
    return this;
  }

  /** Writes are gathered anyway. */
  cork(): void {}
  uncork(): void {}
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
}
