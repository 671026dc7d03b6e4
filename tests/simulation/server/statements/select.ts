// SELECT: a list of values, one source of rows, a condition, an order.
//
//   select n,repeat('x',$1::int4) as pad from generate_series($2::int4,$3::int4) n
//   select n from ledger where n=any($1::int4[]) order by n      select count(*) as n from ledger where n=$1
//
// Sources are tables, system views, functions that return rows, and a query in parentheses. Must not know how rows are
// sent. There are no joins, groups, limits and row locks.
import { noTable } from "../errors.ts";
import { ACCESS_SHARE } from "../locks.ts";
import type { Doing, Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Table } from "../tables.ts";
import { int4, int8, json, text as textType, void_, type Value } from "../values.ts";
import {
  converted,
  read,
  readCondition,
  valuesOf,
  type Condition,
  type Context,
  type Expression,
  type Node,
  type Scope,
} from "./expressions.ts";
import type { Column, ParameterTypes, Plan, Rows, Statement } from "./statement.ts";
import { bare, halves, split, Unknown } from "./text.ts";
import { systemView } from "./views.ts";

/** Where rows come from. `undefined` as text: a SELECT without FROM has one row without columns. */
interface Source {
  readonly tables: Statement["tables"];
  open(session: Session, parameters: ParameterTypes): Opened;
}

interface Opened {
  readonly columns: readonly Column[];
  rows(context: Context): Iterable<readonly Value[]> | Rows;
}

interface Item {
  readonly node: Node | "*";
  readonly name: string;
}

export interface Query {
  readonly tables: Statement["tables"];
  open(session: Session, parameters: ParameterTypes): RowsOf;
}

export interface RowsOf {
  readonly columns: readonly Column[];
  run(session: Session, parameters: readonly Value[]): Rows;
}

/** `text` is in the form of the catalogue. `whole` is the text in which errors have their positions. */
export function readSelect(text: string, whole: string): Query {
  const [unordered, order] = halves(text, " order by ");
  const [unfiltered, where] = halves(unordered, " where ");
  const [list, from] = halves(unfiltered, " from ");
  if (!list.startsWith("select ")) throw new Unknown();
  const source = readSource(from, whole);
  const condition = where === undefined ? undefined : readCondition(where, whole);
  const items = list.slice("select ".length);
  const counted = /^count\(\*\)(::int4)?(?: as (\w+))?$/.exec(items);
  if (counted) return countOf(source, condition, { isInt4: !!counted[1], name: counted[2] ?? "count" });
  const listed = /^unnest\((.+)\)$/.exec(items);
  if (listed) return unnested(source, read(listed[1]!, whole));
  return selected(source, condition, readItems(items, whole), order && bare(order));
}

export function readItems(list: string, whole: string): readonly Item[] {
  return split(list, ",").map((item) => {
    const [text, name] = halves(item, " as ");
    if (text === "*") return { node: "*", name: "*" };
    const node = text === "row_to_json(t)" ? wholeRow : read(text, whole);
    return { node, name: name ?? node.name };
  });
}

/** The row of the source, whose values are texts and small numbers, as JSON. */
const wholeRow: Node = {
  name: "row_to_json",
  analyse: ({ columns }) => ({
    type: json,
    evaluate: ({ row }) => JSON.stringify(Object.fromEntries(columns.map(({ name }, at) => [name, row[at]]))),
  }),
};

export interface Target {
  readonly column: Column;
  readonly expression: Expression;
}

/** Analyses items, and expands `*` to each column of the source. */
export function targetsOf(items: readonly Item[], scope: Scope): Target[] {
  return items.flatMap(({ node, name }) => {
    if (node === "*") return scope.columns.map((column, at) => ({ column, expression: columnAt(column, at) }));
    const expression = node.analyse(scope);
    return { column: { ...expression.column, name, type: expression.type }, expression };
  });
}

const columnAt = (column: Column, at: number): Expression => ({
  type: column.type,
  evaluate: ({ row }) => row[at] ?? null,
});

function selected(source: Source, condition: Condition | undefined, items: readonly Item[], order?: string): Query {
  return {
    tables: source.tables,
    open(session, parameters) {
      const from = source.open(session, parameters);
      const scope = { session, parameters, columns: from.columns };
      const targets = targetsOf(items, scope);
      const fits = condition?.(scope);
      const key = from.columns.findIndex(({ name }) => name === order);
      function* run(runner: Session, values: readonly Value[]): Rows {
        const expressions = targets.map(({ expression }) => expression);
        const all: { row: Value[]; key: Value }[] = [];
        for (const found of matching(from, fits, { session: runner, parameters: values, row: [] })) {
          if (!("row" in found)) yield found;
          else if (order === undefined) yield yield* valuesOf(expressions, found);
          else all.push({ row: yield* valuesOf(expressions, found), key: found.row[key]! });
        }
        all.sort((a, b) => (a.key! < b.key! ? -1 : 1));
        for (const { row } of all) yield row;
        return "";
      }
      return { columns: targets.map(({ column }) => column), run };
    },
  };
}

/** Yields a context for each row of the source that fits, and waits. */
function* matching(
  { rows }: Opened,
  fits: ReturnType<Condition> | undefined,
  base: Context,
): Generator<Wait | Context, void, void> {
  for (const row of rows(base)) {
    const context = { ...base, row: row as readonly Value[] };
    if (!Array.isArray(row)) yield row as Wait;
    else if (!fits || fits(context)) yield context;
  }
}

