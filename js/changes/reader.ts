// Makes changes from batches of the core: objects, with the values of `rows()`.
//
// Knows the kinds of heads and how values are converted. Must not know connections, or in which form the caller reads
// changes.
import { converter, type ValuePolicy } from "../values/converters.ts";
import { planRows, type RowPlan } from "../values/objects.ts";
import { CHANGE_BEGIN, CHANGE_COLUMNS, CHANGE_COMMIT, CHANGE_LINE, CHANGE_UPDATE, TYPE_SAME } from "../wasm/numbers.ts";
import { BatchReader } from "./batch.ts";
import type { Feed } from "./feed.ts";
import type { AnyChange, Commit, Insert, Prepared, Schema, Update } from "./kinds.ts";
import { lsnOf, type ChangesOptions } from "./options.ts";

/** Columns of a table whose values differ from JSON's, with their conversions. */
type Conversions = readonly (readonly [name: string, convert: (value: unknown) => unknown])[];

/** A table by its last description. */
interface Table {
  readonly schema: string;
  readonly table: string;
  readonly columns: Schema["columns"];
  /** For rows in slots. */
  plan?: RowPlan;
  /** For rows in lines. Made at the first such row, when its types are known. */
  conversions?: Conversions | undefined;
}

export class ChangeReader {
  readonly #feed: Feed;
  readonly #policy: ValuePolicy;
  readonly #byOid = new Map<number, Table>();
  readonly #byName = new Map<string, Table>();

  constructor(feed: Feed, { int8, numeric, dates = "string", bytea = "uint8array" }: ChangesOptions) {
    this.#feed = feed;
    this.#policy = { int8, numeric, dates, bytea, parsers: undefined };
  }

  /** Returns the changes of a batch. `sizes` gets the size of each in bytes, as the server sent it. */
  readAll(view: Uint8Array, sizes?: number[]): AnyChange[] {
    const batch = new BatchReader(view);
    const changes: AnyChange[] = [];
    for (; !batch.isOver; batch.next()) {
      sizes?.push(batch.bytes);
      switch (batch.kind) {
        case CHANGE_COLUMNS:
          sizes?.pop();
          this.#describe(batch.of, batch.json() as number[]);
          break;
        case CHANGE_LINE:
          changes.push(this.#complete(batch.json() as AnyChange));
          break;
        case CHANGE_BEGIN: {
          const { xid } = batch;
          changes.push({ kind: "begin", position: batch.position(), xid, committedAt: batch.time() });
          break;
        }
        case CHANGE_COMMIT:
          changes.push(new EndOfTransaction(this.#feed, batch.position(), batch.xid, batch.time()));
          break;
        default:
          this.#readRows(batch, changes, sizes);
      }
    }
    return changes;
  }

  /** Reads consecutive rows of one table. */
  #readRows(batch: BatchReader, changes: AnyChange[], sizes: number[] | undefined): void {
    const { schema, table, plan } = this.#byOid.get(batch.of)!;
    const make = batch.kind === CHANGE_UPDATE ? updateOf : insertOf;
    const rows = batch.rows(plan!, batch.run);
    for (const [index, row] of rows.entries()) {
      if (index > 0) {
        batch.next();
        sizes?.push(batch.bytes);
      }
      changes.push(make(batch.position(), batch.xid, batch.subxid, schema, table, row as Row));
    }
  }

  /** Stores the kinds of a table's slots, once its types are known. */
  #describe(oid: number, kinds: readonly number[]): void {
    const table = this.#byOid.get(oid)!;
    const columns = table.columns.map(({ name, typeOid }) => ({ name, typeOid: this.#baseOf(typeOid) }));
    table.plan = planRows(columns, this.#policy, "object", Uint8Array.from(kinds));
    table.conversions = undefined;
  }

  #complete(change: AnyChange): AnyChange {
    switch (change.kind) {
      case "schema":
        this.#learn(change);
        break;
      case "insert":
        this.#convert(change, change.new);
        break;
      case "update":
        this.#convert(change, change.new);
        if (change.old) this.#convert(change, change.old);
        break;
      case "delete":
        this.#convert(change, change.old);
        break;
      case "commit":
      case "prepare":
      case "commitPrepared":
      case "rollbackPrepared":
        this.#acknowledgeable(change);
    }
    return change;
  }

  #acknowledgeable(end: Commit | Prepared): void {
    const feed = this.#feed;
    const acknowledge = () => feed.acknowledge(lsnOf(end.position));
    Object.defineProperty(end, "acknowledge", { value: acknowledge });
  }

  #learn({ oid, schema, table, columns }: Schema): void {
    const known = { schema, table, columns };
    this.#byOid.set(oid, known);
    this.#byName.set(nameOf(schema, table), known);
  }

  #convert({ schema, table }: { readonly schema: string; readonly table: string }, row: object): void {
    const known = this.#byName.get(nameOf(schema, table));
    if (!known) return;
    const values = row as Row;
    for (const [name, convert] of (known.conversions ??= this.#conversionsOf(known)))
      if (values[name] !== null && values[name] !== undefined) values[name] = convert(values[name]);
  }

  #conversionsOf({ columns }: Table): Conversions {
    return columns.flatMap(({ name, typeOid }) => {
      const convert = converter({ name, typeOid: this.#baseOf(typeOid) } as never, this.#policy, true);
      return convert ? [[name, convert] as const] : [];
    });
  }

  /** A domain's values are those of its base type. */
  #baseOf(typeOid: number): number {
    const found = this.#feed.catalog.definitions([{ typeOid }]).find(({ oid }) => oid === typeOid);
    return found?.code === TYPE_SAME ? this.#baseOf(found.of) : typeOid;
  }
}

type Row = Record<string, unknown>;

/** A commit. `acknowledge` is not an own property, so it is neither in JSON nor in a copy. */
class EndOfTransaction implements Commit {
  readonly kind = "commit";
  readonly position: string;
  readonly xid: number;
  readonly committedAt: string;
  readonly #feed: Feed;

  constructor(feed: Feed, position: string, xid: number, committedAt: string) {
    this.position = position;
    this.xid = xid;
    this.committedAt = committedAt;
    this.#feed = feed;
  }

  /** Returns a closure, so that it still works when it is taken out of the change. */
  get acknowledge(): () => Promise<void> {
    return () => this.#feed.acknowledge(lsnOf(this.position));
  }
}

type RowChange<Change> = (
  position: string,
  xid: number,
  subxid: number,
  schema: string,
  table: string,
  row: Row,
) => Change;

/** A row of a snapshot has no transaction, and few changes have a subtransaction. */
const insertOf: RowChange<Insert> = (position, xid, subxid, schema, table, row) => {
  if (!xid) return { kind: "insert", position, schema, table, new: row };
  if (!subxid) return { kind: "insert", position, xid, schema, table, new: row };
  return { kind: "insert", position, xid, subxid, schema, table, new: row };
};

const updateOf: RowChange<Update> = (position, xid, subxid, schema, table, row) =>
  subxid
    ? { kind: "update", position, xid, subxid, schema, table, new: row }
    : { kind: "update", position, xid, schema, table, new: row };

/** Returns a unique key, because no name has a NUL. */
function nameOf(schema: string, table: string): string {
  return `${schema}\0${table}`;
}
