// Reads all rows of a publication's tables, as of the position at which a slot starts that is made for them.
//
//   BEGIN ── CREATE_REPLICATION_SLOT … 'use' ── which tables ── select … from each ── COMMIT
//
// This is one transaction of the replication connection, as in the server's own subscriptions: the slot starts where
// the transaction's snapshot was taken, so no row is missing and none arrives twice. Nothing else in the program waits
// for it.
//
// Knows tables and their rows. Must not know what happens to a slot whose snapshot broke off.
import { UsageError } from "../../index.ts";
import { CHANGES_ANSWERED, CHANGES_LINES } from "../../wasm/numbers.ts";
import type { Core } from "./core.ts";
import { createSlotCommand, identifier, literal, lsnOf, type ChangesOptions } from "./options.ts";
import type { Replication } from "./replication.ts";

interface Table {
  readonly oid: number;
  readonly kind: string;
  readonly identity: string;
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly (readonly [name: string, typeOid: number, typeModifier: number, isKey: boolean])[];
  readonly filter: string | null;
}

/** The oldest version with column lists, row filters, and the view that has both. */
const OLDEST_SERVER = 15;

export class Snapshot {
  readonly #connection: Replication;
  readonly #core: Core;
  /** Looks up the types of a table in the catalog. */
  readonly #learn: () => Promise<void>;
  readonly #tables: Table[];
  /** The position at which the slot starts. */
  readonly position: bigint;
  #isReading = false;
  /** Whether the change `snapshot`, which comes alone, is the last one that `more` has brought. */
  isOver = false;

  private constructor(
    connection: Replication,
    core: Core,
    learn: () => Promise<void>,
    tables: Table[],
    position: bigint,
  ) {
    this.#connection = connection;
    this.#core = core;
    this.#learn = learn;
    this.#tables = tables;
    this.position = position;
  }

  /** Makes the slot. @throws PostgresError, also if the slot exists */
  static async begin(
    connection: Replication,
    core: Core,
    options: ChangesOptions,
    publications: readonly string[],
    learn: () => Promise<void>,
    made: () => void,
  ): Promise<Snapshot> {
    if (connection.serverVersion < OLDEST_SERVER)
      throw new UsageError("INVALID_OPTION", 'Option "snapshot" needs PostgreSQL 15 or newer.');
    await connection.run("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
    const [slot] = await connection.run(createSlotCommand(options, connection.serverVersion));
    made();
    await connection.run(SETTINGS);
    const tables = await connection.run(question(publications));
    const read = tables.map(([table]) => JSON.parse(table!) as Table);
    return new Snapshot(connection, core, learn, read, lsnOf(slot![1]!));
  }

  /** Reads until lines have arrived. Resolves with `false` if all lines had arrived before. */
  async more(): Promise<boolean> {
    while (!this.isOver) {
      if (this.#isReading) {
        const happened = await this.#connection.read();
        if (happened & CHANGES_ANSWERED) {
          this.#connection.answer();
          this.#isReading = false;
        }
        if (happened & CHANGES_LINES) return true;
        continue;
      }
      const table = this.#tables.shift();
      if (!table) return await this.#end();
      await this.#select(table);
    }
    return false;
  }

  async #end(): Promise<boolean> {
    await this.#connection.run("COMMIT");
    this.#core.call((handle) => handle.snapshot_over(this.position));
    this.isOver = true;
    return true;
  }

  async #select({ oid, kind, identity, schema, name, columns, filter }: Table): Promise<void> {
    const names = [schema, name, ...columns.map(([column]) => column)].map((text) => `${text}\0`).join("");
    const numbers = columns.flatMap(([, typeOid, modifier, isKey]) => [Number(isKey), typeOid, modifier]);
    this.#core.call((handle) =>
      handle.snapshot_table(oid, identity.charCodeAt(0), names, Uint32Array.from(numbers), this.position),
    );
    await this.#learn();
    const list = columns.map(([column]) => identifier(column)).join(", ");
    // `only`, because inherited rows belong to the inheriting tables. A partitioned table has only the rows of its
    // partitions.
    const from = `from ${kind === "p" ? "" : "only "}${identifier(schema)}.${identifier(name)}`;
    await this.#connection.select(`select ${list} ${from}${filter === null ? "" : ` where ${filter}`}`, oid);
    this.#isReading = true;
  }
}

/**
 * Keeps code of other users out of the snapshot, until its transaction ends.
 *
 * The server writes row filters as SQL for this path, and they are read with it again. With another path a bare
 * operator of a filter would be looked up in the user's schemas too. Without row_security the server refuses a table
 * whose policies would hide rows: the policies are code, and the changes after the snapshot have those rows.
 *
 * The slot must be made before, as the first statement of its transaction.
 */
export const SETTINGS = `select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
  pg_catalog.set_config('row_security', 'off', true)`;

/**
 * Returns a query with a row per table, as JSON: the description that pgoutput would send, and the rows that it would
 * send.
 */
export function question(publications: readonly string[]): string {
  return `
    select pg_catalog.json_build_object(
      'oid', c.oid::bigint, 'kind', c.relkind, 'identity', c.relreplident, 'schema', n.nspname, 'name', c.relname,
      'filter', p.filter,
      'columns', (
        select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(
          a.attname, a.atttypid::bigint, a.atttypmod,
          c.relreplident operator(pg_catalog.=) 'f' or coalesce(a.attnum operator(pg_catalog.=) any(
            (i.indkey::pg_catalog.int2[])[0:i.indnkeyatts operator(pg_catalog.-) 1]), false)
        ) order by a.attnum), '[]')
        from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) c.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
          and a.attname operator(pg_catalog.=) any(p.attnames)
      )
    )
    from (
      select schemaname, tablename, pg_catalog.min(attnames) as attnames,
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
      when c.relreplident operator(pg_catalog.=) 'd' then i.indisprimary
      when c.relreplident operator(pg_catalog.=) 'i' then i.indisreplident end
    order by n.nspname, c.relname`;
}
