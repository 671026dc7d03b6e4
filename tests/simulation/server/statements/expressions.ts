// Expressions: their types, and their values.
//
// Knows PostgreSQL's type rules. Must not know statements: a Scope tells where names come from. The syntax is in
// syntax.ts, functions are in functions.ts.
import { ambiguousOperator, noColumn, noFunction, noOperator, PgError } from "../errors.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import * as types from "../values.ts";
import { arrayOf, type Type, type Value } from "../values.ts";
import { ANY, conversion, isImplicit, MOMENTS } from "./conversions.ts";
import { functionNamed, type FunctionDefinition } from "./functions.ts";
import { compare, operation } from "./operations.ts";
import { rowsOf } from "./select.ts";
import type { Column, ParameterTypes } from "./statement.ts";
import { findType, type Node } from "./syntax.ts";

/** What an expression may use while it runs. */
export interface Context {
  readonly session: Session;
  readonly parameters: readonly Value[];
  /** The current row of each source of the FROM list. */
  readonly rows: readonly (readonly Value[])[];
  /** The results, for this row, of functions that wait. */
  readonly waited: Map<object, Value>;
  /** The results of aggregates over all rows. */
  readonly aggregated?: Map<object, Value>;
}

export interface Expression {
  readonly type: Type;
  evaluate(context: Context): Value;
  /** The expression has only constants and parameters, and no function that reads other state. */
  readonly isConstant?: boolean;
  /** The table's column, if the expression is one. */
  readonly column?: Pick<Column, "tableOid" | "attribute">;
}

export interface Source {
  readonly name: string;
  readonly columns: readonly Column[];
  /** Whether the source is a function that returns no records. */
  readonly isScalar?: boolean;
}

/** A function that waits. It runs for each row before the row's expressions are evaluated. */
export interface Waiting {
  run(context: Context): Generator<Wait, void, void>;
}

export interface Aggregate {
  readonly add: (context: Context, state: Value | undefined) => Value | undefined;
  readonly end: (state: Value | undefined) => Value;
}

export class Scope {
  readonly waiting: Waiting[] = [];
  readonly aggregates: Aggregate[] = [];

  constructor(
    readonly session: Session,
    readonly parameters: ParameterTypes,
    readonly sources: readonly Source[] = [],
  ) {}
}

// -- types ------------------------------------------------------------------------------------------------------------

/** `wanted`: the type for a literal or a parameter that has no type of its own. */
export function analyse(node: Node, scope: Scope, wanted?: Type): Expression {
  switch (node.kind) {
    case "literal":
      return literal(node, scope, wanted);
    case "constant":
      return { type: node.type, isConstant: true, evaluate: () => node.value };
    case "null":
      return { type: wanted ?? types.text, isConstant: true, evaluate: () => null };
    case "parameter": {
      scope.parameters.use(node.index, undefined, node.at);
      const at = node.index - 1;
      if (at < 0) throw new PgError("42P02", `there is no parameter $${node.index}`, { at: node.at });
      return {
        type: typeOfParameter(node.index, scope, wanted),
        isConstant: true,
        evaluate: ({ parameters }) => parameters[at] ?? null,
      };
    }
    case "cast":
      return cast(node, scope);
    case "column":
      return column(node, scope);
    case "star":
      throw new PgError("42601", 'syntax error at or near "*"', { at: node.at });
    case "call":
      return call(node, scope);
    case "operator":
      return operator(node, scope);
    case "not": {
      const inner = analyse(node.node, scope, types.bool);
      return { type: types.bool, evaluate: (context) => negate(inner.evaluate(context)) };
    }
    case "minus": {
      if (isUntyped(node.node, scope)) throw ambiguousOperator("- unknown", node.at);
      const inner = analyse(node.node, scope);
      return { type: inner.type, evaluate: (context) => minus(inner, inner.evaluate(context)) };
    }
    case "isNull": {
      const tested = node.node;
      // IS NULL says nothing about a parameter's type.
      if (tested.kind === "parameter") {
        scope.parameters.use(tested.index, undefined, tested.at);
        const isNull = ({ parameters }: Context) => (parameters[tested.index - 1] ?? null) === null;
        return { type: types.bool, evaluate: (context) => isNull(context) !== node.isNot };
      }
      const inner = analyse(tested, scope);
      return { type: types.bool, evaluate: (context) => (inner.evaluate(context) === null) !== node.isNot };
    }
    case "in":
      return inList(node, scope);
    case "any":
    case "all":
      return quantified(node, scope);
    case "array":
      return array(node, scope, wanted);
    case "row":
      return row(node, scope);
    case "case":
      return cases(node, scope);
    case "subquery":
      return subquery(node, scope);
  }
}

