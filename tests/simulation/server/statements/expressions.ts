// The values that statements of the catalogue contain, and their types:
//
//   $1::int4   $1   7   'x'   null   n   current_setting('x', true)   row($1::text, 7)   10 / (50 - n)
//
// Knows how PostgreSQL finds the types of parameters, and which values planning already computes. Functions are in
// functions.ts. A text that is none of these is unknown to the model.
import { divisionByZero, noColumn, noType, PgError } from "../errors.ts";
import type { Doing } from "../process.ts";
import type { Session } from "../session.ts";
import * as types from "../values.ts";
import { checkRange, typeNamed, type Type, type Value } from "../values.ts";
import { functionNamed } from "./functions.ts";
import type { Column, ParameterTypes } from "./statement.ts";
import { bare, split, Unknown, unquoted } from "./text.ts";

export interface Context {
  readonly session: Session;
  readonly parameters: readonly Value[];
  /** The current row of the statement's source. */
  readonly row: readonly Value[];
}

export interface Scope {
  readonly session: Session;
  readonly parameters: ParameterTypes;
  /** The columns of the statement's source. */
  readonly columns: readonly Column[];
}

export interface Expression {
  readonly type: Type;
  evaluate(context: Context): Value;
  /** Takes the place of `evaluate` for a function that waits. */
  readonly wait?: (context: Context) => Doing<Value>;
  /** The expression has only constants and parameters. */
  readonly isConstant?: boolean;
  /** The table's column, if the expression is one. */
  readonly column?: Column;
}

export interface Node {
  /** The name of a result column without an alias. */
  readonly name: string;
  /** `wanted`: the type for a literal or a parameter that has no type of its own. */
  analyse(scope: Scope, wanted?: Type): Expression;
}

/** `whole`: the text in which errors have their positions. */
export function read(text: string, whole: string): Node {
  for (const operator of ["+", "-", "/"]) {
    const [left, right, ...others] = split(text, operator);
    if (left && right && !others.length) return arithmetic(operator, read(left, whole), read(right, whole));
  }
  const casts = split(text, "::");
  if (casts.length > 1) return cast(read(casts.slice(0, -1).join("::"), whole), bare(casts.at(-1)!));
  const [, parameter] = /^\$(\d+)$/.exec(text) ?? [];
  if (parameter) return parameterOf(Number(parameter));
  if (/^-?\d+$/.test(text)) return constant(types.int4, Number(text));
  if (/^-?\d+\.\d+$/.test(text)) return constant(types.numeric, text);
  if (text === "true" || text === "false") return constant(types.bool, text === "true");
  if (text === "null") return { name: "?column?", analyse: (_, type = types.text) => ({ type, evaluate: () => null }) };
  if (/^e?'([^']|'')*'$/.test(text)) return literal(text, whole);
  if (text.startsWith("(") && text.endsWith(")")) return read(text.slice(1, -1), whole);
  const [, called, list] = /^(\w+)\((.*)\)$/s.exec(text) ?? [];
  if (called !== undefined) return call(called, list ? split(list, ",").map((item) => read(item, whole)) : []);
  if (text === "current_user") return call(text, []);
  if (/^(\w+\.)*\w+$/.test(text)) return columnNamed(bare(text), whole);
  throw new Unknown();
}

function constant(type: Type, value: Value): Node {
  return { name: "?column?", analyse: () => ({ type, isConstant: true, evaluate: () => value }) };
}

function literal(text: string, whole: string): Node {
  return {
    name: "?column?",
    analyse({ session }, type = types.text) {
      try {
        const value = type.parse(unquoted(text), session.forms);
        return { type, isConstant: true, evaluate: () => value };
      } catch (error) {
        if (error instanceof PgError) error.fields.position ??= String(whole.indexOf(text) + 1);
        throw error;
      }
    },
  };
}

function parameterOf(number: number): Node {
  return {
    name: "?column?",
    analyse: ({ parameters }, wanted) => ({
      type: parameters.use(number, wanted) ?? parameters.useAsText(number),
      isConstant: true,
      evaluate: (context) => context.parameters[number - 1] ?? null,
    }),
  };
}

function columnNamed(name: string, whole: string): Node {
  return {
    name,
    analyse({ columns }) {
      const at = columns.findIndex((column) => column.name === name);
      const column = columns[at];
      if (!column) throw noColumn(name, whole.indexOf(name));
      return { type: column.type, evaluate: ({ row }) => row[at] ?? null, column };
    },
  };
}

function cast(inner: Node, typeName: string): Node {
  const to = typeNamed(typeName);
  const own = to ? (to.element ?? to).name : typeName;
  return {
    name: inner.name === "?column?" ? own : inner.name,
    analyse(scope) {
      if (!to) throw noType(typeName);
      const expression = inner.analyse(scope, to);
      return expression.type === to ? expression : planned(scope, converted(expression, to));
    },
  };
}

/** Returns the expression with the type that its place wants. */
export function converted(expression: Expression, to: Type): Expression {
  const { type, isConstant } = expression;
  if (type === to) return expression;
  const evaluate = ({ session }: Context, value: Value): Value => {
    if (value === null) return null;
    if (TEXTS.includes(type)) return TEXTS.includes(to) ? value : to.parse(value as string, session.forms);
    if (TEXTS.includes(to)) return type.print(value, session.forms);
    return number(value, to);
  };
  return {
    type: to,
    evaluate: (context) => evaluate(context, expression.evaluate(context)),
    ...(isConstant && { isConstant }),
  };
}

