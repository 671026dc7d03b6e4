// SELECT, VALUES and TABLE: the sources of rows, which rows are chosen, their order, and the result of each.
//
// Knows sources: tables, system views, functions that return rows, lists of values and queries in parentheses. Must not
// know how rows are sent. Joins are by comma only. There is no GROUP BY, and no WITH.
import { noFunction, noTable, PgError } from "../errors.ts";
import { ACCESS_SHARE, EXCLUSIVE, ROW_SHARE, SHARE } from "../locks.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Table, Version } from "../tables.ts";
import type { TokenReader } from "../tokens.ts";
import * as types from "../values.ts";
import type { Type, Value } from "../values.ts";
import { analyse, coerced, isUntyped, Scope, type Context, type Expression, type Source } from "./expressions.ts";
import { controlFunction } from "./control.ts";
import { compare } from "./operations.ts";
import { nameOf, parseExpression, type Node } from "./syntax.ts";
import { type ParameterTypes, type Column, type Execution, type Plan, type Rows, type Statement } from "./statement.ts";
import { systemView } from "./views.ts";

interface Target {
  readonly node: Node;
  readonly name: string;
}

type From =
  | { kind: "table"; name: string; alias: string; at: number }
  | { kind: "function"; name: string; args: Node[]; alias: string; column: string | undefined; at: number }
  | { kind: "query"; query: Query; alias: string; columns: string[] | undefined };

interface Order {
  readonly node: Node;
  readonly isDescending: boolean;
}

export interface Query {
  targets: Target[];
  /** The rows of VALUES. */
  values?: Node[][];
  from: From[];
  where?: Node;
  order: Order[];
  limit?: Node;
  offset?: Node;
  isDistinct: boolean;
  locks?: { mode: number; word: string; wait: "wait" | "nowait" | "skip" };
}

const ENDS = ["from", "where", "order", "limit", "offset", "for", "returning", ")", ",", "union", "into"];

// -- syntax -----------------------------------------------------------------------------------------------------------

export function parseSelect(reader: TokenReader, text: string): Statement {
  const query = parseQuery(reader);
  return {
    text,
    tables: lockedTables(query),
    analyse: (session, parameters) => planOf(query, session, parameters),
  };
}

export function lockedTables(query: Query): { name: string; mode: number }[] {
  return query.from.flatMap((from) => {
    if (from.kind === "query") return lockedTables(from.query);
    return from.kind === "table" ? [{ name: from.name, mode: query.locks ? ROW_SHARE : ACCESS_SHARE }] : [];
  });
}

export function parseQuery(reader: TokenReader): Query {
  const query: Query = { targets: [], from: [], order: [], isDistinct: false };
  if (reader.accept("values")) query.values = reader.list(() => parseRow(reader));
  else if (reader.accept("table")) {
    const { at } = reader.token;
    const name = reader.name();
    query.from = [{ kind: "table", name, alias: name, at }];
    query.targets = [{ node: { kind: "star", at }, name: "*" }];
  } else {
    reader.expect("select");
    query.isDistinct = reader.accept("distinct");
    if (!reader.isAtEnd && !reader.isOneOf(...ENDS)) query.targets = reader.list(() => parseTarget(reader));
    if (reader.accept("from")) query.from = reader.list(() => parseFrom(reader));
    if (reader.accept("where")) query.where = parseExpression(reader);
  }
  if (reader.accept("order", "by")) query.order = reader.list(() => parseOrder(reader));
  for (;;) {
    if (reader.accept("limit")) query.limit = reader.accept("all") ? { kind: "null", at: 0 } : parseExpression(reader);
    else if (reader.accept("offset")) query.offset = parseExpression(reader);
    else if (reader.is("for")) parseLocks(reader, query);
    else return query;
  }
}

function parseRow(reader: TokenReader): Node[] {
  reader.expect("(");
  const items = reader.list(() => parseExpression(reader));
  reader.expect(")");
  return items;
}

export function parseTarget(reader: TokenReader): Target {
  const { at } = reader.token;
  if (reader.accept("*")) return { node: { kind: "star", at }, name: "*" };
  const node = parseExpression(reader);
  if (reader.accept("as")) return { node, name: reader.name() };
  const { kind } = reader.token;
  if (kind === "name" || (kind === "word" && !reader.isOneOf(...ENDS))) return { node, name: reader.name() };
  return { node, name: nameOf(node) };
}

