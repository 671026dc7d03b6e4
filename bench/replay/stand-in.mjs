// A stand-in server that answers as fast as loopback carries it: `server.mjs <url>`, in a process of its own. It
// reports its port when asked.
//
// It invents nothing. The first time it gets a statement with a set of result formats, it sends the statement to the
// real server at <url> and keeps the response as bytes. After that each Execute of the statement is one write of those
// bytes. It supports trust startup, simple statements, and Parse, Bind, Describe, Execute, Sync, Flush and Close
// without parameters and without suspended portals: the messages that the peers of CASE=replay send. Anything else ends
// the connection with a line on stderr.
import { createServer } from "node:net";
import process from "node:process";
import { serve } from "../lib/child.mjs";
import { pgClient } from "../lib/connect.mjs";
import * as wire from "../../tests/support/wire.mjs";

const parameterStatuses = Object.entries({
  application_name: "",
  client_encoding: "UTF8",
  DateStyle: "ISO, MDY",
  integer_datetimes: "on",
  IntervalStyle: "postgres",
  is_superuser: "off",
  server_encoding: "UTF8",
  server_version: "18.4",
  session_authorization: "replay",
  standard_conforming_strings: "on",
  TimeZone: "UTC",
});

// -- recording -------------------------------------------------------------------------------------------------------

/**
 * Statement and formats -> a promise of `{ statement, portal, rows }`: the bytes of the responses to the two Describes
 * and to Execute.
 */
const recordings = new Map();

function recorded(sql, formats) {
  const key = `${formats.join()} ${sql}`;
  if (!recordings.has(key)) recordings.set(key, record(sql, formats));
  return recordings.get(key);
}

/** Lets pg log in, with any authentication. Then this file uses pg's socket directly. */
async function realServer(url) {
  const { stream } = (await pgClient(url)).connection;
  stream.removeAllListeners("data");
  return stream;
}

const real = await realServer(process.argv[2]);
let turn = Promise.resolve();

function record(sql, formats) {
  return (turn = turn.then(async () => {
    const codes = [wire.int16(formats.length), ...formats.map(wire.int16)];
    real.write(
      Buffer.concat([
        wire.message("P", wire.cstring(""), wire.cstring(sql), wire.int16(0)),
        wire.message("D", Buffer.from("S"), wire.cstring("")),
        wire.message("B", wire.cstring(""), wire.cstring(""), wire.int16(0), wire.int16(0), ...codes),
        wire.message("D", Buffer.from("P"), wire.cstring("")),
        wire.message("E", wire.cstring(""), wire.int32(0)),
        wire.message("S"),
      ]),
    );
    return sorted(await untilReady());
  }));
}

/** Reads `[letter, bytes of the whole message]` up to ReadyForQuery. */
function untilReady() {
  const reader = new wire.BackendReader();
  const messages = [];
  return new Promise((resolve) => {
    const onData = (chunk) => {
      reader.push(chunk);
      for (let found = reader.next(); found; found = reader.next())
        messages.push([found.letter, wire.message(found.letter, found.body)]);
      if (messages.at(-1)?.[0] !== "Z") return;
      real.off("data", onData);
      resolve(messages);
    };
    real.on("data", onData);
  });
}

function sorted(messages) {
  const failed = messages.find(([letter]) => letter === "E");
  if (failed) throw new Error(`the real server refused: ${failed[1].toString("latin1")}`);
  const of = (...letters) => messages.filter(([letter]) => letters.includes(letter)).map(([, bytes]) => bytes);
  const [statement, portal] = of("T", "n");
  return { statement: Buffer.concat([...of("t"), statement]), portal, rows: Buffer.concat(of("D", "C", "I")) };
}

// -- answering -------------------------------------------------------------------------------------------------------

class Session {
  #statements = new Map();
  #portals = new Map();

  constructor(socket) {
    this.socket = socket;
  }

  /** The response to each message. Each function gets a reader of the message's body. */
  answers = {
    SSLRequest: () => Buffer.from("N"),
    GSSENCRequest: () => Buffer.from("N"),
    StartupMessage: () => [
      wire.authenticationOk(),
      ...parameterStatuses.map(([name, value]) => wire.parameterStatus(name, value)),
      wire.backendKeyData(process.pid, wire.int32(1)),
      wire.readyForQuery(),
    ],
    Parse: (body) => {
      this.#statements.set(body.cstring(), body.cstring());
      return wire.parseComplete();
    },
    Bind: async (body) => {
      const portal = body.cstring();
      const sql = this.#statements.get(body.cstring());
      for (let count = body.int16(); count > 0; count--) body.int16();
      if (body.int16() !== 0) throw new Error("Bind with parameters");
      const formats = Array.from({ length: body.int16() }, () => body.int16());
      this.#portals.set(portal, await recorded(sql, formats));
      return wire.bindComplete();
    },
    Describe: async (body) => {
      const isPortal = body.byte() === 0x50;
      const name = body.cstring();
      return isPortal ? this.#portals.get(name).portal : (await recorded(this.#statements.get(name), [])).statement;
    },
    Execute: (body) => {
      const portal = this.#portals.get(body.cstring());
      if (body.int32() !== 0) throw new Error("Execute with a row limit");
      return portal.rows;
    },
    Query: async (body) => {
      const { portal, rows } = await recorded(body.cstring(), []);
      return [portal, rows, wire.readyForQuery()];
    },
    Close: () => wire.closeComplete(),
    Flush: () => [],
    Sync: () => wire.readyForQuery(),
    Terminate: () => void this.socket.end() ?? [],
  };

  async answer({ name, body }) {
    if (!this.answers[name]) throw new Error(`${name} is not spoken here`);
    for (const bytes of [await this.answers[name](new wire.BodyReader(body))].flat()) this.socket.write(bytes);
  }
}

const server = createServer({ noDelay: true }, async (socket) => {
  const reader = new wire.FrontendReader();
  const session = new Session(socket);
  socket.on("error", () => socket.destroy());
  try {
    for await (const chunk of socket) {
      reader.push(chunk);
      socket.cork(); // the responses to one piece from the client leave in one write
      for (let message = reader.next(); message; message = reader.next()) await session.answer(message);
      socket.uncork();
    }
  } catch (error) {
    if (!socket.destroyed) console.error(`replay: ${error.message}`);
    socket.destroy();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
serve(async () => ({ port: server.address().port, statements: recordings.size }));