const TEXTS = [types.text, types.varchar, types.name];

function number(value: Value, to: Type): Value {
  if (to === types.float8) return Number(value);
  if (to === types.int8) return BigInt(value as number);
  if (to === types.int2 || to === types.int4) return Number(checkRange(to, BigInt(value as number)));
  if (to === types.numeric) return String(value);
  throw new Error(`the model has no conversion to ${to.name}`);
}

function arithmetic(operator: string, left: Node, right: Node): Node {
  const compute = { "+": sum, "-": difference, "/": quotient }[operator]!;
  return {
    name: "?column?",
    analyse(scope) {
      const [a, b] = [left.analyse(scope, types.int4), right.analyse(scope, types.int4)];
      return planned(scope, {
        type: types.int4,
        ...(a.isConstant && b.isConstant && { isConstant: true }),
        evaluate(context) {
          const [x, y] = [a.evaluate(context), b.evaluate(context)];
          return x === null || y === null ? null : number(compute(x as number, y as number), types.int4);
        },
      });
    },
  };
}

const sum = (a: number, b: number): number => a + b;
const difference = (a: number, b: number): number => a - b;

function quotient(a: number, b: number): number {
  if (b === 0) throw divisionByZero();
  return Math.trunc(a / b);
}

/** Planning evaluates an expression of constants and parameters, and fails where it fails. */
function planned(scope: Scope, expression: Expression): Expression {
  if (expression.isConstant)
    scope.parameters.constants.push((execution) => expression.evaluate({ ...execution, row: [] }));
  return expression;
}

function call(name: string, args: readonly Node[]): Node {
  if (name === "row") return row(args);
  const definition = functionNamed(name, args.length);
  if (!definition) throw new Unknown();
  const { takes, returns, run, wait } = definition;
  return {
    name,
    analyse(scope) {
      const given = args.map((arg, at) => converted(arg.analyse(scope, takes[at]), takes[at]!));
      const values = (context: Context) => given.map((arg) => arg.evaluate(context));
      if (wait)
        return { type: returns, evaluate: () => null, wait: (context) => wait(values(context), context.session) };
      return {
        type: returns,
        evaluate(context) {
          const all = values(context);
          return all.includes(null) && !definition.takesNull ? null : run!(all, context.session);
        },
      };
    },
  };
}

/** A record. Its text does not contain its types, but the binary form does. */
function row(items: readonly Node[]): Node {
  return {
    name: "row",
    analyse(scope) {
      const fields = items.map((item) => item.analyse(scope));
      return {
        type: types.recordOf(fields.map(({ type }, at) => ({ name: `f${at + 1}`, type }))),
        evaluate: (context) => fields.map((field) => field.evaluate(context)),
      };
    },
  };
}

/** Evaluates expressions for a row, one after the other. */
export function* valuesOf(expressions: readonly Expression[], context: Context): Doing<Value[]> {
  const values: Value[] = [];
  for (const { evaluate, wait } of expressions) values.push(wait ? yield* wait(context) : evaluate(context));
  return values;
}

// -- conditions -------------------------------------------------------------------------------------------------------

export type Condition = (scope: Scope) => (context: Context) => boolean;

/** `a = b`, `a > b`, `a in (b, c)`, `a = any(b)`, and columns of type bool, connected by `and`. */
export function readCondition(text: string, whole: string): Condition {
  const all = split(text, " and ").map((part) => readTest(part, whole));
  return (scope) => {
    const tests = all.map((test) => test(scope));
    return (context) => tests.every((test) => test(context));
  };
}

function readTest(text: string, whole: string): Condition {
  const [, member, list] = /^([\w.]+) in ?\((.+)\)$/s.exec(text) ?? [];
  if (member) return isOneOf(member, split(list!, ","), whole);
  const [left, operator, right] = ["=", ">"].map((it) => [...halvesAt(text, it)]).find(([, , it]) => it) ?? [text];
  const first = read(left!, whole);
  if (!operator) {
    return (scope) => {
      const { evaluate } = first.analyse(scope, types.bool);
      return (context) => evaluate(context) === true;
    };
  }
  const [, array] = /^any\((.+)\)$/.exec(right!) ?? [];
  const second = read(array ?? right!, whole);
  return (scope) => {
    const a = first.analyse(scope);
    const b = second.analyse(scope, array ? types.arrayOf(a.type) : a.type);
    const fits = (x: Value, y: Value) => x !== null && y !== null && (operator === "=" ? x === y : x > y);
    return (context) => {
      const [x, y] = [a.evaluate(context), b.evaluate(context)];
      return array ? ((y as Value[] | null) ?? []).some((item) => fits(x, item)) : fits(x, y);
    };
  };
}

function halvesAt(text: string, operator: string): string[] {
  const [left, right] = split(text, operator);
  return [left!, operator, right ?? ""];
}

function isOneOf(member: string, list: readonly string[], whole: string): Condition {
  const tests = list.map((item) => readTest(`${member}=${item}`, whole));
  return (scope) => {
    const all = tests.map((test) => test(scope));
    return (context) => all.some((test) => test(context));
  };
}
