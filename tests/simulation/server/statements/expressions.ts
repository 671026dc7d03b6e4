// Expressions: how they are written, of which types they are, and what they give.
//
//   $1::int4   'x'   7   n + 1   repeat('x', $2)   array[1, 2]   row(1, 'a')   a is null   n in (1, 2)   n = any($1)
//
// Knows a small part of PostgreSQL's grammar and its rules of types. Must not know statements: where names come from is
// told by a Scope. Functions are in functions.ts.
import {
  divisionByZero,
  ambiguousOperator,
  noColumn,
  noFunction,
  noOperator,
  noType,
  outOfRange,
  PgError,
} from "../errors.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Token, TokenReader } from "../tokens.ts";
import * as types from "../values.ts";
import { arrayOf, checkRange, typeNamed, type Type, type Value } from "../values.ts";
import { functionNamed, KEYWORD_FUNCTIONS, type FunctionDefinition } from "./functions.ts";
import type { Column, ParameterTypes } from "./statement.ts";

export type Node =
  | { kind: "literal"; text: string; at: number }
  | { kind: "constant"; type: Type; value: Value; at: number }
  | { kind: "null"; at: number }
  | { kind: "parameter"; index: number; at: number }
  | { kind: "cast"; node: Node; type: string; typeAt: number; at: number }
  | { kind: "column"; table?: string; name: string; at: number }
  | { kind: "star"; at: number }
  | { kind: "call"; name: string; args: Node[]; isStar: boolean; at: number }
  | { kind: "operator"; operator: string; left: Node; right: Node; at: number }
  | { kind: "not" | "minus"; node: Node; at: number }
  | { kind: "isNull"; node: Node; isNot: boolean; at: number }
  | { kind: "in"; node: Node; items: Node[]; isNot: boolean; at: number }
  | { kind: "any"; node: Node; operator: string; list: Node; at: number }
  | { kind: "array"; items: Node[]; at: number }
  | { kind: "row"; items: Node[]; at: number };

/** What an expression finds where it runs. */
export interface Context {
  readonly session: Session;
  readonly parameters: readonly Value[];
  /** Of each source of the FROM list its row. */
  readonly rows: readonly (readonly Value[])[];
  /** What functions that wait have given for this row. */
  readonly waited: Map<object, Value>;
  /** Of aggregates, for all rows. */
  readonly aggregated?: Map<object, Value>;
}

export interface Expression {
  readonly type: Type;
  evaluate(context: Context): Value;
  /** It has constants and parameters alone, and no function that looks elsewhere. */
  readonly isConstant?: boolean;
  /** Where it is a table's column. */
  readonly column?: Pick<Column, "tableOid" | "attribute">;
}

export interface Source {
  readonly name: string;
  readonly columns: readonly Column[];
  /** Of a function that returns no records. */
  readonly isScalar?: boolean;
}

/** A function that waits: it runs for each row before the row's expressions are evaluated. */
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

// -- how they are written ---------------------------------------------------------------------------------------------

const PRECEDENCE: readonly (readonly string[])[] = [
  ["or"],
  ["and"],
  ["=", "<>", "!=", "<", ">", "<=", ">="],
  ["~", "!~", "||", "@>", "->", "->>", "like", "ilike"],
  ["+", "-"],
  ["*", "/", "%"],
];

/** These are no columns' names where an expression is expected. */
const RESERVED = new Set(
  `all and any array as asc case cast check collate column constraint create default desc distinct do else end except
  false fetch for foreign from grant group having in into intersect leading limit not null offset on only or order
  primary references returning select some table then to true union unique using variadic when where window with`
    .trim()
    .split(/\s+/),
);

