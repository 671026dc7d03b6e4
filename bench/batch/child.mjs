// One library of libraries.mjs: `child.mjs <library> <url>`. A request runs one shape with the given number of
// executions or rows, which are made before the clock starts, and returns facts about the result.
import process from "node:process";
import { runtimeVersion, serve, sha256, timed } from "../lib/child.mjs";
import { textRows, typedRow } from "../lib/data.mjs";
import { libraries } from "./libraries.mjs";
import { setup, shapes } from "./shapes.mjs";

const [library, url] = process.argv.slice(2);
const run = await libraries[library](url);
for (const text of setup) await run.setup(text);

let made = [];

serve(async ({ hello, shape, times, check }) => {
  if (hello) return { version: runtimeVersion(), shapes: Object.keys(shapes).filter((name) => run[name]) };
  if (check) return { sha256: sha256((await run[shape](times, true)).lines) };
  const { table } = shapes[shape];
  if (!table) return timed(() => run[shape](times), { clean: false });
  const key = `${table} ${times}`;
  if (made.key !== key)
    made = Object.assign(
      table === "bench_wide" ? textRows(times, 16, 32) : Array.from({ length: times }, (_, index) => typedRow(index)),
      { key },
    );
  return timed(async () => void (await run[shape](made)), { clean: false });
});
