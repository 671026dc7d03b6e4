// Lists the figures that are shown beside those of the peers, in the order of the page: general ones, then each
// scenario of the five seed systems.
//
// Knows names of cases, shapes and metrics. Must not know how figures are shown.

/** Rows of CASE=latency at one distance. */
const away = (milliseconds) => (row) => row.config.round_trip_ms === milliseconds;

/** A table of CASE=pool for each route to the server and each number of workers. */
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
 * `about`: what a reader should know before the tables.
 */
export const scenarios = [
  {
    title: "Round trips",
    about: [
      "The time that a user waits when the database is far away. A proxy delays by half a round trip in each direction,",
      "limits no bandwidth, and makes TCP's connect take the round trip that it takes over a distance. PostgreSQL requests",
      "SCRAM, the link is plain TCP, and pgz-edge runs with `earlyQuery: true`, which is its default over verified TLS.",
      "",
      "- `connect_new`: connect, log in, one statement, with nothing known about server and statement. Each trial has a",
      "  port of its own, which is a new server for a client. The process is warm: the time that a cold isolate needs to",
      "  load and compile is not included.",
      "- `connect_known`: the same after an earlier connection of the process has used the server and the statement.",
      "- `new_5`, `known_5`: five statements in `Promise.all` on an open connection, new to it or known.",
      "- `batch_new_5`, `batch_known_5`: the same five in `client.batch`. Among the peers only pgx has such a call; it",
      "  cannot run concurrent calls on one connection.",
      "- `transaction_3`: BEGIN, three known statements, each awaited, COMMIT. pgz-edge sends the third with `tx.last`,",
      "  which takes COMMIT along; without it COMMIT is one more flight.",
      "- `scope`: one known statement under a tenant's setting, as row-level security needs it. The setting ends with the",
      "  statement: `client.scope({ settings }).query(…)`. The peers use a transaction with `set_config(…, true)` before",
      "  the statement, pipelined if they can.",
      "",
      "A flight begins when the client sends something after an answer has reached it. TCP's round trip is not a flight,",
      "but it is in the wall time. `pg pipeline` is pg with `pipeline: true`. postgres.js runs with `fetch_types: false`,",
      "which saves a query at login. The clock of workerd has whole milliseconds, too coarse to measure without a delay.",
      "The first two new statements of a connection carry a check of the session; later ones carry only its name",
      "([0016](decisions/0016-a-first-run-takes-one-flight.md)).",
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
      "Each trial is a new process that loads one library, connects, logs in by SCRAM, and queries one row by its key. The",
      "figures are differences from a process that loads nothing (`empty`, whose own figures are shown unchanged), round by",
      "round. On Node, Deno and Bun time runs from the start of the process to the row. In workerd, whose process is then",
      "ready, it runs from its first request to the response. CPU is that of the process, all threads, from its start to the",
      "row. `tls`: with a checked certificate, which workerd cannot do with the tests' own.",
    ],
    tables: [
      { title: "Until the first row", case: "startup", metric: "first_row_ms", less: true },
      { title: "CPU until then", case: "startup", metric: "cpu_ms", less: true },
    ],
  },
  {
    title: "Rows that the server makes into JSON",
    about: [
      "PostgreSQL 19 has `COPY (…) TO STDOUT (FORMAT json)`. For these shapes its bytes equal ours. It saves CPU of the",
      "client where values are long, and costs more than that in CPU of the server and in wall time. So a stream is not sent",
      "as COPY ([decision 0036](decisions/0036-rows-are-not-built-as-json-by-the-server.md)).",
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
        title: "Rows to NDJSON against a replayed server: the client's upper limit",
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
        title: "Round trips of a known statement",
        case: "query",
        metric: "round_trips",
        less: true,
        where: ({ shape, config }) => shape.startsWith("select") && config.execution === "known",
      },
      {
        title: "Socket writes of a known statement",
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
        title: "COPY in, from bytes and from rows: speed",
        case: "copy",
        metric: "rows_per_s",
        less: false,
        where: ({ shape }) => /^in_(bytes|rows)/.test(shape),
      },
      {
        title: "COPY in, from bytes and from rows: process CPU",
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
      "Workers share a pool of 16 connections. They run `SELECT 1` on any free connection; windows of about twenty queries",
      "on one connection, whose transactions are whole (`mixed`) or, in two of three windows, ended by an error",
      "(`mixed_dirty`); or five COPYs of 1,000 rows on one connection. BEGIN, COMMIT and ROLLBACK count as queries.",
      "Percentiles are of tasks: a SELECT, a window, five COPYs. PgBouncer is 1.18 in transaction mode, through which no",
      "library names statements. If more than 0.1 % of the tasks fail, no speed is shown; the results of the case have the",
      "failures by SQLSTATE. postgres.js pipelines calls of a busy pool; pgz-edge does so with the option `pipelining`,",
      "here 8. postgres.js has no COPY out that can be repeated on a connection, Bun.sql has no COPY.",
    ],
    tables: [
      ...crossed("Queries per second", { metric: "queries_per_s", less: false }),
      ...crossed("Process CPU of the client", { metric: "cpu_us_per_query", less: true }),
      ...crossed("99th percentile of tasks", { metric: "p99_ms", less: true }),
      { title: "Acquire and release of an idle connection: CPU", case: "pool", metric: "cpu_us_per_pair", less: true },
      { title: "Ten thousand waiting calls: memory of each", case: "pool", metric: "bytes_per_waiter", less: true },
    ],
  },
  {
    title: "Under an application's library",
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
      "200,000 inserted rows, read by logical replication from a slot: in transactions of 20,000 rows, and 10,000 rows in",
      "transactions of one. `pgz-edge ndjson` is `stream()`, `pgz-edge rows` is `for await` with each row as an object.",
      "pg_recvlogical is the server's own program, which writes each message as it arrives; its figure includes the start of",
      "its process. Memory is the growth of the process while it reads one transaction of a million rows.",
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
    "V8's profiler samples the process every 100 µs; idle time does not count. Sampling itself costs some microseconds a",
    "query and makes collections slower, so compare parts, not sums with other tables. `select_arg`: one row by its key,",
    "one query after the other. `bare` is a socket without a driver that exchanges our bytes: the part that no driver can",
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

/** This build beside an older build of ours. */
export const changes = [
  { title: "Process CPU on Node, us per query, row or item", metric: "cpu_us_per_unit" },
  { title: "The core in wasm, ns per row", metric: "ns_per_row" },
  { title: "The core in wasm, ns per query of one row", metric: "ns_per_query" },
];
