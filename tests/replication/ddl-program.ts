// Random programs of SQL, determined by a seed: tables are created, dropped, renamed, partitioned and altered between
// changes of their rows, in transactions and savepoints that commit or roll back. If a statement fails, the program
// continues.
//
// The catalog is asked for the tables before each step, since a rollback may have undone earlier steps. DDL that
// changes the columns of rows is not in the log, and neither are the rows that it rewrites. So a step that alters
// columns sends the rows anew: by an update of all rows if their key has not changed, or else by deleting the rows
// before. docs/changes.md asks users for the same.
//
// Knows SQL. Must not know changes.
import type pg from "pg";
import type { Dice } from "../random/dice.ts";

export const SCHEMA = "played";

interface Column {
  readonly name: string;
  readonly type: string;
  readonly isGenerated: boolean;
  readonly isNotNull: boolean;
  readonly isKey: boolean;
}

interface Table {
  readonly name: string;
  readonly kind: "r" | "p";
  readonly parent: string | null;
  /** REPLICA IDENTITY of the table and its partitions: `d`, `f`, `i`, `n`. */
  readonly identities: string;
  readonly columns: readonly Column[];
  /** The columns of unique indexes without nullable columns. */
  readonly indexes: readonly string[];
}

/** All names are quoted. The order is by name, because a replay does not repeat the OIDs. */
const TABLES = `
  select quote_ident(c.relname) as name, c.relkind as kind, quote_ident(p.relname) as parent,
    (select string_agg(l.relreplident, '' order by l.relname) from pg_class l
      where l.relkind = 'r' and (l.oid = c.oid or l.oid in (select relid from pg_partition_tree(c.oid)))) as identities,
    (select coalesce(json_agg(json_build_object('name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod),
        'isGenerated', a.attgenerated <> '', 'isNotNull', a.attnotnull,
        'isKey', exists (select from pg_index i where i.indrelid = c.oid and a.attnum = any (i.indkey)
          and (i.indisprimary or i.indisreplident))) order by a.attnum), '[]')
      from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
    (select coalesce(json_agg(quote_ident(x.relname) order by x.relname), '[]')
      from pg_index i join pg_class x on x.oid = i.indexrelid
      where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indpred is null and i.indexprs is null
        and not exists (select from unnest(i.indkey) k join pg_attribute a on a.attrelid = c.oid and a.attnum = k
          where not a.attnotnull)) as indexes
  from pg_class c left join pg_inherits h on h.inhrelid = c.oid left join pg_class p on p.oid = h.inhparent
  where c.relnamespace = '${SCHEMA}'::regnamespace and c.relkind in ('r', 'p')
  order by c.relname collate "C"`;

/** A text long enough to be TOASTed. */
const LONG = "(select string_agg(md5(n::text), '') from generate_series(1, 200) n)";

/** Expressions of values by type, with odd ones among them. `null` may be chosen for each type. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  integer: ["0", "1", "-1", "2147483647", "-2147483648"],
  bigint: ["0", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
  text: [
    "''",
    "'x'",
    `E'\\n\\t\\\\ "q" ''s'''`,
    "'\u{1f418} \u00e4\u0000'".replace("\0", ""),
    "repeat('y', 300)",
    LONG,
  ],
  "character varying(40)": ["''", "'short'", "'null'", `'{"a":1}'`],
  numeric: ["1.50", "0", "'NaN'", "'Infinity'", "-0.00000000000000000001", "12345678901234567890.123456789"],
  "numeric(12,3)": ["1.5", "-999999999.999", "'NaN'"],
  "double precision": ["0.1", "'NaN'", "'-Infinity'", "1e308", "5e-324", "'-0'"],
  boolean: ["true", "false"],
  date: ["'2026-11-27'", "'infinity'", "'0001-01-01 BC'"],
  "timestamp with time zone": ["'2026-11-27 03:00:00.123456+01'", "'-infinity'", "'epoch'"],
  bytea: ["'\\x'", "'\\x00ff5c'", "decode(md5('z'), 'hex')"],
  jsonb: ["'null'", `'{"b": [1, {"a": "\\u00e4"}], "a": 1e400}'`, "'[]'", `'"text"'`],
  "integer[]": ["'{}'", "'{1,null,-3}'", "'{{1,2},{3,4}}'"],
  uuid: ["'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()"],
  interval: ["'1 year -2 days 03:04:05.6'", "'0'"],
  mood: ["'calm'", `'so "so"'`],
  pair: ["row(1, 'x')", "row(null, '')"],
};
const TYPES = Object.keys(VALUES);

const TABLE_NAMES = ["t1", "t2", "t3", `"T 4"`, `"select"`, `"a""b"`, `"\u00fc"`];
const COLUMN_NAMES = ["a", "b", "c", "d", `"E e"`, `"order"`, `"q""q"`, `"\u00f1"`];

/** Steps that do not alter tables. */
const OF_ROWS = new Set(["insert", "update", "remove", "truncate", "begin"]);