function parseOrder(reader: TokenReader): Order {
  const node = parseExpression(reader);
  const isDescending = reader.accept("desc");
  if (!isDescending) reader.accept("asc");
  return { node, isDescending };
}

function parseLocks(reader: TokenReader, query: Query): void {
  reader.expect("for");
  const noKey = reader.accept("no", "key");
  const key = !noKey && reader.accept("key");
  const word = reader.name();
  if (word !== "update" && word !== "share") throw reader.wrong();
  const wait = reader.accept("nowait") ? "nowait" : reader.accept("skip", "locked") ? "skip" : "wait";
  const name = `${noKey ? "NO KEY " : key ? "KEY " : ""}${word.toUpperCase()}`;
  query.locks = { mode: word === "update" ? EXCLUSIVE : SHARE, word: name, wait };
}

const NO_ALIASES = ["where", "order", "limit", "offset", "for", "returning", "set", "union", "on", "using", ")", ","];

function parseFrom(reader: TokenReader): From {
  const { at } = reader.token;
  reader.accept("only");
  if (reader.accept("(")) {
    const query = parseQuery(reader);
    reader.expect(")");
    const alias = parseAlias(reader);
    return { kind: "query", query, alias: alias?.name ?? "", columns: alias?.columns };
  }
  let name = reader.name();
  if (reader.accept(".")) name = reader.name();
  if (!reader.accept("(")) return { kind: "table", name, alias: parseAlias(reader)?.name ?? name, at };
  const args = reader.is(")") ? [] : reader.list(() => parseExpression(reader));
  reader.expect(")");
  const alias = parseAlias(reader);
  return { kind: "function", name, args, alias: alias?.name ?? name, column: alias?.columns?.[0] ?? alias?.name, at };
}

function parseAlias(reader: TokenReader): { name: string; columns: string[] | undefined } | undefined {
  const isSaid = reader.accept("as");
  const { kind } = reader.token;
  if (!isSaid && (reader.isAtEnd || reader.isOneOf(...NO_ALIASES) || (kind !== "word" && kind !== "name")))
    return undefined;
  const name = reader.name();
  if (!reader.accept("(")) return { name, columns: undefined };
  const columns = reader.list(() => reader.name());
  reader.expect(")");
  return { name, columns };
}

// -- analysis ---------------------------------------------------------------------------------------------------------

/** The rows of one source, with their versions if the source is a table. */
interface Opened extends Source {
  readonly table?: Table;
  /** Runs before the source's rows are read. */
  prepare?(context: Context): Generator<Wait, void, void>;
  rows(context: Context): Iterable<readonly Value[]> | Rows;
}

export function planOf(query: Query, session: Session, parameters: ParameterTypes): Plan {
  const { columns, run } = rowsOf(query, session, parameters);
  const { locks } = query;
  if (locks) parameters.constants.push((begun) => begun.session.checkWritable(`SELECT FOR ${locks.word}`));
  return {
    kind: "select",
    columns,
    *run({ session: runner, parameters: values }) {
      runner.see();
      // A standby continues to replay while the statement already has its snapshot.
      if (runner.world.standing.isStandby) yield* runner.think("statement", "a snapshot");
      yield* run(runner, values);
      return "SELECT";
    },
  };
}

interface RowsOf {
  readonly columns: readonly Column[];
  readonly run: (session: Session, parameters: readonly Value[]) => Rows;
}

export function rowsOf(query: Query, session: Session, parameters: ParameterTypes): RowsOf {
  return query.values ? valuesOf(query, session, parameters) : selectOf(query, session, parameters);
}

/** Functions that return rows. In the list of a SELECT such a function acts as a source. */
const OF_ROWS = new Set(["generate_series", "unnest", "pg_listening_channels", "json_array_elements_text"]);

function withRowFunctions(query: Query): Query {
  const from = [...query.from];
  const targets = query.targets.map(({ node, name }) => {
    if (node.kind !== "call" || !OF_ROWS.has(node.name)) return { node, name };
    const { at } = node;
    const alias = `row function ${from.length}`;
    from.push({ kind: "function", name: node.name, args: node.args, alias, column: name, at });
    return { node: { kind: "column" as const, table: alias, name, at }, name };
  });
  return { ...query, from, targets };
}

