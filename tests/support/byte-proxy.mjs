// A TCP proxy that records which messages the driver sent in which flight, and when the first row came back. It can
// also cause faults: split everything into single bytes, delay, cut after a number of bytes, or pretend that the rest
// never arrived.
//
// A flight is a change of direction to client-to-server, so the count does not depend on how TCP cuts the bytes. It
// needs a plain connection, because under TLS only the first bytes (SSLRequest or not) can be read. Knows the protocol,
// but nothing of the driver.
import { connect, createServer } from "node:net";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";

import { BackendReader, FrontendReader } from "./wire.mjs";

/**
 * Ports that proxies of this process have had. The driver caches by host and port what it has learned of a server,
 * including its statements. Once in a few hundred runs the system assigns a port again, to a proxy that must be unknown
 * to the driver.
 */
const used = new Set();

/**
 * `target`: `{ host, port }`. `options`, all off: `segment` (bytes per write), `delay` (ms before each write),
 * `cut` `{ after, how }` and `stall` `{ after }` in bytes server-to-client, on the first connection.
 */
export class ByteProxy {
  connections = [];
  #server;
  #sockets = new Set();

  constructor(target, options = {}) {
    this.target = target;
    this.options = options;
  }

  async listen() {
    this.#server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
      const server = connect({ ...this.target, noDelay: true, allowHalfOpen: true });
      const first = this.connections.length === 0;
      const recording = new Recording();
      this.connections.push(recording);
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.once("close", () => this.#sockets.delete(socket));
        socket.on("error", () => {
          client.destroy();
          server.destroy();
        });
      }
      const { segment = Infinity, delay = 0, cut, stall } = this.options;
      void pump(client, server, { segment, delay }, (chunk) => recording.toServer(chunk));
      void pump(server, client, { segment, delay, ...(first ? { cut, stall } : {}) }, (chunk) =>
        recording.toClient(chunk),
      );
    });
    for (;;) {
      await new Promise((resolve, reject) => this.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
      const { port } = this.#server.address();
      if (!used.has(port)) return used.add(port) && port;
      await new Promise((resolve) => this.#server.close(resolve));
    }
  }

  report() {
    return this.connections.map((each) => each.report);
  }

  close() {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Records one connection's traffic as it happens. */
class Recording {
  report = {
    /** The name of the first message: "StartupMessage", "SSLRequest", "CancelRequest". */
    first: "",
    /** `{ messages: ["Parse", …], statements: […], bytes }` per flight. */
    flights: [],
    /** The number of flights sent when the first DataRow came. 0: none came. */
    flightsToFirstRow: 0,
    /** The same for each DataRow that is the first of its result: one entry per result with rows. */
    flightsToRows: [],
    toServer: 0,
    toClient: 0,
    tls: false,
  };
  #direction = "";
  #frontend = new FrontendReader();
  #backend = new BackendReader();
  #inResult = false;
  #tlsAsked = false;

  toServer(chunk) {
    const { report } = this;
    report.toServer += chunk.length;
    if (this.#direction !== "server") report.flights.push({ messages: [], statements: [], bytes: 0 });
    this.#direction = "server";
    const flight = report.flights.at(-1);
    flight.bytes += chunk.length;
    if (report.tls || (report.first === "" && chunk[0] === 0x16)) return void (report.tls = true);
    this.#frontend.push(chunk);
    for (let message = this.#frontend.next(); message; message = this.#frontend.next()) {
      report.first ||= message.name;
      if (message.name === "SSLRequest") this.#tlsAsked = true;
      flight.messages.push(message.name);
      const statement = { Parse: 0, Bind: 1, Close: 0, Describe: 0 }[message.name];
      if (statement !== undefined) flight.statements.push(`${message.name} ${statementName(message, statement)}`);
    }
  }

  toClient(chunk) {
    const { report } = this;
    report.toClient += chunk.length;
    this.#direction = "client";
    if (report.tls) return;
    if (this.#tlsAsked) {
      this.#tlsAsked = false;
      report.tls = chunk[0] === 0x53;
      if (report.tls) return;
      chunk = chunk.subarray(1);
    }
    this.#backend.push(chunk);
    for (let message = this.#backend.next(); message; message = this.#backend.next()) {
      if (message.letter === "D" && !this.#inResult) {
        this.#inResult = true;
        report.flightsToFirstRow ||= report.flights.length;
        report.flightsToRows.push(report.flights.length);
      }
      if (message.letter === "C" || message.letter === "Z") this.#inResult = false;
    }
  }
}

/** Returns the statement's name in Parse, Bind, Describe and Close: "S name" or "P name" for the last two. */
function statementName({ letter, body }, index) {
  const kind = letter === "D" || letter === "C" ? `${String.fromCharCode(body[0])} ` : "";
  const names = body.toString("utf8", kind ? 1 : 0).split("\0");
  return `${kind}${names[index]}`;
}

async function pump(from, to, { segment, delay, cut, stall }, record) {
  const limit = cut?.after ?? stall?.after ?? Infinity;
  let passed = 0;
  try {
    for await (const chunk of from) {
      const kept = chunk.subarray(0, Math.max(0, limit - passed));
      passed += chunk.length;
      record(kept);
      for (let at = 0; at < kept.length; at += segment) {
        if (delay > 0) await pause(delay);
        else if (segment !== Infinity) await turn();
        if (!to.write(kept.subarray(at, at + segment)))
          await new Promise((resolve) => to.once("drain", resolve).once("close", resolve));
      }
      if (cut && passed >= limit) {
        // An RST discards bytes that the kernel has not sent yet, so the driver first gets time to read them.
        if (cut.how === "rst") await pause(50);
        if (cut.how === "rst") to.resetAndDestroy();
        else to.end();
        return from.destroy();
      }
    }
    if (!(stall && passed >= limit)) to.end();
  } catch {
    to.destroy();
  }
}
