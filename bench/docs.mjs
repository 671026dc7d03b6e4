// Writes two pages from bench/results: docs/benchmarks.md, by which a user decides, and docs/benchmark-tables.md, which
// has all measurements. `node bench/docs.mjs --check` only compares (a test runs it), so the pages show only numbers
// that a command has printed.
//
// Knows how figures become pages. Must not know which figures there are (docs/scenarios.mjs), or how they were
// measured. A case without results is shown as not measured.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { decisions } from "./docs/decide.mjs";
import { chosen, figure, isOurs, nameOf, number, results, unique } from "./docs/figures.mjs";
import { changes, profile, scenarios } from "./docs/scenarios.mjs";

/** Sockets without a driver. They are the lower bound, not peers. */
const FLOORS = ["drain", "bare", "empty"];
/** On a shared machine a ratio this close to 1 means no difference. */
const SAME = 0.05;

function table(one) {
  const rows = chosen(one);
  if (rows.length === 0) return [`**${one.title}**: not measured yet.`, ""];
  const name = one.name ?? nameOf;
  const shapes = unique(rows.map(({ shape }) => shape));
  const names = unique(rows.map(name)).sort((a, b) => isOurs(b) - isOurs(a));
  const cell = (library, shape) => rows.find((row) => name(row) === library && row.shape === shape);
  const units = unique(rows.map(({ unit }) => unit)).filter(Boolean);
  return [
    `**${one.title}**${units.length ? `, ${units.join(", ")}` : ""}, median (min-max)`,
    "",
    `| | ${shapes.join(" | ")} |`,
    `|---|${shapes.map(() => "---|").join("")}`,
    ...names.map((library) => {
      const cells = shapes.map((shape) => cell(library, shape)).map((one) => (one ? figure(one) : ""));
      return `| ${library} | ${cells.join(" | ")} |`;
    }),
    "",
  ];
}

/**
 * Compares ours with the best peer on the same runtime, and on Node also with the best native one. A `ratio` below 1
 * means that ours is worse.
 */
function comparisons(one) {
  if (one.less === undefined) return [];
  const rows = chosen(one);
  const better = (a, b) => (one.less ? a.median < b.median : a.median > b.median);
  return rows
    .filter(({ library }) => isOurs(library))
    .flatMap((ours) => {
      const others = rows.filter(
        ({ shape, library }) => shape === ours.shape && !isOurs(library) && !FLOORS.includes(library),
      );
      return unique([ours.runtime, ...(ours.runtime === "node" ? ["native"] : [])]).flatMap((runtime) => {
        const peers = others.filter((peer) => peer.runtime === runtime);
        if (peers.length === 0) return [];
        const best = peers.reduce((a, b) => (better(a, b) ? a : b));
        return [
          {
            title: one.title,
            shape: ours.shape,
            ours,
            best,
            ratio: one.less ? best.median / ours.median : ours.median / best.median,
            unit: ours.unit,
          },
        ];
      });
    });
}

const all = scenarios.flatMap(({ tables }) => tables.flatMap(comparisons));
const worse = all.filter(({ ratio }) => ratio < 1 - SAME).sort((a, b) => a.ratio - b.ratio);
const same = all.filter(({ ratio }) => ratio >= 1 - SAME && ratio <= 1 + SAME);

function loss({ title, shape, ours, best, ratio, unit }) {
  const said = (one) => `${nameOf(one)}: ${number(one.median)} ${unit}`;
  return `| ${title} | ${shape} | ${said(ours)} | ${said(best)} | ${ratio.toFixed(2)} |`.replaceAll("  ", " ");
}

const LOSSES = ["| scenario | shape | pgz-edge | best peer | ratio (1 is equal) |", "|---|---|---|---|---|"];

/** The largest loss of each table. */
function worst() {
  const titles = unique(worse.map(({ title }) => title));
  return [
    "## What we lose",
    "",
    "Each comparison is with the best peer on the same runtime; on Node also with the best native one. " +
      "pgz-edge is better in",
    `${all.length - worse.length - same.length} of ${all.length}, equal within ${SAME * 100} % in ${same.length}, ` +
      `and worse in ${worse.length}. This is the largest gap of each table;`,
    "[the tables' page](benchmark-tables.md#all-that-we-lose) has all.",
    "",
    ...LOSSES,
    ...titles.map((title) => loss(worse.find((one) => one.title === title))),
    "",
  ];
}

function lost() {
  return ["## All that we lose", "", "Largest gap first.", "", ...LOSSES, ...worse.map(loss), ""];
}

function section({ seed, title = `Seed ${seed}`, about = [], tables }) {
  return [`## ${title}`, "", ...(about.length > 0 ? [...about, ""] : []), ...tables.flatMap(table)];
}

/** Compares ours with an older build of ours, shape by shape, since both did the same work. */
function beforeAndAfter() {
  const rows = results("before")?.rows ?? [];
  const shapeOf = ({ shape, config }) =>
    config.format && !shape.startsWith("query") ? `${shape} ${config.format}` : shape;
  const tables = changes.flatMap(({ title, metric }) => {
    const found = rows.filter((row) => row.metric === metric);
    const [before] = unique(found.map(({ library }) => library));
    const lines = unique(found.map(shapeOf)).map((shape) => {
      const [old, now] = found.filter((row) => shapeOf(row) === shape);
      const change = (now.median / old.median - 1) * 100;
      return `| ${shape} | ${figure(old)} | ${figure(now)} | ${change > 0 ? "+" : ""}${change.toFixed(0)} % |`;
    });
    return [`**${title}**, median (min-max)`, "", `| | ${before} | now | change |`, "|---|---|---|---|", ...lines, ""];
  });
  return ["## Before and after", "", ...(rows.length ? tables : ["Not measured yet.", ""])];
}

function origin() {
  const names = unique(["before", ...[profile, ...scenarios].flatMap(({ tables }) => tables.map((one) => one.case))]);
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

const short = [
  "# Benchmarks",
  "",
  "The figures that help a user to decide, our losses, and the origin of the figures. [The tables](benchmark-tables.md)",
  "have all measurements, pgz-edge beside its peers. `node bench/docs.mjs` writes both pages from `bench/results`: do not",
  "edit them by hand.",
  "",
  ...decisions(),
  ...worst(),
  ...section(profile),
  ...origin(),
];

const long = [
  "# Tables of the benchmarks",
  "",
  "Round trips, then every scenario of the five seed systems, pgz-edge beside its peers. [Benchmarks](benchmarks.md) has",
  "the figures that help to decide, and the origin of all figures.",
  "",
  ...scenarios.flatMap(section),
  ...beforeAndAfter(),
  ...lost(),
];

for (const [name, lines] of [
  ["benchmarks.md", short],
  ["benchmark-tables.md", long],
]) {
  const page = new URL(`../docs/${name}`, import.meta.url);
  const text = `${lines.join("\n").trimEnd()}\n`;
  if (!process.argv.includes("--check")) writeFileSync(page, text);
  else if (!existsSync(page) || readFileSync(page, "utf8") !== text) {
    console.error(`docs/${name} does not show bench/results: run \`node bench/docs.mjs\``);
    process.exitCode = 1;
  }
}
