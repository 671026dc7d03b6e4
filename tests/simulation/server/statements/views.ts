// The system views that the catalogue's statements read.
//
// Knows the columns that callers use. Must not know SQL.
import { textOf } from "../replication/log.ts";
import type { Session } from "../session.ts";
import { bool, char, int4, lsn, name, text, type Type, type Value } from "../values.ts";
import type { Column } from "./statement.ts";

export interface View {
  readonly columns: readonly Column[];
  rows(session: Session): Value[][];
}

/** Columns by their number in the real view. The model has only these. */
interface Definition {
  readonly oid: readonly [of15: number, of18: number];
  readonly columns: readonly (readonly [name: string, type: Type, number: number])[];
  /** The rows' values are in the order of the columns. */
  rows(session: Session): Value[][];
}

const VIEWS: Readonly<Record<string, Definition>> = {
  pg_prepared_statements: {
    oid: [12_095, 12_095],
    columns: [
      ["name", text, 1],
      ["statement", text, 2],
    ],
    rows: ({ prepared }) => [...prepared.values()].filter((it) => it.name !== "").map((it) => [it.name, it.text]),
  },
  pg_cursors: {
    oid: [12_077, 12_077],
    columns: [["is_holdable", bool, 3]],
    rows: ({ portals }) =>
      [...portals.values()].filter((it) => it.name !== "" || it.isCursor).map((it) => [it.isHoldable]),
  },
  pg_replication_slots: {
    oid: [12_265, 12_273],
    columns: [
      ["slot_name", name, 1],
      ["plugin", name, 2],
      ["slot_type", text, 3],
      ["database", name, 5],
      ["temporary", bool, 6],
      ["active", bool, 7],
      ["active_pid", int4, 8],
      ["confirmed_flush_lsn", lsn, 12],
    ],
    rows: ({ world, database }) =>
      world.slots.all.map(({ name: slot, isTemporary, isBeingMade, processId, confirmed }) => {
        const where = isBeingMade ? null : textOf(confirmed);
        const isActive = processId !== undefined;
        return [slot, "pgoutput", "logical", database, isTemporary, isActive, processId ?? null, where];
      }),
  },
  pg_locks: {
    oid: [12_073, 12_073],
    columns: [
      ["locktype", text, 1],
      ["pid", int4, 12],
    ],
    rows: ({ locks }) =>
      locks.all.map(({ key, processId }) => {
        const [kind] = key.split(" ") as [string];
        return [{ table: "relation", row: "transactionid" }[kind] ?? kind, processId];
      }),
  },
  pg_class: {
    oid: [1_259, 1_259],
    columns: [["relpersistence", char, 17]],
    rows: (session) =>
      session.world.tables.filter(({ owner }) => !owner || owner === session).map(({ owner }) => [owner ? "t" : "p"]),
  },
};

export function systemView(called: string, version: 15 | 18): View | undefined {
  if (!Object.hasOwn(VIEWS, called)) return undefined;
  const { oid, columns, rows } = VIEWS[called]!;
  const tableOid = oid[version === 18 ? 1 : 0];
  return { columns: columns.map(([of, type, attribute]) => ({ name: of, type, tableOid, attribute })), rows };
}
