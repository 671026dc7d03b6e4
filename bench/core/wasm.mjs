// The same rows through the wasm as a Worker has it: nanoseconds of CPU per row in each form, from the messages that main.rs writes into a folder.
//
//   node bench/core/wasm.mjs FOLDER [name=pkg …]        SHAPES, FORMATS: which, separated by commas
//
// Each `pkg` is a folder as wasm-pack leaves it; several are measured in turns, row for row of a table of medians, and must write the same
// bytes. So a change of the core is compared with what was before: copy pkg/ first. What is counted is all that a chunk costs there:
// copied in, framed, encoded, taken. Its own process, since it drives the core by the glue that wasm-bindgen makes (docs/architecture.md, The boundary).
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { median, summary } from "../lib/statistics.mjs";

const FORMATS = { ndjson: 1, json: 3, columnar: 4, toon: 5, csv: 6, columns: 7 };
const CHUNK = 65_536;
const TRIALS = 9;
/** Nanoseconds: a trial goes through the rows again until so much CPU has gone. */
const TRIAL = 30e6;
const [ROWS, MORE] = [2, 8];

const byte = (text, ...numbers) => Buffer.concat([Buffer.from(text), Buffer.from(numbers)]);
const handshake = Buffer.concat([byte("R", 0, 0, 0, 8, 0, 0, 0, 0), byte("K", 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 1), byte("Z", 0, 0, 0, 5), byte("I")]);
const bound = byte("1\0\0\0\x042\0\0\0\x04");
const end = byte("C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");

async function load(pkg) {
  // Another copy of the glue for each: it holds its instance in a variable of the module.
  const own = mkdtempSync(path.join(tmpdir(), "pgz-edge-wasm-"));
  copyFileSync(path.join(pkg, "pgz_edge.js"), path.join(own, "glue.mjs"));
  const { initSync, CoreConnection } = await import(pathToFileURL(path.join(own, "glue.mjs")).href);
  rmSync(own, { recursive: true });
  const { memory } = initSync({ module: new WebAssembly.Module(readFileSync(path.join(pkg, "pgz_edge_bg.wasm"))) });
  const core = new CoreConnection(1 << 30, "", 0);
  core.start(0x30000, "user\0bench\0", undefined, "", 31, 100_000, CHUNK);
  const feed = (bytes, take) => {
    for (let at = 0; at < bytes.length; at += CHUNK) {
      const chunk = bytes.subarray(at, at + CHUNK);
      const pointer = core.input(chunk.length); // may move the memory
      new Uint8Array(memory.buffer).set(chunk, pointer);
      let status = core.receive(chunk.length);
      for (;;) {
        core.take_events();
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
  return { core, feed };
}

/** One result of these messages, in this form. */
function pass({ core, feed }, messages, format, take) {
  const columns = messages.readUInt16BE(5);
  const statement = Buffer.concat([Buffer.from([0, columns]), Buffer.alloc(2 * columns).map((_, index) => index % 2), byte("select\0\0\0")]);
  core.execute(1, statement, new Uint8Array(4), FORMATS[format], new Float64Array());
  core.take_output();
  feed(bound);
  feed(messages, take);
  feed(end, take);
}

function bytesOf(one, messages, format) {
  const taken = [];
  pass(one, messages, format, (bytes) => taken.push(Buffer.from(bytes)));
  return Buffer.concat(taken);
}

/** Nanoseconds of CPU of one pass: the median of those of a trial. */
function trial(one, messages, format) {
  const passes = [];
  for (let spent = 0; spent < TRIAL; spent += passes.at(-1)) {
    const before = process.cpuUsage();
    pass(one, messages, format);
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
    if (!first.length || rest.some((bytes) => !bytes.equals(first))) throw new Error(`${shape} as ${format}: not the same bytes`);
    if (format === "ndjson" && first.toString().trimEnd().split("\n").map((line) => JSON.parse(line)).length !== rows) throw new Error(`${shape}: not ${rows} lines`);
    const samples = sides.map(() => []);
    for (let round = -1; round < TRIALS; round++) {
      for (const [index, side] of sides.entries()) {
        const sample = trial(side, messages, format) / rows;
        if (round >= 0) samples[index].push(sample); // the first is a warm-up
      }
    }
    for (const [index, { name }] of sides.entries()) console.log(JSON.stringify({ shape, library: name, runtime: "wasm", config: { rows, format }, metric: "ns_per_row", unit: "ns", ...summary(samples[index]) }));
  }
}
