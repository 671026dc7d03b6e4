// wasm-bindgen's calling convention from JavaScript's side: an instance of the module, whose exports become methods that take and
// give JavaScript's values. docs/decisions/0009 says why the generated glue is not used, and what holds this to the generated wasm.
//
// Knows how values cross, and no call by name. A view is made anew when wasm memory has grown, which moves it. Must not know traps or
// who owns an object.
import type { CoreConnection } from "./boundary.ts";
import { encoder } from "../util/bytes.ts";

/** What crosses into a call. Texts and arrays go as a pointer and a length into memory that the callee frees. */
type Argument = number | boolean | string | Uint8Array | Uint32Array | Float64Array | undefined;

type Export = (...given: number[]) => number | [pointer: number, length: number] | undefined;

interface Exports {
  readonly memory: WebAssembly.Memory;
  __wbindgen_start(): void;
  __wbindgen_malloc(size: number, alignment: number): number;
  __wbindgen_free(pointer: number, size: number, alignment: number): void;
  __wbg_coreconnection_free(pointer: number, unused: number): void;
  coreconnection_new(...given: number[]): number;
}

const PREFIX = "coreconnection_";
const SMALL = 1024;

export class Glue {
  readonly memory: WebAssembly.Memory;
  readonly #exports: Exports;
  #view = new Uint8Array();
  /** Where small results go, and how much of it they fill. */
  #shared = new Uint8Array();
  #used = 0;
  /** What the objects inherit: one method per export. */
  readonly #calls: Record<string, unknown> = {};

  constructor(module: WebAssembly.Module) {
    // Both imports may do nothing: one fills a table of JavaScript objects, of which none crosses; behind the other, which is to throw,
    // stands `unreachable`. The name of that one ends in a hash.
    const imports = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, () => {}]));
    const { exports } = new WebAssembly.Instance(module, { "./pgz_edge_bg.js": imports });
    this.#exports = exports as unknown as Exports;
    this.memory = this.#exports.memory;
    this.#exports.__wbindgen_start();
    const result = (value: ReturnType<Export>) => this.#result(value);
    const lowered = (given: Argument[]) => this.#lowered(given);
    for (const [name, call] of Object.entries(exports as unknown as Record<string, Export>)) {
      if (!name.startsWith(PREFIX)) continue;
      // An accessor, and slow.
      const { length } = call;
      // Five of the calls of every chunk take nothing or a number.
      this.#calls[name.slice(PREFIX.length)] = function (this: CoreConnection, first?: Argument, ...rest: Argument[]) {
        if (length === 1) return result(call(this.pointer));
        if (length === 2) return result(call(this.pointer, Number(first)));
        return result(call(this.pointer, ...lowered([first, ...rest])));
      };
    }
  }

  create(...settings: [maxMessageBytes: number, statementPrefix: string, statementCacheSize: number]): CoreConnection {
    const pointer = this.#exports.coreconnection_new(...this.#lowered(settings));
    return Object.assign(Object.create(this.#calls) as CoreConnection, { pointer });
  }

  free(pointer: number): void {
    this.#exports.__wbg_coreconnection_free(pointer, 0);
  }

  /** All of wasm memory; made anew when it has grown, which detaches what looked at it before. */
  #bytes(): Uint8Array {
    if (!this.#view.length) this.#view = new Uint8Array(this.memory.buffer);
    return this.#view;
  }

  #lowered(given: readonly Argument[]): number[] {
    const numbers: number[] = [];
    for (const value of given) {
      if (value === undefined) numbers.push(0, 0);
      else if (typeof value === "object" || typeof value === "string") {
        const array = typeof value === "string" ? encoder.encode(value) : value;
        const { byteLength, length, BYTES_PER_ELEMENT } = array;
        if (!length) {
          // Nothing to read or to free; Rust wants it aligned.
          numbers.push(BYTES_PER_ELEMENT, 0);
          continue;
        }
        const pointer = this.#exports.__wbindgen_malloc(byteLength, BYTES_PER_ELEMENT) >>> 0;
        this.#bytes().set(array instanceof Uint8Array ? array : new Uint8Array(array.buffer, array.byteOffset, byteLength), pointer);
        numbers.push(pointer, length);
      } else numbers.push(Number(value));
    }
    return numbers;
  }

  /** All numbers are u32. Text comes as its bytes too, and none as no bytes. */
  #result(result: ReturnType<Export>): number | Uint8Array | undefined {
    if (typeof result !== "object") return result && result >>> 0;
    const [pointer, length] = result;
    const bytes = this.#copied(pointer >>> 0, length);
    this.#exports.__wbindgen_free(pointer, length, 1);
    return bytes;
  }

  /** Small ones share memory, none of which is used twice: memory of its own for each costs more than the rest of a call. */
  #copied(start: number, length: number): Uint8Array {
    const bytes = this.#bytes().subarray(start, start + length);
    if (length > SMALL) return bytes.slice();
    if (this.#used + length > this.#shared.length) {
      this.#shared = new Uint8Array(16 * SMALL);
      this.#used = 0;
    }
    const copy = this.#shared.subarray(this.#used, (this.#used += length));
    copy.set(bytes);
    return copy;
  }
}
