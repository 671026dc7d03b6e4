// Decodes messages from the server to pg's objects, with the names of pg's events.
//
// Knows how each message is laid out (PostgreSQL's "Message Formats") and pg's names for its parts. Must not know when
// a message may come, or which code uses it. Rows that only `Query` uses are read by rows.ts.
import { Buffer } from "node:buffer";
import * as types from "../../wasm/messages.ts";
import { databaseError, partsOf, type DatabaseError } from "./database-error.ts";

/** A column, in the form of `result.fields`. */
export interface FieldDef {
  name: string;
  tableID: number;
  columnID: number;
  dataTypeID: number;
  dataTypeSize: number;
  dataTypeModifier: number;
  format: "text" | "binary";
}

/** A message. Its members depend on `name`. */
export interface Message {
  readonly name: string;
  readonly length: number;
  readonly [part: string]: unknown;
}

/** Messages without a body, by their types. */
const BARE: Readonly<Record<number, string>> = {
  [types.PARSE_COMPLETE]: "parseComplete",
  [types.BIND_COMPLETE]: "bindComplete",
  [types.CLOSE_COMPLETE]: "closeComplete",
  [types.EMPTY_QUERY_RESPONSE]: "emptyQuery",
  [types.COPY_DONE]: "copyDone",
  [types.NO_DATA]: "noData",
  [types.PORTAL_SUSPENDED]: "portalSuspended",
};

/** Thrown for a body that ends too early, or a message of unknown type. */
export class MalformedMessage extends Error {}

/**
 * Returns the message whose body is in `bytes` from `at` to `end`.
 *
 * @throws MalformedMessage
 */
export function messageOf(type: number, bytes: Buffer, at: number, end: number): Message | DatabaseError {
  const length = end - at + 4;
  const bare = BARE[type];
  if (bare) return { name: bare, length };
  const body = new Body(bytes, at, end);
  switch (type) {
    case types.COMMAND_COMPLETE:
      return { name: "commandComplete", length, text: body.cString() };
    case types.READY_FOR_QUERY:
      return { name: "readyForQuery", length, status: String.fromCharCode(body.int8()) };
    case types.ROW_DESCRIPTION:
      return rowDescription(body, length);
    case types.DATA_ROW:
      return dataRow(body, length);
    case types.ERROR_RESPONSE:
      return errorOrNotice(body, length, "error");
    case types.NOTICE_RESPONSE:
      return errorOrNotice(body, length, "notice");
    case types.PARAMETER_STATUS:
      return { name: "parameterStatus", length, parameterName: body.cString(), parameterValue: body.cString() };
    case types.NOTIFICATION_RESPONSE:
      return {
        name: "notification",
        length,
        processId: body.int32(),
        channel: body.cString(),
        payload: body.cString(),
      };
    case types.PARAMETER_DESCRIPTION:
      return parameterDescription(body, length);
    case types.COPY_IN_RESPONSE:
      return copyResponse(body, length, "copyInResponse");
    case types.COPY_OUT_RESPONSE:
      return copyResponse(body, length, "copyOutResponse");
    case types.COPY_BOTH_RESPONSE:
      return copyResponse(body, length, "replicationStart");
    case types.COPY_DATA:
      return { name: "copyData", length, chunk: body.rest() };
  }
  throw new MalformedMessage(`unknown message of type ${type}`);
}

function rowDescription(body: Body, length: number): Message {
  const fieldCount = body.int16();
  const fields: FieldDef[] = [];
  for (let index = 0; index < fieldCount; index++) {
    fields.push({
      name: body.cString(),
      tableID: body.int32() >>> 0,
      columnID: body.int16(),
      dataTypeID: body.int32() >>> 0,
      dataTypeSize: body.int16(),
      dataTypeModifier: body.int32(),
      format: body.int16() === 0 ? "text" : "binary",
    });
  }
  return { name: "rowDescription", length, fieldCount, fields };
}

/** Returns the values as texts, whatever their format. As in pg, binary values are converted to bytes later. */
function dataRow(body: Body, length: number): Message {
  const fieldCount = body.int16();
  const fields: (string | null)[] = [];
  for (let index = 0; index < fieldCount; index++) fields.push(body.value());
  return { name: "dataRow", length, fieldCount, fields };
}

function parameterDescription(body: Body, length: number): Message {
  const parameterCount = body.int16();
  const dataTypeIDs: number[] = [];
  for (let index = 0; index < parameterCount; index++) dataTypeIDs.push(body.int32() >>> 0);
  return { name: "parameterDescription", length, parameterCount, dataTypeIDs };
}

function copyResponse(body: Body, length: number, name: string): Message {
  const binary = body.int8() !== 0;
  const columnTypes: number[] = [];
  for (let left = body.int16(); left > 0; left--) columnTypes.push(body.int16());
  return { name, length, binary, columnTypes };
}

function errorOrNotice(body: Body, length: number, name: "error" | "notice"): Message | DatabaseError {
  const fields: Record<string, string> = {};
  for (let code = body.int8(); code; code = body.int8()) fields[String.fromCharCode(code)] = body.cString();
  const message = fields["M"] ?? "";
  const read = (code: string) => fields[code];
  return name === "error" ? databaseError(message, length, read) : { name, length, message, ...partsOf(read) };
}

/** A message's body, read from its beginning. */
class Body {
  readonly #bytes: Buffer;
  #at: number;
  readonly #end: number;

  constructor(bytes: Buffer, at: number, end: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  int8(): number {
    return this.#bytes[this.#take(1)]!;
  }

  int16(): number {
    return this.#bytes.readInt16BE(this.#take(2));
  }

  int32(): number {
    return this.#bytes.readInt32BE(this.#take(4));
  }

  cString(): string {
    const nul = this.#bytes.indexOf(0, this.#at);
    if (nul < 0 || nul >= this.#end) throw new MalformedMessage("a text without an end");
    const text = this.#bytes.toString("utf8", this.#at, nul);
    this.#at = nul + 1;
    return text;
  }

  /** Reads a value of DataRow. */
  value(): string | null {
    const length = this.int32();
    if (length < 0) return null;
    const at = this.#take(length);
    return this.#bytes.toString("utf8", at, at + length);
  }

  /** Returns a copy, because the buffer belongs to the socket. */
  rest(): Buffer {
    const at = this.#take(this.#end - this.#at);
    return Buffer.from(this.#bytes.subarray(at, this.#end));
  }

  #take(size: number): number {
    const at = this.#at;
    this.#at += size;
    if (this.#at > this.#end) throw new MalformedMessage("a message that is too short");
    return at;
  }
}