function selectOf(given: Query, session: Session, parameters: ParameterTypes): RowsOf {
  const query = withRowFunctions(given);
  const sources = query.from.map((from) => open(from, session, parameters));
  const scope = new Scope(session, parameters, sources);
  const targets = query.targets.flatMap(({ node, name }) => expanded(node, name, scope));
  const where = query.where && analyse(query.where, scope, types.bool);
  const [limit, offset] = [query.limit, query.offset].map((node) => node && coerced(node, scope, types.int8));
  const order = query.order.map(({ node, isDescending }) => ({ isDescending, by: orderBy(node, targets, scope) }));
  const columns = targets.map(({ name, expression }) => ({ name, type: expression.type, ...expression.column }));

  function* run(runner: Session, values: readonly Value[]): Rows {
    const base: Context = { session: runner, parameters: values, rows: [], waited: new Map() };
    const [most, skipped] = [limit, offset].map((expression) => numberOf(expression, base));
    const made = scope.aggregates.length ? aggregated() : ordered();
    let at = 0;
    const seen = new Set<string>();
    for (let next = made.next(); ; next = made.next()) {
      if (next.done) return "";
      const { value } = next;
      if (!Array.isArray(value)) {
        yield value;
        continue;
      }
      if (query.isDistinct) {
        const key = JSON.stringify(value, (_, it: unknown) => (typeof it === "bigint" ? `${it}n` : it));
        if (seen.has(key)) continue;
        seen.add(key);
      }
      if (at++ < (skipped ?? 0)) continue;
      if (most !== undefined && at > (skipped ?? 0) + most) return "";
      yield value;
    }

    function* matching(): Generator<Wait | Context, void, void> {
      for (const { prepare } of sources) if (prepare) yield* prepare(base);
      for (const rows of combinations(sources, base)) {
        let context: Context = { ...base, rows, waited: new Map() };
        for (const waiting of scope.waiting) yield* waiting.run(context);
        if (where && where.evaluate(context) !== true) continue;
        if (query.locks) {
          const locked = yield* lockRows(query.locks, sources, rows, context, where);
          if (!locked) continue;
          context = locked;
        }
        yield context;
      }
    }

    function* ordered(): Rows {
      if (!order.length) {
        for (const context of matching())
          yield "begin" in context ? context : targets.map(({ expression }) => expression.evaluate(context));
        return "";
      }
      const all: { row: Value[]; keys: Value[] }[] = [];
      for (const context of matching()) {
        if ("begin" in context) {
          yield context;
          continue;
        }
        const row = targets.map(({ expression }) => expression.evaluate(context));
        all.push({ row, keys: order.map(({ by }) => (typeof by === "number" ? row[by]! : by.evaluate(context))) });
      }
      const typesOf = order.map(({ by }) => (typeof by === "number" ? columns[by]!.type : by.type));
      all.sort((a, b) => {
        for (const [index, { isDescending }] of order.entries()) {
          const result = compare(a.keys[index]!, b.keys[index]!, typesOf[index]!);
          if (result) return isDescending ? -result : result;
        }
        return 0;
      });
      for (const { row } of all) yield row;
      return "";
    }

    function* aggregated(): Rows {
      const states = new Map<object, Value | undefined>();
      let last: Context = base;
      for (const context of matching()) {
        if ("begin" in context) {
          yield context;
          continue;
        }
        last = context;
        for (const aggregate of scope.aggregates) states.set(aggregate, aggregate.add(context, states.get(aggregate)));
      }
      const results = new Map(
        scope.aggregates.map((aggregate) => [aggregate as object, aggregate.end(states.get(aggregate))]),
      );
      yield targets.map(({ expression }) => expression.evaluate({ ...last, aggregated: results }));
      return "";
    }
  }
  return { columns, run };
}

function numberOf(expression: Expression | undefined, context: Context): number | undefined {
  const value = expression?.evaluate(context);
  if (value === undefined || value === null) return undefined;
  if (Number(value) < 0) throw new PgError("2201W", "LIMIT must not be negative");
  return Number(value);
}

