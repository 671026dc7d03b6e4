// A table with a column of each Drizzle type for PostgreSQL's own types, rows for it, and the ways to query them, to
// compare two drivers. (Extensions' types, of pgvector and PostGIS, need their servers.)
import type { SQL } from "drizzle-orm";
import type { PgColumn, PgIntegerBuilderInitial } from "drizzle-orm/pg-core";
import type { PgzDatabase } from "../../js/adapters/drizzle.ts";

type Core = typeof import("drizzle-orm/pg-core");
type Orm = Pick<typeof import("drizzle-orm"), "getTableColumns" | "sql">;

/** Returns a serial column's type without its sequence, because a serial column cannot be NULL. */
const withoutDefault = (type: string) => type.replace("bigserial", "int8").replace("serial", "int4");

/** In 1.0 an array is a column with dimensions, whose type is that of an element. */
const brackets = (column: object) => "[]".repeat((column as { dimensions?: number }).dimensions ?? 0);

/** Over pg these are the server's text, `{1,2}`; over pgz-edge they are arrays. */
const TEXT_OVER_PG = /^(numerics|numericNumbers|dates|dateTexts|stamp.*s|zoned.*s|intervals|moods)$/;

/** Takes the modules of one version of Drizzle: how it makes an array of arrays, and orders a relational query. */
export function typesOf(
  c: Core,
  { getTableColumns, sql }: Orm,
  matrix: (column: PgIntegerBuilderInitial<"">) => object,
  byKey?: object,
) {
  const mood = c.pgEnum("mood", ["happy", 'it\'s, "so"']);
  const bytes = c.customType<{ data: string; driverData: Buffer }>({
    dataType: () => "bytea",
    fromDriver: (value) => value.toString("hex"),
    toDriver: (value) => Buffer.from(value, "hex"),
  });

  /** Columns, each with its values in two rows, as SQL. A third row has NULL. */
  const columns = {
    small: [c.smallint(), "-32768", "7"],
    int: [c.integer(), "2147483647", "0"],
    bigNumber: [c.bigint({ mode: "number" }), "9007199254740991", "-1"],
    big: [c.bigint({ mode: "bigint" }), "9223372036854775807", "-1"],
    serial: [c.serial(), "1", "2"],
    bigSerial: [c.bigserial({ mode: "bigint" }), "1", "9223372036854775807"],
    bool: [c.boolean(), "true", "false"],
    text: [c.text(), "'Zoë \"x\"'", "''"],
    varchar: [c.varchar({ length: 20 }), "'v'", "'null'"],
    char: [c.char({ length: 5 }), "'ab'", "'abcde'"],
    numeric: [c.numeric(), "1234567890.0987654321", "'NaN'"],
    numericNumber: [c.numeric({ mode: "number" }), "1.50", "-0.001"],
    numericBig: [c.numeric({ mode: "bigint" }), "123456789012345678901234567890", "0"],
    real: [c.real(), "1.1", "'-Infinity'"],
    double: [c.doublePrecision(), "0.1", "'NaN'"],
    json: [c.json(), `'{"a":[1,null,"x"]}'`, "'null'"],
    jsonb: [c.jsonb(), `'[1.5,{"b":true}]'`, `'"text"'`],
    date: [c.date({ mode: "date" }), "'2024-02-29'", "'1969-12-31'"],
    dateText: [c.date(), "'2024-02-29'", "'0044-03-15 BC'"],
    time: [c.time(), "'03:04:05.123456'", "'24:00:00'"],
    timeZone: [c.time({ withTimezone: true }), "'03:04:05+05:30'", "'03:04:05-08'"],
    stamp: [c.timestamp(), "'2024-02-29 12:00:00.123456'", "'1969-12-31 23:59:59'"],
    stampText: [c.timestamp({ mode: "string" }), "'2024-02-29 12:00:00.123456'", "'infinity'"],
    zoned: [c.timestamp({ withTimezone: true }), "'2024-02-29 12:00:00.5+02'", "'epoch'"],
    zonedText: [c.timestamp({ mode: "string", withTimezone: true }), "'2024-02-29 12:00:00.5+02'", "'0044-03-15 BC'"],
    interval: [c.interval(), "'1 year 2 mons -3 days 04:05:06.789'", "'-1 mon +2 days -00:00:01.5'"],
    uuid: [c.uuid(), "'550e8400-e29b-41d4-a716-446655440000'", "'00000000-0000-0000-0000-000000000000'"],
    inet: [c.inet(), "'10.0.0.1/8'", "'::1'"],
    cidr: [c.cidr(), "'10.0.0.0/8'", "'2001:db8::/32'"],
    mac: [c.macaddr(), "'08:00:2b:01:02:03'", "'00:00:00:00:00:00'"],
    mac8: [c.macaddr8(), "'08:00:2b:01:02:03:04:05'", "'00:00:00:00:00:00:00:00'"],
    point: [c.point(), "'(1.5,-2)'", "'(0,0)'"],
    pointXy: [c.point({ mode: "xy" }), "'(1.5,-2)'", "'(0,0)'"],
    line: [c.line(), "'{1,2,3}'", "'{-1,0.5,0}'"],
    lineAbc: [c.line({ mode: "abc" }), "'{1,2,3}'", "'{-1,0.5,0}'"],
    mood: [mood(), "'happy'", "'it''s, \"so\"'"],
    bytes: [bytes(), "'\\x00ff'", "''"],
    ints: [c.integer().array(), "'{1,2}'", "'{}'"],
    matrix: [matrix(c.integer()), "'{{1,2},{3,4}}'", "'{}'"],
    texts: [c.text().array(), `array['a,b', 'c"d', '', 'NULL', 'e\\f']`, "'{}'"],
    bigs: [c.bigint({ mode: "bigint" }).array(), "'{9223372036854775807}'", "'{}'"],
    numerics: [c.numeric().array(), "'{1.50,NaN}'", "'{2}'"],
    numericNumbers: [c.numeric({ mode: "number" }).array(), "'{1.50,-1}'", "'{2}'"],
    doubles: [c.doublePrecision().array(), "'{0.1,Infinity}'", "'{}'"],
    bools: [c.boolean().array(), "'{t,f}'", "'{}'"],
    dates: [c.date({ mode: "date" }).array(), "'{2024-02-29}'", "'{1969-12-31}'"],
    dateTexts: [c.date().array(), "'{2024-02-29,infinity}'", "'{1969-12-31}'"],
    stamps: [c.timestamp().array(), "'{2024-02-29 12:00:00.5}'", "'{1969-12-31 23:59:59,epoch}'"],
    stampTexts: [c.timestamp({ mode: "string" }).array(), "'{2024-02-29 12:00:00.5,infinity}'", "'{epoch}'"],
    zoneds: [c.timestamp({ withTimezone: true }).array(), "'{2024-02-29 12:00:00.5+02}'", "'{epoch}'"],
    zonedTexts: [c.timestamp({ mode: "string", withTimezone: true }).array(), "'{2024-02-29 12:00+02}'", "'{epoch}'"],
    intervals: [c.interval().array(), "'{1 day,-00:00:01}'", "'{2 mons}'"],
    uuids: [c.uuid().array(), "'{550e8400-e29b-41d4-a716-446655440000}'", "'{}'"],
    jsonbs: [c.jsonb().array(), `array['{"a":1}', '[2]']::jsonb[]`, "'{}'"],
    moods: [mood().array(), "array['happy', 'it''s, \"so\"']::mood[]", "array['happy']::mood[]"],
  } as const;

  const definitions = Object.fromEntries(Object.entries(columns).map(([name, [column]]) => [name, column]));
  // The types of this table are not used here.
  const table = c.pgTable("all_types", { key: c.integer().notNull(), ...(definitions as object) } as {
    key: ReturnType<typeof c.integer>;
  });

  const all = getTableColumns(table) as unknown as Record<string, PgColumn>;
  const names = Object.keys(columns);
  const row = (key: number, value: (name: keyof typeof columns) => string) =>
    sql.raw(`insert into all_types values (${[key, ...names.map((name) => value(name as never))].join(", ")})`);

  /** The statements that create the table and its rows. */
  const fill: readonly SQL[] = [
    sql.raw(`create type mood as enum ('happy', 'it''s, "so"')`),
    sql.raw(
      `create table all_types (${Object.values(all)
        .map((column) => `"${column.name}" ${withoutDefault(column.getSQLType())}${brackets(column)}`)
        .join(", ")})`,
    ),
    row(1, (name) => columns[name][1]),
    row(2, (name) => columns[name][2]),
    row(3, () => "null"),
  ];

  const plain = names.filter((name) => !TEXT_OVER_PG.test(name));

  /** The ways to query the table. Each returns rows. */
  const pairs: Readonly<Record<string, (db: PgzDatabase<{ table: typeof table }>) => Promise<unknown[]>>> = {
    "select, known and not": async (db) => {
      const ask = () => db.select().from(table).orderBy(table.key);
      await ask();
      return ask();
    },
    "nested fields": (db) => db.select({ a: { b: all } as never }).from(table),
    "a join": (db) =>
      db
        .select()
        .from(table)
        .leftJoin(c.alias(table, "other"), sql`all_types.key = other.key + 1`)
        .orderBy(table.key),
    returning: (db) =>
      db
        .update(table)
        .set({ key: sql`key + 0` as never })
        .returning(),
    "a relational query": (db) => db.query.table.findMany({ orderBy: (byKey ?? table.key) as never }),
    "execute, values of plain types": async (db) => {
      const list = plain.map((name) => sql.identifier(all[name]!.name));
      return (await db.execute(sql`select ${sql.join(list, sql`, `)} from all_types order by key`)).rows;
    },
    "expressions without a decoder": (db) => {
      const fields = Object.fromEntries(plain.map((name) => [name, sql`coalesce(${all[name]}, ${all[name]})`]));
      return db.select(fields).from(table).orderBy(table.key);
    },
    "expressions with a column's decoder": (db) => {
      const fields = Object.fromEntries(names.map((name) => [name, sql`(${all[name]})`.mapWith(all[name]!)]));
      return db.select(fields).from(table).orderBy(table.key);
    },
  };
  return { table, fill, pairs };
}
