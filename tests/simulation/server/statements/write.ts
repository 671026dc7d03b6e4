// INSERT, UPDATE, DELETE and TRUNCATE.
//
// Knows how rows are changed, and which session must wait for which. Must not know how versions are kept (tables.ts).
import { noTable, PgError } from "../errors.ts";
import { ACCESS_EXCLUSIVE, EXCLUSIVE, ROW_EXCLUSIVE } from "../locks.ts";
import type { Session } from "../session.ts";
import type { Attribute, Table, Version } from "../tables.ts";
import type { TokenReader } from "../tokens.ts";
import * as types from "../values.ts";
import type { Value } from "../values.ts";
import { conversion, isImplicit } from "./conversions.ts";
import { analyse, Scope, type Context, type Expression } from "./expressions.ts";
import { parseExpression, type Node } from "./syntax.ts";
import { columnsOf, expanded, lockedTables, parseQuery, parseTarget, rowsOf, type Query } from "./select.ts";
import type { Column, ParameterTypes, Plan, Rows, Statement } from "./statement.ts";

interface Named {
  readonly name: string;
  readonly at: number;
}

type Returning = readonly ReturnType<typeof parseTarget>[] | undefined;

function parseTable(reader: TokenReader): Named & { alias: string } {
  reader.accept("only");
  const { at } = reader.token;
  let name = reader.name();
  if (reader.accept(".")) name = reader.name();
  const hasAlias =
    reader.accept("as") || (reader.token.kind === "word" && !reader.isAtEnd && !reader.isOneOf(...KEYWORDS));
  return { name, at, alias: hasAlias ? reader.name() : name };
}

const KEYWORDS = ["set", "where", "returning", "values", "select", "default", "using", "table"];

function parseReturning(reader: TokenReader): Returning {
  return reader.accept("returning") ? reader.list(() => parseTarget(reader)) : undefined;
}

function findTable({ name, at }: Named, session: Session): Table {
  const table = session.world.table(name, session);
  if (!table) throw noTable(name, at);
  return table;
}

function findAttribute(table: Table, { name, at }: Named): Attribute {
  const found = table.attributes.find((attribute) => attribute.name === name);
  if (!found) throw new PgError("42703", `column "${name}" of relation "${table.name}" does not exist`, { at });
  return found;
}

/** A value for a column. */
function assigned(node: Node, scope: Scope, { name, type }: Attribute): Expression {
  const inner = analyse(node, scope, type);
  return assignment(inner, name, type, node.at);
}

function assignment(
  inner: Pick<Expression, "type" | "evaluate">,
  name: string,
  to: types.Type,
  at: number,
): Expression {
  if (inner.type === to) return inner;
  const convert = isImplicit(inner.type, to, true) ? conversion(inner.type, to) : undefined;
  if (!convert)
    throw new PgError(
      "42804",
      `column "${name}" is of type ${to.fullName} but expression is of type ${inner.type.fullName}`,
      { at, hint: "You will need to rewrite or cast the expression." },
    );
  return {
    type: to,
    evaluate: (context) => {
      const value = inner.evaluate(context);
      return value === null ? null : convert(value, context);
    },
  };
}

/** Returns the targets of RETURNING, if any. */
function returningOf(returning: Returning, table: Table, alias: string, session: Session, parameters: ParameterTypes) {
  if (!returning) return undefined;
  const scope = new Scope(session, parameters, [{ name: alias, columns: columnsOf(table) }]);
  const targets = returning.flatMap(({ node, name }) => expanded(node, name, scope));
  const columns: Column[] = targets.map(({ name, expression }) => ({
    name,
    type: expression.type,
    ...expression.column,
  }));
  const row = (values: readonly Value[], context: Context): Value[] =>
    targets.map(({ expression }) => expression.evaluate({ ...context, rows: [values] }));
  return { columns, row };
}

const contextOf = (session: Session, parameters: readonly Value[]): Context => ({
  session,
  parameters,
  rows: [],
  waited: new Map(),
});

// -- INSERT -----------------------------------------------------------------------------------------------------------

