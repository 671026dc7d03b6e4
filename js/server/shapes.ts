// What the isolate has learned about statements: parameter types, result formats and columns, per server and SQL text.
// With it a statement takes one flight instead of two, even on a fresh connection.
//
// Knows a bounded map, and the bytes of a statement. Must not know what makes two servers the same (known-server.ts),
// the protocol, or values. No user data is kept, only SQL text and types.
import type { Column } from "../wasm/boundary.ts";
import { encoder } from "../util/bytes.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../values/oid.ts";
import { goesInBinary } from "../values/parameters.ts";
import type { Definition } from "../wasm/type-definitions.ts";

/** The contents of a `shape` event. */
export interface LearnedShape {
  readonly parameterTypes: readonly number[];
  readonly resultFormats: readonly number[];
  readonly columns: readonly Column[];
  /** The database's own types that the columns are made of. */
  readonly types?: readonly Definition[];
}

export interface Shape {
  /** Unique in the isolate: the core names prepared statements by it. Another shape for the same SQL has another id. */
  readonly id: number;
  readonly sql: string;
  readonly parameterTypes: Uint32Array;
  readonly resultFormats: Uint8Array;
  readonly columns: readonly Column[];
  readonly types: readonly Definition[];
}

/**
 * A cache of shapes, bounded by the number of shapes and by the length of their texts. Drops the least recently used
 * shape first.
 */
export class ShapeCache {
  // A Map iterates in the order of insertion: the first entry is the least recently used.
  readonly #shapes = new Map<string, Shape>();
  readonly #limit: number;
  readonly #maxCharacters: number;
  #characters = 0;
  /** The shape that was looked up last, unless a shape has been removed or put since. */
  #last: Shape | undefined;
  #lastScope = "";

  constructor(limit = 1_000, maxCharacters = 4 << 20) {
    this.#limit = limit;
    this.#maxCharacters = maxCharacters;
  }

  get size(): number {
    return this.#shapes.size;
  }

  /** `scope`: the key of everything that decides what a text means (`KnownScope`). */
  get(scope: string, sql: string): Shape | undefined {
    // This is mostly the shape of the last lookup, which already has the right place in the order.
    if (this.#last?.sql === sql && this.#lastScope === scope) return this.#last;
    const key = keyOf(scope, sql);
    const shape = this.#shapes.get(key);
    if (shape === undefined) return undefined;
    this.#shapes.delete(key);
    this.#shapes.set(key, shape);
    this.#last = shape;
    this.#lastScope = scope;
    return shape;
  }

  /** Returns the shape to use: a new one, or the existing one if two calls learned the same thing. */
  put(scope: string, sql: string, learned: LearnedShape, id = newShapeId()): Shape {
    const key = keyOf(scope, sql);
    const known = this.get(scope, sql);
    if (known && same(known, learned)) return known;
    this.forget(scope, sql);
    this.#last = undefined;
    // On other connections a statement with the known id has other types.
    const shape = newShape(sql, learned, known ? newShapeId() : id);
    this.#shapes.set(key, shape);
    this.#characters += key.length;
    for (const oldest of this.#shapes.keys()) {
      if (this.#shapes.size <= this.#limit && this.#characters <= this.#maxCharacters) break;
      this.#remove(oldest);
    }
    return shape;
  }

  /** Drops a shape that is out of date (or that the server forgot): the next call learns it anew. */
  forget(scope: string, sql: string): void {
    this.#remove(keyOf(scope, sql));
  }

  #remove(key: string): void {
    this.#last = undefined;
    if (this.#shapes.delete(key)) this.#characters -= key.length;
  }
}

/** Returns a shape that is not cached. */
export function newShape(sql: string, learned: LearnedShape, id: number): Shape {
  const { parameterTypes, resultFormats, columns, types = [] } = learned;
  return Object.freeze({
    id,
    sql,
    parameterTypes: Uint32Array.from(parameterTypes),
    resultFormats: Uint8Array.from(resultFormats),
    columns,
    types,
  });
}

/** The cache of this isolate. */
export const shapes = new ShapeCache();

let lastId = 0;

export function newShapeId(): number {
  return ++lastId;
}

function keyOf(scope: string, sql: string): string {
  // Neither part holds a NUL, so the two cannot be confused.
  return `${scope}\0${sql}`;
}

/**
 * Returns the types of these rows whose binary form the server may lack. Servers do not say in a common way which type
 * that is. So it is taken to be each of the database's own types, or without those each type of variable size, or
 * without those any type. There are none if no column was binary, or if one was an anonymous record, whose text does
 * not say what it holds.
 */
export function typesToRefuse({ columns, resultFormats }: Shape): readonly number[] {
  const binary = columns.filter((_, at) => resultFormats[at]);
  if (binary.some(isRecord)) return [];
  const [refused = []] = [
    binary.filter(({ typeOid }) => typeOid >= FIRST_OF_A_DATABASE),
    binary.filter(({ typeSize }) => typeSize < 0),
    binary,
  ].filter(({ length }) => length);
  return refused.map(({ typeOid }) => typeOid);
}

/** Whether the column is an anonymous record: only binary says what it holds. */
export function isRecord({ typeOid }: Column): boolean {
  return typeOid === RECORD || typeOid === RECORD_ARRAY;
}

function same(shape: Shape, learned: LearnedShape): boolean {
  const text = ({ parameterTypes, resultFormats, columns }: LearnedShape | Shape) =>
    JSON.stringify([[...parameterTypes], [...resultFormats], columns]);
  const { types = [] } = learned;
  // Definitions are compared by identity: the old ones may have been forgotten, though the new ones say the same.
  return (
    shape.types.length === types.length &&
    shape.types.every((type, index) => type === types[index]) &&
    text(shape) === text(learned)
  );
}

/**
 * The bytes that Bind and Parse of the statement end with (src/protocol/frontend.rs, `Statement`), made once:
 *
 *   int16 number · int16 format code of each column        text NUL · int16 number · int32 type of each parameter
 *
 * Parse declares the types whose values go in binary, because the bytes depend on them. The others stay 0, so the
 * server reads their text by the type that the parameter has now: a column that has become timestamptz since it was
 * learned as date loses nothing.
 */
export function encodedStatement(shape: Shape): Uint8Array {
  let encoded = statements.get(shape);
  if (!encoded) statements.set(shape, (encoded = newStatement(shape)));
  return encoded;
}

const statements = new WeakMap<Shape, Uint8Array>();

/** The same bytes, made anew, with another text for the same statement. */
export function newStatement({ sql, parameterTypes, resultFormats }: Shape, as = sql): Uint8Array {
  const text = encoder.encode(as);
  const behind = 2 + 2 * resultFormats.length;
  const types = behind + text.length + 1;
  const bytes = new Uint8Array(types + 2 + 4 * parameterTypes.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, resultFormats.length);
  resultFormats.forEach((code, index) => view.setUint16(2 + 2 * index, code));
  bytes.set(text, behind);
  view.setUint16(types, parameterTypes.length);
  parameterTypes.forEach((type, index) => view.setUint32(types + 2 + 4 * index, goesInBinary(type) ? type : 0));
  return bytes;
}
