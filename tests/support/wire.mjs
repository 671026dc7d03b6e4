// PostgreSQL's protocol 3 from the server's side, for tests: builds backend messages, and reads frontend messages.
//
// Knows the documentation page "Message Formats" and nothing of the driver: where the two disagree, the test fails.
// Does no I/O. `raw` builds malformed messages on purpose, with any length that it is given.

const SSL_REQUEST = 80877103;
const CANCEL_REQUEST = 80877102;
const GSSENC_REQUEST = 80877104;

export const int16 = (n) => {
  const b = Buffer.alloc(2);
  b.writeInt16BE(n);
  return b;
};
export const int32 = (n) => {
  const b = Buffer.alloc(4);
  b.writeInt32BE(n | 0);
  return b;
};
export const cstring = (text) => Buffer.concat([Buffer.from(text), Buffer.of(0)]);

/** One message: letter, length, body. */
export function message(letter, ...parts) {
  const body = Buffer.concat(parts);
  return raw(letter, body.length + 4, body);
}

/** The same with any length word. */
export const raw = (letter, length, ...parts) =>
  Buffer.concat([Buffer.from(letter, "latin1"), int32(length), ...parts]);

const fields = (record) => [...Object.entries(record).map(([type, value]) => cstring(type + value)), Buffer.of(0)];

export const authenticationOk = () => message("R", int32(0));
export const authentication = (code, ...rest) => message("R", int32(code), ...rest);
export const authenticationMd5Password = (salt) => authentication(5, salt);
export const authenticationSasl = (...mechanisms) => authentication(10, ...mechanisms.map(cstring), Buffer.of(0));
export const authenticationSaslContinue = (text) => authentication(11, Buffer.from(text));
export const authenticationSaslFinal = (text) => authentication(12, Buffer.from(text));
export const parameterStatus = (name, value) => message("S", cstring(name), cstring(value));
export const backendKeyData = (processId, key) => message("K", int32(processId), key);
export const negotiateProtocolVersion = (version, options = []) =>
  message("v", int32(version), int32(options.length), ...options.map(cstring));
export const readyForQuery = (status = "I") => message("Z", Buffer.from(status));
export const parseComplete = () => message("1");
export const bindComplete = () => message("2");
export const closeComplete = () => message("3");
export const noData = () => message("n");
export const emptyQueryResponse = () => message("I");
export const commandComplete = (tag) => message("C", cstring(tag));
export const errorResponse = (record) => message("E", ...fields(record));
export const noticeResponse = (record) => message("N", ...fields(record));
export const notificationResponse = (processId, channel, payload) =>
  message("A", int32(processId), cstring(channel), cstring(payload));
export const parameterDescription = (oids) => message("t", int16(oids.length), ...oids.map(int32));

/** `columns`: `{ name, oid, size }`; `formats`: one code per column, or none for text. */
export const rowDescription = (columns, formats = []) =>
  message("T", int16(columns.length), ...columns.map((column, i) => columnDescription(column, formats[i] ?? 0)));

export const columnDescription = ({ name, oid, size = -1, tableOid = 0, attribute = 0, modifier = -1 }, format = 0) =>
  Buffer.concat([
    cstring(name),
    int32(tableOid),
    int16(attribute),
    int32(oid),
    int16(size),
    int32(modifier),
    int16(format),
  ]);

/** `cells`: Buffers, `null` for NULL. */
export const dataRow = (cells) => message("D", int16(cells.length), ...cells.map(cell));
export const cell = (value) => (value === null ? int32(-1) : Buffer.concat([int32(value.length), value]));

/**
 * Turns frontend bytes in any split into messages `{ name, letter, body }`; `size` is the number of bytes on the wire.
 * The first message of a connection has no letter. After SSLRequest and GSSENCRequest the next one has none either.
 */
export class FrontendReader {
  #bytes = Buffer.alloc(0);
  #started = false;