export function parseInsert(reader: TokenReader, text: string): Statement {
  reader.expect("insert", "into");
  const target = parseTable(reader);
  let names: Named[] | undefined;
  if (reader.is("(") && reader.peek().text !== "select") {
    reader.expect("(");
    names = reader.list(() => ({ at: reader.token.at, name: reader.name() }));
    reader.expect(")");
  }
  const isDefault = reader.accept("default");
  if (isDefault) reader.expect("values");
  const query = isDefault ? undefined : parseQuery(reader);
  const returning = parseReturning(reader);
  const tables = [{ name: target.name, mode: ROW_EXCLUSIVE }, ...(query ? lockedTables(query) : [])];
  return {
    text,
    tables,
    analyse: (session, parameters) => insertPlan({ target, names, query, returning }, session, parameters),
  };
}

interface Insert {
  readonly target: ReturnType<typeof parseTable>;
  readonly names: readonly Named[] | undefined;
  readonly query: Query | undefined;
  readonly returning: Returning;
}

function insertPlan({ target, names, query, returning }: Insert, session: Session, parameters: ParameterTypes): Plan {
  const table = findTable(target, session);
  const attributes = names ? names.map((named) => findAttribute(table, named)) : table.attributes;
  const rows = query ? insertedRows(query, attributes, target.at, session, parameters) : undefined;
  const out = returningOf(returning, table, target.alias, session, parameters);
  return {
    kind: out ? "returning" : "none",
    columns: out?.columns,
    *run({ session: runner, parameters: values }): Rows {
      runner.see();
      runner.checkWritable("INSERT", table);
      runner.write();
      const context = contextOf(runner, values);
      let count = 0;
      // All rows are read before the first is stored, because the query may read the table.
      const all: Value[][] = [];
      if (rows) {
        for (const row of rows(context)) {
          if (Array.isArray(row)) all.push(row);
          else yield row;
        }
      } else all.push([]);
      for (const row of all) {
        const stored: Value[] = table.attributes.map(() => null);
        attributes.forEach(({ number }, at) => (stored[number - 1] = row[at] ?? null));
        table.insert(runner.transaction!, stored);
        count++;
        if (out) yield out.row(stored, context);
      }
      return `INSERT 0 ${count}`;
    },
  };
}

function insertedRows(
  query: Query,
  attributes: readonly Attribute[],
  at: number,
  session: Session,
  parameters: ParameterTypes,
): (context: Context) => Rows {
  if (query.values) {
    checkWidth(query.values[0]!.length, attributes.length, query.values[0]![attributes.length]?.at ?? at);
    const scope = new Scope(session, parameters);
    const rows = query.values.map((row) => row.map((node, index) => assigned(node, scope, attributes[index]!)));
    return function* (context) {
      for (const waiting of scope.waiting) yield* waiting.run(context);
      for (const row of rows) yield row.map((item) => item.evaluate(context));
      return "";
    };
  }
  // In `insert … select $1` the parameter has the column's type.
  query.targets.forEach(({ node }, index) => {
    const type = attributes[index]?.type;
    if (node.kind === "parameter" && type) parameters.use(node.index, type);
  });
  const { columns, run } = rowsOf(query, session, parameters);
  checkWidth(columns.length, attributes.length, at);
  const assignments = columns.map(({ type }, index) => {
    const { name, type: to } = attributes[index]!;
    return assignment({ type, evaluate: ({ rows }) => rows[0]![index] ?? null }, name, to, at);
  });
  return function* (context) {
    for (const row of run(context.session, context.parameters)) {
      if (Array.isArray(row)) yield assignments.map((item) => item.evaluate({ ...context, rows: [row] }));
      else yield row;
    }
    return "";
  };
}

function checkWidth(given: number, expected: number, at: number): void {
  if (given > expected) throw new PgError("42601", "INSERT has more expressions than target columns", { at });
}

// -- UPDATE and DELETE ------------------------------------------------------------------------------------------------

interface Change {
  readonly word: "UPDATE" | "DELETE";
  readonly target: ReturnType<typeof parseTable>;
  readonly sets: readonly { readonly column: Named; readonly node: Node }[];
  readonly where: Node | undefined;
  readonly returning: Returning;
}