export function parseExpression(reader: TokenReader, level = 0): Node {
  const operators = PRECEDENCE[level];
  if (!operators) return parseUnary(reader);
  if (level === 2 && reader.is("not")) {
    const { at } = reader.next();
    return { kind: "not", node: parseExpression(reader, 2), at };
  }
  let left = parseExpression(reader, level + 1);
  for (;;) {
    const { token } = reader;
    if (level === 2) {
      const tested = parseTest(reader, left);
      if (tested) {
        left = tested;
        continue;
      }
    }
    if ((token.kind !== "symbol" && token.kind !== "word") || !operators.includes(token.text)) return left;
    reader.next();
    const operator = token.text === "!=" ? "<>" : token.text;
    if (reader.isOneOf("any", "some")) {
      reader.next();
      reader.expect("(");
      const list = parseExpression(reader);
      reader.expect(")");
      left = { kind: "any", node: left, operator, list, at: token.at };
    } else left = { kind: "operator", operator, left, right: parseExpression(reader, level + 1), at: token.at };
  }
}

/** IS [NOT] NULL, [NOT] IN (…). */
function parseTest(reader: TokenReader, node: Node): Node | undefined {
  const { at } = reader.token;
  if (reader.accept("is", "null") || reader.accept("isnull")) return { kind: "isNull", node, isNot: false, at };
  if (reader.accept("is", "not", "null") || reader.accept("notnull")) return { kind: "isNull", node, isNot: true, at };
  const isNot = reader.is("not", "in");
  if (!isNot && !reader.is("in")) return undefined;
  reader.accept("not");
  reader.expect("in", "(");
  const items = reader.list(() => parseExpression(reader));
  reader.expect(")");
  return { kind: "in", node, items, isNot, at };
}

function parseUnary(reader: TokenReader): Node {
  const { at } = reader.token;
  if (reader.accept("-")) {
    const node = parseUnary(reader);
    if (node.kind === "constant" && typeof node.value === "number") return { ...node, value: -node.value, at };
    if (node.kind === "constant" && typeof node.value === "bigint") return negated(node, at);
    if (node.kind === "constant" && typeof node.value === "string")
      return { ...node, value: node.value.startsWith("-") ? node.value.slice(1) : `-${node.value}`, at };
    return { kind: "minus", node, at };
  }
  reader.accept("+");
  let node = parsePrimary(reader);
  for (;;) {
    const { at: place } = reader.token;
    if (!reader.accept("::")) return node;
    const typeAt = reader.token.at;
    node = { kind: "cast", node, type: parseTypeName(reader), typeAt, at: place };
  }
}

/** -9223372036854775808 and -2147483648 are what they are. */
function negated(node: Extract<Node, { kind: "constant" }>, at: number): Node {
  return constantOf(-(node.value as bigint), at);
}

function constantOf(value: bigint, at: number): Node {
  if (value >= -(2n ** 31n) && value < 2n ** 31n)
    return { kind: "constant", type: types.int4, value: Number(value), at };
  if (value >= -(2n ** 63n) && value < 2n ** 63n) return { kind: "constant", type: types.int8, value, at };
  return { kind: "constant", type: types.numeric, value: String(value), at };
}

export function parseTypeName(reader: TokenReader): string {
  let name = reader.name();
  if (reader.accept(".")) name = reader.name();
  name = wholeTypeName(reader, name);
  if (reader.accept("(")) {
    reader.list(() => reader.number());
    reader.expect(")");
  }
  while (reader.accept("[")) {
    if (reader.token.kind === "number") reader.number();
    reader.expect("]");
    name = name.endsWith("[]") ? name : `${name}[]`;
  }
  return name;
}

/** Names of several words. */
function wholeTypeName(reader: TokenReader, name: string): string {
  if (name === "double") {
    reader.expect("precision");
    return "double precision";
  }
  if (name === "character" && reader.accept("varying")) return "character varying";
  if (name !== "timestamp") return name;
  const isWith = reader.accept("with");
  if (isWith || reader.accept("without")) reader.expect("time", "zone");
  return isWith ? "timestamp with time zone" : name;
}

export function findType(name: string, at?: number): Type {
  const type =
    typeNamed(name) ?? typeNamed(name.replace(/^(\w+ ?\w*( \w+)*)\[\]$/, (_, item: string) => elementName(item)));
  if (!type) throw noType(name, at);
  return type;
}

