// Reads all rows of a publication's tables, as of the position at which a slot starts that is made for them.
//
//   BEGIN ── CREATE_REPLICATION_SLOT … 'use' ── which tables ── copy each; was it that table? ── COMMIT
//
// This is one transaction of the replication connection, as in the server's own subscriptions: the slot starts where
// the transaction's snapshot was taken, so no row is missing and none arrives twice. Nothing else in the program waits
// for it.
//
// Rows are read by COPY of the table itself. A SELECT would run code of other users with the rights of the role that
// reads: the planner runs functions in expression indexes, partial indexes, expression statistics and constraints, and
// the owner of the schema may have put a view in the table's place. COPY of a table has no plan, and refuses views. Row
// filters and generated columns need a SELECT, so they need the user's consent. No look into the catalog can replace
// it: code may come from the owners of the table, of its schema, of each partitioned table above it, and of every
// function that is used, and it may come after the look.
//
// Knows tables and their rows. Must not know what happens to a slot whose snapshot broke off.
import { PgzError, UsageError } from "../index.ts";
import { CHANGES_ANSWERED, CHANGES_LINES } from "../wasm/numbers.ts";
import type { Core } from "./core.ts";
import { createSlotCommand, identifier, literal, lsnOf, type ChangesOptions } from "./options.ts";
import type { Replication } from "./replication.ts";

interface Table {
  readonly oid: number;
  readonly identity: string;
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly (readonly [
    name: string,
    typeOid: number,
    typeModifier: number,
    isKey: boolean,
    isGenerated: boolean,
  ])[];
  readonly filter: string | null;
  /** Publications list different columns of it, which the server refuses when the stream begins. */
  readonly hasLists: boolean;
  /** The table and all its partitions. A partitioned table itself has no rows. */
  readonly parts: readonly Part[];
}

interface Part {
  readonly oid: number;
  /** `pg_class.relkind` */
  readonly kind: string;
  /** Its file as of the snapshot: another one has the rows after they were rewritten, or removed by TRUNCATE. */
  readonly file: number;
  readonly schema: string;
  readonly name: string;
}

const ORDINARY = "r";
const PARTITIONED = "p";

export class Snapshot {
  readonly #connection: Replication;
  readonly #core: Core;
  /** Looks up the types of a table in the catalog. */
  readonly #learn: () => Promise<void>;
  readonly #parts: readonly (readonly [Table, Part])[];
  /** Number of parts that have been read, or are being read. */
  #read = 0;
  /** The position at which the slot starts. */
  readonly position: bigint;
  #isReading = false;
  /** Whether `more` has brought something. */
  hasBegun = false;
  /** Whether the change `snapshot`, which comes alone, is the last one that `more` has brought. */
  isOver = false;

  private constructor(
    connection: Replication,
    core: Core,
    learn: () => Promise<void>,
    tables: readonly Table[],
    position: bigint,
  ) {
    this.#connection = connection;
    this.#core = core;
    this.#learn = learn;
    this.#parts = tables.flatMap((table) =>
      table.parts.filter(({ kind }) => kind !== PARTITIONED).map((part) => [table, part] as const),
    );
    this.position = position;
  }

  /** Makes the slot. @throws PostgresError, also if the slot exists; UsageError */
  static async begin(
    connection: Replication,
    core: Core,
    options: ChangesOptions,
    publications: readonly string[],
    learn: () => Promise<void>,
    onCreation: (slot: Promise<unknown>) => void,
  ): Promise<Snapshot> {
    await connection.run("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
    const creation = connection.run(createSlotCommand(options, connection.serverVersion));
    onCreation(creation);
    const [slot] = await creation;
    await connection.run(SETTINGS);
    const tables = await connection.run(question(publications, connection.serverVersion));
    const read = withoutPartitions(tables.map(([table]) => JSON.parse(table!) as Table));
    // What a SELECT locks proves nothing (see `changedQuestion`), so it comes after the parts that their locks prove.
    read.sort((one, other) => Number(needsSelect(one)) - Number(needsSelect(other)));
    for (const table of read) checkTable(table, options.trustTables === true);
    return new Snapshot(connection, core, learn, read, lsnOf(slot![1]!));
  }

  /** Reads until lines have arrived. Resolves with `false` if all lines had arrived before. */
  async more(): Promise<boolean> {
    while (!this.isOver) {
      if (this.#isReading) {
        const happened = await this.#connection.read();
        if (happened & CHANGES_ANSWERED) {
          checkUnchanged(this.#connection.answer(), this.#parts[this.#read - 1]![1]);
          this.#isReading = false;
        }
        if (happened & CHANGES_LINES) return (this.hasBegun = true);
        continue;
      }
      const next = this.#parts[this.#read++];
      if (!next) return await this.#end();
      await this.#copy(...next);
    }
    return false;
  }

  async #end(): Promise<boolean> {
    await this.#connection.run("COMMIT");
    this.#core.call((handle) => handle.snapshot_over(this.position));
    this.isOver = true;
    return true;
  }

  async #copy(table: Table, part: Part): Promise<void> {
    const { oid, identity, schema, name, columns } = table;
    const names = [schema, name, ...columns.map(([column]) => column)].map((text) => `${text}\0`).join("");
    const numbers = columns.flatMap(([, typeOid, modifier, isKey]) => [Number(isKey), typeOid, modifier]);
    this.#core.call((handle) =>
      handle.snapshot_table(oid, identity.charCodeAt(0), names, Uint32Array.from(numbers), this.position),
    );
    await this.#learn();
    // What the user trusts is this table, and no other that has taken its name. The lock does not hold the name of the
    // schema: its owner is trusted, too.
    if (needsSelect(table)) {
      const lock = `lock table only ${nameOf(part)} in access share mode`;
      checkUnchanged(await this.#connection.run(lock, changedQuestion(part)), part);
    }
    this.#connection.copy(`${copyCommand(table, part)}; ${changedQuestion(part)}`, oid);
    this.#isReading = true;
  }
}