export function parseUpdate(reader: TokenReader, text: string): Statement {
  reader.expect("update");
  const target = parseTable(reader);
  reader.expect("set");
  const sets = reader.list(() => {
    const column = { at: reader.token.at, name: reader.name() };
    reader.expect("=");
    return { column, node: parseExpression(reader) };
  });
  return change(reader, text, { word: "UPDATE", target, sets });
}

export function parseDelete(reader: TokenReader, text: string): Statement {
  reader.expect("delete", "from");
  return change(reader, text, { word: "DELETE", target: parseTable(reader), sets: [] });
}

function change(reader: TokenReader, text: string, begun: Pick<Change, "word" | "target" | "sets">): Statement {
  const where = reader.accept("where") ? parseExpression(reader) : undefined;
  const all: Change = { ...begun, where, returning: parseReturning(reader) };
  const tables = [{ name: begun.target.name, mode: ROW_EXCLUSIVE }];
  return { text, tables, analyse: (session, parameters) => changePlan(all, session, parameters) };
}

function changePlan(
  { word, target, sets, where, returning }: Change,
  session: Session,
  parameters: ParameterTypes,
): Plan {
  const table = findTable(target, session);
  const scope = new Scope(session, parameters, [{ name: target.alias, columns: columnsOf(table) }]);
  const changes = sets.map(({ column, node }) => {
    const attribute = findAttribute(table, column);
    return { at: attribute.number - 1, to: assigned(node, scope, attribute) };
  });
  const condition = where && analyse(where, scope, types.bool);
  const out = returningOf(returning, table, target.alias, session, parameters);
  return {
    kind: out ? "returning" : "none",
    columns: out?.columns,
    *run({ session: runner, parameters: values }): Rows {
      runner.see();
      runner.checkWritable(word, table);
      checkIdentity(word, table, runner);
      runner.write();
      let count = 0;
      const at = ({ values: row }: Version): Context => ({ ...contextOf(runner, values), rows: [row] });
      const fits = (version: Version) => !condition || condition.evaluate(at(version)) === true;
      for (const version of table.visible(runner.transaction)) {
        const seen = at(version);
        for (const waiting of scope.waiting) yield* waiting.run(seen);
        if (condition && condition.evaluate(seen) !== true) continue;
        const latest = yield* runner.latest(version, EXCLUSIVE, fits);
        if (!latest) continue;
        const context = { ...seen, rows: [latest.values] };
        const stored = store(table, runner, latest, word === "UPDATE" ? changed(latest, changes, context) : undefined);
        count++;
        if (out) yield out.row(stored, context);
      }
      return `${word} ${count}`;
    },
  };
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

function changed(
  { values }: Version,
  changes: readonly { readonly at: number; readonly to: Expression }[],
  context: Context,
): Value[] {
  const row = [...values];
  for (const { at, to } of changes) row[at] = to.evaluate(context);
  return row;
}

/** Stores the change. Returns the row that RETURNING sees. */
function store(table: Table, session: Session, old: Version, values: Value[] | undefined): Value[] {
  const transaction = session.transaction!;
  if (values) table.update(transaction, old, values);
  else table.delete(transaction, old);
  return values ?? old.values;
}

export function parseTruncate(reader: TokenReader, text: string): Statement {
  reader.expect("truncate");
  reader.accept("table");
  const targets = reader.list(() => ({ at: reader.token.at, name: reader.name() }));
  return {
    text,
    tables: targets.map(({ name }) => ({ name, mode: ACCESS_EXCLUSIVE })),
    analyse: () => ({
      kind: "none",
      columns: undefined,
      // eslint-disable-next-line require-yield
      *run({ session }): Rows {
        const transaction = session.transaction!;
        const tables = targets.map((target) => findTable(target, session));
        for (const table of tables) {
          session.checkWritable("TRUNCATE TABLE", table);
          session.write();
          table.truncate(transaction);
        }
        const logged = tables.filter(({ owner }) => !owner).map((table) => table.logged);
        transaction.add({ logged: session.world.log.record("truncate", logged) });
        return "TRUNCATE TABLE";
      },
    }),
  };
}