function elementName(item: string): string {
  const element = typeNamed(item);
  return element ? `${element.fullName}[]` : `${item}[]`;
}

function parsePrimary(reader: TokenReader): Node {
  const { token } = reader;
  const { at } = token;
  if (token.kind === "string") return { kind: "literal", text: reader.next().text, at };
  if (token.kind === "number") return parseNumber(reader.next());
  if (token.kind === "parameter") return { kind: "parameter", index: Number(reader.next().text), at };
  if (reader.accept("(")) return parseParenthesis(reader, at);
  if (token.kind !== "word" && token.kind !== "name") throw reader.wrong();
  if (token.kind === "word") {
    const found = parseKeyword(reader, at);
    if (found) return found;
    if (RESERVED.has(token.text)) throw reader.wrong();
  }
  return parseName(reader, at);
}

function parseNumber({ text, at }: Token): Node {
  if (/^\d+$/.test(text)) return constantOf(BigInt(text), at);
  return { kind: "constant", type: types.numeric, value: types.numeric.parse(text, ANY), at };
}

const ANY = { timeZone: "UTC", extraFloatDigits: 1, byteaOutput: "hex" };

function parseParenthesis(reader: TokenReader, at: number): Node {
  const items = reader.list(() => parseExpression(reader));
  reader.expect(")");
  return items.length === 1 ? items[0]! : { kind: "row", items, at };
}

function parseKeyword(reader: TokenReader, at: number): Node | undefined {
  if (reader.accept("null")) return { kind: "null", at };
  if (reader.accept("true")) return { kind: "constant", type: types.bool, value: true, at };
  if (reader.accept("false")) return { kind: "constant", type: types.bool, value: false, at };
  if (reader.accept("array", "[")) {
    const items = reader.is("]") ? [] : reader.list(() => parseExpression(reader));
    reader.expect("]");
    return { kind: "array", items, at };
  }
  if (reader.accept("row", "(")) {
    const items = reader.is(")") ? [] : reader.list(() => parseExpression(reader));
    reader.expect(")");
    return { kind: "row", items, at };
  }
  if (reader.accept("cast", "(")) {
    const node = parseExpression(reader);
    reader.expect("as");
    const typeAt = reader.token.at;
    const type = parseTypeName(reader);
    reader.expect(")");
    return { kind: "cast", node, type, typeAt, at };
  }
  const { text } = reader.token;
  if (!KEYWORD_FUNCTIONS.has(text) || reader.peek().text === "(" || reader.peek().text === ".") return undefined;
  reader.next();
  return { kind: "call", name: text, args: [], isStar: false, at };
}

/** A column, `table.column`, a function, or a type in front of a literal. */
function parseName(reader: TokenReader, at: number): Node {
  let name = reader.name();
  if (reader.token.kind === "string" && typeNamed(name)) {
    const { at: place, text } = reader.next();
    return { kind: "cast", node: { kind: "literal", text, at: place }, type: name, typeAt: at, at };
  }
  let table: string | undefined;
  if (reader.accept(".")) {
    table = name;
    name = reader.name();
  }
  if (!reader.accept("(")) return { kind: "column", name, at, ...(table !== undefined && { table }) };
  if (reader.accept("*")) {
    reader.expect(")");
    return { kind: "call", name, args: [], isStar: true, at };
  }
  const args = reader.is(")") ? [] : reader.list(() => parseExpression(reader));
  reader.expect(")");
  return { kind: "call", name, args, isStar: false, at };
}

/** What a column of the result is called where nothing is said. */
export function nameOf(node: Node): string {
  return ownName(node) ?? (node.kind === "cast" ? internalName(node.type) : "?column?");
}

/** What a cast does not change. */
function ownName(node: Node): string | undefined {
  if (node.kind === "column" || node.kind === "call") return node.name;
  if (node.kind === "array") return "array";
  if (node.kind === "row") return "row";
  return node.kind === "cast" ? ownName(node.node) : undefined;
}

