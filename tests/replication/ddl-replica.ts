// A program that makes a copy of all tables out of NDJSON. It knows only what docs/changes.md says of the lines.

interface Row {
  [column: string]: unknown;
}

export interface Line {
  readonly kind: string;
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  readonly columns: readonly { readonly name: string; readonly key: boolean }[];
  readonly tables: readonly { readonly schema: string; readonly table: string }[];
  readonly old?: Row;
  readonly new?: Row;
  readonly unchanged?: readonly string[];
}

interface Copy {
  keys: readonly string[];
  rows: Row[];
}

const nameOf = ({ schema, table }: { schema: string; table: string }) => JSON.stringify([schema, table]);
const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

export class Replica {
  /** Keyed by the table's OID, because a name may belong to another table later. */
  readonly copies = new Map<number, Copy>();
  readonly #named = new Map<string, Copy>();

  apply(line: Line): void {
    const { kind, old, new: row } = line;
    if (kind === "schema") this.#learn(line);
    if (kind === "truncate") for (const each of line.tables) this.#named.get(nameOf(each))!.rows = [];
    if (!old && !row) return;
    const copy = this.#named.get(nameOf(line))!;
    const before = kind === "insert" ? undefined : this.#taken(copy, old ?? row!);
    if (!row) return;
    const kept = (line.unchanged ?? []).map((column) => [column, before![column]] as const);
    copy.rows.push({ ...row, ...Object.fromEntries(kept) });
  }

  #learn(line: Line): void {
    const copy = this.copies.get(line.oid) ?? { keys: [], rows: [] };
    copy.keys = line.columns.filter(({ key }) => key).map(({ name }) => name);
    this.copies.set(line.oid, copy);
    this.#named.set(nameOf(line), copy);
  }

  /** Keyed by the key, or by the whole row if the row is the replica identity. */
  #taken({ keys, rows }: Copy, known: Row): Row {
    const at = rows.findIndex((row) => keys.every((key) => isSame(row[key], known[key])));
    if (at < 0) throw new Error(`no row is ${JSON.stringify(known)} by ${keys.join()}: ${JSON.stringify(rows)}`);
    return rows.splice(at, 1)[0]!;
  }
}
