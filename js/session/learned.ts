// Caches which statements have run on one connection, their columns, and the types that its core knows. Shared by the
// connection's sessions.
//
// Knows ids and columns. Must not know which session means which statement (statements.ts).
import type { Shape } from "../server/shapes.ts";
import type { Column, CoreConnection } from "../wasm/boundary.ts";
import { define, type Definition } from "../wasm/type-definitions.ts";

/** Number of statements remembered per connection, unless `statementCacheSize` is larger: the core names no more. */
const MOST_REMEMBERED = 1_000;

/** A statement or check that has run here. A check has no shape. */
interface Remembered {
  shape?: Shape;
  /** Its columns, if the core has reported them. */
  columns?: readonly Column[];
}

export class Learned {
  /** By id, the least recently used first, as the core drops names. */
  readonly #remembered = new Map<number, Remembered>();
  readonly #most: number;
  /** The definitions of the database's types that the core has received. */
  readonly #types = new Map<number, Definition>();

  constructor(statementCacheSize = 0) {
    this.#most = Math.max(MOST_REMEMBERED, statementCacheSize);
  }

  hasRun({ id }: Shape): boolean {
    return this.#remembered.has(id);
  }

  /** Remembers that the shape or check runs now, or is prepared. */
  remember(one: Shape | Pick<Shape, "id">): void {
    const { id } = one;
    const remembered = this.#remembered.get(id) ?? {};
    if ("columns" in one) remembered.shape = one;
    this.#remembered.delete(id);
    this.#remembered.set(id, remembered);
    if (this.#remembered.size <= this.#most) return;
    for (const oldest of this.#remembered.keys()) return void this.#remembered.delete(oldest);
  }

  /** Forgets everything that has run here, and returns the ids. */
  forgetAll(): number[] {
    const ids = [...this.#remembered.keys()];
    this.#remembered.clear();
    return ids;
  }

  columns({ id }: Shape): readonly Column[] | undefined {
    return this.#remembered.get(id)?.columns;
  }

  /** Stores the columns that the core has reported for the shape with this id. */
  learnColumns(id: number, columns: readonly Column[]): void {
    const known = this.#remembered.get(id);
    if (known) known.columns = columns;
  }

  shape(id: number): Shape | undefined {
    return this.#remembered.get(id)?.shape;
  }

  /** Passes definitions to the core of types that it does not know yet. */
  define(handle: CoreConnection, types: readonly Definition[]): void {
    define(handle, this.#types, types);
  }
}
