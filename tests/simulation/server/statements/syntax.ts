// The syntax of expressions.
//
//   $1::int4   'x'   7   n + 1   repeat('x', $2)   array[1, 2]   row(1, 'a')   a is null   n in (1, 2)   n = any($1)
//   n operator(pg_catalog.<>) all (array[1, 2])
//   case when a then b else c end   (select a from f())
//
// Knows a small part of PostgreSQL's grammar. Must not know what names refer to, nor the values of expressions.
import { noType } from "../errors.ts";
import type { Token, TokenReader } from "../tokens.ts";
import * as types from "../values.ts";
import { typeNamed, type Type, type Value } from "../values.ts";
import { ANY } from "./conversions.ts";
import { KEYWORD_FUNCTIONS } from "./functions.ts";
import { parseQuery, type Query } from "./select.ts";

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
  | { kind: "any" | "all"; node: Node; operator: string; list: Node; at: number }
  | { kind: "array"; items: Node[]; at: number }
  | { kind: "row"; items: Node[]; at: number }
  | { kind: "case"; whens: { when: Node; then: Node }[]; otherwise: Node | undefined; at: number }
  | { kind: "subquery"; query: Query; at: number };

const PRECEDENCE: readonly (readonly string[])[] = [
  ["or"],
  ["and"],
  ["=", "<>", "!=", "<", ">", "<=", ">="],
  ["~", "!~", "||", "@>", "->", "->>", "like", "ilike"],
  ["+", "-"],
  ["*", "/", "%"],
];

/** Words that are no column names where an expression is expected. */
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
    const operator =
      level === 3 && reader.is("operator", "(") ? parseQualified(reader) : parseOperator(reader, operators);
    if (operator === undefined) return left;
    if (reader.isOneOf("any", "some", "all")) {
      const kind = reader.next().text === "all" ? "all" : "any";
      reader.expect("(");
      const list = parseExpression(reader);
      reader.expect(")");
      left = { kind, node: left, operator, list, at: token.at };
    } else left = { kind: "operator", operator, left, right: parseExpression(reader, level + 1), at: token.at };
  }
}

function parseOperator(reader: TokenReader, operators: readonly string[]): string | undefined {
  const { kind, text } = reader.token;
  if ((kind !== "symbol" && kind !== "word") || !operators.includes(text)) return undefined;
  reader.next();
  return text === "!=" ? "<>" : text;
}

/** OPERATOR(pg_catalog.=) binds like any operator that has no precedence of its own. */
function parseQualified(reader: TokenReader): string {
  reader.expect("operator", "(", "pg_catalog", ".");
  const { text } = reader.next();
  reader.expect(")");
  return text;
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

/** Negates a literal, so that -9223372036854775808 and -2147483648 are exact. */
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

/** Reads type names of several words. */
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

function parseParenthesis(reader: TokenReader, at: number): Node {
  if (reader.is("select")) {
    const query = parseQuery(reader);
    reader.expect(")");
    return { kind: "subquery", query, at };
  }
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
  if (reader.accept("case")) return parseCase(reader, at);
  const { text } = reader.token;
  if (!KEYWORD_FUNCTIONS.has(text) || reader.peek().text === "(" || reader.peek().text === ".") return undefined;
  reader.next();
  return { kind: "call", name: text, args: [], isStar: false, at };
}

function parseCase(reader: TokenReader, at: number): Node {
  const whens: { when: Node; then: Node }[] = [];
  while (reader.accept("when")) {
    const when = parseExpression(reader);
    reader.expect("then");
    whens.push({ when, then: parseExpression(reader) });
  }
  if (!whens.length) throw reader.wrong();
  const otherwise = reader.accept("else") ? parseExpression(reader) : undefined;
  reader.expect("end");
  return { kind: "case", whens, otherwise, at };
}

/** Reads a column, `table.column`, a function, or a type before a literal. */
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

/** Returns the name of a result column without an alias. */
export function nameOf(node: Node): string {
  return ownName(node) ?? (node.kind === "cast" ? internalName(node.type) : "?column?");
}

/** Returns the name that a cast keeps. */
function ownName(node: Node): string | undefined {
  if (node.kind === "column" || node.kind === "call") return node.name;
  if (node.kind === "array") return "array";
  if (node.kind === "row") return "row";
  if (node.kind === "case") return (node.otherwise && ownName(node.otherwise)) ?? "case";
  if (node.kind === "subquery") return node.query.targets[0]?.name;
  return node.kind === "cast" ? ownName(node.node) : undefined;
}

/** Returns the name in pg_type: `integer` is `int4`. An array's column has the name of its items' type. */
function internalName(name: string): string {
  const type = typeNamed(name);
  return type ? (type.element ?? type).name : name;
}
