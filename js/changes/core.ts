// The second wasm: its instance in this isolate, and the core of one stream of changes in it.
//
// Knows the boundary (src/wasm-changes/lib.rs). Must not know sockets, options or what a line contains.
import { ChangesCore, initSync, restart_changes } from "../../pkg/pgz_changes.js";
import { ConnectionError, UsageError } from "../index.ts";
import { define, type Definition } from "../wasm/type-definitions.ts";

type Source = () => WebAssembly.Module | ArrayBuffer | ArrayBufferView;

let source: Source | undefined;
let memory: WebAssembly.Memory | undefined;

/** Sets the source of the wasm. Each entry calls this when it is loaded. */
export function provide(wasm: Source): void {
  source = wasm;
}

/** Decodes the bytes of a replication connection. */
export class Core {
  readonly #handle: ChangesCore;
  readonly #memory: WebAssembly.Memory;
  readonly #defined = new Map<number, Definition>();

  /** `streams`: START_REPLICATION will ask for parts of open transactions. */
  constructor(maxMessageBytes: number, rowForm: number, streams = false) {
    this.#memory = memory ??= instantiate();
    this.#handle = guarded(() => new ChangesCore(maxMessageBytes, rowForm, streams));
  }

  /** Calls the core. A trap ends all streams of this isolate. */
  call<T>(work: (handle: ChangesCore) => T): T {
    if (memory !== this.#memory) throw trapped();
    return guarded(() => work(this.#handle));
  }

  /** Passes bytes of the socket to the core. Returns what happened, as bits `CHANGES_…`. */
  receive(chunk: Uint8Array): number {
    return this.call((handle) => {
      const at = handle.input(chunk.length);
      if (at) new Uint8Array(this.#memory.buffer, at, chunk.length).set(chunk);
      return handle.receive(at ? chunk.length : 0);
    });
  }

  /** Returns the changes read so far, as a copy. */
  take(): Uint8Array {
    return this.call((handle) => {
      const length = handle.seal();
      const changes = new Uint8Array(this.#memory.buffer, handle.changes_pointer(), length).slice();
      handle.changes_taken();
      return changes;
    });
  }

  define(definitions: readonly Definition[]): void {
    this.call((handle) => define(handle as never, this.#defined, definitions));
  }

  free(): void {
    if (memory === this.#memory) guarded(() => this.#handle.free());
  }
}

/** The file is read beside the module. A bundle has it there only if it was copied. */
function instantiate(): WebAssembly.Memory {
  try {
    return (initSync({ module: source!() as never }) as { memory: WebAssembly.Memory }).memory;
  } catch (cause) {
    throw new UsageError(
      "UNSUPPORTED_ON_RUNTIME",
      "The WebAssembly of pgz-edge/changes cannot be loaded. A bundle needs pgz_changes_bg.wasm beside it " +
        "(docs/bundlers.md).",
      { cause },
    );
  }
}

function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (!(cause instanceof WebAssembly.RuntimeError)) throw cause;
    memory = undefined;
    restart_changes();
    throw trapped(cause);
  }
}

function trapped(cause?: unknown): ConnectionError {
  return new ConnectionError("CORE_TRAPPED", "The WebAssembly core of changes failed: start again.", {
    stage: "session",
    cause,
  });
}
