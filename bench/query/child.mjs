// One library of libraries.mjs, serial: `child.mjs <library> <url>`. A request runs one shape the given number of times
// in sequence, and returns the rows and the sum of a column; `check` returns the rows themselves, canonical.
import process from "node:process";
import { runtimeVersion, serve, timed } from "../lib/child.mjs";
import { perCall } from "../lib/per-call.mjs";
import { libraries } from "./libraries.mjs";
import { canonicalRow, setup, shapes } from "./shapes.mjs";

const [library, url] = process.argv.slice(2);
const run = await libraries[library](url);
if (run.setup) for (const text of setup) await run.setup(text);

serve(async ({ hello, counts, shape, times, check }) => {
  if (hello) return { version: runtimeVersion(), shapes: Object.keys(shapes).filter((name) => run[name]) };
  if (counts) return perCall(run.call);
  if (library === "bare") return bare(shape, times);
  if (check) return { rows: (await run[shape](7)).map(canonicalRow) };
  const { value } = shapes[shape];
  return timed(
    async () => {
      let rows = 0;
      let sum = 0;
      for (let index = 0; index < times; index++) {
        const got = await run[shape](index);
        rows += got.length;
        for (let at = 0; at < got.length; at++) sum += value(got[at]);
      }
      return { rows, sum };
    },
    { clean: false },
  );
});

async function bare(shape, times = 1) {
  const recording = await run.recorded(shape);
  return timed(
    async () => {
      let bytes = 0;
      for (let index = 0; index < times; index++) bytes += await run.exchange(recording);
      return { bytes, expected: times * recording.answer.length };
    },
    { clean: false },
  );
}
