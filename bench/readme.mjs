// Writes the figures of bench/results into README.md, between its markers. `node bench/readme.mjs --check` only
// compares (a test runs it), so README.md shows only numbers that a command has printed.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const read = (name) => JSON.parse(readFileSync(at(`results/${name}.json`), "utf8"));
const names = ["stream", "rows", "query", "batch", "memory", "latency", "size", "startup"];
const [stream, objects, query, batch, memory, latency, size, startup] = names.map(read);
const bundleKb = (size.readme_worker_gzip_bytes / 1000).toFixed(1);
const onNode = stream.rows.filter(({ runtime, config }) => runtime === "node" && !config.format);

function cell(shape, library, metric = "cpu_ms") {
  const row = onNode.find((one) => one.shape === shape && one.library === library && one.metric === metric);
  if (!row) throw new Error(`stream.json has no ${metric} of ${library} for ${shape}`);
  const text = (value) => (metric === "cpu_ms" ? value.toFixed(value < 10 ? 1 : 0) : value.toFixed(2));
  return `${text(row.median)} (${text(row.min)}-${text(row.max)})`;
}

/** The table of README's first screen. Each library is shown with its cheapest form, such as `pg` or `pg named`. */
function costs() {
  const peers = {
    "pgz-edge": ["pgz-edge", "pgz-edge query"],
    "postgres.js": ["postgres.js", "postgres.js cursor"],
    pg: ["pg", "pg named", "pg-query-stream"],
  };
  const best = ({ rows }, wanted) =>
    Object.values(peers).map((forms) => {
      const found = rows.filter(
        (row) =>
          forms.includes(row.library) &&
          !row.config.format &&
          Object.entries(wanted).every(([name, value]) => row[name] === value),
      );
      return found.length === 0 ? undefined : Math.min(...found.map(({ median }) => median));
    });
  const figure = (value, unit) => (value === undefined ? "not measured" : `${value.toFixed(0)}${unit}`);
  const line = (what, values, unit) => `| ${what} | ${values.map((value) => figure(value, unit)).join(" | ")} |`;
  const streamed = { shape: "mixed_5col", metric: "cpu_ms" };
  const peak = memory.rows.find(
    ({ library, runtime, metric }) =>
      library === "pgz-edge stream" && runtime === "node" && metric === "peak_rss_above_idle_mib",
  );
  return [
    "| what it saves and costs (medians) | pgz-edge | postgres.js | pg |",
    "|---|---|---|---|",
    line("CPU for 100,000 rows of five columns to NDJSON, Node", best(stream, { ...streamed, runtime: "node" }), " ms"),
    line("the same in workerd", best(stream, { ...streamed, runtime: "workerd" }), " ms"),
    line("CPU for the same rows as JavaScript objects, Node", best(objects, { ...streamed, runtime: "node" }), " ms"),
    line(
      "CPU for one query with one parameter, Node",
      best(query, { shape: "select_arg", metric: "cpu_us_per_query", runtime: "node" }),
      " µs",
    ),
    line(
      "CPU for 10,000 prepared executions (here: one batch), Node",
      best(batch, { shape: "rows", metric: "cpu_ms", runtime: "node" }),
      " ms",
    ),
    flights("round trips from an open socket to the first row, nothing known (`earlyQuery` on)", "connect_new"),
    flights("round trips of five new statements in `Promise.all`", "new_5"),
    flights("round trips of a query with a tenant's setting that lasts only for that query", "scope"),
    `| bytes in the Worker above, minified, gzip | ${bundleKb} kB | ${kilobytes("postgres_js")} | ${kilobytes("pg")} |`,
    line(
      "first row of a cold isolate in workerd, above an empty one",
      best(startup, { shape: "plain", runtime: "workerd", metric: "first_row_ms" }),
      " ms",
    ),
    "",
    `Streaming ${peak.config.rows.toLocaleString("en")} rows takes Node ${peak.median.toFixed(0)} MiB above idle.`,
  ].join("\n");
}

/** The size of the same Worker with another driver. */
function kilobytes(library) {
  return `${(size[`${library}_worker_gzip_bytes`] / 1000).toFixed(0)} kB`;
}

/** A line of flights on Node; runtimes do not differ in them. If an option of pg changes the number, both are shown. */
function flights(what, shape) {
  const of = (library) => {
    const row = latency.rows.find(
      (one) => one.library === library && one.runtime === "node" && one.shape === shape && one.metric === "flights",
    );
    if (!row) throw new Error(`latency.json has no flights of ${library} for ${shape}`);
    return row.median;
  };
  const [plain, pipelined] = [of("pg"), of("pg pipeline")];
  const pg = plain === pipelined ? plain : `${plain}, or ${pipelined} with \`pipeline: true\``;
  return `| ${what} | ${of("pgz-edge")} | ${of("postgres.js")} | ${pg} |`;
}

function numbers() {
  const { machine, versions, date } = stream;
  const ofCpu = onNode.filter(({ metric }) => metric === "cpu_ms");
  const libraries = [...new Set(ofCpu.map(({ library }) => library))];
  const isWhole = (wanted) => ofCpu.filter(({ shape }) => shape === wanted).length === libraries.length;
  // Not every library runs the newest shapes.
  const shapes = [...new Set(ofCpu.map(({ shape }) => shape))].filter(isWhole);
  const rows = stream.rows.find(({ metric }) => metric === "cpu_ms").config.rows.toLocaleString("en");
  const ratios = shapes.map((shape) => cell(shape, "pgz-edge", "wall_ratio_to_drain"));
  const pairs = stream.rows.find(({ metric }) => metric === "wall_ratio_to_drain").config.rows.toLocaleString("en");
  return [
    `Process CPU in milliseconds for ${rows} rows to NDJSON bytes on Node: ` +
      `median (min-max) of one interleaved run. \`drain\``,
    "is a bare socket that drops the same binary rows. It reads each piece as it comes, " +
      "where the driver waits a millisecond",
    "to gather small pieces.",
    "",
    `| | ${shapes.join(" | ")} |`,
    `|---|${shapes.map(() => "---|").join("")}`,
    ...libraries.map((library) => `| ${library} | ${shapes.map((shape) => cell(shape, library)).join(" | ")} |`),
    `| wall time against \`drain\`, ${pairs} rows | ${ratios.join(" | ")} |`,
    "",
    `Made by \`make bench CASE=stream\` on ${date.slice(0, 10)}, ${machine.cores} cores of ${machine.cpu}, ` +
      `load ${machine.load_before} before and ${machine.load_after} after.`,
    `Node ${versions.node}, PostgreSQL ${versions.postgresql}, ` +
      `postgres.js ${versions["postgres.js"]}, pg ${versions.pg},`,
    `pg-query-stream ${versions["pg-query-stream"]}, pg-copy-streams ${versions["pg-copy-streams"]}.`,
  ].join("\n");
}

function between(text, begin, end, section) {
  const [head, rest] = text.split(begin);
  const [, tail] = rest.split(end);
  return `${head}${begin}\n${section}\n${end}${tail}`;
}

const readme = readFileSync(at("../README.md"), "utf8");
const withCosts = between(readme, "<!-- costs: bench/results -->", "<!-- /costs -->", costs());
const wanted = between(withCosts, "<!-- numbers: bench/results -->", "<!-- /numbers -->", numbers());
if (process.argv.includes("--check")) {
  if (wanted !== readme) {
    console.error("README.md does not show bench/results: run `node bench/readme.mjs`");
    process.exitCode = 1;
  }
} else writeFileSync(at("../README.md"), wanted);