function typeOfParameter(index: number, scope: Scope, wanted: Type | undefined): Type {
  return scope.parameters.use(index, wanted) ?? UNTYPED(index, scope);
}

/** A parameter without a known type. The caller gives it a type, otherwise it is text. */
function UNTYPED(index: number, scope: Scope): Type {
  return scope.parameters.useAsText(index);
}

/** Whether the expression still needs a type from its neighbours. */
export function isUntyped(node: Node, scope: Scope): boolean {
  return (
    node.kind === "literal" ||
    node.kind === "null" ||
    (node.kind === "parameter" && scope.parameters.use(node.index, undefined, node.at) === undefined)
  );
}

function literal(node: Extract<Node, { kind: "literal" }>, scope: Scope, wanted: Type = types.text): Expression {
  const value = parsedAt(node.at, () => wanted.parse(node.text, scope.session.forms));
  return { type: wanted, isConstant: true, evaluate: () => value };
}

/** Adds the position of a literal to its errors. */
function parsedAt<T>(at: number, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof PgError) error.fields.position ??= String(at + 1);
    throw error;
  }
}

function cast(node: Extract<Node, { kind: "cast" }>, scope: Scope): Expression {
  const to = findType(node.type, node.typeAt);
  const inner = analyse(node.node, scope, to);
  if (inner.type === to) return inner.column ? { type: to, evaluate: inner.evaluate, column: inner.column } : inner;
  const convert = conversion(inner.type, to);
  if (!convert)
    throw new PgError("42846", `cannot cast type ${inner.type.fullName} to ${to.fullName}`, { at: node.at });
  return folded(scope, inner.isConstant && !MOMENTS.includes(to) && !MOMENTS.includes(inner.type), {
    type: to,
    evaluate: (context) => {
      const value = inner.evaluate(context);
      return value === null ? null : convert(value, context);
    },
  });
}

/** Evaluates a constant expression during planning. */
function folded(scope: Scope, isConstant: boolean | undefined, expression: Expression): Expression {
  if (!isConstant) return expression;
  scope.parameters.constants.push(({ session, parameters }) =>
    expression.evaluate({ session, parameters, rows: [], waited: new Map() }),
  );
  return { ...expression, isConstant: true };
}

function column(node: Extract<Node, { kind: "column" }>, scope: Scope): Expression {
  const found = scope.sources.flatMap((source, at) =>
    node.table === undefined || source.name === node.table
      ? source.columns.flatMap((it, index) => (it.name === node.name ? [{ it, at, index }] : []))
      : [],
  );
  if (found.length > 1) throw new PgError("42702", `column reference "${node.name}" is ambiguous`, { at: node.at });
  const [only] = found;
  if (!only) {
    const whole = wholeRow(node, scope);
    if (whole) return whole;
    if (node.table !== undefined && !scope.sources.some(({ name }) => name === node.table))
      throw new PgError("42P01", `missing FROM-clause entry for table "${node.table}"`, { at: node.at });
    throw noColumn(node.table === undefined ? node.name : `${node.table}.${node.name}`, node.at);
  }
  const { it, at, index } = only;
  const { tableOid, attribute } = it;
  return {
    type: it.type,
    evaluate: ({ rows }) => rows[at]![index] ?? null,
    ...(tableOid !== undefined && { column: { tableOid, ...(attribute !== undefined && { attribute }) } }),
  };
}

/**
 * The name of a function's rows means their column, as `n` does in `generate_series(1, 3) n`. Other such names mean
 * records.
 */
function wholeRow({ table, name }: Extract<Node, { kind: "column" }>, scope: Scope): Expression | undefined {
  const at = scope.sources.findIndex((source) => table === undefined && source.name === name);
  const source = scope.sources[at];
  if (!source) return undefined;
  const [first, ...others] = source.columns;
  if (source.isScalar && first && !others.length)
    return { type: first.type, evaluate: ({ rows }) => rows[at]![0] ?? null };
  return { type: recordOf(source.columns), evaluate: ({ rows }) => [...rows[at]!] };
}

