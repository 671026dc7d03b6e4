// The system views that a check of leftovers reads.
//
// Knows the columns that callers use. Must not know SQL.
import type { Session } from "../session.ts";
import { fromUnix } from "../times.ts";
import {
  bool,
  byOid,
  char,
  int4,
  int8,
  lsn,
  name,
  oid,
  regtype,
  text,
  timestamptz,
  typeNamed,
  type Type,
  type Value,
} from "../values.ts";
import { textOf } from "../replication/log.ts";
import { BEGINNING } from "./functions.ts";
import type { Column } from "./statement.ts";

export interface View {
  readonly columns: readonly Column[];
  rows(session: Session): Value[][];
}

/** Columns by their number in the real view. The model has only these, so `select *` returns fewer. */
interface Definition {
  readonly oid: number;
  readonly columns: readonly (readonly [name: string, type: Type, number: number])[];
  /** The rows' values are in the order of the columns. */
  rows(session: Session): Value[][];
}

const moment = (milliseconds: number): bigint => fromUnix(BEGINNING + milliseconds);
const regtypes = typeNamed(`${regtype.name}[]`)!;

type Version = 15 | 18;

const VIEWS: Readonly<Record<string, (version: Version) => Definition>> = {
  pg_prepared_statements: (version) => ({
    oid: 12_095,
    columns: [
      ["name", text, 1],
      ["statement", text, 2],
      ["prepare_time", timestamptz, 3],
      ["parameter_types", regtypes, 4],
      ...(version >= 16 ? ([["result_types", regtypes, 5]] as const) : []),
      ["from_sql", bool, version >= 16 ? 6 : 5],
      ["generic_plans", int8, version >= 16 ? 7 : 6],
      ["custom_plans", int8, version >= 16 ? 8 : 7],
    ],
    rows: ({ prepared }) =>
      [...prepared.values()]
        .filter((it) => it.name !== "")
        .map((it) => [
          it.name,
          it.text,
          moment(it.preparedAt),
          it.parameters.map(({ fullName }) => fullName),
          ...(version >= 16 ? [it.plan?.columns?.map(({ type }) => type.fullName) ?? null] : []),
          it.isFromSql,
          0n,
          BigInt(it.uses),
        ]),
  }),
  pg_cursors: () => ({
    oid: 12_077,
    columns: [
      ["name", text, 1],
      ["statement", text, 2],
      ["is_holdable", bool, 3],
      ["is_binary", bool, 4],
      ["is_scrollable", bool, 5],
      ["creation_time", timestamptz, 6],
    ],
    rows: ({ portals, clock }) =>
      [...portals.values()]
        .filter((it) => it.name !== "" || it.isCursor)
        .map((it) => [it.name, it.source, it.isHoldable, false, false, moment(clock.now)]),
  }),
  pg_settings: () => ({
    oid: 12_104,
    columns: [
      ["name", text, 1],
      ["setting", text, 2],
    ],
    rows: ({ settings }) => settings.names.map((it) => [it, settings.get(it)]),
  }),
  pg_stat_activity: (version) => ({
    oid: version === 18 ? 12_226 : 12_222,
    columns: [
      ["datname", name, 2],
      ["pid", int4, 3],
      ["usename", name, 6],
      ["application_name", text, 7],
      ["state", text, 17],
      ["query", text, 21],
      ["backend_type", text, 22],
    ],
    rows: ({ world }) =>
      world.around
        .sessions()
        .map((it) => [it.database, it.processId, it.user, it.applicationName, it.state, it.query, "client backend"]),
  }),
  pg_replication_slots: (version) => ({
    oid: version === 18 ? 12_273 : 12_265,
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
  }),
  // A role that is no member of pg_read_all_stats sees only the process.
  pg_stat_wal_receiver: (version) => ({
    oid: version === 18 ? 12_241 : 12_237,
    columns: [
      ["pid", int4, 1],
      ["status", text, 2],
      ["received_tli", int4, 7],
    ],
    rows: ({ world: { standing } }) => {
      if (standing.receives === undefined) return [];
      return [standing.showsReceiver ? [2, "streaming", standing.receives] : [2, null, null]];
    },
  }),
  pg_locks: () => ({
    oid: 12_073,
    columns: [
      ["locktype", text, 1],
      ["relation", oid, 3],
      ["objid", oid, 9],
      ["pid", int4, 12],
      ["mode", text, 13],
      ["granted", bool, 14],
    ],
    rows: ({ locks }) =>
      locks.all.map(({ key, processId, mode, isGranted }) => {
        const [kind, id] = key.split(" ") as [string, string];
        const type = { table: "relation", row: "transactionid" }[kind] ?? kind;
        const number = Number(id.split(",").at(-1));
        const ofTable = kind === "table" ? number : null;
        return [type, ofTable, kind === "advisory" ? number : null, processId, mode, isGranted];
      }),
  }),
  pg_type: () => ({
    oid: 1_247,
    columns: [
      ["oid", oid, 1],
      ["typname", name, 2],
    ],
    rows: () => [...byOid.values()].map((type) => [type.oid, type.name]),
  }),
  pg_class: (version) => ({
    oid: 1_259,
    columns: [
      ["oid", oid, 1],
      ["relname", name, 2],
      ["relpersistence", char, version === 18 ? 17 : 16],
      ["relkind", char, version === 18 ? 18 : 17],
    ],
    rows: (session) =>
      session.world.tables
        .filter(({ owner }) => !owner || owner === session)
        .map((table) => [table.oid, table.name, table.owner ? "t" : "p", "r"]),
  }),
};

export function systemView(called: string, version: Version): View | undefined {
  if (!Object.hasOwn(VIEWS, called)) return undefined;
  const { oid: tableOid, columns, rows } = VIEWS[called]!(version);
  return { columns: columns.map(([of, type, attribute]) => ({ name: of, type, tableOid, attribute })), rows };
}
