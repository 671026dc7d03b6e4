// A PostgreSQL server that follows a test's script. It does SCRAM-SHA-256 (scripted-login.mjs) and a few statements
// (scripted-session.mjs) properly. On the first connection of a plan exactly one thing goes wrong: a cut or silence
// after a number of bytes, or a scenario of `../faults/scenarios.mjs`.
//
// Each plan has its own port. The first connection meets the fault, every later one the honest server. So "the next
// connection works" is tested against the same address, with everything that the driver has cached for it. Received and
// sent bytes are reported per connection. Knows nothing of the driver; runs in Node, on loopback only.
import { createServer } from "node:net";
import { Duplex } from "node:stream";
import { createSecureContext, TLSSocket } from "node:tls";

import { converse } from "./scripted-session.mjs";
import * as wire from "./wire.mjs";

const LEFT_OPEN_AFTER = 2000;
/**
 * A driver waits three seconds for the end of an unanswered CancelRequest, and the timers of a busy workerd are late.
 */
const CANCEL_LEFT_OPEN_AFTER = 6000;
const RECEIVED_KEPT = 1 << 16;

/**
 * Ports of the last plans, the oldest first. The system assigns a port again, sometimes at once. The socket of a
 * CancelRequest for the previous plan would then be the first connection of this one, and meet its fault.
 */
const recent = new Set();
const MOST_RECENT = 4_000;

function takeUnused(port) {
  if (recent.has(port)) return false;
  recent.add(port);
  if (recent.size > MOST_RECENT) recent.delete(recent.values().next().value);
  return true;
}

/** One port with its fault. `fault`: `{ scenario, cut, tls, trust, holdCancel, ignoreCancel }`, see `Connection`. */
export class Plan {
  connections = [];
  #sockets = new Set();
  #server;

  constructor(fault, { certificate, scenarios }) {
    this.fault = {
      cut: null,
      tls: false,
      trust: false,
      holdCancel: false,
      ignoreCancel: false,
      scenario: "ok",
      ...fault,
    };
    this.certificate = certificate;
    this.scenario = scenarios[this.fault.scenario];
    if (!this.scenario) throw new Error(`no scenario is called ${this.fault.scenario}`);
  }

  async listen() {
    /**
     * Refused ports stay open until another is found, because some systems assign the port that was closed last again
     * and again.
     */
    const refused = [];
    for (;;) {
      this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
      await new Promise((resolve, reject) => this.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
      const { port } = this.#server.address();
      if (takeUnused(port)) {
        for (const server of refused) server.close();
        return port;
      }
      refused.push(this.#server);
    }
  }

  #accept(socket) {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    const scenario = this.connections.length ? {} : this.scenario;
    const connection = new Connection(socket, this, scenario, this.connections.length ? null : this.fault.cut);
    this.connections.push(connection);
    connection.run();
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
 * One accepted socket. Scenarios get it as `io`: `next()` reads a message, `send()` writes messages, `close()` ends.
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
      loginBytes: 0,
      loginRecords: 0,
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
      committed: [],
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
      if (this.limit?.unit === "byte" && this.limit.after === 0) this.#cut();
      await (this.scenario.accept ?? converse)(this);
    } catch (error) {
      this.report.problem = String(error.stack ?? error);
      this.close();
    }
  }

  /** Returns the next message, or null when the driver (or a cut) has ended the connection. */
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

  /** Ends the connection normally, as a server that exits does. */
  close() {
    if (!this.report.cut) (this.#tls ?? this.socket).end();
  }
  reset() {
    this.socket.resetAndDestroy();
  }
  /** Does nothing until the driver disconnects. */
  async hang() {
    while (await this.next());
  }
  async seconds(n) {
    await new Promise((resolve) => setTimeout(resolve, n * 1000));
  }

  /** Resolves when a CancelRequest for this session has arrived, or the driver has disconnected. */
  cancellation() {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#over) resolve();
    });
  }
  cancelled() {
    this.#wake?.();
  }

  /**
   * Resolves when any bytes have arrived, complete message or not: all that a server other than PostgreSQL would see.
   */
  async anyBytes() {
    while (!this.#over && this.report.receivedBytes === 0) await new Promise((resolve) => (this.#waiting = resolve));
  }

  /** Answers `S` and continues with TLS. `stuffed` follows the `S` in the same segment. */
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
    // A new context each time: no session can be resumed, so every handshake has the same records.
    const secureContext = createSecureContext(this.plan.certificate);
    this.#tls = new TLSSocket(pipe, { isServer: true, secureContext, ALPNProtocols: ["postgresql"] });
    this.#tls.on("data", (chunk) => this.#plain(chunk));
    this.#tls.on("error", (error) => {
      // A driver may disconnect without waiting for our close_notify.
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
    const { how } = this.limit;
    // The server still receives and processes messages, but sends nothing.
    if (how === "silence") return;
    if (how === "half-open") this.#vanish();
    else if (how === "rst") this.socket.resetAndDestroy();
    else this.socket.end();
    this.#over = true;
    this.#resume();
  }

  /**
   * Acts like a machine that has lost its network: it reads nothing, not even the end of the socket or a CancelRequest.
   */
  #vanish() {
    this.plan.fault.holdCancel = true;
    this.socket.pause();
  }

  #raw(chunk) {
    if (this.report.receivedBytes < RECEIVED_KEPT) this.report.received += chunk.toString("latin1");
    this.report.receivedBytes += chunk.length;
    if (this.#over) return;
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
    // The driver has ended, so this side ends too, unless a cut has already ended it.
    if (how === "fin") this.socket.end();
  }

  /** Resolves once no more bytes can arrive: the driver closed its side, or had 2 s to do so. */
  async settled() {
    if (this.socket.isPaused()) this.socket.resume();
    let timer;
    const patience = this.report.kind === "cancel" ? CANCEL_LEFT_OPEN_AFTER : LEFT_OPEN_AFTER;
    await Promise.race([this.ended, new Promise((resolve) => (timer = setTimeout(resolve, patience)))]);
    clearTimeout(timer);
  }
}

/** Turns TLS bytes in any split into whole records, and passes each one on before the next. */
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