function array(node: Extract<Node, { kind: "array" }>, scope: Scope, wanted?: Type): Expression {
  const typed = node.items.find((item) => !isUntyped(item, scope));
  const element = typed ? analyse(typed, scope).type : (wanted?.element ?? types.text);
  if (!node.items.length && !wanted?.element)
    throw new PgError("42P18", "cannot determine type of empty array", {
      at: node.at,
      hint: "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
    });
  const items = node.items.map((item) => coerced(item, scope, element));
  if (element.element) return { type: element, evaluate: (context) => items.map((item) => item.evaluate(context)) };
  return { type: arrayOf(element)!, evaluate: (context) => items.map((item) => item.evaluate(context)) };
}

/** If no result has a type of its own, the type is text, whatever type is wanted. */
function cases({ whens, otherwise }: Extract<Node, { kind: "case" }>, scope: Scope): Expression {
  const results = [...whens.map(({ then }) => then), ...(otherwise ? [otherwise] : [])];
  const typed = results.find((result) => !isUntyped(result, scope));
  const type = typed ? lazily(scope, () => analyse(typed, scope)).type : types.text;
  const branches = lazily(scope, () =>
    whens.map(({ when, then }) => ({ when: analyse(when, scope, types.bool), then: coerced(then, scope, type) })),
  );
  const last = otherwise && lazily(scope, () => coerced(otherwise, scope, type));
  return {
    type,
    evaluate: (context) => {
      const branch = branches.find(({ when }) => when.evaluate(context) === true)?.then ?? last;
      return branch?.evaluate(context) ?? null;
    },
  };
}

/** A subquery of one column. Without a row its value is null. Nothing in it waits. */
function subquery({ query }: Extract<Node, { kind: "subquery" }>, scope: Scope): Expression {
  const { columns, run } = rowsOf(query, scope.session, scope.parameters);
  return {
    type: columns[0]!.type,
    evaluate: ({ session, parameters }) => {
      for (const found of run(session, parameters)) if (Array.isArray(found)) return found[0] ?? null;
      return null;
    },
  };
}

function row(node: Extract<Node, { kind: "row" }>, scope: Scope): Expression {
  const items = node.items.map((item) => analyse(item, scope));
  return {
    type: recordOf(items.map((item, at) => ({ name: `f${at + 1}`, type: item.type }))),
    evaluate: (context) => items.map((item) => item.evaluate(context)),
  };
}

/** The text of a record does not contain its types; the binary form does. */
function recordOf(columns: readonly Pick<Column, "name" | "type">[]): Type {
  const attributes = columns.map(({ name, type }) => ({ name, type }));
  return {
    ...types.record,
    attributes,
    print: (value, forms) => printRow(value as Value[], attributes, forms),
    send: (value) => sendRow(value as Value[], attributes),
  };
}

