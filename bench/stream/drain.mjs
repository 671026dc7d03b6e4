// The lower bound: a socket without a driver that requests the same binary rows and drops them. The core logs in
// (SCRAM); then the bytes of its last flight are sent, and the response is read until a chunk ends with ReadyForQuery.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import net from "node:net";
import { CoreConnection, initSync } from "../../pkg/pgz_edge.js";
import { numbers } from "../../tests/support/numbers.mjs";

const { AUTH_CLEARTEXT, AUTH_MD5, AUTH_SCRAM_SHA_256, AUTH_TRUST, VERSION_3_0 } = numbers;
const { MORE, OUTPUT, READY_FAILED, READY_IDLE, READY_IN_TRANSACTION, ROWS, ROWS_NONE } = numbers;
const READY = READY_FAILED | READY_IDLE | READY_IN_TRANSACTION;
const METHODS = AUTH_TRUST | AUTH_CLEARTEXT | AUTH_MD5 | AUTH_SCRAM_SHA_256;
/** Without channel binding. */
const UNBOUND = new Uint8Array();

export async function open(url) {
  const { memory } = initSync({ module: readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url)) });
  const { hostname, port, username, password, pathname } = new URL(url);
  const core = new CoreConnection(1 << 30, "drain", 0);
  const parameters = [
    "user",
    decodeURIComponent(username),
    "database",
    pathname.slice(1),
    "client_encoding",
    "UTF8",
    "",
  ].join("\0");
  const nonce = randomBytes(18).toString("base64");

  let onChunk;
  const buffer = Buffer.alloc(65536);
  const socket = net.connect({
    host: hostname,
    port: Number(port),
    onread: { buffer, callback: (length, bytes) => (onChunk(bytes.subarray(0, length)), true) },
  });
  socket.setNoDelay(true);
  const events = [];
  let settle;
  const step = (status) => {
    let ready = 0;
    for (;;) {
      ready = status & READY;
      if (status & OUTPUT) socket.write(core.take_output());
      if (status & ROWS) core.rows_taken();
      events.push(...lines(core.take_events()));
      if (!(status & MORE)) break;
      status = core.receive(0);
    }
    if (ready) settle();
    if (events.at(-1)?.kind === "failure") throw new Error(JSON.stringify(events.at(-1)));
  };
  const conversation = (begin) =>
    new Promise((resolve) => {
      settle = resolve;
      events.length = 0;
      onChunk = (chunk) => {
        const pointer = core.input(chunk.length); // may grow the memory, so the view is made after it
        new Uint8Array(memory.buffer).set(chunk, pointer);
        step(core.receive(chunk.length));
      };
      begin();
    });
  await conversation(() =>
    socket.once("connect", () =>
      step(
        core.start(VERSION_3_0, parameters, decodeURIComponent(password), nonce, METHODS, 1, 100_000, 65536, UNBOUND),
      ),
    ),
  );
  const backend = events.find(({ kind }) => kind === "backendKeyData").processId;

  const flights = new Map();
  const flight = async (sql) => {
    if (flights.has(sql)) return flights.get(sql);
    await conversation(() => step(core.describe(sql, 0)));
    const shape = events.findLast(({ kind }) => kind === "shape");
    // The ends of Bind and Parse (src/protocol/frontend.rs, `Statement`).
    const formats = [shape.resultFormats.length, ...shape.resultFormats].flatMap((n) => [n >> 8, n & 255]);
    const statement = Buffer.concat([Buffer.from(formats), Buffer.from(`${sql}\0\0\0`)]);
    core.execute(1, statement, new Uint8Array(4), ROWS_NONE, new Float64Array());
    const bytes = core.take_output();
    // once with the core, so that its state is complete before the bytes are sent again without it
    await conversation(() => socket.write(bytes));
    flights.set(sql, bytes);
    return bytes;
  };
  const run = async (sql, sink) => {
    const bytes = await flight(sql);
    await new Promise((resolve) => {
      let tail = Buffer.alloc(0);
      onChunk = (chunk) => {
        sink(chunk);
        tail = chunk.length < 6 ? Buffer.concat([tail, chunk]).subarray(-6) : Buffer.from(chunk.subarray(-6));
        // ReadyForQuery is the last message: 'Z', length 5, status. Rows of these shapes cannot end with the same
        // bytes.
        if (tail[0] === 0x5a && tail[4] === 5 && tail[5] === 0x49) resolve();
      };
      socket.write(bytes);
    });
  };
  return { run, backend };
}

/** Parses the core's events: JSON, one per line. */
function lines(text) {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}
