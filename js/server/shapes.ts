// What the isolate has learned about statements: parameter types, result formats and columns, per server and SQL text.
// With it a statement takes one flight instead of two, even on a fresh connection.
//
// Knows: bounded maps, and what makes two servers the same. Must not know: protocol, sockets, values. No user data is
// kept, only SQL text and types. Two databases never share an entry, because the same text may mean other types there.

import { startupParameters } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { BoundedMap, BoundedSet } from "../util/bounded.ts";
import { MOST_SERVERS } from "../util/limits.ts";
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

/** The key of everything that decides what an SQL text means: the address, and everything in StartupMessage. */
export function serverKey(config: Config): string {
  let key = keys.get(config);
  if (key === undefined) {
    key = short(JSON.stringify([config.host, config.port, startupParameters(config)]));
    keys.set(config, key);
  }
  return key;
}

/** The same, with settings that decide what an SQL text means; `meaning` is empty if none do. */
export function scopedKey(server: string, meaning: string): string {
  return meaning === "" ? server : short(`${server} ${meaning}`);
}

/** Shortens a key, because it is part of the key by which every statement is looked up. */
function short(long: string): string {
  let key = shortened.get(long);
  if (key === undefined) {
    shortened.set(long, (key = String(++lastKey)));
  }
  return key;
}

/**
 * The number of the last known change of the schema; 0: none. What was learned before that change is not used any more.
 */
export function epochOf(server: string): number {
  return epochs.get(server) ?? epochOfOthers;
}

/** Notes that statements of this server may mean something else from now on, on all connections to it. */
export function schemaChanged(server: string): void {
  if (epochs.size >= MOST_SERVERS) {
    // A server whose epoch was dropped must not return to what it had learned before: all servers learn anew.
    epochs.clear();
    epochOfOthers = ++lastEpoch;
  }
  // No two changes have the same number.
  epochs.set(server, ++lastEpoch);
}

const epochs = new Map<string, number>();
/** The epoch of servers without an entry. */
let epochOfOthers = 0;
let lastEpoch = 0;
const keys = new WeakMap<Config, string>();
const shortened = new BoundedMap<string, string>(MOST_SERVERS);
let lastKey = 0;

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
  /** By server: types that it cannot write in binary, though the core could read it. */
  readonly #asText = new BoundedMap<string, Set<number>>(MOST_SERVERS);
  /** The shape that was looked up last, unless a shape has been removed or put since. */
  #last: Shape | undefined;
  #lastServer = "";

  constructor(limit = 1_000, maxCharacters = 4 << 20) {
    this.#limit = limit;
    this.#maxCharacters = maxCharacters;
  }

  get size(): number {
    return this.#shapes.size;
  }

  get(server: string, sql: string): Shape | undefined {
    // This is mostly the shape of the last lookup, which already has the right place in the order.
    if (this.#last?.sql === sql && this.#lastServer === server) return this.#last;
    const key = keyOf(server, sql);
    const shape = this.#shapes.get(key);
    if (shape === undefined) return undefined;
    this.#shapes.delete(key);
    this.#shapes.set(key, shape);
    this.#last = shape;
    this.#lastServer = server;
    return shape;
  }

  /** Returns the shape to use: a new one, or the existing one if two calls learned the same thing. */
  put(server: string, sql: string, learned: LearnedShape, id = newShapeId()): Shape {
    const key = keyOf(server, sql);
    const asText = this.#asText.get(server);
    const resultFormats = learned.resultFormats.map((format, at) =>
      asText?.has(learned.columns[at]!.typeOid) ? 0 : format,
    );
    const known = this.get(server, sql);
    if (known && same(known, { ...learned, resultFormats })) return known;
    this.forget(server, sql);
    this.#last = undefined;
    const { parameterTypes, columns, types = [] } = learned;
    // On other connections a statement with the known id has other types.
    const shape = Object.freeze({
      id: known ? newShapeId() : id,
      sql,
      parameterTypes: Uint32Array.from(parameterTypes),
      resultFormats: Uint8Array.from(resultFormats),
      columns,
      types,
    });
    this.#shapes.set(key, shape);
    this.#characters += key.length;
    for (const oldest of this.#shapes.keys()) {
      if (this.#shapes.size <= this.#limit && this.#characters <= this.#maxCharacters) break;
      this.#remove(oldest);
    }
    return shape;
  }

  /** Drops a shape that is out of date (or that the server forgot): the next call learns it anew. */
  forget(server: string, sql: string): void {
    this.#remove(keyOf(server, sql));
  }

  /**
   * Called when the server has no binary form of a type in these rows. Servers do not say in a common way which type
   * that is. So it is taken to be each of the database's own types, or without those each type of variable size, or
   * without those any type. These types are requested as text from now on. Returns `false` if no column was binary, or
   * if one was an anonymous record, whose text does not say what it holds.
   */
  refuseBinary(server: string, shape: Shape): boolean {
    const { columns, resultFormats } = shape;
    const binary = columns.filter((_, at) => resultFormats[at]);
    const [refused] = [
      binary.filter(({ typeOid }) => typeOid >= FIRST_OF_A_DATABASE),
      binary.filter(({ typeSize }) => typeSize < 0),
      binary,
    ].filter(({ length }) => length);
    if (!refused || binary.some(isRecord)) return false;
    let asText = this.#asText.get(server);
    if (!asText) this.#asText.set(server, (asText = new BoundedSet(this.#limit)));
    for (const { typeOid } of refused) asText.add(typeOid);
    this.put(server, shape.sql, {
      ...shape,
      parameterTypes: [...shape.parameterTypes],
      resultFormats: [...resultFormats],
    });
    return true;
  }

  #remove(key: string): void {
    this.#last = undefined;
    if (this.#shapes.delete(key)) this.#characters -= key.length;
  }
}

/** The cache of this isolate. */
export const shapes = new ShapeCache();

let lastId = 0;

export function newShapeId(): number {
  return ++lastId;
}

function keyOf(server: string, sql: string): string {
  // JSON text holds no NUL, so the two parts cannot be confused.
  return `${server}\0${sql}`;
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
