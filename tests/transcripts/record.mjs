#!/usr/bin/env node
// Records the scenarios of scenarios.mjs from real servers into transcripts: `node tests/transcripts/record.mjs [file
// …]`.
//
// Drives the built core (pkg/) over node:net and writes the calls and the bytes of both sides as `raw` lines; then
// `TRANSCRIPTS=rewrite cargo test` names the messages and adds rows and events. Read the diff before you keep it.
import { createHash, pbkdf2Sync } from "node:crypto";
import { readFileSync } from "node:fs";
import net from "node:net";
import pg from "pg";
import { CoreConnection, initSync } from "../../pkg/pgz_edge.js";
import { formats, numbers } from "../support/numbers.mjs";
import { quoted, raw, recordAll } from "./recording.mjs";
import { scenarios } from "./scenarios.mjs";

const { memory } = initSync({ module: readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url)) });

const { AUTH_TRUST, BUSY, CLOSED, COPY_NONE, EARLY_QUERY, EXTERNAL_KEY_DERIVATION, MORE, VERSION_3_0 } = numbers;
const FORMATS = {
  none: numbers.ROWS_NONE,
  arrays: numbers.ROWS_ARRAYS | numbers.INT8_AS_STRING | numbers.NUMERIC_AS_STRING,
  ...formats,
  csv: formats.csv | numbers.CSV_HEADER,
};
const NONCE = "cmVjb3JkZWQgdHJhbnNjcmlwdA==";

/** One connection: each verb writes its line and makes its call. Verbs that the server answers return a promise. */
class Session {
  #core = new CoreConnection(1 << 30, "s", 64);
  #queued = () => {};
  #waits = true;
  #parameters = [];
  #login;
  #options = new Map();

  /** `brief`: the settings that the server reports while it starts are left out. */
  constructor(server, socket, brief) {
    this.brief = brief;
    this.server = server;
    this.socket = socket;
    this.chunks = socket[Symbol.asyncIterator]();
    this.lines = [];
    this.events = [];
  }

  settings(bytes, prefix, cache) {
    this.lines.push(
      `> settings max_message_bytes ${bytes} statement_prefix ${quoted(prefix)} statement_cache_size ${cache}`,
    );
    this.#core = new CoreConnection(bytes, prefix, cache);
  }

  startupParameter(name, value) {
    this.#parameters.push(name, value);
    if (name === "user") this.user = value;
  }

  password(text, allowed, iterations = 100_000) {
    this.secret = text;
    this.#login = { text, allowed, iterations };
  }

  externalKeyDerivation() {
    this.#options.set("external_key_derivation", EXTERNAL_KEY_DERIVATION);
  }
  earlyQuery() {
    this.#options.set("early_query", EARLY_QUERY);
  }
  forget(shape) {
    this.#call(`forget ${shape}`, (core) => core.forget(shape));
  }
  discard() {
    this.#call("discard", (core) => core.discard());
  }
  wantNotices() {
    this.#call("want_notices", (core) => core.want_notices());
  }
  terminate() {
    this.#call("terminate", (core) => core.terminate());
  }
  cancelRequest() {
    this.#call("cancel_request", () => {}, this.#core.cancel_request());
  }

  /** `calls` are made right behind StartupMessage. */
  queue(calls) {
    this.#queued = calls;
  }

  async start(version) {
    const { text, allowed = AUTH_TRUST, iterations = 100_000 } = this.#login ?? {};
    const words = [`start ${version}`, ...this.#parameters.map((each) => quoted(each))];
    if (text !== undefined) words.push(`password ${quoted(text)}`);
    if (this.#login) words.push(`nonce "${NONCE}" allowed ${allowed} max_iterations ${iterations}`);
    words.push(...this.#options.keys());
    const options = [...this.#options.values()].reduce((bits, bit) => bits | bit, allowed);
    const parameters = this.#parameters.map((each) => `${each}\0`).join("");
    this.#call(words.join(" "), (core) =>
      core.start(
        VERSION_3_0 + Number(version.slice(2)),
        parameters,
        text,
        NONCE,
        options,
        0,
        iterations,
        1 << 16,
        new Uint8Array(),
      ),
    );
    this.#waits = false;
    this.#queued();
    this.#waits = true;
    await this.#settle();
    const question = this.events.pop();
    const answer = this.#answer(question);
    if (!answer) return;
    this.#call(`prove ${quoted(answer, "'")}`, (core) => core.prove(answer));
    await this.#settle();
  }

  #answer({ kind, salt, iterations } = {}) {
    if (kind === "keyDerivation") return pbkdf2Sync(this.secret, Buffer.from(salt, "base64"), iterations, 32, "sha256");
    if (kind !== "md5") return undefined;
    const hex = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("md5")).digest("hex");
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(salt);
    return Buffer.from(`md5${hex(hex(this.secret, this.user), bytes)}`);
  }

  async describe(sql) {
    this.#call(`describe ${quoted(sql)}`, (core) => core.describe(sql));
    await this.#settle();
    return this.events.findLast(({ kind }) => kind === "shape");
  }

  async execute(
    shape,
    sql,
    { types = [], formats = [], parameterFormats = [], values = [], format = "ndjson", ...caps } = {},
  ) {
    const words = [`execute ${shape} ${quoted(sql)}`];
    if (types.length > 0) words.push("types", ...types);
    if (formats.length > 0) words.push("formats", ...formats);
    if (parameterFormats.length > 0) words.push("parameter_formats", ...parameterFormats);
    words.push(
      ...values.map((value) => (value === null ? "null" : `value ${quoted(value, "'")}`)),
      ...rowWords(format, caps),
    );
    const int16 = (n) => Buffer.of(n >> 8, n & 255);
    const int32 = (n) => Buffer.from(Uint8Array.of(n >> 24, n >> 16, n >> 8, n));
    const statement = Buffer.concat([
      int16(formats.length),
      ...formats.map(int16),
      Buffer.from(`${sql}\0`),
      int16(types.length),
      ...types.map(int32),
    ]);
    const parameters = Buffer.concat(
      [parameterFormats, values].flatMap((list) => [
        int16(list.length),
        ...list.map((item) => (typeof item === "number" ? int16(item) : field(item))),
      ]),
    );
    this.#call(words.join(" "), (core) => core.execute(shape, statement, parameters, FORMATS[format], limits(caps)));
    await this.#settle();
  }

  async fetch() {
    this.#call("fetch", (core) => core.fetch());
    await this.#settle();
  }

  async closePortal() {
    this.#call("close_portal", (core) => core.close_portal());
    await this.#settle();
  }

  async simpleQuery(sql, { format = "ndjson", ...caps } = {}) {
    this.#call([`simple_query ${quoted(sql)}`, ...rowWords(format, caps)].join(" "), (core) =>
      core.simple_query(sql, COPY_NONE, FORMATS[format], limits(caps)),
    );
    await this.#settle();
  }

