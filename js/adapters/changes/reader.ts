// Makes changes from lines: objects, with the values of `rows()`.
//
// Knows lines and what becomes of their values. Must not know connections, or how changes are asked for.
import { converter, type ValuePolicy } from "../../values/converters.ts";
import { TYPE_SAME } from "../../wasm/numbers.ts";
import type { Feed } from "./feed.ts";
import type { AnyChange, Commit, Prepared, Schema } from "./kinds.ts";
import { positionOf, type ChangesOptions } from "./options.ts";

/** Columns of a table whose values are not those of JSON. */
type Conversions = readonly (readonly [name: string, convert: (value: unknown) => unknown])[];

interface Place {
  readonly schema: string;
  readonly table: string;
}

export class ChangeReader {
  readonly #feed: Feed;
  readonly #policy: ValuePolicy;
  readonly #decoder = new TextDecoder();
  readonly #tables = new Map<string, Conversions>();
  /** Of the table that was met last: most changes are of the one before. */
  #last: Place & { readonly conversions: Conversions } = { schema: "", table: "", conversions: [] };

  constructor(feed: Feed, { int8, numeric, dates = "string", bytea = "uint8array" }: ChangesOptions) {
    this.#feed = feed;
    this.#policy = { int8, numeric, dates, bytea, parsers: undefined };
  }

  /** Whole lines, as one array of JSON: no newline is within a line. To parse them one by one takes as long. */
  readAll(lines: Uint8Array): AnyChange[] {
    const text = this.#decoder.decode(lines);
    const all = JSON.parse(`[${text.slice(0, -1).replaceAll("\n", ",")}]`) as AnyChange[];
    for (const change of all) this.#complete(change);
    return all;
  }

  #complete(change: AnyChange): void {
    switch (change.kind) {
      case "schema":
        return this.#learn(change);
      case "insert":
        return this.#convert(change, change.new);
      case "update":
        this.#convert(change, change.new);
        if (change.old) this.#convert(change, change.old);
        return;
      case "delete":
        return this.#convert(change, change.old);
      case "commit":
      case "prepare":
      case "commitPrepared":
      case "rollbackPrepared":
        return this.#acknowledgeable(change);
    }
  }

  #acknowledgeable(end: Commit | Prepared): void {
    const feed = this.#feed;
    const acknowledge = () => feed.acknowledge(positionOf(end.position));
    Object.defineProperty(end, "acknowledge", { value: acknowledge });
  }

  #convert(place: Place, row: object): void {
    const values = row as Record<string, unknown>;
    for (const [name, convert] of this.#conversionsOf(place))
      if (values[name] !== null && values[name] !== undefined) values[name] = convert(values[name]);
  }

  #conversionsOf({ schema, table }: Place): Conversions {
    const last = this.#last;
    if (table === last.table && schema === last.schema) return last.conversions;
    const conversions = this.#tables.get(nameOf({ schema, table })) ?? [];
    this.#last = { schema, table, conversions };
    return conversions;
  }

  #learn(table: Schema): void {
    const conversions = table.columns.flatMap(({ name, typeOid }) => {
      const convert = converter({ name, typeOid: this.#baseOf(typeOid) } as never, this.#policy, true);
      return convert ? [[name, convert] as const] : [];
    });
    this.#tables.set(nameOf(table), conversions);
    this.#last = { schema: table.schema, table: table.table, conversions };
  }

  /** A domain's values are those of its base type. */
  #baseOf(typeOid: number): number {
    const found = this.#feed.catalog.definitions([{ typeOid }]).find(({ oid }) => oid === typeOid);
    return found?.code === TYPE_SAME ? this.#baseOf(found.of) : typeOid;
  }
}

const NEWLINE = 10;

/** How many bytes each line has. */
export function lengthsOf(lines: Uint8Array): number[] {
  const lengths: number[] = [];
  for (let from = 0; from < lines.length;) {
    const end = lines.indexOf(NEWLINE, from) + 1;
    lengths.push(end - from);
    from = end;
  }
  return lengths;
}

/** No name has a NUL. */
function nameOf({ schema, table }: Place): string {
  return `${schema}\0${table}`;
}
