// The wasm instance of this isolate: made at the first connect, replaced after a trap.
//
// All connections share it, so a trap (`WebAssembly.RuntimeError`, an object left half-changed) ends all of them with CORE_TRAPPED;
// the next connect makes another instance of the same module, with a fresh memory. Must not know what a connection does.
import { ConnectionError, type PgzError } from "../util/errors.ts";
import { Core, type CoreConnection, type Instance } from "./boundary.ts";
import { Glue } from "./glue.ts";
import { runtime } from "../sockets/runtime.ts";

let compiled: WebAssembly.Module | undefined;
let current: CoreInstance | undefined;

class CoreInstance extends Glue implements Instance {
  /**
   * Weakly held: a Worker's request that ends without close() runs no code, and only the collector can then give its memory back.
   * Workers with a compatibility date before May 2025 have neither class.
   */
  readonly #cores = new Set<{ deref(): Core | undefined }>();
  readonly #collected = globalThis.FinalizationRegistry && new FinalizationRegistry<number>((pointer) => this.#free(pointer));

  /** `handle`'s owner from now on. */
  own(handle: CoreConnection): Core {
    const core = new Core(handle, this);
    this.#cores.add(globalThis.WeakRef ? new WeakRef(core) : { deref: () => core });
    this.#collected?.register(core, handle.pointer, core);
    return core;
  }

  poison(cause: unknown): PgzError {
    if (current === this) current = undefined;
    const error = new ConnectionError("CORE_TRAPPED", "The WebAssembly core failed: connect again.", { stage: "session", cause });
    for (const core of this.#cores) core.deref()?.abandon(error);
    this.#cores.clear();
    return error;
  }

  release(core: Core, { pointer }: CoreConnection): void {
    for (const one of this.#cores) {
      const other = one.deref();
      if (!other || other === core) this.#cores.delete(one);
    }
    this.#collected?.unregister(core);
    this.#free(pointer);
  }

  #free(pointer: number): void {
    if (current !== this) return; // after a trap all of it goes at once
    try {
      this.free(pointer);
    } catch (cause) {
      this.poison(cause);
    }
  }
}

/** A connection's state machine in the current instance. */
export function createCore(...settings: Parameters<Glue["create"]>): Core {
  if (!current) {
    compiled ??= compile(runtime().module());
    current = new CoreInstance(compiled);
  }
  const instance = current;
  let handle;
  try {
    handle = instance.create(...settings);
  } catch (cause) {
    throw instance.poison(cause);
  }
  return instance.own(handle);
}

function compile(module: WebAssembly.Module | BufferSource): WebAssembly.Module {
  return module instanceof WebAssembly.Module ? module : new WebAssembly.Module(module);
}