const needsSelect = ({ filter, columns }: Pick<Table, "columns" | "filter">): boolean =>
  filter !== null || columns.some(([, , , , isGenerated]) => isGenerated);

const nameOf = ({ schema, name }: Pick<Part, "schema" | "name">): string => `${identifier(schema)}.${identifier(name)}`;

/**
 * Leaves out tables whose changes come as those of a partitioned table above them. Two publications list both, if only
 * one of them has publish_via_partition_root.
 */
function withoutPartitions(tables: readonly Table[]): Table[] {
  const inside = new Set(tables.flatMap((table) => table.parts.filter(({ oid }) => oid !== table.oid)).map(oidOf));
  return tables.filter(({ oid }) => !inside.has(oid));
}

const oidOf = ({ oid }: Part): number => oid;

/** @throws UsageError */
function checkTable(table: Table, trusts: boolean): void {
  const other = table.parts.find(({ kind }) => kind !== ORDINARY && kind !== PARTITIONED);
  if (other)
    throw new UsageError(
      "INVALID_OPTION",
      `${nameOf(other)}, a partition of ${nameOf(table)}, is a foreign table: it has no changes, and a snapshot cannot ` +
        "read it.",
    );
  if (table.hasLists)
    throw new UsageError(
      "INVALID_OPTION",
      `The publications list different columns of table ${nameOf(table)}: the server sends no changes of such a table.`,
    );
  if (!needsSelect(table) || trusts) return;
  const what = table.filter === null ? "generated columns" : "a row filter";
  throw new UsageError(
    "INVALID_OPTION",
    `Table ${nameOf(table)} is published with ${what}. Its snapshot needs a SELECT, and that can run functions in the ` +
      "table's indexes, statistics and constraints, whoever wrote them, as the role of this connection. If you trust " +
      `them, give trustTables: true. Otherwise publish the table without ${what}.`,
  );
}

/** As `only`: rows of inheriting tables belong to those. */
export function copyCommand(table: Pick<Table, "columns" | "filter">, part: Pick<Part, "schema" | "name">): string {
  const list = table.columns.map(([column]) => identifier(column)).join(", ");
  if (!needsSelect(table)) return `copy ${nameOf(part)}${list && ` (${list})`} to stdout`;
  const where = table.filter === null ? "" : ` where ${table.filter}`;
  return `copy (select ${list} from only ${nameOf(part)}${where}) to stdout`;
}

/**
 * Keeps code of other users out of the snapshot, until its transaction ends.
 *
 * The server writes row filters as SQL for this path, and they are read with it again. With another path a bare
 * operator of a filter would be looked up in the user's schemas too. Without row_security the server refuses a table
 * whose policies would hide rows: the policies are code, and the changes after the snapshot have those rows.
 *
 * The other settings are those of new servers: views and foreign tables are refused, whatever took a table's name, and
 * a slow reader has its time.
 *
 * The slot must be made before, as the first statement of its transaction.
 */
export const SETTINGS = `select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
  pg_catalog.set_config('row_security', 'off', true), pg_catalog.set_config('constraint_exclusion', 'off', true),
  (select pg_catalog.count(pg_catalog.set_config(s.name, v.value, true)) from (values
    ('restrict_nonsystem_relation_kind', 'view, foreign-table'), ('transaction_timeout', '0')) v(name, value)
    join pg_catalog.pg_settings s on s.name operator(pg_catalog.=) v.name)`;

/**
 * Returns a query with a row if that part is another table now than when the snapshot began, or was not read. It comes
 * in one message with the COPY of the part.
 *
 * COPY locks what it reads, until the end of the transaction, and all parts before have passed this question. So if
 * this part is locked, this COPY has read it, whatever the names were meanwhile: two schemas can change their names and
 * change them back. Another file means that ALTER TABLE has rewritten the table, or TRUNCATE has emptied it: an older
 * snapshot finds it empty, and the rewritten rows are no changes (the manual's "Caveats" of MVCC). Functions see the
 * catalog of now.
 *
 * A table that needs a SELECT is locked by its name before, so its lock does not prove what the SELECT has read.
 */
