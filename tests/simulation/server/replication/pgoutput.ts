// The messages of pgoutput, version 1 of its protocol, and the messages that carry them.
//
//   CopyData:  'w' | int64 start | int64 end of the log | int64 clock | message
//              'k' | int64 end of the log | int64 clock | byte: 1 = answer at once
//
// Knows the documentation page "Logical Replication Message Formats". Must not know the order of messages.
import { Message, utf8 } from "../messages.ts";
import { BEGINNING, fromUnix } from "../times.ts";
import type { Forms, Type, Value } from "../values.ts";
import type { Committed, LoggedChange, LoggedTable } from "./log.ts";

/** Microseconds since 2000 at a virtual time. */
const clockOf = (milliseconds: number): number => Number(fromUnix(BEGINNING + Math.floor(milliseconds)));

const code = (letter: string): number => letter.charCodeAt(0);
/** A message of pgoutput does not contain its own length. */
const begun = (letter: string): Message => new Message(" ").byte(code(letter));
const done = (message: Message): Uint8Array => message.done().subarray(5);

/** CopyBothResponse without columns, in text format. */
export const copyBothResponse = (): Uint8Array => new Message("W").byte(0).int16(0).done();

/** `start` is 0 where other messages of the same batch follow. */
export const logData = (start: number, now: number, body: Uint8Array): Uint8Array =>
  new Message("d", body.length + 32).byte(code("w")).int64(start).int64(start).int64(clockOf(now)).bytes(body).done();

export const keepalive = (end: number, now: number, wantsAnswer: boolean): Uint8Array =>
  new Message("d")
    .byte(code("k"))
    .int64(end)
    .int64(clockOf(now))
    .byte(wantsAnswer ? 1 : 0)
    .done();

export const begin = ({ xid, begins, at }: Committed): Uint8Array =>
  done(begun("B").int64(begins).int64(clockOf(at)).int32(xid));

export const commit = ({ begins, ends, at }: Committed): Uint8Array =>
  done(begun("C").byte(0).int64(begins).int64(ends).int64(clockOf(at)));

/** Describes a type of the database itself. It comes before the table that uses the type. */
export const type = ({ oid, name }: Type): Uint8Array => done(begun("Y").int32(oid).string("public").string(name));

export function relation({ oid, name, replicaIdentity, attributes }: LoggedTable): Uint8Array {
  const message = begun("R").int32(oid).string("public").string(name);
  message.byte(code(replicaIdentity)).int16(attributes.length);
  for (const attribute of attributes)
    message
      .byte(replicaIdentity === "f" ? 1 : 0)
      .string(attribute.name)
      .int32(attribute.type.oid)
      .int32(-1);
  return done(message);
}

/** A row. The old row has all columns that the replica identity keeps. */
export interface Row {
  readonly table: LoggedTable;
  readonly values: readonly Value[];
}

export const insert = (row: Row, forms: Forms): Uint8Array =>
  done(tuple(begun("I").int32(row.table.oid).byte(code("N")), row, forms));

export const update = (old: Row, row: Row, forms: Forms): Uint8Array =>
  done(tuple(tuple(begun("U").int32(row.table.oid).byte(code("O")), old, forms).byte(code("N")), row, forms));

export const delete_ = (old: Row, forms: Forms): Uint8Array =>
  done(tuple(begun("D").int32(old.table.oid).byte(code("O")), old, forms));

export function truncate(tables: readonly LoggedTable[]): Uint8Array {
  const message = begun("T").int32(tables.length).byte(0);
  for (const { oid } of tables) message.int32(oid);
  return done(message);
}

/** A message of `pg_logical_emit_message(true, …)`. */
export function message({ position, prefix, content }: LoggedChange): Uint8Array {
  const bytes = utf8(content!);
  return done(begun("M").byte(1).int64(position).string(prefix!).int32(bytes.length).bytes(bytes));
}

function tuple(message: Message, { table, values }: Row, forms: Forms): Message {
  message.int16(table.attributes.length);
  table.attributes.forEach(({ type: of }, at) => {
    const value = values[at] ?? null;
    if (value === null) return void message.byte(code("n"));
    const text = utf8(of.print(value, forms));
    message.byte(code("t")).int32(text.length).bytes(text);
  });
  return message;
}