/** Combines every row of the first source with every row of the second, and so on. */
function* combinations(sources: readonly Opened[], context: Context, at = 0): Generator<(readonly Value[])[]> {
  if (at === sources.length) return yield [];
  if (at === sources.length - 1) {
    for (const row of sources[at]!.rows(context) as Iterable<readonly Value[]>) yield [row];
    return;
  }
  for (const row of sources[at]!.rows(context) as Iterable<readonly Value[]>)
    for (const rest of combinations(sources, context, at + 1)) yield [row, ...rest];
}

/** An ORDER BY item: a name of the result, a number of a column, or any expression. */
function orderBy(node: Node, targets: readonly { name: string }[], scope: Scope): number | Expression {
  if (node.kind === "constant" && node.type === types.int4) {
    const at = Number(node.value) - 1;
    if (!targets[at]) throw new PgError("42P10", `ORDER BY position ${at + 1} is not in select list`, { at: node.at });
    return at;
  }
  if (node.kind === "column" && node.table === undefined) {
    const at = targets.findIndex(({ name }) => name === node.name);
    if (at >= 0) return at;
  }
  return analyse(node, scope);
}

export interface TargetExpression {
  readonly name: string;
  readonly expression: Expression;
}

/** Expands `*` to each column of each source. */
export function expanded(node: Node, name: string, scope: Scope): TargetExpression[] {
  if (node.kind !== "star") return [{ name, expression: analyse(node, scope) }];
  if (!scope.sources.length)
    throw new PgError("42601", "SELECT * with no tables specified is not valid", { at: node.at });
  return scope.sources.flatMap((source, at) =>
    source.columns.map((column, index) => ({
      name: column.name,
      expression: {
        type: column.type,
        evaluate: ({ rows }: Context) => rows[at]![index] ?? null,
        ...(column.tableOid !== undefined && {
          column: { tableOid: column.tableOid, ...(column.attribute !== undefined && { attribute: column.attribute }) },
        }),
      },
    })),
  );
}

function valuesOf(query: Query, session: Session, parameters: ParameterTypes): RowsOf {
  const scope = new Scope(session, parameters);
  const [first] = query.values as [Node[]];
  if (query.values!.some((row) => row.length !== first.length))
    throw new PgError("42601", "VALUES lists must all be the same length");
  const typesOf = first.map((node) => analyse(node, scope).type);
  const rows = query.values!.map((row) => row.map((node, at) => coerced(node, scope, typesOf[at]!)));
  const columns = typesOf.map((type, at) => ({ name: `column${at + 1}`, type }));
  function* run(runner: Session, values: readonly Value[]): Rows {
    const context: Context = { session: runner, parameters: values, rows: [], waited: new Map() };
    for (const waiting of scope.waiting) yield* waiting.run(context);
    for (const row of rows) yield row.map((item) => item.evaluate(context));
    return "";
  }
  return { columns, run };
}

// -- sources ----------------------------------------------------------------------------------------------------------

function open(from: From, session: Session, parameters: ParameterTypes): Opened {
  if (from.kind === "table") return openTable(from, session);
  if (from.kind === "function") return openFunction(from, session, parameters);
  const { columns, run } = rowsOf(from.query, session, parameters);
  return {
    name: from.alias,
    columns: columns.map((column, at) => ({ ...column, name: from.columns?.[at] ?? column.name })),
    *rows({ session: runner, parameters: values }: Context) {
      // Nothing waits here: the model has no query in parentheses that waits.
      for (const row of run(runner, values)) if (Array.isArray(row)) yield row;
    },
  };
}

export function columnsOf(table: Table): Column[] {
  return table.attributes.map(({ name, type, number }) => ({ name, type, tableOid: table.oid, attribute: number }));
}

/** Versions by their values: row locks find the version of a row here. */
const versions = new WeakMap<readonly Value[], Version>();

function openTable({ name, alias, at }: Extract<From, { kind: "table" }>, session: Session): Opened {
  const table = session.world.table(name, session);
  if (!table) {
    const view = systemView(name, session.world.around.version);
    if (!view) throw noTable(name, at);
    return { name: alias, columns: view.columns, rows: ({ session: runner }) => view.rows(runner) };
  }
  return {
    name: alias,
    columns: columnsOf(table),
    table,
    rows: ({ session: runner }) =>
      table.visible(runner.transaction).map((version) => {
        versions.set(version.values, version);
        return version.values;
      }),
  };
}