export function changedQuestion(part: Pick<Part, "oid" | "file" | "schema" | "name">): string {
  const oid = oidText(part.oid);
  return (
    `select 1 as n where coalesce(pg_catalog.to_regclass(${literal(nameOf(part))})::pg_catalog.oid, ${oidText(0)}) ` +
    `operator(pg_catalog.<>) ${oid} or coalesce(pg_catalog.pg_relation_filenode(${oid}::pg_catalog.regclass), ` +
    `${oidText(0)}) operator(pg_catalog.<>) ${oidText(part.file)} or not exists (select from pg_catalog.pg_locks l ` +
    "where l.pid operator(pg_catalog.=) pg_catalog.pg_backend_pid() and l.locktype operator(pg_catalog.=) 'relation' " +
    `and l.relation operator(pg_catalog.=) ${oid} and l.granted)`
  );
}

/** @throws PgzError if `changedQuestion` has a row */
function checkUnchanged(rows: readonly unknown[], part: Part): void {
  if (rows.length === 0) return;
  throw new PgzError(
    "SNAPSHOT_BROKEN_OFF",
    `Table ${nameOf(part)} was rewritten, emptied or dropped before the snapshot had read it, or another one had its ` +
      "name meanwhile.",
  );
}

const oidText = (oid: number): string => `${oid}::pg_catalog.oid`;

/**
 * Table `c` and all its partitions. These are looked up in `pg_inherits`, because that is read as of the transaction's
 * snapshot: a partition that is detached meanwhile is still read, and one that is attached later is not.
 */
const PARTS = `
  with recursive parts as (
    select c.oid as part, c.relkind as kind
    union all
    select i.inhrelid, t.relkind from parts
    join pg_catalog.pg_inherits i on i.inhparent operator(pg_catalog.=) parts.part
      and parts.kind operator(pg_catalog.=) 'p' and not i.inhdetachpending
    join pg_catalog.pg_class t on t.oid operator(pg_catalog.=) i.inhrelid
  )
  select pg_catalog.json_agg(pg_catalog.json_build_object('oid', t.oid::bigint, 'kind', t.relkind,
    'file', t.relfilenode::bigint, 'schema', s.nspname, 'name', t.relname) order by t.oid)
  from parts
  join pg_catalog.pg_class t on t.oid operator(pg_catalog.=) parts.part
  join pg_catalog.pg_namespace s on s.oid operator(pg_catalog.=) t.relnamespace`;

/**
 * Returns a query with a row per table, as JSON: the description that pgoutput would send, and the rows that it would
 * send.
 */
export function question(publications: readonly string[], serverVersion: number): string {
  // Before 18, generated columns are never sent, but the first releases of 15 list them.
  const isSent = serverVersion < 18 ? "a.attgenerated operator(pg_catalog.=) ''" : "true";
  return `
    select pg_catalog.json_build_object(
      'oid', c.oid::bigint, 'identity', c.relreplident, 'schema', n.nspname, 'name', c.relname, 'filter', p.filter,
      'hasLists', p.has_lists, 'parts', (${PARTS}),
      'columns', (
        select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(
          a.attname, a.atttypid::bigint, a.atttypmod,
          c.relreplident operator(pg_catalog.=) 'f' or coalesce(a.attnum operator(pg_catalog.=) any(
            (i.indkey::pg_catalog.int2[])[0:i.indnkeyatts operator(pg_catalog.-) 1]), false),
          a.attgenerated operator(pg_catalog.<>) ''
        ) order by a.attnum), '[]')
        from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) c.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
          and a.attname operator(pg_catalog.=) any(p.attnames) and ${isSent}
      )
    )
    from (
      select schemaname, tablename, pg_catalog.min(attnames) as attnames,
        coalesce(pg_catalog.min(attnames) operator(pg_catalog.<>) pg_catalog.max(attnames), false) as has_lists,
        case when pg_catalog.bool_and(rowfilter is not null)
          then pg_catalog.string_agg(pg_catalog.concat('(', rowfilter, ')'), ' or ') end as filter
      from pg_catalog.pg_publication_tables
      where pubname operator(pg_catalog.=) any(array[${publications.map(literal).join(", ")}])
      group by schemaname, tablename
    ) p
    join pg_catalog.pg_namespace n on n.nspname operator(pg_catalog.=) p.schemaname
    join pg_catalog.pg_class c
      on c.relnamespace operator(pg_catalog.=) n.oid and c.relname operator(pg_catalog.=) p.tablename
    left join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) c.oid and case
      when c.relreplident operator(pg_catalog.=) 'd' then i.indisprimary and i.indimmediate
      when c.relreplident operator(pg_catalog.=) 'i' then i.indisreplident end
    order by n.nspname, c.relname`;
}