function countOf(
  source: Source,
  condition: Condition | undefined,
  { isInt4, name }: { isInt4: boolean; name: string },
): Query {
  return {
    tables: source.tables,
    open(session, parameters) {
      const from = source.open(session, parameters);
      const fits = condition?.({ session, parameters, columns: from.columns });
      function* run(runner: Session, values: readonly Value[]): Rows {
        let count = 0;
        for (const found of matching(from, fits, { session: runner, parameters: values, row: [] })) {
          if ("row" in found) count++;
          else yield found;
        }
        yield [isInt4 ? count : BigInt(count)];
        return "";
      }
      return { columns: [{ name, type: isInt4 ? int4 : int8 }], run };
    },
  };
}

/** A row for each item of an array, for each row of the source. */
function unnested(source: Source, node: Node): Query {
  return {
    tables: source.tables,
    open(session, parameters) {
      const from = source.open(session, parameters);
      const { type, evaluate } = node.analyse({ session, parameters, columns: [] });
      function* run(runner: Session, values: readonly Value[]): Rows {
        for (const found of matching(from, undefined, { session: runner, parameters: values, row: [] })) {
          if ("row" in found) for (const item of (evaluate(found) as Value[] | null) ?? []) yield [item];
          else yield found;
        }
        return "";
      }
      return { columns: [{ name: "unnest", type: type.element! }], run };
    },
  };
}

// -- sources ----------------------------------------------------------------------------------------------------------

const NO_SOURCE: Source = { tables: [], open: () => ({ columns: [], rows: () => [[]] }) };

function readSource(text: string | undefined, whole: string): Source {
  if (text === undefined) return NO_SOURCE;
  const [, series, alias = "generate_series"] = /^generate_series\((.+)\)(?: (\w+))?$/.exec(text) ?? [];
  if (series) return seriesOf(split(series, ",").map((bound) => read(bound, whole)) as [Node, Node], alias);
  const [, inner] = /^\((select .+)\) \w+$/s.exec(text) ?? [];
  if (inner) return inParentheses(readSelect(inner, whole));
  if (text === "pg_listening_channels()") return channels;
  if (/^\w+\(.*\)$/.test(text)) return functionOf(read(text, whole));
  const [, table] = /^(?:only )?([\w.]+)$/.exec(text) ?? [];
  if (!table) throw new Unknown();
  return tableOf(bare(table), whole);
}

function seriesOf(bounds: readonly [Node, Node], name: string): Source {
  return {
    tables: [],
    open(session, parameters) {
      const scope = { session, parameters, columns: [] };
      const [first, last] = bounds.map((bound) => converted(bound.analyse(scope, int4), int4)) as [
        Expression,
        Expression,
      ];
      function* rows(context: Context): Iterable<Value[]> {
        const [from, to] = [first.evaluate(context) as number, last.evaluate(context) as number];
        for (let n = from; n <= to; n++) yield [n];
      }
      return { columns: [{ name, type: int4 }], rows };
    },
  };
}

function inParentheses({ tables, open }: Query): Source {
  return {
    tables,
    open(session, parameters) {
      const { columns, run } = open(session, parameters);
      return { columns, rows: (context) => run(context.session, context.parameters) };
    },
  };
}

const channels: Source = {
  tables: [],
  open: () => ({
    columns: [{ name: "pg_listening_channels", type: textType }],
    rows: ({ session }) => [...session.listening].map((channel) => [channel]),
  }),
};

/** A function as a source of one row. */
function functionOf(node: Node): Source {
  return {
    tables: [],
    open(session, parameters) {
      const expression = node.analyse({ session, parameters, columns: [] });
      function* rows(context: Context): Rows {
        yield yield* valuesOf([expression], context);
        return "";
      }
      return { columns: [{ name: node.name, type: void_ }], rows };
    },
  };
}

export function columnsOf(table: Table): Column[] {
  return table.attributes.map(({ name, type, number }) => ({ name, type, tableOid: table.oid, attribute: number }));
}

export function findTable(name: string, session: Session, whole: string): Table {
  const table = session.world.table(name, session);
  if (!table) throw noTable(name, whole.indexOf(name));
  return table;
}

function tableOf(name: string, whole: string): Source {
  return {
    tables: [{ name, mode: ACCESS_SHARE }],
    open(session) {
      const view = systemView(name, session.world.around.version);
      if (view) return { columns: view.columns, rows: ({ session: runner }) => view.rows(runner) };
      const table = findTable(name, session, whole);
      const rows = ({ session: { transaction } }: Context) => table.visible(transaction).map(({ values }) => values);
      return { columns: columnsOf(table), rows };
    },
  };
}

// -- as a statement ---------------------------------------------------------------------------------------------------

export function planOf(query: Query, session: Session, parameters: ParameterTypes): Plan {
  const { columns, run } = query.open(session, parameters);
  return {
    kind: "select",
    columns,
    *run({ session: runner, parameters: values }) {
      yield* begin(runner);
      yield* run(runner, values);
      return "SELECT";
    },
  };
}

export function* begin(session: Session): Doing<void> {
  session.see();
  // A standby continues to replay while the statement already has its snapshot.
  if (session.world.standing.isStandby) yield* session.think("statement", "a snapshot");
}

export function selectStatement(text: string, whole: string): Omit<Statement, "text"> {
  const query = readSelect(text, whole);
  return { tables: query.tables, analyse: (session, parameters) => planOf(query, session, parameters) };
}
