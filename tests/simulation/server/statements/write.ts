// INSERT, UPDATE, DELETE and TRUNCATE.
//
// Knows how rows are changed, and which session must wait for which. Must not know how versions are kept (tables.ts).
import { PgError } from "../errors.ts";
import { ACCESS_EXCLUSIVE, EXCLUSIVE, ROW_EXCLUSIVE } from "../locks.ts";
import type { Session } from "../session.ts";
import type { Attribute, Table, Version } from "../tables.ts";
import type { Value } from "../values.ts";
import { converted, read, readCondition, valuesOf, type Context, type Node } from "./expressions.ts";
import { columnsOf, findTable, readItems, readSelect, targetsOf, type Query } from "./select.ts";
import { quiet, type ParameterTypes, type Plan, type Rows, type Statement } from "./statement.ts";
import { bare, halves, split, Unknown } from "./text.ts";

type Read = Omit<Statement, "text">;
type Returning = ReturnType<typeof readItems> | undefined;

function attributeOf(table: Table, name: string): Attribute {
  const found = table.attributes.find((attribute) => attribute.name === name);
  if (!found) throw new PgError("42703", `column "${name}" of relation "${table.name}" does not exist`);
  return found;
}

/** Returns the columns of RETURNING, and what it returns for a row. */
function returningOf(returning: Returning, table: Table, session: Session, parameters: ParameterTypes) {
  const targets = returning && targetsOf(returning, { session, parameters, columns: columnsOf(table) });
  return {
    kind: targets ? ("returning" as const) : ("none" as const),
    columns: targets?.map(({ column }) => column),
    *of(values: readonly Value[], context: Context): Rows {
      const expressions = targets?.map(({ expression }) => expression);
      if (expressions) yield yield* valuesOf(expressions, { ...context, row: values });
      return "";
    },
  };
}

// -- INSERT -----------------------------------------------------------------------------------------------------------

interface Insert {
  readonly target: string;
  readonly names: readonly string[] | undefined;
  /** The rows of VALUES, or a query. */
  readonly rows: readonly (readonly Node[])[] | Query;
  readonly returning: Returning;
  readonly whole: string;
}

/** `insert into t (a,b) values (1,$1),(2,$2) returning a`, `insert into t select …` */
export function readInsert(text: string, whole: string): Read {
  const [head, returned] = halves(text, " returning ");
  const found = /^insert into ([\w.]+)(?: ?\(([\w,]+)\))? (?:values ?(\(.+\))|(select .+))$/s.exec(head);
  if (!found) throw new Unknown();
  const [, target, names, rows, query] = found;
  const insert: Insert = {
    target: bare(target!),
    names: names?.split(","),
    rows: rows
      ? split(rows, ",").map((row) => split(row.slice(1, -1), ",").map((item) => read(item, whole)))
      : readSelect(query!, whole),
    returning: returned === undefined ? undefined : readItems(returned, whole),
    whole,
  };
  const others = "open" in insert.rows ? insert.rows.tables : [];
  return {
    tables: [{ name: insert.target, mode: ROW_EXCLUSIVE }, ...others],
    analyse: (session, parameters) => insertPlan(insert, session, parameters),
  };
}

function insertPlan(insert: Insert, session: Session, parameters: ParameterTypes): Plan {
  const table = findTable(insert.target, session, insert.whole);
  const attributes = insert.names?.map((name) => attributeOf(table, name)) ?? table.attributes;
  const rows = insertedRows(insert.rows, attributes, session, parameters);
  const out = returningOf(insert.returning, table, session, parameters);
  return {
    kind: out.kind,
    columns: out.columns,
    *run({ session: runner, parameters: values }): Rows {
      runner.see();
      runner.checkWritable("INSERT", table);
      runner.write();
      const context = { session: runner, parameters: values, row: [] };
      // All rows are read before the first is stored, because the query may read the table.
      const all: Value[][] = [];
      for (const row of rows(context)) {
        if (Array.isArray(row)) all.push(row);
        else yield row;
      }
      for (const row of all) {
        const stored: Value[] = table.attributes.map(() => null);
        attributes.forEach(({ number }, at) => (stored[number - 1] = row[at] ?? null));
        table.insert(runner.transaction!, stored);
        yield* out.of(stored, context);
      }
      return `INSERT 0 ${all.length}`;
    },
  };
}

