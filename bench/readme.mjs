// Writes the figures of bench/results into README.md, between its markers. `node bench/readme.mjs --check` only compares (a test runs it),
// so no number stands there that no command has printed.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const read = (name) => JSON.parse(readFileSync(at(`results/${name}.json`), "utf8"));
const BEGIN = "<!-- numbers: bench/results -->";
const END = "<!-- /numbers -->";

const stream = read("stream");
const size = read("size");
const onNode = stream.rows.filter(({ runtime, config }) => runtime === "node" && !config.format);

function cell(shape, library, metric = "cpu_ms") {
  const row = onNode.find((one) => one.shape === shape && one.library === library && one.metric === metric);
  if (!row) throw new Error(`stream.json has no ${metric} of ${library} for ${shape}`);
  const text = (value) => (metric === "cpu_ms" ? value.toFixed(value < 10 ? 1 : 0) : value.toFixed(2));
  return `${text(row.median)} (${text(row.min)}-${text(row.max)})`;
}

function section() {
  const { machine, versions, date } = stream;
  const shapes = [...new Set(onNode.map(({ shape }) => shape))];
  const libraries = [...new Set(onNode.filter(({ metric }) => metric === "cpu_ms").map(({ library }) => library))];
  const rows = stream.rows.find(({ metric }) => metric === "cpu_ms").config.rows.toLocaleString("en");
  const pairs = stream.rows.find(({ metric }) => metric === "wall_ratio_to_drain").config.rows.toLocaleString("en");
  return [
    `Process CPU in milliseconds for ${rows} rows to NDJSON bytes on Node, median (min-max) of one interleaved run. \`drain\` is a bare socket that drops the same binary rows; it reads each piece as it comes, where the driver gathers small ones for a millisecond.`,
    "",
    `| | ${shapes.join(" | ")} |`,
    `|---|${shapes.map(() => "---|").join("")}`,
    ...libraries.map((library) => `| ${library} | ${shapes.map((shape) => cell(shape, library)).join(" | ")} |`),
    `| wall time against \`drain\`, ${pairs} rows | ${shapes.map((shape) => cell(shape, "pgz-edge", "wall_ratio_to_drain")).join(" | ")} |`,
    "",
    `\`make bench CASE=stream\`, ${date.slice(0, 10)}, ${machine.cores} cores of ${machine.cpu}, load ${machine.load_before} before and ${machine.load_after} after; Node ${versions.node}, PostgreSQL ${versions.postgresql}, ` +
      `postgres.js ${versions["postgres.js"]}, pg ${versions.pg}, pg-query-stream ${versions["pg-query-stream"]}, pg-copy-streams ${versions["pg-copy-streams"]}.`,
    `What a Worker pays: ${(size.workerd_gzip_bytes / 1000).toFixed(1)} kB, wasm and JavaScript, minified and gzipped (\`bench/results/size.json\`).`,
  ].join("\n");
}

const readme = readFileSync(at("../README.md"), "utf8");
const [head, rest] = readme.split(BEGIN);
const [, tail] = rest.split(END);
const wanted = `${head}${BEGIN}\n${section()}\n${END}${tail}`;
if (process.argv.includes("--check")) {
  if (wanted !== readme) {
    console.error("README.md does not show bench/results: run `node bench/readme.mjs`");
    process.exitCode = 1;
  }
} else writeFileSync(at("../README.md"), wanted);