  push(chunk) {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  /** Bytes that are not a complete message yet. */
  get rest() {
    return this.#bytes;
  }

  next() {
    const header = this.#started ? 1 : 0;
    if (this.#bytes.length < header + 4) return null;
    const length = this.#bytes.readInt32BE(header);
    if (length < 4 || length > 0x3fffffff) throw new Error(`the driver sent a message of length ${length}`);
    const size = header + length;
    if (this.#bytes.length < size) return null;
    const letter = this.#started ? String.fromCharCode(this.#bytes[0]) : "";
    const body = Buffer.from(this.#bytes.subarray(header + 4, size));
    this.#bytes = this.#bytes.subarray(size);
    return this.#started
      ? { name: frontendNames[letter] ?? `unknown ${letter}`, letter, body, size }
      : this.#first(body, size);
  }

  #first(body, size) {
    const code = body.readInt32BE(0);
    const name = { [SSL_REQUEST]: "SSLRequest", [CANCEL_REQUEST]: "CancelRequest", [GSSENC_REQUEST]: "GSSENCRequest" }[
      code
    ];
    if (name) return { name, letter: "", body: body.subarray(4), size };
    this.#started = true;
    return { name: "StartupMessage", letter: "", body: body.subarray(4), version: code, size };
  }
}

/** Turns backend bytes in any split into `{ letter, body }`, for the proxy, which must find the first DataRow. */
export class BackendReader {
  #bytes = Buffer.alloc(0);

  push(chunk) {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
  }

  next() {
    if (this.#bytes.length < 5) return null;
    const size = 1 + this.#bytes.readInt32BE(1);
    if (this.#bytes.length < size) return null;
    const letter = String.fromCharCode(this.#bytes[0]);
    const body = Buffer.from(this.#bytes.subarray(5, size));
    this.#bytes = this.#bytes.subarray(size);
    return { letter, body, size };
  }
}

export const frontendNames = {
  B: "Bind",
  C: "Close",
  D: "Describe",
  E: "Execute",
  F: "FunctionCall",
  H: "Flush",
  P: "Parse",
  Q: "Query",
  S: "Sync",
  X: "Terminate",
  c: "CopyDone",
  d: "CopyData",
  f: "CopyFail",
  p: "PasswordMessage",
};

/** Reads the fields of one message body in order. */
export class BodyReader {
  #at = 0;
  constructor(body) {
    this.body = body;
  }
  int16() {
    this.#at += 2;
    return this.body.readInt16BE(this.#at - 2);
  }
  int32() {
    this.#at += 4;
    return this.body.readInt32BE(this.#at - 4);
  }
  byte() {
    return this.body[this.#at++];
  }
  bytes(n) {
    this.#at += n;
    return this.body.subarray(this.#at - n, this.#at);
  }
  rest() {
    return this.body.subarray(this.#at);
  }
  get done() {
    return this.#at >= this.body.length;
  }
  cstring() {
    const end = this.body.indexOf(0, this.#at);
    if (end < 0) throw new Error("a string of the driver has no end");
    const text = this.body.toString("utf8", this.#at, end);
    this.#at = end + 1;
    return text;
  }
}

/** Returns the pairs of a StartupMessage as an object. */
export function startupParameters(body) {
  const reader = new BodyReader(body);
  const pairs = {};
  for (let name = reader.cstring(); name !== ""; name = reader.cstring()) pairs[name] = reader.cstring();
  return pairs;
}

/** Returns Bind as an object. `values` are Buffers or null. */
export function bind(body) {
  const reader = new BodyReader(body);
  const list = (n, read) => Array.from({ length: n }, read);
  const destinationPortal = reader.cstring();
  const preparedStatement = reader.cstring();
  const parameterFormatCodes = list(reader.int16(), () => reader.int16());
  const values = list(reader.int16(), () => {
    const n = reader.int32();
    return n < 0 ? null : reader.bytes(n);
  });
  const resultFormatCodes = list(reader.int16(), () => reader.int16());
  return { destinationPortal, preparedStatement, parameterFormatCodes, values, resultFormatCodes };
}
