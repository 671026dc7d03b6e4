// What has been told of statements and types on one connection, for all sessions on it.
//
// Knows two bounded lists. Must not know which statements are meant by whom (statements.ts).
import type { Column, CoreConnection } from "../wasm/boundary.ts";
import { define, type Definition } from "../wasm/type-definitions.ts";
import type { Shape } from "./shapes.ts";

/** Most statements of which a connection remembers that they have run. */
const MOST_REMEMBERED = 1_000;

export class Learned {
  /** By the ids of shapes, and of checks, that have run here: their columns as the core has them, where it has told. */
  readonly #columns = new Map<number, readonly Column[] | undefined>();
  /** What the core has been told of the database's types. */
  readonly #types = new Map<number, Definition>();

  hasRun({ id }: Shape): boolean {
    return this.#columns.has(id);
  }

  /** It runs now, or is prepared. */
  remember({ id }: Pick<Shape, "id">): void {
    if (this.#columns.has(id)) return;
    if (this.#columns.size >= MOST_REMEMBERED) this.#columns.clear();
    this.#columns.set(id, undefined);
  }

  /** Nothing has run here: the ids of what had. */
  forgetAll(): number[] {
    const ids = [...this.#columns.keys()];
    this.#columns.clear();
    return ids;
  }

  columns({ id }: Shape): readonly Column[] | undefined {
    return this.#columns.get(id);
  }

  /** The core has told of the columns of the shape with this id. */
  learnColumns(id: number, columns: readonly Column[]): void {
    this.#columns.set(id, columns);
  }

  /** Tells the core of types that it does not know yet. */
  define(handle: CoreConnection, types: readonly Definition[]): void {
    define(handle, this.#types, types);
  }
}