function insertedRows(
  rows: Insert["rows"],
  attributes: readonly Attribute[],
  session: Session,
  parameters: ParameterTypes,
): (context: Context) => Rows {
  if ("open" in rows) {
    const { run } = rows.open(session, parameters);
    return (context) => run(context.session, context.parameters);
  }
  const scope = { session, parameters, columns: [] };
  const items = rows.map((row) =>
    row.map((node, at) => converted(node.analyse(scope, attributes[at]!.type), attributes[at]!.type)),
  );
  return function* (context) {
    for (const row of items) yield yield* valuesOf(row, context);
    return "";
  };
}

// -- UPDATE and DELETE ------------------------------------------------------------------------------------------------

interface Change {
  readonly word: "UPDATE" | "DELETE";
  readonly target: string;
  /** The column that UPDATE sets, and to what. */
  readonly set?: readonly [column: string, to: Node];
  readonly where: ReturnType<typeof readCondition>;
  readonly whole: string;
}

/** `update t set a=a+1 where b=2`, `delete from t where b=2`. */
export function readChange(text: string, whole: string): Read {
  const [head, condition] = halves(text, " where ");
  const where = condition === undefined ? () => () => true : readCondition(condition, whole);
  const [, updated, column, to] = /^update ([\w.]+) set (\w+)=(.+)$/s.exec(head) ?? [];
  const [, emptied] = /^delete from ([\w.]+)$/.exec(head) ?? [];
  if (!updated && !emptied) throw new Unknown();
  const target = bare((updated ?? emptied)!);
  const change: Change = updated
    ? { word: "UPDATE", target, set: [column!, read(to!, whole)], where, whole }
    : { word: "DELETE", target, where, whole };
  return {
    tables: [{ name: target, mode: ROW_EXCLUSIVE }],
    analyse: (session, parameters) => changePlan(change, session, parameters),
  };
}

function changePlan({ word, target, set, where, whole }: Change, session: Session, types: ParameterTypes): Plan {
  const table = findTable(target, session, whole);
  const scope = { session, parameters: types, columns: columnsOf(table) };
  const attribute = set && attributeOf(table, set[0]);
  const to = attribute && converted(set[1].analyse(scope, attribute.type), attribute.type);
  const fits = where(scope);
  return quiet(function* ({ session: runner, parameters }) {
    runner.see();
    runner.checkWritable(word, table);
    checkIdentity(word, table, runner);
    runner.write();
    const at = (version: Version): Context => ({ session: runner, parameters, row: version.values });
    let count = 0;
    for (const version of table.visible(runner.transaction)) {
      if (!fits(at(version))) continue;
      const latest = yield* runner.latest(version, EXCLUSIVE, (next) => fits(at(next)));
      if (!latest) continue;
      count++;
      if (!to) {
        table.delete(runner.transaction!, latest);
        continue;
      }
      const values = [...latest.values];
      values[attribute.number - 1] = to.evaluate(at(latest));
      table.update(runner.transaction!, latest, values);
    }
    return `${word} ${count}`;
  });
}

const IDENTITIES = {
  UPDATE: { does: "update", publishes: "updates", hint: "To enable updating the table" },
  DELETE: { does: "delete from", publishes: "deletes", hint: "To enable deleting from the table" },
} as const;

/** A reader of a published table's log must be able to identify the old row. */
function checkIdentity(word: keyof typeof IDENTITIES, { oid, name, replicaIdentity }: Table, session: Session): void {
  if (replicaIdentity === "f" || !session.world.publications.has(oid)) return;
  const { does, publishes, hint } = IDENTITIES[word];
  throw new PgError(
    "55000",
    `cannot ${does} table "${name}" because it does not have a replica identity and publishes ${publishes}`,
    { hint: `${hint}, set REPLICA IDENTITY using ALTER TABLE.` },
  );
}

/** `truncate a,b` */
export function readTruncate(text: string, whole: string): Read {
  const names = text.replace(/^truncate (table )?/, "").split(",");
  return {
    tables: names.map((name) => ({ name, mode: ACCESS_EXCLUSIVE })),
    analyse: () =>
      quiet(({ session }) => {
        const tables = names.map((name) => findTable(name, session, whole));
        for (const table of tables) {
          session.checkWritable("TRUNCATE TABLE", table);
          session.write();
          table.truncate(session.transaction!);
        }
        const logged = tables.filter(({ owner }) => !owner).map((table) => table.logged);
        session.transaction!.add({ logged: session.world.log.record("truncate", logged) });
        return "TRUNCATE TABLE";
      }),
  };
}
