// Runs the same rows through the wasm as a Worker does: nanoseconds of CPU per row in each form, from the messages that
// main.rs writes into a folder.
//
//   node bench/core/wasm.mjs FOLDER [name=pkg …]        SHAPES, FORMATS, QUERIES: which, separated by commas
//
// Each `pkg` is a folder written by wasm-pack. Several are measured in turns, for each row of the table of medians, and
// must write the same bytes. To compare a change of the core with the state before it, copy pkg/ first. A figure covers
// the whole path of a chunk: copied in, framed, encoded, taken. Then comes the cost of a query of one row beyond its
// rows. This is a process of its own, since it drives the core through wasm-bindgen's glue (docs/architecture.md, The
// boundary).
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { formats, numbers } from "../../tests/support/numbers.mjs";
import { median, summary } from "../lib/statistics.mjs";

const FORMATS = { ...formats, columns: numbers.ROWS_COLUMNS };
const CHUNK = 65_536;
const TRIALS = 9;
/** Nanoseconds of CPU per trial: passes over the rows repeat until they have used as much. */
const TRIAL = 30e6;
const { AUTH_TRUST, COMPLETE, EVENT, MORE, ROWS, VERSION_3_0 } = numbers;

const byte = (text, ...numbers) => Buffer.concat([Buffer.from(text), Buffer.from(numbers)]);
const handshake = Buffer.concat([
  byte("R", 0, 0, 0, 8, 0, 0, 0, 0),
  byte("K", 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 1),
  byte("Z", 0, 0, 0, 5),
  byte("I"),
]);
const bound = byte("1\0\0\0\x042\0\0\0\x04");
const end = byte("C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");

async function load(pkg) {
  // Each side has its own copy of the glue, which keeps its instance in a module variable.
  const own = mkdtempSync(path.join(tmpdir(), "pgz-edge-wasm-"));
  copyFileSync(path.join(pkg, "pgz_edge.js"), path.join(own, "glue.mjs"));
  const { initSync, CoreConnection } = await import(pathToFileURL(path.join(own, "glue.mjs")).href);
  rmSync(own, { recursive: true });
  const { memory } = initSync({ module: new WebAssembly.Module(readFileSync(path.join(pkg, "pgz_edge_bg.wasm"))) });
  const connect = (cacheSize) => connection(CoreConnection, memory, cacheSize);
  return { ...connect(0), connect };
}

/** A connection that has logged in. */
function connection(CoreConnection, memory, cacheSize) {
  const core = new CoreConnection(1 << 30, "", cacheSize);
  // A build before 25 has no minimum of SCRAM iterations. Trust needs neither bound.
  const iterations = core.start.length === 9 ? [4096, 100_000] : [100_000];
  core.start(VERSION_3_0, "user\0bench\0", undefined, "", AUTH_TRUST, ...iterations, CHUNK, new Uint8Array());
  const feed = (bytes, take) => {
    for (let at = 0; at < bytes.length; at += CHUNK) {
      const chunk = bytes.subarray(at, at + CHUNK);
      const pointer = core.input(chunk.length); // may move the memory
      new Uint8Array(memory.buffer).set(chunk, pointer);
      let status = core.receive(chunk.length);
      for (;;) {
        if (status & EVENT) core.take_events();
        if (status & COMPLETE) core.row_count();
        if (status & ROWS) {
          const length = core.rows_length();
          take?.(new Uint8Array(memory.buffer, core.rows_pointer(), length));
          core.rows_taken();
        }
        if (!(status & MORE)) break;
        status = core.receive(0);
      }
    }
  };
  feed(handshake);
  core.take_output();
  return { core, feed };
}

/** The argument of `execute` for a query with every column in binary. */
function statementFor(columns) {
  return Buffer.concat([
    Buffer.from([0, columns]),
    Buffer.alloc(2 * columns).map((_, index) => index % 2),
    byte("select\0\0\0"),
  ]);
}

/** Processes one result of these messages, in this form. */
function pass({ core, feed }, messages, format, take) {
  const columns = messages.readUInt16BE(5);
  core.execute(1, statementFor(columns), new Uint8Array(4), FORMATS[format], new Float64Array());
  core.take_output();
  feed(bound);
  feed(messages, take);
  feed(end, take);
}

/** The size of the statement cache, and the flag that asks for columns that are known after the first run. */
const QUERIES = { named: [64, 0x2000], unnamed: [0, 0x2000], once: [0, 0] };
const QUERIES_IN_A_PASS = 200;

