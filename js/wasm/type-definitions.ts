// Passes the definitions of a database's own types to a core (src/types/catalog.rs).
//
// Knows the layout of `define_types`. Must not know where definitions come from.
import { encoder } from "../util/bytes.ts";
import type { CoreConnection } from "./boundary.ts";

/** One type. `code`, one of TYPE_…, says what `of` means for it (src/types/catalog.rs). */
export interface Definition {
  readonly oid: number;
  readonly code: number;
  readonly of: number;
  /** The types that it is made of; for a composite the types of its attributes, in their order. */
  readonly parts: readonly number[];
  readonly names: readonly string[];
}

/** Passes definitions to a core of types that it does not know yet. `known`: the definitions that it has received. */
export function define(
  handle: CoreConnection,
  known: Map<number, Definition>,
  definitions: readonly Definition[],
): void {
  if (definitions.every((definition) => known.get(definition.oid) === definition)) return;
  for (const definition of definitions) known.set(definition.oid, definition);
  const types: number[] = [];
  const attributes: number[] = [];
  let names = "";
  let length = 0;
  for (const definition of [...known.values()].sort((a, b) => a.oid - b.oid)) {
    types.push(definition.oid, definition.code, definition.of, attributes.length / 3);
    definition.names.forEach((name, index) => {
      const start = length;
      names += name;
      length += encoder.encode(name).length;
      attributes.push(definition.parts[index]!, start, length);
    });
  }
  handle.define_types(Uint32Array.from(types), Uint32Array.from(attributes), names);
}
