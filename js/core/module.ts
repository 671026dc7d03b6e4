// The wasm instance of this isolate: made at the first connect, replaced after a trap. The only file that knows wasm-bindgen's glue.
//
// The glue holds one instance, so all connections share it and a trap (`WebAssembly.RuntimeError`, an object left half-changed)
// ends all of them with CORE_TRAPPED; the next connect starts from a fresh memory. Must not know what a connection does.
import { CoreConnection, initSync, __wbg_reset_state } from "../../pkg/pgz_edge.js";
import { ConnectionError, type PgzError } from "../errors.ts";
import { Core, type CoreConnection as Handle, type Instance } from "./boundary.ts";
import { runtime } from "./runtime.ts";

let current: CoreInstance | undefined;
let compiled = false;

class CoreInstance implements Instance {
  readonly memory: WebAssembly.Memory;
  /** Weakly held: a Worker's request that ends without close() runs no code, and only the collector can then give its memory back. */
  readonly cores = new Set<WeakRef<Core>>();

  constructor() {
    // Reset makes a new instance from the module that the glue keeps; initSync then only hands over its exports.
    if (compiled) __wbg_reset_state();
    this.memory = initSync({ module: compiled ? undefined! : runtime().module() }).memory;
    compiled = true;
  }

  poison(cause: unknown): PgzError {
    if (current === this) current = undefined;
    const error = new ConnectionError("CORE_TRAPPED", "The WebAssembly core failed: connect again.", {
      stage: "session",
      cause,
    });
    const cores = [...this.cores];
    this.cores.clear();
    for (const core of cores) core.deref()?.abandon(error);
    return error;
  }

  release(core: Core): void {
    for (const one of this.cores) {
      const other = one.deref();
      if (!other || other === core) this.cores.delete(one);
    }
  }
}

/** Workers with a compatibility date before May 2025 have no WeakRef. */
function weakly(core: Core): WeakRef<Core> {
  return typeof WeakRef === "undefined" ? ({ deref: () => core } as WeakRef<Core>) : new WeakRef(core);
}

/** A connection's state machine in the current instance. */
export function createCore(maxMessageBytes: number, statementPrefix: string, statementCacheSize: number): Core {
  const instance = (current ??= new CoreInstance());
  let handle;
  try {
    handle = new CoreConnection(maxMessageBytes, statementPrefix, statementCacheSize);
  } catch (cause) {
    throw instance.poison(cause);
  }
  const core = new Core(handle as unknown as Handle, instance);
  instance.cores.add(weakly(core));
  return core;
}