  /** Makes all calls before the first answer is read. */
  async together(calls) {
    this.#waits = false;
    calls();
    this.#waits = true;
    await this.#settle();
  }

  /** Runs SQL in a session of the superuser. */
  async elsewhere(sql) {
    const client = new pg.Client({ connectionString: this.server.superuserUrl });
    await client.connect();
    await client.query(sql);
    await client.end();
  }

  /** Reads what comes while nothing was asked. */
  async idle() {
    await this.#read();
  }

  #call(line, call, extra = Buffer.alloc(0)) {
    this.lines.push(`> ${line}`);
    call(this.#core);
    this.#drain(extra);
  }

  /** Reads until the core wants nothing more, or wants a key. */
  async #settle() {
    const waitsForKey = () => this.events.at(-1)?.kind === "keyDerivation";
    while (this.#waits && !waitsForKey() && this.#status() & BUSY) await this.#read();
  }

  #status() {
    return this.#core.receive(0);
  }

  async #read() {
    const { value: chunk, done } = await this.chunks.next();
    if (done) throw new Error("the server closed the connection while the core waits");
    const bytes = this.brief ? withoutSettings(chunk) : chunk;
    this.lines.push(raw("B", bytes));
    const at = this.#core.input(bytes.length);
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    let status = this.#core.receive(bytes.length);
    this.brief &&= status & BUSY;
    const output = [];
    for (;;) {
      output.push(this.#take());
      if (!(status & MORE)) break;
      status = this.#core.receive(0);
    }
    this.#send(Buffer.concat(output));
    if (status & CLOSED) this.socket.destroy();
  }

  #drain(extra) {
    this.#send(Buffer.concat([extra, this.#take()]), extra.length === 0);
  }

  #take() {
    const output = this.#core.take_output();
    this.#core.rows_taken();
    // One per line.
    const lines = this.#core.take_events().split("\n");
    this.events.push(...lines.filter(Boolean).map((line) => JSON.parse(line)));
    return output;
  }

  #send(bytes, really = true) {
    if (bytes.length === 0) return;
    this.lines.push(raw("F", bytes));
    if (really) this.socket.write(bytes);
  }
}

const rowWords = (format, caps) => [
  format === "csv" ? "csv header" : format,
  ...Object.entries(caps).map(([name, value]) => (value === true ? name : `${name} ${value}`)),
];
const limits = ({ rows = 0, bytes = 0, field_bytes = 0, truncate = false, fetch = 0 }) => {
  const { LIMIT_BYTES, LIMIT_FETCH, LIMIT_FIELD_BYTES, LIMIT_ROWS, LIMIT_TRUNCATE } = numbers;
  return Object.assign([], {
    [LIMIT_ROWS]: rows,
    [LIMIT_BYTES]: bytes,
    [LIMIT_FIELD_BYTES]: field_bytes,
    [LIMIT_TRUNCATE]: Number(truncate),
    [LIMIT_FETCH]: fetch,
  });
};
function field(value) {
  const length = Buffer.alloc(4);
  length.writeInt32BE(value === null ? -1 : value.length);
  return Buffer.concat([length, value ?? Buffer.alloc(0)]);
}

/** A chunk of whole messages without the ParameterStatus ones. */
function withoutSettings(chunk) {
  const kept = [];
  for (let at = 0, end; at < chunk.length; at = end) {
    end = at + 1 + chunk.readInt32BE(at + 1);
    if (chunk[at] !== "S".charCodeAt(0)) kept.push(chunk.subarray(at, end));
  }
  return Buffer.concat(kept);
}

await recordAll(scenarios, {
  recorder: ({ settings }) =>
    settings ? "record.mjs" : "record.mjs, without the settings that the server reports at the start",
  async lines({ settings = false, run }, server) {
    const socket = net.connect({ host: server.host, port: server.port, noDelay: true });
    const session = new Session(server, socket, !settings);
    await run(session);
    socket.destroy();
    return session.lines;
  },
  test: ["--test", "transcripts", "every_transcript_replays"],
});