/** As pg_type has it: `integer` is `int4`. An array's column has the name of its items' type. */
function internalName(name: string): string {
  const type = typeNamed(name);
  return type ? (type.element ?? type).name : name;
}

// -- of which types they are ------------------------------------------------------------------------------------------

/** `wanted`: what a literal or a parameter without a type of its own becomes. */
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
      // It says nothing of a parameter's type.
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
      return anyOf(node, scope);
    case "array":
      return array(node, scope, wanted);
    case "row":
      return row(node, scope);
  }
}

function typeOfParameter(index: number, scope: Scope, wanted: Type | undefined): Type {
  return scope.parameters.use(index, wanted) ?? UNTYPED(index, scope);
}

/** A parameter of which nothing is known yet: whoever asked gives it a type, or it is text. */
function UNTYPED(index: number, scope: Scope): Type {
  return scope.parameters.useAsText(index);
}

/** Whether a type is still to be found for it, by what stands beside it. */
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

/** Errors of a literal say where it stands. */
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

/** What planning evaluates, if it is constant. */
function folded(scope: Scope, isConstant: boolean | undefined, expression: Expression): Expression {
  if (!isConstant) return expression;
  scope.parameters.constants.push(({ session, parameters }) =>
    expression.evaluate({ session, parameters, rows: [], waited: new Map() }),
  );
  return { ...expression, isConstant: true };
}

const WHOLE = [types.int2, types.int4, types.int8, types.oid];
const NUMBERS = [...WHOLE, types.numeric, types.float4, types.float8];
const TEXTS = [types.text, types.varchar, types.name, types.unknown];
const MOMENTS = [types.timestamp, types.timestamptz, types.date];

type Conversion = (value: Value, context: Pick<Context, "session">) => Value;

/** `undefined`: there is none. Everything can be made from text, and text from everything. */
export function conversion(from: Type, to: Type): Conversion | undefined {
  if (from === to) return (value) => value;
  if (TEXTS.includes(from) && TEXTS.includes(to)) return (value) => value;
  if (TEXTS.includes(from)) return (value, { session }) => to.parse(value as string, session.forms);
  if (TEXTS.includes(to) && from === types.bool) return (value) => (value ? "true" : "false");
  if (TEXTS.includes(to)) return (value, { session }) => from.print(value, session.forms);
  if (NUMBERS.includes(from) && NUMBERS.includes(to)) return (value) => number(value, from, to);
  if (from === types.bool && to === types.int4) return (value) => (value ? 1 : 0);
  if (from === types.int4 && to === types.bool) return (value) => value !== 0;
  if (from === types.json && to === types.jsonb)
    return (value, { session }) => to.parse(value as string, session.forms);
  if (from === types.jsonb && to === types.json) return (value) => value;
  if (MOMENTS.includes(from) && MOMENTS.includes(to))
    return (value, { session }) => to.parse(from.print(value, session.forms), session.forms);
  if (from.element && to.element) {
    const items = conversion(from.element, to.element);
    return (
      items && ((value, context) => (value as Value[]).map((item) => (item === null ? null : items(item, context))))
    );
  }
  if (WHOLE.includes(from) && to === types.regtype)
    return (value) => types.byOid.get(Number(value))?.fullName ?? String(value);
  if (from === types.regtype && WHOLE.includes(to)) return (value) => typeNamed(value as string)?.oid ?? 0;
  return undefined;
}

function number(value: Value, from: Type, to: Type): Value {
  if (to === types.float8) return Number(value);
  if (to === types.float4) return Math.fround(Number(value));
  if (to === types.numeric)
    return from === types.float8 || from === types.float4
      ? types.numeric.parse(types.float8.print(Number(value), ANY), ANY)
      : String(value);
  const whole = wholeOf(value, from, to);
  checkRange(to, whole);
  return to === types.int8 ? whole : Number(whole);
}

