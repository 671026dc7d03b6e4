// Writes three pages from bench/results: docs/benchmarks.md, by which a user decides, docs/benchmark-tables.md with one
// table for each decision, and bench/losses.md with every figure in which a peer is better. `node bench/docs.mjs
// --check` only compares (a test runs it), so the pages show only numbers that a command has printed.
//
// Knows how figures become pages. Must not know which figures there are (docs/tables.mjs), or how they were measured. A
// case without results is shown as not measured.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { lines } from "./docs/decide.mjs";
import { chosen, figure, nameOf, number, results, unique } from "./docs/figures.mjs";
import { comparisons, lossTable, SAME } from "./docs/losses.mjs";
import { decisions, profile } from "./docs/tables.mjs";

function table(one) {
  const found = chosen(one);
  const name = one.name ?? nameOf;
  const names = one.rows ?? unique(found.map(name));
  const rows = found.filter((row) => names.includes(name(row)));
  if (rows.length === 0) return ["Not measured yet.", ""];
  const shapes = one.shapes ?? unique(rows.map(({ shape }) => shape));
  const [unit] = unique(rows.map(({ unit }) => unit)).filter(Boolean);
  const cell = (library, shape) => rows.find((row) => name(row) === library && row.shape === shape);
  return [
    `| ${[one.what, unit].filter(Boolean).join(", ")} | ${shapes.join(" | ")} |`,
    `|---|${shapes.map(() => "---|").join("")}`,
    ...names.map((library) => {
      const cells = shapes.map((shape) => cell(library, shape)).map((row) => (row ? figure(row) : ""));
      return `| ${library} | ${cells.join(" | ")} |`;
    }),
    "",
  ];
}

/** The sizes of Workers, which are no results of a case. */
function sizes() {
  const found = results("size");
  const kb = (name) => `${number(found[`${name}_gzip_bytes`] / 1000)} kB`;
  const [ours, ...peers] = ["readme_worker", "postgres_js_worker", "pg_worker"].map(kb);
  return ["| | pgz-edge | postgres.js | pg |", "|---|---|---|---|", `| gzip | ${[ours, ...peers].join(" | ")} |`, ""];
}

const section = ({ title, about, tables = [], size }) => [
  `## ${title}`,
  "",
  ...about,
  "",
  ...tables.flatMap(table),
  ...(size ? sizes() : []),
];

const all = comparisons();
const worse = all.filter(({ ratio }) => ratio < 1 - SAME).sort((a, b) => a.ratio - b.ratio);
const same = all.filter(({ ratio }) => ratio >= 1 - SAME && ratio <= 1 + SAME);

/** The largest loss of each kind of figure. */
function lost() {
  const titles = unique(worse.map(({ title }) => title));
  return [
    "## What we lose",
    "",
    "Each figure is compared with the best peer's on the same runtime; on Node also with the best native one's. Ours",
    `is better in ${all.length - worse.length - same.length} of ${all.length}, equal within ${SAME * 100} % in ` +
      `${same.length}, and worse in ${worse.length}. The table has the largest`,
    "gap of each kind of figure; [bench/losses.md](../bench/losses.md) has all.",
    "",
    ...lossTable(titles.map((title) => worse.find((one) => one.title === title))),
  ];
}

function origin() {
  const names = unique([
    ...[profile, ...decisions].flatMap(({ tables = [] }) => tables.map((one) => one.case)),
    ...all.map(({ title }) => title.split(":")[0]),
  ]);
  const versions = Object.assign({}, ...names.map((name) => results(name)?.versions).filter(Boolean));
  delete versions.commit;
  return [
    "## Where the figures come from",
    "",
    "| command | date | commit | machine | load before, after |",
    "|---|---|---|---|---|",
    ...names.map((name) => {
      const found = results(name);
      if (!found) return `| \`make bench CASE=${name}\` | not measured yet | | | |`;
      const { date, machine, versions: made } = found;
      const [cores, load] = [
        `${machine.cores} cores of ${machine.cpu}, ${machine.memory}`,
        `${machine.load_before}, ${machine.load_after}`,
      ];
      return `| \`make bench CASE=${name}\` | ${date.slice(0, 10)} | ${made.commit} | ${cores} | ${load} |`;
    }),
    "",
    "| versions | |",
    "|---|---|",
    ...Object.entries(versions).map(([name, version]) => `| ${name} | ${version} |`),
    "",
    "- The machine is shared, and its medians move by a third between runs. " +
      "Compare within one table, not across tables.",
    "- Each library runs in its own process, in random order, pinned to a CPU.",
    "- A run with wrong rows, bytes or stored content ends the benchmark. So does a peer that cannot run.",
    "- Round trips, bytes and writes are counted through a proxy, in runs that are not timed.",
    "- `drain` and `bare` are sockets without a driver: they show the lower bound and are not peers.",
  ];
}

const pages = {
  "docs/benchmarks.md": [
    "# Benchmarks",
    "",
    "The figures that help a user to decide, our losses, and the origin of the figures.",
    "[The tables](benchmark-tables.md) have more figures for each decision, and `bench/results` has every one.",
    "`node bench/docs.mjs` writes these pages from `bench/results`: do not edit them by hand.",
    "",
    ...lines(),
    ...lost(),
    ...section(profile),
    ...origin(),
  ],
  "docs/benchmark-tables.md": [
    "# Tables of the benchmarks",
    "",
    "One table for each decision, pgz-edge beside the peers that matter for it: medians, with the least and the",
    "greatest trial. Less is better, except for throughput. [Benchmarks](benchmarks.md) has the summary, our losses",
    "and the origin of all figures; `bench/results` has the other shapes, metrics, peers and runtimes.",
    "",
    ...decisions.flatMap(section),
  ],
  "bench/losses.md": [
    "# All that we lose",
    "",
    "Every figure of `bench/results` in which the best peer on the same runtime, or on Node the best native one, is",
    `better by more than ${SAME * 100} %. Largest gap first. \`node bench/docs.mjs\` writes this page.`,
    "",
    ...lossTable(worse),
  ],
};

for (const [name, content] of Object.entries(pages)) {
  const page = new URL(`../${name}`, import.meta.url);
  const text = `${content.join("\n").trimEnd()}\n`;
  if (!process.argv.includes("--check")) writeFileSync(page, text);
  else if (!existsSync(page) || readFileSync(page, "utf8") !== text) {
    console.error(`${name} does not show bench/results: run \`node bench/docs.mjs\``);
    process.exitCode = 1;
  }
}
