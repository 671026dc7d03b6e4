// Lists the tables of docs/benchmark-tables.md: one decision of a user each, with the peers that matter for it.
//
// Knows names of cases, shapes, metrics and libraries. Must not know how figures are shown.

const on = (runtime, ...libraries) => libraries.map((library) => `${library} on ${runtime}`);

/**
 * `rows`: the libraries of the table, ours first. `what`: what `metric` is. `shapes`: its columns, all by default.
 * `where` selects rows of the case. `about`: what a reader should know before the table.
 */
export const decisions = [
  {
    title: "Rows sent on as NDJSON",
    about: [
      "Process CPU for 100,000 rows, from the query to the bytes of a response. pg-copy-streams lets the server make",
      "the JSON.",
    ],
    tables: [
      {
        case: "stream",
        what: "CPU",
        metric: "cpu_ms",
        rows: [
          ...on("node", "pgz-edge", "postgres.js cursor", "pg-copy-streams"),
          ...on("native", "pgx"),
          ...on("workerd", "pgz-edge", "postgres.js cursor"),
        ],
        where: ({ config }) => config.format === undefined,
      },
    ],
  },
  {
    title: "Rows as JavaScript objects",
    about: ["Process CPU for 100,000 rows, all values read by the library."],
    tables: [
      {
        case: "rows",
        what: "CPU",
        metric: "cpu_ms",
        rows: [...on("node", "pgz-edge query", "postgres.js cursor", "pg"), ...on("bun", "pgz-edge query", "bun.sql")],
      },
    ],
  },
  {
    title: "Single queries",
    about: [
      "Process CPU of a query on one connection. `select_arg` is one row by its key, `select_args` has seven",
      "parameters of as many types, `pipelined_100` has a hundred queries in flight.",
    ],
    tables: [
      {
        case: "query",
        what: "CPU of a query",
        metric: "cpu_us_per_query",
        rows: [...on("node", "pgz-edge", "pg named", "postgres.js"), ...on("bun", "pgz-edge", "bun.sql")],
      },
    ],
  },
  {
    title: "Rows to store",
    about: [
      "Wall time for each row of (int4, text, float8), by statements of 10 to 10,000 rows. Server and client are on one",
      "machine: over a network the round trip of each statement comes on top, and `copyFromRows` has three.",
    ],
    tables: [
      {
        case: "insert",
        what: "wall time for each row",
        metric: "wall_us_per_row",
        rows: on("node", "pgz-edge unnest", "pgz-edge values", "pgz-edge batch", "pgz-edge copy"),
      },
    ],
  },
  {
    title: "Workers on a pool",
    about: [
      "A hundred workers share 16 connections. `mixed`: windows of about twenty queries on one connection, some in",
      "transactions; in `mixed_dirty` an error ends two of three windows. COPY has 1,000 rows. BEGIN and COMMIT count",
      "as queries. postgres.js has no COPY out that can be repeated on a connection.",
    ],
    tables: [
      {
        case: "pool",
        what: "throughput",
        metric: "queries_per_s",
        rows: [...on("node", "pgz-edge", "pg", "postgres.js"), ...on("native", "pgxpool")],
        where: ({ config }) => config.through === "direct" && config.workers === 100,
      },
      {
        case: "pool",
        what: "CPU of acquire and release",
        metric: "cpu_us_per_pair",
        rows: [...on("node", "pgz-edge", "pg", "postgres.js"), ...on("native", "pgxpool")],
      },
    ],
  },
  {
    title: "Many rows by COPY",
    about: ["Process CPU for 50,000 rows of 16 texts, or 250,000 of 3; `bytes` are COPY's own, `rows` are arrays."],
    tables: [
      {
        case: "copy",
        what: "CPU",
        metric: "cpu_ms",
        rows: [...on("node", "pgz-edge", "pg-copy-streams", "postgres.js"), ...on("native", "pgx")],
        shapes: ["in_bytes_16x32", "in_rows_16x32", "in_bytes_3x8", "in_rows_3x8", "out_text", "out_binary"],
      },
    ],
  },
  {
    title: "Many statements at once",
    about: [
      "Process CPU for 10,000 executions of a known statement in one batch, and for 2,000 INSERTs: in batches of a",
      "hundred, and in one transaction, one by one or a hundred in flight. pg has no batch, so it sends one by one.",
    ],
    tables: [
      {
        case: "batch",
        what: "CPU",
        metric: "cpu_ms",
        rows: [...on("node", "pgz-edge", "postgres.js", "pg"), ...on("native", "pgx")],
        shapes: ["rows", "inserts_batch_100", "insert_serial", "insert_pipelined_100"],
      },
    ],
  },
  {
    title: "Round trips",
    about: [
      "The time that a user waits when the database is far away. A proxy delays by half a round trip in each",
      "direction, and TCP's connect takes a round trip too; it is in the wall time, but is not a flight. A flight",
      "begins when the client sends something after an answer has reached it. The login is SCRAM over plain TCP, with",
      "`earlyQuery: true`, our default over verified TLS; postgres.js has `fetch_types: false`.",
      "",
      "- `connect_new`: connect, log in and one statement, with nothing known about server and statement;",
      "  `connect_known`: after an earlier connection of the process.",
      "- `new_5`, `known_5`: five statements in `Promise.all`, new to the connection or known; `batch_new_5`,",
      "  `batch_known_5`: the same in `client.batch`. pgx has batches, and no concurrent calls.",
      "- `transaction_3`: BEGIN, three known statements, each awaited, COMMIT; ours sends the third with `tx.last`.",
      "- `scope`: one known statement under a tenant's setting; the peers use a transaction with `set_config(…,",
      "  true)`.",
    ],
    tables: Object.entries({ flights: "flights", round_trips: "wall time in round trips of 50 ms" }).map(
      ([metric, what]) => ({
        case: "latency",
        what,
        metric,
        rows: [...on("node", "pgz-edge", "pg pipeline", "postgres.js"), ...on("native", "pgx")],
        where: ({ config }) => config.round_trip_ms === 50,
      }),
    ),
  },
  {
    title: "The first row of a cold process",
    about: [
      "A new process loads one library, connects, logs in by SCRAM and reads one row; the figures are above those of",
      "a process that loads nothing. In workerd time runs from its first request. `tls` has a checked certificate,",
      "which workerd cannot do with the tests' own.",
    ],
    tables: [
      {
        case: "startup",
        what: "until the first row",
        metric: "first_row_ms",
        rows: ["workerd", "node"].flatMap((runtime) => on(runtime, "pgz-edge", "postgres.js", "pg")),
      },
    ],
  },
  {
    title: "Memory of a long result",
    about: ["Peak of the process above idle while it reads ten million rows. `drain` is a socket that drops them."],
    tables: [
      {
        case: "memory",
        what: "peak above idle",
        metric: "peak_rss_above_idle_mib",
        rows: on("node", "pgz-edge stream", "pgz-edge rows", "drain"),
      },
    ],
  },
  {
    title: "Size",
    about: ["A Worker that answers with rows, minified and gzipped. Ours includes the wasm."],
    size: true,
  },
  {
    title: "Changes of tables",
    about: [
      "Process CPU for 200,000 inserted rows that are read from a slot, in transactions of 20,000, and for 20,000 in",
      "transactions of one. pg_recvlogical is the server's own program, which only writes what arrives.",
    ],
    tables: [
      {
        case: "changes",
        what: "CPU",
        metric: "cpu_ms",
        rows: [
          ...on("node", "pgz-edge ndjson", "pgz-edge rows", "pg-logical-replication", "pgwire"),
          ...on("native", "pg_recvlogical"),
        ],
      },
    ],
  },
  {
    title: "Reads from a standby",
    about: [
      "The primary is 50 ms away and a standby 1 ms. `read there`: a read after the position of a write that the",
      "standby has replayed; `read at once`: right after the write. CPU: the same call of a pool and of a cluster.",
    ],
    tables: Object.entries({ ms_per_call: "wall time", cpu_us_per_call: "CPU" }).map(([metric, what]) => ({
      case: "cluster",
      what,
      metric,
      name: ({ config }) => config.part,
    })),
  },
  {
    title: "Under Kysely, Drizzle, Prisma or pg's API",
    about: [
      "Process CPU of one operation: a row by its key, and 10,000 rows of six columns. `facade` is `pgz-edge/pg`.",
    ],
    tables: [
      {
        case: "adapters",
        what: "CPU",
        metric: "cpu_ms",
        rows: ["node", "workerd"].flatMap((runtime) => on(runtime, "pgz-edge", "pg")),
      },
    ],
  },
];

/** Why a small call costs what it costs. */
export const profile = {
  title: "Where the CPU of a small call goes",
  about: [
    "V8's profiler samples the process every 100 µs; idle time does not count. Sampling itself costs some",
    "microseconds a query and makes collections slower, so compare parts, not sums with other tables. `select_arg`:",
    "one row by its key, one query after the other. `bare` is a socket without a driver that exchanges our bytes:",
    "the part that no driver can save. `pool_100`: a hundred workers on sixteen connections.",
  ],
  tables: [{ case: "profile", what: "CPU of a query", metric: "cpu_us_per_query", name: ({ config }) => config.part }],
};
