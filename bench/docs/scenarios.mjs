// Which figures are told beside those of the peers, in the order of the page: general ones, then each scenario of the five
// seed systems.
//
// Knows names of cases, shapes and metrics. Must not know how figures are shown.

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
export const scenarios = [
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
      "delay. The first two new statements of a connection carry a check of the session, later ones its name alone",
      "([0016](decisions/0016-the-first-run-of-a-statement.md),",
      "[0043](decisions/0043-the-check-of-a-first-run-is-prepared-once.md)).",
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
  {
    title: "Changes of tables",
    about: [
      "200,000 rows that were inserted, read by logical replication from a slot: in transactions of 20,000 rows, and",
      "10,000 in transactions of one. `pgz-edge ndjson` is `stream()`, `pgz-edge rows` is `for await` with each row an",
      "object. pg_recvlogical is the server's own program, which writes each message as it comes: its process's start is in",
      "its figure. Memory is what the process grows by while it reads one transaction of a million rows.",
    ],
    tables: [
      { title: "CPU, in ms", case: "changes", metric: "cpu_ms", less: true },
      { title: "Memory, in MiB", case: "changes", metric: "memory_mib", less: true },
    ],
  },
  {
    title: "Reads from a standby",
    about: [
      "The primary is 50 ms away and a standby 1 ms. `read there`: a read after the position of a write that the standby",
      "has replayed. `read at once`: the same right after the write. CPU: one call after another, of a pool, of a cluster",
      "without a position, of `reads`, of `reads.after(position)`, and of a call with `position: true`.",
    ],
    tables: [
      { title: "Wall time, in ms", case: "cluster", metric: "ms_per_call", name: ({ config }) => config.part },
      { title: "Process CPU of a call", case: "cluster", metric: "cpu_us_per_call", name: ({ config }) => config.part },
    ],
  },
];

/** Why a small call costs what it costs. */
export const profile = {
  title: "Where the CPU of a small call goes",
  about: [
    "By V8's profiler, which samples the process every 100 µs; idle time does not count. It costs some microseconds a",
    "query itself and makes collections dearer, so compare parts, not sums with other tables. `select_arg`: one row by its",
    "key, one query behind the other. `bare` is a socket without a driver that exchanges our bytes: what no driver can",
    "save. `pool_100`: a hundred workers on sixteen connections.",
  ],
  tables: [
    {
      title: "Process CPU of a query by part, on Node",
      case: "profile",
      metric: "cpu_us_per_query",
      name: ({ config }) => config.part,
    },
  ],
};

/** This build beside an older one of ours. */
export const changes = [
  { title: "Process CPU on Node, us per query, row or item", metric: "cpu_us_per_unit" },
  { title: "The core in wasm, ns per row", metric: "ns_per_row" },
  { title: "The core in wasm, ns per query of one row", metric: "ns_per_query" },
];
