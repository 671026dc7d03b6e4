// Writes docs/benchmarks.md from bench/results. `node bench/docs.mjs --check` only compares (a test runs it), so the
// page shows only numbers that a command has printed.
//
// Knows which figures belong to which scenario of which seed system. Must not know how they were made. A case without
// results is shown as not measured.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const page = at("../docs/benchmarks.md");

/** Sockets without a driver. They are the floor, not peers. */
const FLOORS = ["drain", "bare", "empty"];
/** On a shared machine a ratio this close to 1 means no difference. */
const SAME = 0.05;

/** Rows of CASE=latency at one distance. */
const away = (milliseconds) => (row) => row.config.round_trip_ms === milliseconds;

/** A table of CASE=pool for each way to the server and each number of workers. */
const crossed = (title, table) =>
  ["direct", "pgbouncer"].flatMap((through) =>
    [16, 100].map((workers) => ({
      title: `${title}, ${workers} workers, ${through === "direct" ? "direct" : "through PgBouncer"}`,
      case: "pool",
      where: ({ config }) => config.through === through && config.workers === workers,
      ...table,
    })),
  );

/**
 * `less`: whether smaller figures are better; without it nothing is compared. `where` selects rows of the case.
 * `about`: what to know before one reads the tables.
 */
const scenarios = [
  {
    title: "Round trips",
    about: [
      "What a user waits for when the database is far. A proxy delays by half a round trip on each way, limits no",
      "bandwidth, and makes TCP's connect take the round trip that it takes over a distance. PostgreSQL asks for",
      "SCRAM, the link is plain TCP, and pgz-edge runs with `earlyQuery: true`, which it does by itself over verified",
      "TLS.",
      "",
      "- `connect_new`: connect, log in, one statement, where nothing is known of server and statement. Each trial has",
      "  a port of its own, to a client a server of its own. The process is warm: what a cold isolate needs to",
      "  load and compile is not in here.",
      "- `connect_known`: the same where an earlier connection of the process has met server and statement.",
      "- `new_5`, `known_5`: five statements in `Promise.all` on an open connection, new to it or known.",
      "- `batch_new_5`, `batch_known_5`: the same five in `client.batch`. Of the peers pgx has such a call; it cannot",
      "  run calls made together on one connection.",
      "- `transaction_3`: BEGIN, three known statements, each awaited, COMMIT. pgz-edge sends the third with",
      "  `tx.last`, which takes COMMIT along; without it COMMIT is a flight more.",
      "- `scope`: one known statement for which a tenant's setting holds, as row-level security wants it, and for",
      "  nothing behind it: `client.scope({ settings }).query(…)`. The peers make a transaction of it with",
      "  `set_config(…, true)` in front of the statement, sent together where they can.",
      "",
      "A flight begins when the client speaks behind an answer that has reached it. TCP's round trip is no flight, but",
      "it is in the wall time. `pg pipeline` is pg with `pipeline: true`. postgres.js runs with `fetch_types: false`,",
      "which spares it a query at login. The clock of workerd has whole milliseconds, too few to measure without a",
      "delay. A first run of pgz-edge carries a check of the session, some 700 bytes a statement",
      "([decision 0016](decisions/0016-the-first-run-of-a-statement.md)).",
    ],
    tables: [
      { title: "Flights, counted", case: "latency", metric: "flights", less: true },
      {
        title: "Wall time in round trips of 50 ms",
        case: "latency",
        metric: "round_trips",
        less: true,
        where: away(50),
      },
      {
        title: "Wall time in round trips of 5 ms",
        case: "latency",
        metric: "round_trips",
        less: true,
        where: away(5),
      },
      {
        title: "Wall time without a delay",
        case: "latency",
        metric: "wall_ms",
        less: true,
        where: (row) => away(0)(row) && row.runtime !== "workerd",
      },
      { title: "Socket writes of a trial", case: "latency", metric: "writes", less: true },
      { title: "Bytes of a trial, both ways", case: "latency", metric: "wire_bytes", less: true },
    ],
  },
  {
    title: "The first row of a cold process",
    about: [
      "Each trial is a process that has never run: it loads one library, connects, logs in by SCRAM, and asks for one row",
      "by its key. The figures are above those of a process that loads nothing (`empty`, which is told as it is), round by",
      "round. On Node, Deno and Bun time runs from the start of the process to the row; in workerd, whose process is ready",
      "then, from its first request to the answer. CPU is the process's, all threads, from its start to then. `tls`: with a",
      "certificate that is checked, which workerd cannot do with the tests' own.",
    ],
    tables: [
      { title: "Until the first row", case: "startup", metric: "first_row_ms", less: true },
      { title: "CPU until then", case: "startup", metric: "cpu_ms", less: true },
    ],
  },
  {
    title: "Rows that the server makes into JSON",
    about: [
      "PostgreSQL 19 has `COPY (…) TO STDOUT (FORMAT json)`. For these shapes its bytes are ours. It spares the client",
      "CPU where values are long, and costs the server and the time of the whole more than that: so a stream is not sent",
      "as COPY ([decision 0036](decisions/0036-rows-are-not-made-into-json-by-the-server.md)).",
    ],
    tables: ["cpu_ms", "server_cpu_ms", "wall_ms"].map((metric) => ({
      title: { cpu_ms: "CPU of our process", server_cpu_ms: "CPU of the server's", wall_ms: "Wall time" }[metric],
      case: "server-json",
      metric,
    })),
  },
  {
    seed: "000, pgz",
    tables: [
      {
        title: "Rows to NDJSON: process CPU",
        case: "stream",
        metric: "cpu_ms",
        less: true,
        where: ({ config }) => !config.format,
      },
      {
        title: "Rows to NDJSON: wall time against a bare socket that drops the rows",
        case: "stream",
        metric: "wall_ratio_to_drain",
        less: true,
      },
      {
        title: "Output modes: process CPU",
        case: "stream",
        metric: "cpu_ms",
        where: ({ config }) => config.format,
        name: ({ config }) => `pgz-edge ${config.format} on node`,
      },
      { title: "Rows as JavaScript objects: process CPU", case: "rows", metric: "cpu_ms", less: true },
      {
        title: "Rows to NDJSON against a replayed server: the client's ceiling",
        case: "replay",
        metric: "rows_per_s",
        less: false,
      },
      {
        title: "Encoders alone, native",
        case: "core",
        metric: "ns_per_row",
        where: ({ shape, runtime }) => runtime === "native" && !shape.startsWith("type"),
      },
      {
        title: "Rows through the wasm, without socket: CPU by form",
        case: "core",
        metric: "ns_per_row",
        where: ({ shape, config }) => config.format && !shape.startsWith("type"),
        name: ({ config }) => `pgz-edge ${config.format}`,
      },
      { title: "Memory while a long result is read", case: "memory", metric: "peak_rss_above_idle_mib" },
      {
        title: "COPY of 100,000 rows of (int4, text, float8)",
        case: "copy",
        metric: "rows_per_s",
        less: false,
        where: ({ shape }) => shape.endsWith("3col"),
      },
      {
        title: "INSERTs: batches of 100, and a thousand one by one",
        case: "batch",
        metric: "rows_per_s",
        less: false,
        where: ({ shape }) => /^inserts_|^insert_(exec|prepared|tx)$/.test(shape),
      },
    ],
  },
  {
    seed: "001, valeneiko/postgres",
    tables: [
      { title: "Query builder: from template to text and values", case: "builder", metric: "ns_per_op", less: true },
      {
        title: "Serial queries: wall time",
        case: "query",
        metric: "us_per_query",
        less: true,
        where: ({ shape }) => shape.startsWith("select"),
      },
      {
        title: "Serial queries: process CPU",
        case: "query",
        metric: "cpu_us_per_query",
        less: true,
        where: ({ shape }) => shape.startsWith("select"),
      },
      {
        title: "Round trips of the first execution",
        case: "query",
        metric: "round_trips",
        less: true,
        where: ({ shape, config }) => shape.startsWith("select") && config.execution === "first",
      },
      {
        title: "Round trips of a statement that is known",
        case: "query",
        metric: "round_trips",
        less: true,
        where: ({ shape, config }) => shape.startsWith("select") && config.execution === "known",
      },
      {
        title: "Socket writes of a statement that is known",
        case: "query",
        metric: "writes",
        less: true,
        where: ({ shape, config }) => shape.startsWith("select") && config.execution === "known",
      },
    ],
  },
  {
    seed: "002, QAIL",
    tables: [
      {
        title: "Ten thousand prepared executions, one Sync: speed",
        case: "batch",
        metric: "queries_per_s",
        less: false,
      },
      {
        title: "Ten thousand executions: process CPU",
        case: "batch",
        metric: "cpu_ms",
        less: true,
        where: ({ shape }) => ["count", "rows", "ndjson"].includes(shape),
      },
      {
        title: "Ten thousand executions: peak memory of the process",
        case: "batch",
        metric: "peak_rss_mib",
        where: ({ shape }) => ["count", "rows", "ndjson"].includes(shape),
      },
      {
        title: "Ten thousand executions: bytes on the wire, both ways",
        case: "batch",
        metric: "wire_bytes",
        less: true,
        where: ({ shape, config }) => ["count", "rows", "ndjson"].includes(shape) && config.execution === "known",
      },
      {
        title: "Single executions: wall time",
        case: "query",
        metric: "us_per_query",
        less: true,
        where: ({ shape }) => ["simple", "singles_55000", "pipelined_100"].includes(shape),
      },
    ],
  },
  {
    seed: "003, insert-heavy workloads",
    tables: [
      {
        title: "COPY in, out of bytes and out of rows: speed",
        case: "copy",
        metric: "rows_per_s",
        less: false,
        where: ({ shape }) => /^in_(bytes|rows)/.test(shape),
      },
      {
        title: "COPY in, out of bytes and out of rows: process CPU",
        case: "copy",
        metric: "cpu_ms",
        less: true,
        where: ({ shape }) => /^in_(bytes|rows)/.test(shape),
      },
      {
        title: "COPY out: wall time",
        case: "copy",
        metric: "wall_ms",
        less: true,
        where: ({ shape }) => /^out_(text|binary)$/.test(shape),
      },
      {
        title: "COPY out: process CPU",
        case: "copy",
        metric: "cpu_ms",
        less: true,
        where: ({ shape }) => /^out_(text|binary)$/.test(shape),
      },
      {
        title: "Prepared INSERT in one transaction, one by one and in flight",
        case: "batch",
        metric: "rows_per_s",
        less: false,
        where: ({ shape }) => /^insert_(serial|pipelined)/.test(shape),
      },
    ],
  },
  {
    seed: "004, pglink",
    about: [
      "Workers that share a pool of 16 connections: `SELECT 1` on whatever connection is free; windows of about twenty",
      "queries on one connection, of which transactions are whole (`mixed`) or ended by an error in two of three",
      "windows (`mixed_dirty`); five COPYs of 1,000 rows on one connection. BEGIN, COMMIT and ROLLBACK count as",
      "queries; percentiles are of tasks: a SELECT, a window, five COPYs. PgBouncer is 1.18 in transaction mode, where",
      "nobody's statements have names. Where more than 0.1 % of the tasks fail no speed is said; failures by SQLSTATE",
      "are in the results of the case. postgres.js pipelines calls of a pool that is busy; pgz-edge does with the",
      "option `pipelining`, here 8. postgres.js has no COPY out that can be repeated on a connection, Bun.sql has no",
      "COPY.",
    ],
    tables: [
      ...crossed("Queries per second", { metric: "queries_per_s", less: false }),
      ...crossed("Process CPU of the client", { metric: "cpu_us_per_query", less: true }),
      ...crossed("99th percentile of tasks", { metric: "p99_ms", less: true }),
      { title: "Acquire and release of an idle connection: CPU", case: "pool", metric: "cpu_us_per_pair", less: true },
      { title: "Ten thousand calls that wait: memory of each", case: "pool", metric: "bytes_per_waiter", less: true },
    ],
  },
  {
    title: "Under the library that an application has",
    about: [
      "Process CPU on Node of one operation: one row by its key, and 10,000 rows of six columns (int4, two texts,",
      "bool, float8, timestamptz), under the same library over our adapter and over `pg`. `facade` is `pgz-edge/pg` beside",
      "`pg` itself.",
    ],
    tables: [{ title: "CPU of an operation", case: "adapters", metric: "cpu_ms", less: true }],
  },
];

