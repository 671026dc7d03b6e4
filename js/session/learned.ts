// Caches which statements have run on one connection, their columns, and the types that its core knows. Shared by the
// connection's sessions.
//
// Knows two bounded lists. Must not know which session means which statement (statements.ts).
import type { Shape } from "../server/shapes.ts";
import { BoundedMap } from "../util/bounded.ts";
import type { Column, CoreConnection } from "../wasm/boundary.ts";
import { define, type Definition } from "../wasm/type-definitions.ts";

/** Maximum number of statements remembered per connection. */
const MOST_REMEMBERED = 1_000;

export class Learned {
  /** By the ids of shapes and checks that have run here: their columns, if the core has reported them. */
  readonly #columns = new BoundedMap<number, readonly Column[] | undefined>(MOST_REMEMBERED);
  /** The definitions of the database's types that the core has received. */
  readonly #types = new Map<number, Definition>();

  hasRun({ id }: Shape): boolean {
    return this.#columns.has(id);
  }

  /** Remembers that the shape or check runs now, or is prepared. */
  remember({ id }: Pick<Shape, "id">): void {
    if (this.#columns.has(id)) return;
    this.#columns.set(id, undefined);
  }

  /** Forgets everything that has run here, and returns the ids. */
  forgetAll(): number[] {
    const ids = [...this.#columns.keys()];
    this.#columns.clear();
    return ids;
  }

  columns({ id }: Shape): readonly Column[] | undefined {
    return this.#columns.get(id);
  }

  /** Stores the columns that the core has reported for the shape with this id. */
  learnColumns(id: number, columns: readonly Column[]): void {
    this.#columns.set(id, columns);
  }

  /** Passes definitions to the core of types that it does not know yet. */
  define(handle: CoreConnection, types: readonly Definition[]): void {
    define(handle, this.#types, types);
  }
}
