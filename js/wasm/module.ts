// The wasm instance of this isolate: made at the first connect, replaced after a trap.
//
// The generated glue (pkg/pgz_edge.js, docs/decisions/0009) holds one instance, which all connections share. So a trap
// (`WebAssembly.RuntimeError`, an object left half-changed) ends all of them with CORE_TRAPPED. Another instance of the
// same module, with a fresh memory, then takes its place. Must not know what a connection does.
import { CoreConnection as Handle, initSync, restart, restarted } from "../../pkg/pgz_edge.js";
import type { Bytes } from "../util/bytes.ts";
import { ConnectionError, UsageError, type PgzError } from "../util/errors.ts";
import { Core, type CoreConnection, type Instance } from "./boundary.ts";
import { runtime } from "../runtime/runtime.ts";

let module: WebAssembly.Module | Bytes | undefined;
let current: CoreInstance | undefined;
/** The glue's instance has trapped, and could not be replaced yet. */
let broken = false;

/** The glue's instance, as long as it has not trapped. */
class CoreInstance implements Instance {
  readonly memory: WebAssembly.Memory;
  /**
   * Held weakly: a Worker's request that ends without close() runs no code, and then only the garbage collector can
   * free its memory. (The glue frees a handle that was collected.) Workers with a compatibility date before May 2025 do
   * not have the class.
   */
  readonly #cores = new Set<{ deref(): Core | undefined }>();

  constructor() {
    // The glue compiles and instantiates once. Later it only returns the exports of the instance that it has.
    this.memory = instantiate((module ??= runtime().module())).memory;
  }

  /** Returns the Core that owns `handle` from now on. */
  own(handle: CoreConnection): Core {
    const core = new Core(handle, this);
    this.#cores.add(globalThis.WeakRef ? new WeakRef(core) : { deref: () => core });
    return core;
  }

  poison(cause: unknown): PgzError {
    if (current === this) {
      current = undefined;
      broken = true;
      try {
        // At once, so that the garbage collector cannot free handles of this instance in it any more.
        renew();
      } catch {
        // No memory for another one: the next connect tries again.
      }
    }
    const error = new ConnectionError("CORE_TRAPPED", "The WebAssembly core failed: connect again.", {
      stage: "session",
      cause,
    });
    for (const core of this.#cores) core.deref()?.abandon(error);
    this.#cores.clear();
    return error;
  }

  release(core: Core, handle: CoreConnection): void {
    for (const one of this.#cores) {
      const other = one.deref();
      if (!other || other === core) this.#cores.delete(one);
    }
    // After a trap all memory of the instance is gone, and the next instance may hold a live object at this address.
    if (current !== this) return;
    try {
      handle.free();
    } catch (cause) {
      this.poison(cause);
    }
  }
}

/** Bytes must be compiled, which is not allowed everywhere. */
function instantiate(module: WebAssembly.Module | Bytes): { memory: WebAssembly.Memory } {
  try {
    return initSync({ module });
  } catch (cause) {
    if (!(cause instanceof WebAssembly.CompileError)) throw cause;
    throw new UsageError(
      "UNSUPPORTED_ON_RUNTIME",
      'WebAssembly cannot be compiled here. In a Worker the bundler has to resolve the condition "workerd" ' +
        "(docs/bundlers.md); a page's Content-Security-Policy has to allow 'wasm-unsafe-eval'.",
      { cause },
    );
  }
}

/** Replaces the trapped instance with another instance of the same module. */
function renew(): void {
  restart();
  restarted();
  broken = false;
}

/** Creates a connection's state machine in the current instance. */
export function createCore(maxMessageBytes: number, statementPrefix: string, statementCacheSize: number): Core {
  if (broken) renew();
  const instance = (current ??= new CoreInstance());
  let handle;
  try {
    handle = new Handle(maxMessageBytes, statementPrefix, statementCacheSize);
  } catch (cause) {
    throw instance.poison(cause);
  }
  return instance.own(handle);
}