function openFunction(from: Extract<From, { kind: "function" }>, session: Session, parameters: ParameterTypes): Opened {
  const { name, alias, args, at } = from;
  const scope = new Scope(session, parameters);
  const waited = new Map<object, Value>();
  const one = (type: Type, rows: (context: Context) => Iterable<readonly Value[]>): Opened => ({
    name: alias,
    isScalar: true,
    columns: [{ name: from.column ?? name, type }],
    rows,
  });
  if (name === "generate_series" && (args.length === 2 || args.length === 3)) {
    if (args.every((arg) => isUntyped(arg, scope)))
      throw new PgError("42725", `function generate_series(${args.map(() => "unknown").join(", ")}) is not unique`, {
        at,
        hint: "Could not choose a best candidate function. You might need to add explicit type casts.",
      });
    const isWide = args.some((arg) => arg.kind !== "parameter" && analyse(arg, scope).type === types.int8);
    const type = isWide ? types.int8 : types.int4;
    const numbers = args.map((arg) => coerced(arg, scope, type));
    return one(type, function* (context) {
      const given = numbers.map((expression) => expression.evaluate(context));
      if (given.includes(null)) return;
      const [first, last, step = 1] = given.map(Number) as [number, number, number?];
      if (step === 0) throw new PgError("22023", "step size cannot equal zero");
      for (let n = first; step > 0 ? n <= last : n >= last; n += step) yield [isWide ? BigInt(n) : n];
    });
  }
  if (name === "unnest" && args.length === 1) {
    const list = analyse(args[0]!, scope);
    if (!list.type.element) throw noFunction(name, [list.type.fullName], at);
    return one(list.type.element, function* (context) {
      for (const item of (list.evaluate(context) as Value[] | null) ?? []) yield [item];
    });
  }
  if (name === "pg_listening_channels" && !args.length)
    return one(types.text, ({ session: runner }) => [...runner.listening].map((channel) => [channel]));
  if (name === "json_array_elements_text" && args.length === 1) {
    const list = coerced(args[0]!, scope, types.json);
    return one(types.text, (context) =>
      (JSON.parse(list.evaluate(context) as string) as unknown[]).map((item) => [item as string]),
    );
  }
  const control = args.length ? undefined : controlFunction(name);
  if (control) {
    const { columns, row } = control;
    return { name: alias, columns, rows: ({ session: { world } }) => [row(world.standing)] };
  }
  // Any other function is a source of one row.
  const only = analyse({ kind: "call", name, args, isStar: false, at }, scope);
  return {
    ...one(only.type, (context) => [[only.evaluate({ ...context, waited })]]),
    *prepare(context) {
      for (const waiting of scope.waiting) yield* waiting.run({ ...context, waited });
    },
  };
}

// -- FOR UPDATE -------------------------------------------------------------------------------------------------------

/** Returns the row as it is once it is locked, or `undefined` if it is gone or skipped. */
function* lockRows(
  locks: NonNullable<Query["locks"]>,
  sources: readonly Opened[],
  rows: readonly (readonly Value[])[],
  context: Context,
  where: Expression | undefined,
): Generator<Wait, Context | undefined, void> {
  const { session } = context;
  const latest: (readonly Value[])[] = [...rows];
  for (const [at, { table }] of sources.entries()) {
    const version = versions.get(rows[at]!);
    if (!table || !version) continue;
    session.write();
    if (locks.wait !== "wait" && !session.tryLock(`row ${version.id}`, locks.mode)) {
      if (locks.wait === "skip") return undefined;
      throw new PgError("55P03", `could not obtain lock on row in relation "${table.name}"`);
    }
    const fits = (found: Version): boolean => {
      const changed = [...latest];
      changed[at] = found.values;
      return !where || where.evaluate({ ...context, rows: changed }) === true;
    };
    const found = yield* session.latest(version, locks.mode, fits);
    if (!found) return undefined;
    latest[at] = found.values;
  }
  return { ...context, rows: latest };
}

/** For COPY and cursors: returns the rows of a query, one by one. */
export function queryRows(plan: Plan, execution: Execution): Rows {
  return plan.run(execution);
}
