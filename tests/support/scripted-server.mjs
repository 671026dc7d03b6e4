// A PostgreSQL server that does what a test tells it to: SCRAM-SHA-256 and a few statements done properly, and then, on
// the first connection of a plan, exactly one thing wrong: a cut after so many bytes, or a scenario of
// `../faults/scenarios.mjs`.
//
// Each plan is a port of its own. The first connection meets the fault, every later one the honest server, so that "the
// next connection works" is tested against the same address, with whatever the driver remembers of it. What was
// received and sent is reported per connection. Knows nothing of the driver; runs in Node, on loopback only.
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:net";
import { Duplex } from "node:stream";
import { createSecureContext, TLSSocket } from "node:tls";

import { find } from "./scripted-statements.mjs";
import * as wire from "./wire.mjs";

export const user = "scripted";
export const password = "correct horse #1";

/** What an honest server says after authentication; PostgreSQL 18 sends these names. */
export const parameterStatuses = [
  ["in_hot_standby", "off"],
  ["integer_datetimes", "on"],
  ["TimeZone", "Etc/UTC"],
  ["IntervalStyle", "postgres"],
  ["search_path", '"$user", public'],
  ["is_superuser", "off"],
  ["application_name", "pgz-edge"],
  ["default_transaction_read_only", "off"],
  ["scram_iterations", "4096"],
  ["DateStyle", "ISO, MDY"],
  ["standard_conforming_strings", "on"],
  ["session_authorization", user],
  ["client_encoding", "UTF8"],
  ["server_version", "18.4 (scripted)"],
  ["server_encoding", "UTF8"],
];

const LEFT_OPEN_AFTER = 2000;
const RECEIVED_KEPT = 1 << 16;

/** One port with its fault. `fault`: `{ scenario, cut, tls, holdCancel, ignoreCancel }`, see `Connection`. */
export class Plan {
  connections = [];
  #sockets = new Set();
  #server;

  constructor(fault, { certificate, scenarios }) {
    this.fault = { cut: null, tls: false, holdCancel: false, ignoreCancel: false, scenario: "ok", ...fault };
    this.certificate = certificate;
    this.scenario = scenarios[this.fault.scenario];
    if (!this.scenario) throw new Error(`no scenario is called ${this.fault.scenario}`);
  }

  async listen() {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
      const first = this.connections.length === 0;
      const connection = new Connection(socket, this, first ? this.scenario : {}, first ? this.fault.cut : null);
      this.connections.push(connection);
      connection.run();
    });
    await new Promise((resolve, reject) => this.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
    return this.#server.address().port;
  }

  /** Sends SQLSTATE 57014 to the session whose key this is. */
  cancel(key) {
    if (this.fault.ignoreCancel) return;
    for (const connection of this.connections) if (connection.key.equals(key)) connection.cancelled();
  }

  /** Waits until the driver has closed every socket (or 2 s), then stops listening. */
  async report() {
    await Promise.all(this.connections.map((connection) => connection.settled()));
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    return this.connections.map((connection) => connection.report);
  }
}

/**
 * One accepted socket. Scenarios are given it as `io`: `next()` reads a message, `send()` writes some, `close()` ends.
 */
export class Connection {
  key = Buffer.alloc(0);
  #reader = new wire.FrontendReader();
  #waiting = null;
  #over = false;
  #tls = null;
  #wake = null;
  #sawEnd = () => {};