/** Runs queries of one row: with a prepared statement, with an unnamed one, and with one that runs only once. */
function queryPass({ core, feed }, { statement, messages }, kind, form) {
  const [, columnsKnown] = QUERIES[kind];
  for (let query = 0; query < QUERIES_IN_A_PASS; query++) {
    core.execute(kind === "once" ? ++shapes : 1, statement, new Uint8Array(4), form | columnsKnown, new Float64Array());
    const parse = core.take_output()[0] === 0x50;
    let bytes = 0;
    feed(parse ? messages.parsed : messages.bound, (rows) => (bytes += rows.length));
    if (!bytes) throw new Error(`query ${kind}: no row came`);
  }
}
let shapes = 1;

function bytesOf(one, messages, format) {
  const taken = [];
  pass(one, messages, format, (bytes) => taken.push(Buffer.from(bytes)));
  return Buffer.concat(taken);
}

/** Returns the nanoseconds of CPU of one pass: the median of a trial's passes. */
function trial(pass) {
  const passes = [];
  for (let spent = 0; spent < TRIAL; spent += passes.at(-1)) {
    const before = process.cpuUsage();
    pass();
    const { user, system } = process.cpuUsage(before);
    passes.push(1000 * (user + system));
  }
  return median(passes.sort((a, b) => a - b));
}

function rowsIn(messages) {
  let count = 0;
  for (let at = 0; at < messages.length; at += 1 + messages.readInt32BE(at + 1)) count += messages[at] === 0x44;
  return count;
}

const wanted = (name, all) => process.env[name]?.split(",") ?? all;
const [folder, ...others] = process.argv.slice(2);
const given = others.map((other) => other.split("="));
const contestants = given.length ? given : [["pgz-edge", fileURLToPath(new URL("../../pkg", import.meta.url))]];
const sides = await Promise.all(contestants.map(async ([name, pkg]) => ({ name, ...(await load(path.resolve(pkg))) })));
for (const shape of wanted("SHAPES", readdirSync(folder))) {
  const messages = readFileSync(path.join(folder, shape));
  const rows = rowsIn(messages);
  for (const format of wanted("FORMATS", Object.keys(FORMATS))) {
    const [first, ...rest] = sides.map((side) => bytesOf(side, messages, format));
    if (!first.length || rest.some((bytes) => !bytes.equals(first)))
      throw new Error(`${shape} as ${format}: not the same bytes`);
    if (
      format === "ndjson" &&
      first
        .toString()
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)).length !== rows
    )
      throw new Error(`${shape}: not ${rows} lines`);
    measure((side) => trial(() => pass(side, messages, format)) / rows, {
      shape,
      config: { rows, format },
      metric: "ns_per_row",
    });
  }
}
const shape = "mixed_5col";
const messages = readFileSync(path.join(folder, shape));
const first = Buffer.concat([messages.subarray(0, lengthOfFirst(messages, 2)), end]);
const answer = { parsed: Buffer.concat([bound, first]), bound: Buffer.concat([bound.subarray(5), first]) };
const one = { statement: statementFor(messages.readUInt16BE(5)), messages: answer };
for (const kind of wanted("QUERIES", Object.keys(QUERIES))) {
  const [cacheSize] = QUERIES[kind];
  const form = FORMATS.columns;
  const connections = new Map(sides.map((side) => [side, side.connect(cacheSize)]));
  measure((side) => trial(() => queryPass(connections.get(side), one, kind, form)) / QUERIES_IN_A_PASS, {
    shape: `query ${kind}`,
    config: { rows: 1, format: "columns" },
    metric: "ns_per_query",
  });
}

/** Returns the bytes of the first `count` messages. */
function lengthOfFirst(all, count) {
  let at = 0;
  for (let index = 0; index < count; index++) at += 1 + all.readInt32BE(at + 1);
  return at;
}

/** Prints a figure for each side. The trials of the sides alternate. */
function measure(sampleOf, figure) {
  const samples = sides.map(() => []);
  for (let round = -1; round < TRIALS; round++) {
    for (const [index, side] of sides.entries()) {
      const sample = sampleOf(side);
      if (round >= 0) samples[index].push(sample); // the first is a warm-up
    }
  }
  for (const [index, { name }] of sides.entries())
    console.log(JSON.stringify({ ...figure, library: name, runtime: "wasm", unit: "ns", ...summary(samples[index]) }));
}
