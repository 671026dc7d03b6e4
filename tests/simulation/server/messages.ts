// PostgreSQL's protocol 3 from the server's side: this file reads frontend messages and writes backend messages.
//
// Knows the documentation page "Message Formats". Must not know what messages mean, nor their order. A message that
// cannot be read throws a ProtocolViolation, which the reader reports to the client.
import { PgError, protocolViolation } from "./errors.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const utf8 = (text: string): Uint8Array => encoder.encode(text);

export function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    const bad = [...bytes].find((byte) => byte > 127) ?? 0;
    throw new PgError("22021", `invalid byte sequence for encoding "UTF8": 0x${bad.toString(16).padStart(2, "0")}`);
  }
}

export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// -- what the server says --------------------------------------------------------------------------------------------

/** One message under construction. */
export class Message {
  #bytes: Uint8Array;
  #length = 5;

  /** `size`: the initial size in bytes. The buffer grows. */
  constructor(letter: string, size = 64) {
    this.#bytes = new Uint8Array(size);
    this.#bytes[0] = letter.charCodeAt(0);
  }

  byte(value: number): this {
    this.#room(1)[this.#length++] = value;
    return this;
  }

  int16(value: number): this {
    const bytes = this.#room(2);
    bytes[this.#length++] = value >>> 8;
    bytes[this.#length++] = value;
    return this;
  }

  int32(value: number): this {
    const bytes = this.#room(4);
    bytes[this.#length++] = value >>> 24;
    bytes[this.#length++] = value >>> 16;
    bytes[this.#length++] = value >>> 8;
    bytes[this.#length++] = value;
    return this;
  }

  /** Writes a whole number that a double can hold. */
  int64(value: number): this {
    return this.int32(Math.floor(value / 2 ** 32)).int32(value % 2 ** 32);
  }

  bytes(value: Uint8Array): this {
    this.#room(value.length).set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  string(text: string): this {
    return this.bytes(encoder.encode(text)).byte(0);
  }

  /** Returns the message, with its length written into it. */
  done(): Uint8Array {
    const length = this.#length - 1;
    const bytes = this.#bytes;
    bytes[1] = length >>> 24;
    bytes[2] = length >>> 16;
    bytes[3] = length >>> 8;
    bytes[4] = length;
    return bytes.subarray(0, this.#length);
  }

  #room(more: number): Uint8Array {
    const needed = this.#length + more;
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}

/** A column as RowDescription describes it. */
export interface ColumnDescription {
  readonly name: string;
  readonly typeOid: number;
  readonly typeSize: number;
  readonly typeModifier: number;
  readonly tableOid: number;
  readonly columnAttributeNumber: number;
}

const EMPTY_1 = new Message("1", 5).done();
const EMPTY_2 = new Message("2", 5).done();
const EMPTY_3 = new Message("3", 5).done();
const EMPTY_N = new Message("n", 5).done();
const EMPTY_S = new Message("s", 5).done();
const EMPTY_I = new Message("I", 5).done();

export const authentication = (code: number, rest: Uint8Array = new Uint8Array()): Uint8Array =>
  new Message("R").int32(code).bytes(rest).done();
export const authenticationOk = (): Uint8Array => authentication(0);
export const parameterStatus = (name: string, value: string): Uint8Array =>
  new Message("S").string(name).string(value).done();
export const backendKeyData = (processId: number, key: Uint8Array): Uint8Array =>
  new Message("K").int32(processId).bytes(key).done();
export const readyForQuery = (status: string): Uint8Array => new Message("Z").byte(status.charCodeAt(0)).done();
export const parseComplete = (): Uint8Array => EMPTY_1;
export const bindComplete = (): Uint8Array => EMPTY_2;
export const closeComplete = (): Uint8Array => EMPTY_3;
export const noData = (): Uint8Array => EMPTY_N;
export const portalSuspended = (): Uint8Array => EMPTY_S;
export const emptyQueryResponse = (): Uint8Array => EMPTY_I;
export const commandComplete = (tag: string): Uint8Array => new Message("C").string(tag).done();
export const copyData = (data: Uint8Array): Uint8Array => new Message("d").bytes(data).done();
export const copyDone = (): Uint8Array => new Message("c").done();
export const notificationResponse = (processId: number, channel: string, payload: string): Uint8Array =>
  new Message("A").int32(processId).string(channel).string(payload).done();

export function negotiateProtocolVersion(newest: number, options: readonly string[]): Uint8Array {
  const message = new Message("v").int32(newest).int32(options.length);
  for (const option of options) message.string(option);
  return message.done();
}

export function parameterDescription(oids: readonly number[]): Uint8Array {
  const message = new Message("t").int16(oids.length);
  for (const oid of oids) message.int32(oid);
  return message.done();
}

export function rowDescription(columns: readonly ColumnDescription[], formats: readonly number[]): Uint8Array {
  const message = new Message("T").int16(columns.length);
  columns.forEach((column, at) =>
    message
      .string(column.name)
      .int32(column.tableOid)
      .int16(column.columnAttributeNumber)
      .int32(column.typeOid)
      .int16(column.typeSize)
      .int32(column.typeModifier)
      .int16(formats[at] ?? 0),
  );
  return message.done();
}

export function dataRow(cells: readonly (Uint8Array | null)[]): Uint8Array {
  const size = cells.reduce((sum, cell) => sum + 4 + (cell?.length ?? 0), 7);
  const message = new Message("D", size).int16(cells.length);
  for (const cell of cells) cell === null ? message.int32(-1) : message.int32(cell.length).bytes(cell);
  return message.done();
}

/** CopyInResponse (`G`) or CopyOutResponse (`H`): all columns in one format. */
export function copyResponse(letter: "G" | "H", format: number, columns: number): Uint8Array {
  const message = new Message(letter).byte(format).int16(columns);
  for (let at = 0; at < columns; at++) message.int16(format);
  return message.done();
}

/** In the order in which the server writes the fields. */
const FIELDS = {
  severity: "S",
  severityNonLocalized: "V",
  code: "C",
  message: "M",
  detail: "D",
  hint: "H",
  where: "W",
  schema: "s",
  table: "t",
  column: "c",
  dataType: "d",
  constraint: "n",
  position: "P",
  internalPosition: "p",
  internalQuery: "q",
  file: "F",
  line: "L",
  routine: "R",
} as const;

/** Returns an ErrorResponse, or a NoticeResponse for a notice. */
export function errorResponse(error: PgError): Uint8Array {
  const { severity } = error.fields;
  const message = new Message(severity === "ERROR" || severity === "FATAL" || severity === "PANIC" ? "E" : "N");
  const fields = { ...error.fields, severityNonLocalized: severity };
  for (const [name, letter] of Object.entries(FIELDS)) {
    const value = fields[name as keyof typeof FIELDS];
    if (value !== undefined) message.byte(letter.charCodeAt(0)).string(value);
  }
  return message.byte(0).done();
}

// -- what the client says --------------------------------------------------------------------------------------------

/** Reads the fields of one message in order. Missing or leftover bytes are a protocol violation. */
export class Fields {
  #at = 0;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  byte(): number {
    return this.take(1)[0]!;
  }

  int16(): number {
    const [high, low] = this.take(2) as unknown as [number, number];
    return (high << 8) | low;
  }

  int32(): number {
    const [a, b, c, d] = this.take(4) as unknown as [number, number, number, number];
    return (a << 24) | (b << 16) | (c << 8) | d;
  }

  take(length: number): Uint8Array {
    if (length < 0 || this.#at + length > this.#bytes.length)
      throw protocolViolation("insufficient data left in message");
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  string(): string {
    const end = this.#bytes.indexOf(0, this.#at);
    if (end < 0) throw protocolViolation("invalid string in message");
    const text = textOf(this.#bytes.subarray(this.#at, end));
    this.#at = end + 1;
    return text;
  }

  rest(): Uint8Array {
    return this.take(this.#bytes.length - this.#at);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  end(): void {
    if (!this.isAtEnd) throw protocolViolation("invalid message format");
  }
}

export interface BindMessage {
  readonly destinationPortal: string;
  readonly preparedStatement: string;
  readonly parameterFormatCodes: readonly number[];
  readonly values: readonly (Uint8Array | null)[];
  readonly resultFormatCodes: readonly number[];
}

export function readBind(fields: Fields): BindMessage {
  const list = <T>(read: () => T): T[] => Array.from({ length: fields.int16() }, read);
  const destinationPortal = fields.string();
  const preparedStatement = fields.string();
  const parameterFormatCodes = list(() => fields.int16());
  const values = list(() => {
    const length = fields.int32();
    return length === -1 ? null : fields.take(length);
  });
  const resultFormatCodes = list(() => fields.int16());
  fields.end();
  return { destinationPortal, preparedStatement, parameterFormatCodes, values, resultFormatCodes };
}

/** Returns the names and values of a StartupMessage. */
export function readStartup(fields: Fields): Map<string, string> {
  const parameters = new Map<string, string>();
  for (let name = fields.string(); name !== ""; name = fields.string()) parameters.set(name, fields.string());
  return parameters;
}