function printRow(
  values: Value[],
  attributes: NonNullable<Type["attributes"]>,
  forms: Parameters<Type["print"]>[1],
): string {
  const fields = attributes.map(({ type }, at) => {
    const value = values[at] ?? null;
    if (value === null) return "";
    const printed = type.print(value, forms);
    return printed === "" || /[\s"\\(),]/.test(printed) ? `"${printed.replace(/["\\]/g, "$&$&")}"` : printed;
  });
  return `(${fields.join(",")})`;
}

function sendRow(values: Value[], attributes: NonNullable<Type["attributes"]>): Uint8Array {
  const parts: number[] = [];
  const int32 = (n: number) => parts.push((n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255);
  int32(attributes.length);
  attributes.forEach(({ type }, at) => {
    const value = values[at] ?? null;
    int32(type.oid);
    if (value === null) return int32(-1);
    const bytes = type.send(value);
    int32(bytes.length);
    return parts.push(...bytes);
  });
  return Uint8Array.from(parts);
}

/** Returns an expression of this type, or throws. */
export function coerced(node: Node, scope: Scope, to: Type): Expression {
  const inner = analyse(node, scope, to);
  if (inner.type === to) return inner;
  const convert = isImplicit(inner.type, to) ? conversion(inner.type, to) : undefined;
  if (!convert)
    throw new PgError("42804", `column is of type ${to.fullName} but expression is of type ${inner.type.fullName}`, {
      at: node.at,
    });
  return {
    type: to,
    evaluate: (context) => {
      const value = inner.evaluate(context);
      return value === null ? null : convert(value, context);
    },
  };
}

// -- operators --------------------------------------------------------------------------------------------------------

function operator(node: Extract<Node, { kind: "operator" }>, scope: Scope): Expression {
  const { operator: symbol } = node;
  if (symbol === "and" || symbol === "or") return connective(node, scope);
  if ("+-*/%".includes(symbol) && isUntyped(node.left, scope) && isUntyped(node.right, scope))
    throw ambiguousOperator(`unknown ${symbol} unknown`, node.at);
  const [left, right] = operands(node.left, node.right, scope, symbol);
  const run = operation(symbol, left.type, right.type);
  if (!run) throw noOperator(left.type.fullName, symbol, right.type.fullName, node.at);
  return folded(scope, left.isConstant && right.isConstant, {
    type: run.type,
    evaluate: (context) => {
      const [a, b] = [left.evaluate(context), right.evaluate(context)];
      return a === null || b === null ? null : run.of(a, b, context);
    },
  });
}

function operands(left: Node, right: Node, scope: Scope, symbol: string): [Expression, Expression] {
  // An untyped operand takes the type of a typed one; `->` takes text.
  const like = (type: Type) =>
    symbol === "->" || symbol === "->>"
      ? types.text
      : symbol === "||" && type.element === undefined
        ? types.text
        : type;
  if (isUntyped(left, scope) && !isUntyped(right, scope)) {
    const typed = analyse(right, scope);
    return [analyse(left, scope, like(typed.type)), typed];
  }
  const typed = analyse(left, scope);
  return [typed, analyse(right, scope, like(typed.type))];
}

function connective({ operator: symbol, left, right }: Extract<Node, { kind: "operator" }>, scope: Scope): Expression {
  const a = analyse(left, scope, types.bool);
  const b = lazily(scope, () => analyse(right, scope, types.bool));
  const decides = symbol === "or";
  return {
    type: types.bool,
    evaluate: (context) => {
      const first = a.evaluate(context);
      if (first === decides) return decides;
      const second = b.evaluate(context);
      if (second === decides) return decides;
      return first === null || second === null ? null : !decides;
    },
  };
}

/** Analyses what may never be evaluated, so planning does not evaluate it. */
function lazily<T>({ parameters: { constants } }: Scope, analysed: () => T): T {
  const { length } = constants;
  const result = analysed();
  constants.length = length;
  return result;
}

const negate = (value: Value): Value => (value === null ? null : !value);

function minus({ type }: Expression, value: Value): Value {
  if (value === null) return null;
  if (typeof value === "string") return type.parse(value.startsWith("-") ? value.slice(1) : `-${value}`, ANY);
  return typeof value === "bigint" ? -value : -(value as number);
}

function inList({ node, items, isNot }: Extract<Node, { kind: "in" }>, scope: Scope): Expression {
  const [first] = operands(node, items[0]!, scope, "=");
  const others = items.map((item) => analyse(item, scope, first.type));
  return {
    type: types.bool,
    evaluate: (context) => {
      const value = first.evaluate(context);
      if (value === null) return null;
      const found = others.map((item) => item.evaluate(context));
      if (found.some((item) => item !== null && compare(value, item, first.type) === 0)) return !isNot;
      return found.includes(null) ? null : isNot;
    },
  };
}

/** ANY is true if one comparison is true, and ALL is false if one is false. Otherwise a null decides. */
function quantified(
  { kind, node, operator: symbol, list, at }: Extract<Node, { kind: "any" | "all" }>,
  scope: Scope,
): Expression {
  const decides = kind === "any";
  const typed = isUntyped(node, scope) ? analyse(list, scope).type.element : undefined;
  const left = analyse(node, scope, typed);
  const right = analyse(list, scope, arrayOf(left.type));
  const run = right.type.element && operation(symbol, left.type, right.type.element);
  if (!run) throw new PgError("42809", "op ANY/ALL (array) requires array on right side", { at });
  return {
    type: types.bool,
    evaluate: (context) => {
      const [value, items] = [left.evaluate(context), right.evaluate(context)];
      if (value === null || items === null) return null;
      const results = (items as Value[]).map((item) => (item === null ? null : run.of(value, item, context)));
      if (results.includes(decides)) return decides;
      return results.includes(null) ? null : !decides;
    },
  };
}

// -- functions --------------------------------------------------------------------------------------------------------

function call(node: Extract<Node, { kind: "call" }>, scope: Scope): Expression {
  const found = overload(node, scope);
  const { definition, args } = found;
  if (definition.aggregate) return aggregate(definition, args, node, scope);
  const like = definition.returnsLikeArgument;
  const type = like === undefined ? definition.returns : args[like]!.type;
  const values = (context: Context) => args.map((arg) => arg.evaluate(context));
  if (definition.wait) {
    const { wait } = definition;
    const key = {};
    scope.waiting.push({
      *run(context) {
        const given = values(context);
        context.waited.set(key, given.includes(null) ? null : yield* wait(given, context));
      },
    });
    return { type, evaluate: ({ waited }) => waited.get(key) ?? null };
  }
  return folded(scope, definition.isImmutable && args.every(({ isConstant }) => isConstant), {
    type,
    evaluate: (context) => {
      const given = values(context);
      if (given.includes(null) && !definition.takesNull) return null;
      const { run, runTyped } = definition;
      return run
        ? run(given, context)
        : runTyped!(
            given,
            args.map((arg) => arg.type),
          );
    },
  });
}

function overload(
  node: Extract<Node, { kind: "call" }>,
  scope: Scope,
): { definition: FunctionDefinition; args: Expression[] } {
  const { name, args, isStar, at } = node;
  const all = functionNamed(name, scope.session.world.around.version);
  const fitting = all.filter(({ takes, isVariadic }) => isVariadic || takes.length === (isStar ? 0 : args.length));
  // If several functions take as many arguments, the arguments that have a type decide.
  const given = args.map((arg) =>
    isUntyped(arg, scope)
      ? undefined
      : lazily(scope, () => analyse(arg, new Scope(scope.session, scope.parameters, scope.sources))).type,
  );
  const fits = (definition: FunctionDefinition) =>
    given.every(
      (type, index) =>
        !type || wantedBy(definition, index) === undefined || isImplicit(type, wantedBy(definition, index)!),
    );
  const exact = (definition: FunctionDefinition) =>
    given.every((type, index) => !type || type === wantedBy(definition, index));
  const definition = likeFirst(fitting.find(exact) ?? fitting.find(fits), given);
  if (!definition)
    throw noFunction(
      name,
      given.map((type) => type?.fullName ?? "unknown"),
      at,
    );
  const analysed = (arg: Node, index: number) => {
    const wanted = wantedBy(definition, index);
    return wanted ? coerced(arg, scope, wanted) : analyse(arg, scope);
  };
  const [first, ...others] = args;
  const lazy = definition.takesNull ? lazily : (_: Scope, all: () => Expression[]) => all();
  return {
    definition,
    args: first ? [analysed(first, 0), ...lazy(scope, () => others.map((arg, at) => analysed(arg, at + 1)))] : [],
  };
}

/** COALESCE has the type of the first argument that has one. */
function likeFirst(
  definition: FunctionDefinition | undefined,
  given: readonly (Type | undefined)[],
): FunctionDefinition | undefined {
  const type = definition?.isVariadic && definition.returnsLikeArgument !== undefined && given.find((it) => it);
  return definition && type ? { ...definition, takes: [type] } : definition;
}

function wantedBy({ takes, isVariadic }: FunctionDefinition, index: number): Type | undefined {
  return isVariadic ? takes[Math.min(index, takes.length - 1)] : takes[index];
}

function aggregate(
  { aggregate: of, returns, returnsLikeArgument }: FunctionDefinition,
  args: readonly Expression[],
  _node: Node,
  scope: Scope,
): Expression {
  const { add, end } = of!;
  const key: Aggregate = {
    add: (context, state) => add(state, args.length ? args[0]!.evaluate(context) : true, args[0]?.type, context),
    end: (state) => end(state, args[0]?.type),
  };
  scope.aggregates.push(key);
  const type = returnsLikeArgument === undefined ? returns : args[returnsLikeArgument]!.type;
  return { type, evaluate: ({ aggregated }) => aggregated?.get(key) ?? null };
}