  constructor(socket, plan, scenario, cut) {
    this.socket = socket;
    this.plan = plan;
    this.scenario = scenario;
    this.limit = cut;
    this.report = {
      kind: "none",
      sent: 0,
      records: 0,
      sessionBytes: 0,
      sessionRecords: 0,
      cut: false,
      tls: false,
      names: [],
      startup: {},
      version: 0,
      received: "",
      receivedBytes: 0,
      passwords: [],
      key: "",
      cancelKey: "",
      problem: "",
      closedByDriver: "open",
    };
    this.ended = new Promise((resolve) => (this.#sawEnd = resolve));
    socket.on("data", (chunk) => this.#raw(chunk));
    socket.once("end", () => this.#end("fin"));
    socket.once("error", (error) =>
      this.#end(error.code === "ECONNRESET" || error.code === "EPIPE" ? "rst" : error.code),
    );
    socket.once("close", () => this.#end("fin"));
  }

  async run() {
    try {
      if (this.limit?.unit === "byte" && this.limit.after === 0) return this.#cut();
      await (this.scenario.accept ?? converse)(this);
    } catch (error) {
      this.report.problem = String(error.stack ?? error);
      this.close();
    }
  }

  /** The next message, or null when the driver (or a cut) ended the connection. */
  async next() {
    while (!this.#over) {
      const message = this.#reader.next();
      if (message) return this.#note(message);
      await new Promise((resolve) => (this.#waiting = resolve));
    }
    return this.#reader.next();
  }

  /** Writes messages; under TLS each becomes a record. Waits while the driver does not read. */
  async send(...messages) {
    const chunks = this.#tls ? messages : [Buffer.concat(messages)];
    for (const chunk of chunks) {
      if (this.#over || this.report.cut || chunk.length === 0) continue;
      if (this.#tls) await new Promise((resolve) => this.#tls.write(chunk, resolve));
      else await this.#write(chunk);
    }
  }

  /** Ends in order, as a server that exits does. */
  close() {
    if (!this.report.cut) (this.#tls ?? this.socket).end();
  }
  reset() {
    this.socket.resetAndDestroy();
  }
  /** Does nothing more until the driver goes away. */
  async hang() {
    while (await this.next());
  }
  async seconds(n) {
    await new Promise((resolve) => setTimeout(resolve, n * 1000));
  }

  /** Resolves when a CancelRequest for this session came, or the driver left. */
  cancellation() {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#over) resolve();
    });
  }
  cancelled() {
    this.#wake?.();
  }

  /** Bytes that came before a complete message did: what a server that is no PostgreSQL would see. */
  async anyBytes() {
    while (!this.#over && this.report.receivedBytes === 0) await new Promise((resolve) => (this.#waiting = resolve));
  }

  /** Answers `S` and goes on under TLS. `stuffed` follows the `S` in the same segment. */
  async acceptTls(stuffed = Buffer.alloc(0)) {
    await this.#write(Buffer.concat([Buffer.from("S"), stuffed]));
    if (this.limit?.unit === "record" && this.limit.after === 0) this.#cut();
    else this.#startTls(Buffer.alloc(0));
  }

  #startTls(first) {
    this.report.tls = true;
    const records = new RecordSplitter((record) => this.#writeRecord(record));
    const pipe = new Duplex({
      read() {},
      write: (chunk, _encoding, done) => {
        records.push(chunk).then(() => done(), done);
      },
      final: (done) => {
        if (!this.report.cut) this.socket.end();
        done();
      },
    });
    this.pipe = pipe;
    // A context of its own: no session can be resumed, so every handshake has the same records.
    const secureContext = createSecureContext(this.plan.certificate);
    this.#tls = new TLSSocket(pipe, { isServer: true, secureContext, ALPNProtocols: ["postgresql"] });
    this.#tls.on("data", (chunk) => this.#plain(chunk));
    this.#tls.on("error", (error) => {
      // A driver may go without waiting for our close_notify.
      if (this.report.sessionRecords === 0) this.report.problem ||= `tls: ${error.code ?? error.message}`;
      this.socket.destroy();
    });
    if (first.length > 0) pipe.push(first);
  }

  async #writeRecord(record) {
    const { limit } = this;
    if (this.report.cut) return;
    if (limit?.unit === "half-record" && this.report.records === limit.after) {
      await this.#write(record.subarray(0, 5 + ((record.length - 5) >> 1)));
      return this.#cut();
    }
    await this.#write(record);
    this.report.records += 1;
    if (limit?.unit === "record" && this.report.records === limit.after) this.#cut();
  }

  async #write(chunk) {
    if (this.#over || this.report.cut) return;
    const room = this.limit?.unit === "byte" ? this.limit.after - this.report.sent : Infinity;
    const part = chunk.length > room ? chunk.subarray(0, room) : chunk;
    this.report.sent += part.length;
    await new Promise((resolve) => this.socket.write(part, resolve));
    if (this.limit?.unit === "byte" && this.report.sent === this.limit.after) this.#cut();
  }

  #cut() {
    if (this.report.cut) return;
    this.report.cut = true;
    if (this.limit.how === "rst") this.socket.resetAndDestroy();
    else this.socket.end();
    this.#over = true;
    this.#resume();
  }

  #raw(chunk) {
    if (this.report.receivedBytes < RECEIVED_KEPT) this.report.received += chunk.toString("latin1");
    this.report.receivedBytes += chunk.length;
    if (this.report.cut) return;
    if (this.#tls) this.pipe.push(chunk);
    else if (this.report.names.length === 0 && chunk[0] === 0x16 && this.plan.fault.tls) this.#startTls(chunk);
    else this.#plain(chunk);
    this.#resume();
  }

  #plain(chunk) {
    this.#reader.push(chunk);
    this.#resume();
  }

  #note(message) {
    this.report.names.push(message.name);
    if (message.name === "PasswordMessage") this.report.passwords.push(message.body.toString("latin1"));
    return message;
  }

  #resume() {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.();
  }

  #end(how) {
    if (this.report.closedByDriver === "open") this.report.closedByDriver = how;
    this.#over = true;
    if (this.#tls) this.pipe.push(null);
    this.#resume();
    this.#wake?.();
    this.#sawEnd();
    // The driver is done; so are we, unless a cut already ended our half.
    if (how === "fin") this.socket.end();
  }

  /** Resolves once no more is to come: the driver closed its side, or had 2 s to do so. */
  async settled() {
    let timer;
    await Promise.race([this.ended, new Promise((resolve) => (timer = setTimeout(resolve, LEFT_OPEN_AFTER)))]);
    clearTimeout(timer);
  }
}

/** TLS bytes in any split -> whole records, each handed on before the next. */
class RecordSplitter {
  #bytes = Buffer.alloc(0);
  constructor(each) {
    this.each = each;
  }
  async push(chunk) {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.length >= 5) {
      const size = 5 + this.#bytes.readUInt16BE(3);
      if (this.#bytes.length < size) return;
      const record = this.#bytes.subarray(0, size);
      this.#bytes = this.#bytes.subarray(size);
      await this.each(record);
    }
  }
}

/** The whole life of an honest connection, with the steps that a scenario may replace. */
export async function converse(io) {
  const first = await opening(io);
  if (!first) return;
  if (first.name === "CancelRequest") return cancelRequest(io, first);
  io.report.kind = "main";
  io.report.version = first.version;
  io.report.startup = wire.startupParameters(first.body);
  if (!(await (io.scenario.authenticate ?? authenticate)(io))) return;
  await (io.scenario.greet ?? greet)(io);
  await queries(io);
}

/** StartupMessage or CancelRequest, past any SSLRequest. */
async function opening(io) {
  for (let message = await io.next(); message; message = await io.next()) {
    if (message.name !== "SSLRequest" && message.name !== "GSSENCRequest") return message;
    const answer =
      io.scenario.sslRequest ??
      (io.plan.fault.tls ? (each) => each.acceptTls() : (each) => each.send(Buffer.from("N")));
    if (message.name === "GSSENCRequest") await io.send(Buffer.from("N"));
    else await answer(io);
  }
  return null;
}

async function cancelRequest(io, { body }) {
  io.report.kind = "cancel";
  io.report.cancelKey = body.toString("hex");
  io.plan.cancel(body);
  if (!io.plan.fault.holdCancel) io.close();
  else await io.hang();
}

const salt = Buffer.from("pgz-edge fixed 1", "latin1");
const iterations = 4096;
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const salted = new Map();
const saltedPassword = (count) => {
  if (!salted.has(count)) salted.set(count, pbkdf2Sync(password, salt, count, 32, "sha256"));
  return salted.get(count);
};

/**
 * SCRAM-SHA-256 from the server's side; true when the client proved the password.
 * `change` replaces single steps: `challenge`, `final` (texts), `afterInitial`, `afterResponse` (what is sent instead).
 */
export async function authenticate(io, change = {}) {
  await io.send(wire.authenticationSasl(...(change.mechanisms ?? ["SCRAM-SHA-256"])));
  const initial = await io.next();
  if (!initial) return false;
  const reader = new wire.BodyReader(initial.body);
  const mechanism = reader.cstring();
  if (mechanism !== "SCRAM-SHA-256") throw new Error(`the driver chose ${mechanism}`);
  reader.int32();
  const clientFirst = reader.rest().toString("utf8");
  const bare = clientFirst.replace(/^[ny],[^,]*,/, "");
  const nonce = /(?:^|,)r=([^,]*)/.exec(bare)[1];
  if (change.afterInitial) return change.afterInitial(io, nonce);

  const honest = { nonce: nonce + randomBytes(18).toString("base64"), salt: salt.toString("base64"), iterations };
  const challenge = (change.challenge ?? ((c) => `r=${c.nonce},s=${c.salt},i=${c.iterations}`))(honest, nonce);
  await io.send(wire.authenticationSaslContinue(challenge));
  const response = await io.next();
  if (!response) return false;
  const clientFinal = response.body.toString("utf8");
  const [, withoutProof, proof] = /^(.*),p=([^,]*)$/.exec(clientFinal);
  if (change.afterResponse) return change.afterResponse(io);

  const count = Number(/(?:^|,)i=(\d+)/.exec(challenge)?.[1] ?? iterations);
  const key = saltedPassword(count);
  const authMessage = `${bare},${challenge},${withoutProof}`;
  const clientKey = hmac(key, "Client Key");
  const storedKey = createHash("sha256").update(clientKey).digest();
  const signature = hmac(storedKey, authMessage);
  const given = Buffer.from(proof, "base64").map((byte, i) => byte ^ signature[i]);
  const usedNonce = /(?:^|,)r=([^,]*)/.exec(withoutProof)[1];
  const right =
    given.length === clientKey.length &&
    timingSafeEqual(given, clientKey) &&
    usedNonce === /r=([^,]*)/.exec(challenge)[1];
  if (!right || io.report.startup.user !== user) {
    await io.send(
      wire.errorResponse({
        S: "FATAL",
        V: "FATAL",
        C: "28P01",
        M: `password authentication failed for user "${io.report.startup.user}"`,
        R: "auth_failed",
      }),
    );
    io.close();
    return false;
  }
  const final = `v=${hmac(hmac(key, "Server Key"), authMessage).toString("base64")}`;
  await io.send(wire.authenticationSaslFinal((change.final ?? ((text) => text))(final)));
  await io.send(wire.authenticationOk());
  return true;
}

/** ParameterStatus, BackendKeyData, ReadyForQuery. */
export async function greet(io, keyLength = 4) {
  if (io.scenario.negotiate) await io.send(io.scenario.negotiate());
  await io.send(...parameterStatuses.map(([name, value]) => wire.parameterStatus(name, value)));
  const processId = 4711;
  const secret = randomBytes(keyLength);
  io.key = Buffer.concat([wire.int32(processId), secret]);
  io.report.key = io.key.toString("hex");
  await io.send(wire.backendKeyData(processId, secret));
  await io.send(wire.readyForQuery());
}

/** Simple and extended query until Terminate. Answers leave at Sync, Flush and Query, as a server's do. */
async function queries(io) {
  const session = { statements: new Map(), portals: new Map(), failed: false, honest: false, thereupon: null };
  let answers = [];
  for (let message = await io.next(); message; message = await io.next()) {
    if (message.name === "Terminate") {
      io.report.sessionBytes = io.report.sent;
      io.report.sessionRecords = io.report.records;
      return io.close();
    }
    if (session.failed && message.name !== "Sync") continue;
    const honest = await answer(io, session, message);
    // The scenario is for one statement: the one that is asked afterwards finds an honest server.
    if (message.name === "Parse" && message.body.includes("select 42 as answer")) session.honest = true;
    const changed = (!session.honest && (await io.scenario.answer?.(io, message, honest, session))) || honest;
    answers.push(...changed);
    const { thereupon } = session;
    if (!thereupon && message.name !== "Sync" && message.name !== "Flush" && message.name !== "Query") continue;
    await io.send(...answers);
    answers = [];
    session.thereupon = null;
    await thereupon?.();
  }
}

/** What an honest server replies to one message. */
async function answer(io, session, { name, body }) {
  const reader = new wire.BodyReader(body);
  const { statements, portals } = session;
  const fail = (code, text) => {
    session.failed = true;
    return [wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: text })];
  };
  switch (name) {
    case "Parse": {
      const [statementName, sql] = [reader.cstring(), reader.cstring()];
      const statement = find(sql);
      if (!statement) return fail("42601", `the scripted server does not know this statement: ${sql}`);
      if (statementName !== "" && statements.has(statementName))
        return fail("42P05", `prepared statement "${statementName}" already exists`);
      statements.set(statementName, statement);
      return [wire.parseComplete()];
    }
    case "Describe": {
      const [kind, target] = [String.fromCharCode(reader.byte()), reader.cstring()];
      const portal = kind === "P" ? portals.get(target) : { statement: statements.get(target), formats: [] };
      if (!portal?.statement) return fail(kind === "P" ? "34000" : "26000", `"${target}" does not exist`);
      const { columns, parameterTypes } = portal.statement;
      const rows = columns.length > 0 ? wire.rowDescription(columns, portal.formats) : wire.noData();
      return kind === "S" ? [wire.parameterDescription(parameterTypes), rows] : [rows];
    }
    case "Bind": {
      const given = wire.bind(body);
      const statement = statements.get(given.preparedStatement);
      if (!statement) return fail("26000", `prepared statement "${given.preparedStatement}" does not exist`);
      if (given.values.length !== statement.parameterTypes.length) return fail("08P01", "wrong number of parameters");
      const code = (codes, i) => (codes.length === 1 ? codes[0] : (codes[i] ?? 0));
      const formats = statement.columns.map((_, i) => code(given.resultFormatCodes, i));
      const values = given.values.map((value, i) => ({
        value,
        oid: statement.parameterTypes[i],
        format: code(given.parameterFormatCodes, i),
      }));
      portals.set(given.destinationPortal, { statement, formats, values });
      return [wire.bindComplete()];
    }
    case "Execute": {
      const portal = portals.get(reader.cstring());
      if (!portal) return fail("34000", "portal does not exist");
      return execute(io, session, portal);
    }
    case "Close": {
      const kind = String.fromCharCode(reader.byte());
      (kind === "S" ? statements : portals).delete(reader.cstring());
      return [wire.closeComplete()];
    }
    case "Query": {
      const statement = find(reader.cstring());
      if (!statement) session.failed = true;
      const replies = statement
        ? [
            wire.rowDescription(statement.columns),
            ...(await execute(io, session, { statement, formats: [], values: [] })),
          ]
        : fail("42601", "the scripted server does not know this statement");
      session.failed = false;
      return [...replies, wire.readyForQuery()];
    }
    case "Sync":
      session.failed = false;
      return [wire.readyForQuery()];
    case "Flush":
      return [];
    case "PasswordMessage":
    case "FunctionCall":
    case "CopyData":
    case "CopyDone":
    case "CopyFail":
      return [];
    default:
      throw new Error(`the driver sent ${name} here`);
  }
}

async function execute(io, session, { statement, formats, values }) {
  const { rows, error, hangs, tag } = statement.run(values);
  const replies = rows.map((row) => wire.dataRow(row.map((value, i) => statement.encode(i, formats[i] ?? 0, value))));
  if (hangs) {
    await io.cancellation();
    session.failed = true;
    return [wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceling statement due to user request" })];
  }
  if (error) session.failed = true;
  return [
    ...replies,
    error
      ? wire.errorResponse({ S: "ERROR", V: "ERROR", ...error })
      : wire.commandComplete(tag ?? `SELECT ${rows.length}`),
  ];
}