/** The session of a program. `sent` has each statement that was sent. */
export class Program {
  readonly sent: string[] = [];
  readonly #client: pg.Client;
  readonly #dice: Dice;
  readonly #steps: Readonly<Record<string, readonly [weight: number, make: () => string]>>;
  #isInTransaction = false;
  #savepoints = 0;
  #tables: readonly Table[] = [];
  #mayHaveChanged = true;
  failed = 0;

  constructor(client: pg.Client, dice: Dice) {
    this.#client = client;
    this.#dice = dice;
    this.#steps = {
      create: [6, () => this.#made(() => this.#create())],
      createAs: [1, () => this.#made(() => this.#createAs())],
      createPartitioned: [2, () => this.#made(() => this.#createPartitioned())],
      createPartition: [2, () => this.#made(() => this.#createPartition())],
      drop: [2, () => this.#of((table) => `drop table ${table.name} cascade`)],
      renameTable: [2, () => this.#of(({ name }) => `alter table ${name} rename to ${dice.pick(TABLE_NAMES)}`)],
      insert: [20, () => this.#of((table) => this.#insert(table))],
      update: [14, () => this.#of((table) => this.#update(table))],
      remove: [4, () => this.#of((table) => `delete from ${table.name} where ${this.#condition(table)}`)],
      truncate: [
        1,
        () => this.#of(({ name }) => `truncate ${name}${dice.oneIn(3) ? " restart identity cascade" : ""}`),
      ],
      addColumn: [4, () => this.#of((table) => this.#altered(table, this.#addition(table)))],
      dropColumn: [3, () => this.#ofColumn((table, { name }) => this.#altered(table, `drop ${name}`, name))],
      renameColumn: [3, () => this.#ofColumn((table, column) => this.#renamed(table, column))],
      retype: [3, () => this.#ofColumn((table, column) => this.#retyped(table, column))],
      identity: [5, () => this.#of((table) => this.#identity(table))],
      index: [2, () => this.#ofColumn((table, column) => this.#index(table, column))],
      storage: [
        1,
        () => this.#ofColumn(({ name }, column) => `alter table ${name} alter ${column.name} set storage external`),
      ],
      attach: [3, () => this.#made(() => this.#attach())],
      detach: [
        2,
        () => this.#of(({ name, parent }) => (parent ? `alter table ${parent} detach partition ${name}` : "")),
      ],
      addValue: [1, () => `alter type ${SCHEMA}.mood add value if not exists 'wild ${dice.below(3)}'`],
      begin: [8, () => this.#begin()],
      savepoint: [4, () => this.#savepoint()],
      end: [8, () => this.#end()],
    };
  }

  async play(steps: number): Promise<void> {
    const types = `create type ${SCHEMA}.mood as enum ('calm', 'so "so"'); create type ${SCHEMA}.pair as (a int4, b text)`;
    await this.#send(`drop schema if exists ${SCHEMA} cascade; create schema ${SCHEMA}; ${types}`);
    await this.#send(`set search_path to ${SCHEMA}, public`);
    for (let n = 0; n < steps; n++) await this.#step();
    if (this.#isInTransaction) await this.#send(this.#dice.oneIn(3) ? "rollback" : "commit");
    this.#isInTransaction = false;
  }

  async #step(): Promise<void> {
    if (this.#mayHaveChanged) this.#tables = (await this.#client.query<Table>(TABLES)).rows;
    const all = Object.entries(this.#steps);
    let drawn = this.#dice.below(all.reduce((sum, [, [weight]]) => sum + weight, 0));
    const [name, [, make]] = all.find(([, [weight]]) => (drawn -= weight) < 0)!;
    const text = make();
    this.#mayHaveChanged = !OF_ROWS.has(name);
    if (text !== "") await this.#send(text);
  }

  /** Several statements are one transaction, unless a transaction is open. */
  async #send(text: string): Promise<void> {
    this.sent.push(text);
    try {
      await this.#client.query(text);
    } catch (error) {
      this.#mayHaveChanged = true;
      this.failed++;
      this.sent.push(`-- ${(error as Error).message}`);
      if (!this.#isInTransaction) return;
      this.#isInTransaction = false;
      this.sent.push("rollback");
      await this.#client.query("rollback");
    }
  }

  #begin(): string {
    if (this.#isInTransaction) return "";
    this.#isInTransaction = true;
    this.#savepoints = 0;
    return "begin";
  }

  #end(): string {
    if (!this.#isInTransaction) return "";
    this.#isInTransaction = false;
    return this.#dice.oneIn(4) ? "rollback" : "commit";
  }

  #savepoint(): string {
    if (!this.#isInTransaction) return "";
    if (this.#savepoints === 0 || this.#dice.oneIn(2)) return `savepoint s${++this.#savepoints}`;
    const name = `s${this.#savepoints--}`;
    return this.#dice.oneIn(3) ? `release ${name}` : `rollback to ${name}; release ${name}`;
  }

  /** Does nothing if there is no table. */
  #of(make: (table: Table) => string): string {
    return this.#tables.length ? make(this.#dice.pick(this.#tables)) : this.#create();
  }

  #ofColumn(make: (table: Table, column: Column) => string): string {
    return this.#of((table) => (table.columns.length ? make(table, this.#dice.pick(table.columns)) : ""));
  }

  // -- tables ---------------------------------------------------------------------------------------------------------

  #create(): string {
    const dice = this.#dice;
    const name = this.#newName();
    const columns = this.#columns(1 + dice.below(5));
    const isKeyed = !dice.oneIn(4);
    if (!dice.oneIn(3)) columns.push("body text");
    if (isKeyed) columns.unshift(`id ${dice.pick(["int4", "int8", "text"])} ${dice.oneIn(4) ? "" : "primary key"}`);
    const full = isKeyed && !dice.oneIn(5) ? "" : `; alter table ${name} replica identity full`;
    return `create table ${name} (${columns.join(", ")})${full}`;
  }

  /** If all names are taken, a table is dropped instead. */
  #made(make: () => string): string {
    return this.#tables.length < TABLE_NAMES.length ? make() : this.#of(({ name }) => `drop table ${name} cascade`);
  }

  /** Mostly returns a name that no table has. */
  #newName(): string {
    const free = TABLE_NAMES.filter((name) => !this.#tables.some((table) => table.name === name));
    return this.#dice.pick(free.length && this.#dice.below(10) ? free : TABLE_NAMES);
  }

  #columns(count: number): string[] {
    const names = [...COLUMN_NAMES].sort(() => this.#dice.below(3) - 1).slice(0, count);
    return names.map((name) => `${name} ${this.#dice.pick(TYPES)}`);
  }

  #createAs(): string {
    const name = this.#newName();
    const identity = this.#dice.oneIn(4) ? "" : `; alter table ${name} replica identity full`;
    return this.#of((table) => `create table ${name} as select * from ${table.name}${identity}`);
  }

  #createPartitioned(): string {
    const name = this.#newName();
    const columns = this.#columns(1 + this.#dice.below(3));
    const key = this.#dice.oneIn(4) ? "" : ", primary key (id)";
    return `create table ${name} (id int4 not null, ${columns.join(", ")}${key}) partition by range (id)`;
  }

  #createPartition(): string {
    const parent = this.#parent();
    if (!parent) return this.#createPartitioned();
    const name = this.#newName();
    const identity = parent.columns.some(({ isKey }) => isKey) ? "" : `; alter table ${name} replica identity full`;
    return `create table ${name} partition of ${parent.name} ${this.#bounds()}${identity}`;
  }

  #parent(): Table | undefined {
    const parents = this.#tables.filter(({ kind }) => kind === "p");
    return parents.length ? this.#dice.pick(parents) : undefined;
  }

  #bounds(): string {
    const from = this.#dice.below(4) * 10;
    return this.#dice.oneIn(3) ? "default" : `for values from (${from}) to (${from + 10})`;
  }

  /**
   * Most tables have other columns than the parent, so a matching table is created, with its columns in another order.
   */
  #attach(): string {
    const parent = this.#parent();
    if (!parent) return this.#createPartitioned();
    const name = this.#newName();
    const columns = [...parent.columns].reverse().filter(({ isGenerated }) => !isGenerated);
    const list = columns.map((one) => `${one.name} ${one.type}${one.isNotNull ? " not null" : ""}`).join(", ");
    const row = columns.map((one) => (one.name === "id" ? "n" : this.#value(one))).join(", ");
    return `create table ${name} (${list}); insert into ${name} select ${row} from generate_series(11, 13) n;
      alter table ${parent.name} attach partition ${name} ${this.#bounds()}`;
  }

  // -- rows -----------------------------------------------------------------------------------------------------------

  #value({ type, isNotNull }: Column): string {
    if (!isNotNull && this.#dice.oneIn(6)) return "null";
    return `(${this.#dice.pick(VALUES[type] ?? VALUES["text"]!)})::${type}`;
  }

  /** Most rows have different keys. */
  #keyed(column: Column): string {
    return column.name === "id" && this.#dice.below(20)
      ? `(${this.#dice.below(45)})::${column.type}`
      : this.#value(column);
  }

  #insert({ name, columns }: Table): string {
    const given = columns.filter(({ isGenerated }) => !isGenerated);
    if (!given.length) return `insert into ${name} default values`;
    const row = () => `(${given.map((column) => this.#keyed(column)).join(", ")})`;
    const rows = Array.from({ length: 1 + this.#dice.below(12) }, row).join(", ");
    const list = given.map((column) => column.name).join(", ");
    return `insert into ${name} (${list}) values ${rows}${this.#dice.oneIn(5) ? "" : " on conflict do nothing"}`;
  }

  #update(table: Table): string {
    const given = table.columns.filter(({ isGenerated }) => !isGenerated);
    if (!given.length) return "";
    const column = this.#dice.pick(given);
    const value = column.name === "id" && column.type !== "text" ? "id + 7" : this.#keyed(column);
    return `update ${table.name} set ${column.name} = ${value} where ${this.#condition(table)}`;
  }

  #condition({ columns }: Table): string {
    const found = columns.find(({ name, type }) => name === "id" && type !== "text");
    const [divisor, column] = [1 + this.#dice.below(4), columns.length ? this.#dice.pick(columns).name : "null"];
    if (found) return `id % ${divisor} = 0`;
    return this.#dice.oneIn(2) ? `${column} is ${this.#dice.oneIn(2) ? "not " : ""}null` : "true";
  }

  // -- columns --------------------------------------------------------------------------------------------------------

  /** Alters columns, and sends the rows anew. */
  #altered(table: Table, change: string, column?: string, touched?: string): string {
    const { name, columns, identities } = table;
    const alter = `alter table ${name} ${change}`;
    const keys = columns.filter(({ isKey }) => isKey);
    const keepsKey = keys.length > 0 && !keys.some((key) => key.name === column) && /^[di]*$/.test(identities ?? "");
    if (!keepsKey) return `delete from ${name}; ${alter}`;
    const [key] = keys;
    return `${alter}; update ${name} set ${touched ? `${touched} = ${touched}${this.#afresh(table, column!)}` : `${key!.name} = ${key!.name}`}`;
  }

  /** Changes a value that is TOASTed, so that it is sent although its column has another name. */
  #afresh({ columns }: Table, column: string): string {
    const { type } = columns.find(({ name }) => name === column)!;
    return /^text|^char/.test(type) ? " || ''" : "";
  }

  #addition({ columns }: Table): string {
    const dice = this.#dice;
    const type = dice.pick(TYPES);
    const free = COLUMN_NAMES.filter((one) => !columns.some((column) => column.name === one));
    const name = dice.pick(free.length ? free : COLUMN_NAMES);
    const ways = ["", ` default ${this.#value({ type, isNotNull: true } as Column)}`];
    if (columns.some((column) => column.name === "id" && column.type === "integer"))
      return dice.oneIn(4)
        ? `add ${name} integer generated always as (id * 2) stored`
        : `add ${name} ${type}${dice.pick(ways)}`;
    return `add ${name} ${type}${dice.pick(ways)}`;
  }

  #renamed(table: Table, column: Column): string {
    const next = this.#dice.pick(COLUMN_NAMES);
    if (table.columns.some(({ name }) => name === next) && this.#dice.below(10)) return "";
    if (column.name === "id" || column.isGenerated) return "";
    return this.#altered(table, `rename ${column.name} to ${next}`, column.name, next);
  }

  #retyped(table: Table, { name, type, isGenerated }: Column): string {
    if (isGenerated) return "";
    const next = type === "integer" ? this.#dice.pick(["bigint", "text", "numeric"]) : "text";
    return this.#altered(table, `alter ${name} type ${next} using ${name}::${next}`, name);
  }

  #index({ name }: Table, column: Column): string {
    return `delete from ${name} where ${column.name} is null; alter table ${name} alter ${column.name} set not null;
      create unique index on ${name} (${column.name})`;
  }

  #identity({ name, indexes }: Table): string {
    const dice = this.#dice;
    if (indexes.length && dice.oneIn(2))
      return `alter table ${name} replica identity using index ${dice.pick(indexes)}`;
    return `alter table ${name} replica identity ${dice.pick(["default", "default", "full", "full", "nothing"])}`;
  }
}
