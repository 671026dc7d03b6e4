// Rows of any number as one parameter for each column, so that the text is the same for each number of them: a
// statement that the server knows after its first run.
//
// A function of its own and no member of `sql`: a Worker that does not call it has none of it.
//
// Knows SQL text only as far as the name of a type. Must not know: connections, how an array travels.
import { UsageError } from "../util/errors.ts";
import type { SqlRow } from "../values/parameter-types.ts";
import { isFragment, ownValue, sql, type Query } from "./sql.ts";

/**
 * `rows` as a table for `insert`, `from`, `using` or `in`: `(select "id", "name" from …)`. `types` names the columns in
 * their order, and the type of each as SQL has it: a word such as `int4`, with its schema if it needs one, or a
 * fragment for any other: `sql.identifier("My type")`. No rows are a table without rows.
 *
 * The type must be said: PostgreSQL cannot know it from an array, and a text that depended on what the isolate happens
 * to know of the table would be another statement in the next one.
 *
 * @throws UsageError `INVALID_PARAMETER` for a row that lacks a column, and for an array in a column that is not of
 * type json or jsonb, because unnest would make several rows of it; `INVALID_QUERY` for other arguments
 *
 * @example
 * const rows = [{ id: 7, name: "Grace" }, { id: 8, name: "Joan" }];
 * await db.exec(sql`insert into users (id, name) ${unnest(rows, { id: "int4", name: "text" })}`);
 * await db.exec(sql`update users set name = new.name
 *   from ${unnest(rows, { id: "int4", name: "text" })} as new where users.id = new.id`);
 */
export function unnest<Types extends Readonly<Record<string, string | Query>>>(
  rows: readonly SqlRow<keyof Types>[],
  types: Types,
): Query {
  if (!Array.isArray(rows)) throw new UsageError("INVALID_QUERY", "unnest needs an array of objects.");
  const columns = Object.entries<string | Query>(Object(types) as Types);
  if (!columns.length)
    throw new UsageError("INVALID_QUERY", 'unnest needs the type of each column: unnest(rows, { id: "int4" }).');
  const arrays = columns.map(([name, type]) => {
    const cell = cellOf(name, JSON_TYPES.has(type));
    return sql`pg_catalog.unnest(${rows.map(cell)}::${typeOf(name, type)}[])`;
  });
  const names = sql.join(columns.map(([name]) => sql.identifier(name)));
  return sql`(select ${names} from rows from (${sql.join(arrays)}) as rows (${names}))`;
}

/** The types whose values may be arrays. */
const JSON_TYPES = new Set<unknown>(["json", "jsonb", "pg_catalog.json", "pg_catalog.jsonb"]);

function cellOf(name: string, mayBeArray: boolean): (row: object) => unknown {
  return (row) => {
    const value = ownValue(row, name);
    if (isFragment(value))
      throw new UsageError("INVALID_PARAMETER", `Column "${name}" of unnest takes values, and no fragments of SQL.`);
    if (Array.isArray(value) && !mayBeArray)
      throw new UsageError(
        "INVALID_PARAMETER",
        `Column "${name}" has an array, of which unnest would make several rows: use sql.values, or copyFromRows.`,
      );
    return value;
  };
}

/** Only letters, digits and underscores, with one point at most: no other SQL can be written with these. */
function typeOf(column: string, type: unknown): Query {
  if (isFragment(type)) return type;
  if (typeof type === "string" && /^[a-z_]\w*(\.[a-z_]\w*)?$/i.test(type)) return sql.unsafe(type);
  throw new UsageError(
    "INVALID_QUERY",
    `The type of column "${column}" must be a word such as "int4", or a fragment: sql.identifier("My type").`,
  );
}