/** This build beside an older one of ours. */
const changes = [
  { title: "Process CPU on Node, us per query, row or item", metric: "cpu_us_per_unit" },
  { title: "The core in wasm, ns per row", metric: "ns_per_row" },
  { title: "The core in wasm, ns per query of one row", metric: "ns_per_query" },
];

const cases = new Map();
function results(name) {
  const file = at(`results/${name}.json`);
  if (!cases.has(name)) cases.set(name, existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined);
  return cases.get(name);
}

function number(value) {
  const size = Math.abs(value);
  if (size >= 10_000) return Math.round(value).toLocaleString("en");
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Counts stay whole; what is the same in each trial has no spread to show. */
function figure({ median, min, max }) {
  const said = [median, min, max].every((value) => Number.isInteger(value) && value < 100) ? String : number;
  return min < max ? `${said(median)} (${said(min)}-${said(max)})` : said(median);
}
const nameOf = ({ library, runtime }) => `${library} on ${runtime}`;
const isOurs = (name) => name.startsWith("pgz-edge");
const unique = (values) => [...new Set(values)];
const chosen = ({ metric, where = () => true, ...table }) =>
  (results(table.case)?.rows ?? []).filter((row) => row.metric === metric && where({ config: {}, ...row }));

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
 * Ours against the best peer on the same runtime, on Node also against the best native one. A `ratio` below 1: ours is
 * worse.
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

function lost() {
  const all = scenarios.flatMap(({ tables }) => tables.flatMap(comparisons));
  const worse = all.filter(({ ratio }) => ratio < 1 - SAME).sort((a, b) => a.ratio - b.ratio);
  const same = all.filter(({ ratio }) => ratio >= 1 - SAME && ratio <= 1 + SAME).length;
  return [
    "## What we lose",
    "",
    "Each comparison is with the best peer on the same runtime; on Node also with the best native one. " +
      "pgz-edge is better in",
    `${all.length - worse.length - same} of ${all.length}, equal within ${SAME * 100} % in ${same}, ` +
      `and worse in ${worse.length}. These are the worse ones, largest gap first:`,
    "",
    "| scenario | shape | pgz-edge | best peer | ratio (1 is equal) |",
    "|---|---|---|---|---|",
    ...worse.map(({ title, shape, ours, best, ratio, unit }) => {
      const said = (one) => `${nameOf(one)}: ${number(one.median)} ${unit}`;
      return `| ${title} | ${shape} | ${said(ours)} | ${said(best)} | ${ratio.toFixed(2)} |`.replaceAll("  ", " ");
    }),
    "",
  ];
}

/** Ours against an older build of ours: shape by shape, since both did the same. */
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
  const names = unique(["before", ...scenarios.flatMap(({ tables }) => tables.map((one) => one.case))]);
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
    "- `drain` and `bare` are sockets without a driver: they show the floor and are not peers.",
  ];
}

const text = [
  "# Benchmarks",
  "",
  "Round trips, then every scenario of the five seed systems, pgz-edge beside its peers. `node bench/docs.mjs` writes",
  "this page from `bench/results`: do not edit it by hand.",
  "",
  ...lost(),
  ...beforeAndAfter(),
  ...scenarios.flatMap(({ seed, title = `Seed ${seed}`, about = [], tables }) => [
    `## ${title}`,
    "",
    ...(about.length > 0 ? [...about, ""] : []),
    ...tables.flatMap(table),
  ]),
  ...origin(),
  "",
].join("\n");

if (process.argv.includes("--check")) {
  if (!existsSync(page) || readFileSync(page, "utf8") !== text) {
    console.error("docs/benchmarks.md does not show bench/results: run `node bench/docs.mjs`");
    process.exitCode = 1;
  }
} else writeFileSync(page, text);
