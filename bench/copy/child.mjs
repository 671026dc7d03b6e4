// One library of libraries.mjs: `child.mjs <library> <url>`. A request moves the rows of one shape; the input of a COPY
// in is made before the clock starts. `check` returns a hash of a COPY out's bytes.
import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import process from "node:process";
import { runtimeVersion, serve, timed } from "../lib/child.mjs";
import { pieces, shapes, statement, tables } from "./content.mjs";
import { libraries } from "./libraries.mjs";

const [library, url] = process.argv.slice(2);
const run = await libraries[library](url);
const possible = ({ from, table }) =>
  from === "rows" ? run.rows && (library === "pgz-edge" || table !== "3col") : from ? run.bytes : run.out;

/** The data of the last shape only: a million rows of every shape would be too many. */
let made = {};
function once(key, make) {
  if (made.key !== key) made = { key, value: make() };
  return made.value;
}

serve(async ({ hello, shape, times, file, check }) => {
  if (hello) return { version: runtimeVersion(), shapes: Object.keys(shapes).filter((name) => possible(shapes[name])) };
  const { from, table } = shapes[shape];
  if (from === "bytes") {
    const source = once(file, () => pieces(readFileSync(file)));
    return timed(async () => ({ rows: (await run.bytes(statement(shapes[shape]), source)) ?? undefined }));
  }
  if (from === "rows") {
    const rows = once(`${table} ${times}`, () => tables[table].rows(times));
    return timed(async () => ({ rows: (await run.rows(`bench_${table}`, tables[table].columns, rows)) ?? undefined }));
  }
  await run.ready?.();
  if (check) {
    const hash = createHash("sha256");
    await run.out(statement(shapes[shape]), (piece) => void hash.update(piece));
    return { sha256: hash.digest("hex") };
  }
  return timed(async () => {
    let bytes = 0;
    await run.out(statement(shapes[shape]), (piece) => void (bytes += piece.length));
    return { bytes };
  });
});
