// The only place where the simulator replaces what the driver uses of its runtime: timers, clocks, random numbers, and
// the parts of the platform that do not come to rest with the microtasks.
//
// | of the platform                | in a simulated session                                                        |
// |--------------------------------|-------------------------------------------------------------------------------|
// | setTimeout, setInterval        | events of the session's world                                                 |
// | AbortSignal.timeout            | a timer of the session's                                                      |
// | performance.now, Date.now      | the world's clock                                                             |
// | Math.random, getRandomValues   | the world's dice                                                              |
// | crypto.subtle                  | PBKDF2 from a table that node:crypto fills, digests by node:crypto            |
// | WeakRef                        | holds its target, so the collector's moods change nothing                     |
// | FinalizationRegistry           | remembers what is registered; it is told of nothing                           |
// | wasm compilation               | happens before the first session (driver.ts), of both wasms                   |
// | CompressionStream              | not used: `gzip` stays false                                                  |
//
// Outside a session everything is the platform's own. So the patches can be installed once, before the driver is
// loaded: the wasm's glue makes its FinalizationRegistry while it loads. Knows no sockets and nothing of PostgreSQL.
import { createHash, pbkdf2Sync } from "node:crypto";

/** What a session provides in place of the platform. */
export interface Substitute {
  readonly now: number;
  /** Sets a timer and returns its id. With `every` the timer repeats. */
  set(run: () => void, delay: number, every: boolean): number;
  clear(id: number): void;
  /** At least 0, less than 1. */
  random(): number;
}

let current: Substitute | undefined;

/** The platform's own functions, which the simulator itself uses. */
export const real = {
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  now: performance.now.bind(performance),
};

/** Installs the session's functions. `undefined` restores the platform's own. */
export function substitute(session: Substitute | undefined): void {
  current = session;
}

/** 2026-01-01T00:00:00Z: what `Date.now()` is when a session begins. */
const EPOCH = Date.UTC(2026, 0, 1);

class HandleOfTimer {
  constructor(readonly id: number) {}
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  [Symbol.toPrimitive](): number {
    return this.id;
  }
}

type Callback = (...args: unknown[]) => void;

function patchTimers(): void {
  const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
  const set =
    (original: typeof setTimeout, every: boolean) =>
    (run: Callback, delay = 0, ...args: unknown[]): unknown => {
      if (!current) return original(run, delay, ...args);
      return new HandleOfTimer(current.set(() => run(...args), Math.max(delay, 1), every));
    };
  const clear = (original: (timer: never) => void) => (timer: unknown) => {
    if (timer instanceof HandleOfTimer) current?.clear(timer.id);
    else original(timer as never);
  };
  Object.assign(globalThis, {
    setTimeout: set(setTimeout, false),
    setInterval: set(setInterval as typeof setTimeout, true),
    clearTimeout: clear(clearTimeout),
    clearInterval: clear(clearInterval),
  });
  const { timeout } = AbortSignal;
  AbortSignal.timeout = (milliseconds) => {
    if (!current) return timeout.call(AbortSignal, milliseconds);
    const controller = new AbortController();
    const reason = new DOMException("The operation was aborted due to timeout", "TimeoutError");
    current.set(() => controller.abort(reason), milliseconds, false);
    return controller.signal;
  };
}

function patchClocks(): void {
  const monotonic = performance.now.bind(performance);
  const { now } = Date;
  performance.now = () => (current ? current.now : monotonic());
  Date.now = () => (current ? EPOCH + Math.floor(current.now) : now());
}

function patchDice(): void {
  const { random } = Math;
  Math.random = () => (current ? current.random() : random());
  const own = globalThis.crypto;
  const getRandomValues = <T extends ArrayBufferView>(array: T): T => {
    if (!current) return own.getRandomValues(array as never);
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let at = 0; at < bytes.length; at++) bytes[at] = current.random() * 256;
    return array;
  };
  const randomUUID = () => {
    if (!current) return own.randomUUID();
    const hex = Buffer.from(getRandomValues(new Uint8Array(16))).toString("hex");
    return hex.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
  };
  const subtle = { importKey: importPassword, deriveBits: saltedPassword, digest };
  Object.defineProperty(globalThis, "crypto", { configurable: true, value: { getRandomValues, randomUUID, subtle } });
}

const digest = (algorithm: string, bytes: Uint8Array): Promise<ArrayBuffer> =>
  Promise.resolve(new Uint8Array(createHash(algorithm.replace("-", "")).update(bytes).digest()).buffer);

const derived = new Map<string, ArrayBuffer>();

function importPassword(format: string, password: Uint8Array, algorithm: unknown): Promise<unknown> {
  if (format !== "raw" || algorithm !== "PBKDF2") return Promise.reject(new Error("the simulator has PBKDF2 only"));
  return Promise.resolve({ password });
}

function saltedPassword(
  { salt, iterations }: { salt: Uint8Array; iterations: number },
  { password }: { password: Uint8Array },
): Promise<ArrayBuffer> {
  const key = `${Buffer.from(password).toString("hex")} ${Buffer.from(salt).toString("hex")} ${iterations}`;
  let bits = derived.get(key);
  if (!bits) derived.set(key, (bits = new Uint8Array(pbkdf2Sync(password, salt, iterations, 32, "sha256")).buffer));
  return Promise.resolve(bits.slice(0));
}

/** The number of wasm handles that are not freed, and of leases that are not released. */
export let registered = 0;

function patchCollector(): void {
  class StrongRef<T> {
    readonly #target: T;
    constructor(target: T) {
      this.#target = target;
    }
    deref(): T {
      return this.#target;
    }
  }
  class Registry {
    readonly #tokens = new Set<unknown>();
    register(target: object, _held: unknown, token: unknown = target): void {
      if (this.#tokens.has(token)) return;
      this.#tokens.add(token);
      registered++;
    }
    unregister(token: unknown): boolean {
      const isThere = this.#tokens.delete(token);
      if (isThere) registered--;
      return isThere;
    }
  }
  Object.assign(globalThis, { WeakRef: StrongRef, FinalizationRegistry: Registry });
}

patchTimers();
patchClocks();
patchDice();
patchCollector();