function wholeOf(value: Value, from: Type, to: Type): bigint {
  if (from === types.numeric) {
    const [whole, fraction = ""] = (value as string).split(".") as [string, string?];
    if (!/^-?\d+$/.test(whole)) throw new PgError("0A000", `cannot convert ${value as string} to ${to.fullName}`);
    const away = Number(fraction[0] ?? 0) >= 5 ? 1n : 0n;
    return BigInt(whole) + (whole.startsWith("-") ? -away : away);
  }
  if (typeof value !== "number") return value as bigint;
  if (!Number.isFinite(value)) throw outOfRange(to.fullName);
  return BigInt(halfToEven(value));
}

function halfToEven(value: number): number {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 ? rounded - 1 : rounded;
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
 * The name of a function's rows stands for their column, as `n` does in `generate_series(1, 3) n`; others are records.
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

function row(node: Extract<Node, { kind: "row" }>, scope: Scope): Expression {
  const items = node.items.map((item) => analyse(item, scope));
  return {
    type: recordOf(items.map((item, at) => ({ name: `f${at + 1}`, type: item.type }))),
    evaluate: (context) => items.map((item) => item.evaluate(context)),
  };
}

/** Its text does not say of which types it is; in binary it tells. */
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

/** Of that type, or an error. */
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

/** Whether a value of `from` goes where `to` is expected, without a cast; into a column (`assigns`) a little more. */
export function isImplicit(from: Type, to: Type, assigns = false): boolean {
  if (from === to) return true;
  if (TEXTS.includes(from) && TEXTS.includes(to)) return true;
  if (assigns && NUMBERS.includes(from) && NUMBERS.includes(to)) return true;
  if (assigns && TEXTS.includes(to)) return true;
  const rank = (type: Type) => NUMBERS.filter((it) => it !== types.oid).indexOf(type);
  if (rank(from) >= 0 && rank(to) >= 0) return rank(from) < rank(to);
  if (WHOLE.includes(from) && to === types.oid) return true;
  if (from === types.date && MOMENTS.includes(to)) return true;
  return from === types.timestamp && to === types.timestamptz;
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
  // Beside a typed operand an untyped one takes its type; `->` takes text.
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

/** What may not be evaluated at all: planning leaves it alone. */
function lazily<T>({ parameters: { constants } }: Scope, analysed: () => T): T {
  const { length } = constants;
  const result = analysed();
  constants.length = length;
  return result;
}

interface Operation {
  readonly type: Type;
  of(left: Value, right: Value, context: Context): Value;
}

const COMPARISONS: Readonly<Record<string, (order: number) => boolean>> = {
  "=": (order) => order === 0,
  "<>": (order) => order !== 0,
  "<": (order) => order < 0,
  ">": (order) => order > 0,
  "<=": (order) => order <= 0,
  ">=": (order) => order >= 0,
};

function operation(symbol: string, left: Type, right: Type): Operation | undefined {
  const compares = COMPARISONS[symbol];
  const areNumbers = NUMBERS.includes(left) && NUMBERS.includes(right);
  const areTexts = TEXTS.includes(left) && TEXTS.includes(right);
  if (compares) {
    if (!areNumbers && !areTexts && left !== right) return undefined;
    if (left === types.json) return undefined;
    return { type: types.bool, of: (a, b) => compares(compare(a, b, left)) };
  }
  if (symbol === "||" && (areTexts || TEXTS.includes(left) || TEXTS.includes(right)) && !left.element && !right.element)
    return {
      type: types.text,
      of: (a, b, { session }) => left.print(a, session.forms) + right.print(b, session.forms),
    };
  if (symbol === "||" && left.element && left === right)
    return { type: left, of: (a, b) => [...(a as Value[]), ...(b as Value[])] };
  if ((symbol === "~" || symbol === "!~") && areTexts)
    return { type: types.bool, of: (a, b) => new RegExp(b as string).test(a as string) === (symbol === "~") };
  if ((symbol === "like" || symbol === "ilike") && areTexts)
    return { type: types.bool, of: (a, b) => isLike(a as string, b as string, symbol === "ilike") };
  if (areNumbers && "+-*/%".includes(symbol)) return arithmetic(symbol, left, right);
  return undefined;
}

function isLike(text: string, pattern: string, ignoresCase: boolean): boolean {
  const source = pattern
    .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
    .replaceAll("%", "[^]*")
    .replaceAll("_", "[^]");
  return new RegExp(`^${source}$`, ignoresCase ? "i" : "").test(text);
}

/** The wider of two types of numbers. */
function wider(left: Type, right: Type): Type {
  const rank = (type: Type) => NUMBERS.indexOf(type === types.oid ? types.int8 : type);
  return rank(left) >= rank(right) ? left : right;
}

function arithmetic(symbol: string, left: Type, right: Type): Operation {
  const type = wider(left, right);
  if (type === types.float8 || type === types.float4 || type === types.numeric)
    return type === types.numeric
      ? { type, of: (a, b) => inNumeric(symbol, String(a), String(b)) }
      : { type, of: (a, b) => inFloats(symbol, Number(a), Number(b)) };
  return {
    type,
    of: (a, b) => {
      const result = checkRange(type, inWhole(symbol, BigInt(a as number), BigInt(b as number)));
      return type === types.int8 ? result : Number(result);
    },
  };
}

function inWhole(symbol: string, a: bigint, b: bigint): bigint {
  if ((symbol === "/" || symbol === "%") && b === 0n) throw divisionByZero();
  if (symbol === "+") return a + b;
  if (symbol === "-") return a - b;
  if (symbol === "*") return a * b;
  return symbol === "/" ? a / b : a % b;
}

function inFloats(symbol: string, a: number, b: number): number {
  if ((symbol === "/" || symbol === "%") && b === 0) throw divisionByZero();
  if (symbol === "+") return a + b;
  if (symbol === "-") return a - b;
  if (symbol === "*") return a * b;
  return symbol === "/" ? a / b : a % b;
}

/** A quotient has sixteen digits behind the point, which is not always what the server gives. */
const SCALE_OF_QUOTIENTS = 16;

function inNumeric(symbol: string, a: string, b: string): string {
  const scaleOf = (text: string) => text.split(".")[1]?.length ?? 0;
  const scale = Math.max(scaleOf(a), scaleOf(b));
  const scaled = (text: string, to: number) => BigInt(text.replace(".", "") + "0".repeat(to - scaleOf(text)));
  const print = (digits: bigint, to: number) => {
    const text = String(digits < 0n ? -digits : digits).padStart(to + 1, "0");
    const point = text.length - to;
    return `${digits < 0n ? "-" : ""}${text.slice(0, point)}${to ? `.${text.slice(point)}` : ""}`;
  };
  if (symbol === "*") return print(scaled(a, scaleOf(a)) * scaled(b, scaleOf(b)), scaleOf(a) + scaleOf(b));
  const [x, y] = [scaled(a, scale), scaled(b, scale)];
  if (symbol === "/") {
    const quotient = inWhole("/", x * 10n ** BigInt(SCALE_OF_QUOTIENTS + 1), y);
    return print((quotient + (quotient < 0n ? -5n : 5n)) / 10n, SCALE_OF_QUOTIENTS);
  }
  return print(inWhole(symbol, x, y), scale);
}

export function compare(a: Value, b: Value, type: Type): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) {
      const order = compare(a[at]!, b[at]!, type.element ?? type);
      if (order) return order;
    }
    return a.length - b.length;
  }
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compare([...a], [...b], type);
  if (type.isEnum) return types.MOOD_LABELS.indexOf(a as string) - types.MOOD_LABELS.indexOf(b as string);
  if (NUMBERS.includes(type))
    return Number(a) - Number(b) || (typeof a === "bigint" && typeof b === "bigint" ? Number(a - b) : 0);
  return a < b ? -1 : a > b ? 1 : 0;
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

function anyOf({ node, operator: symbol, list, at }: Extract<Node, { kind: "any" }>, scope: Scope): Expression {
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
      if (results.includes(true)) return true;
      return results.includes(null) ? null : false;
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
  // Where several take as many, the types of those arguments decide that have one.
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

/** COALESCE is of the first type that an argument has. */
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
