// What the recorder records: one small session per file. `run(session)` drives it; record.mjs has the verbs.
//
// Roles are those of tests/servers: app_trust, app_md5, app_clear by their authentication method, app by SCRAM. SCRAM's
// nonce is fixed, so that the same bytes come out of the core again at every replay.
import { formats } from "../support/numbers.mjs";

const TRUST = 1,
  CLEARTEXT = 2,
  MD5 = 4,
  SCRAM = 8;
const INT4 = 23,
  TEXT = 25;
const int4 = (n) => {
  const b = Buffer.alloc(4);
  b.writeInt32BE(n);
  return b;
};

async function login(
  session,
  { user = "app_trust", secret, allowed = TRUST, version = "3.0", database = "app", settings, before = () => {} } = {},
) {
  if (settings) session.settings(...settings);
  session.startupParameter("user", user);
  session.startupParameter("database", database);
  if (secret) session.password(secret, allowed);
  before();
  await session.start(version);
}

const allTypes =
  `select true as "bool", 2::int2 as "int2", -3 as "int4", 9007199254740993 as "int8", 4000000000::oid as "oid", 0.1::float4 as "float4",
 1e300::float8 as "float8", 12345678901234567890.123::numeric as "numeric", 'text "quoted" é' as "text", 'v'::varchar(9) as "varchar", 'c'::char(3) as "bpchar",
 'n'::name as "name", '00000000-0000-0000-0000-00000000000a'::uuid as "uuid", '\\x00ff'::bytea as "bytea", date '2024-02-29' as "date", time '12:34:56.789' as "time",
 timetz '12:34:56+02' as "timetz", timestamp '2024-02-29 12:34:56' as "timestamp", timestamptz '2024-02-29 12:34:56+00' as "timestamptz",
 interval '1 year 2 days 3.5 seconds' as "interval", '{"a": [1,2]}'::json as "json", '{"b":null}'::jsonb as "jsonb", array[1,null,3] as "int4[]",
 array[['a','b'],['c','d']] as "text[]", '10.0.0.1'::inet as "inet"`.replaceAll("\n", "");

const all = [
  {
    file: "scram",
    settings: true,
    title: "SCRAM-SHA-256",
    prose: "The core derives the salted password by itself.",
    run: (s) => login(s, { user: "app", secret: "app-secret", allowed: SCRAM }),
  },
  {
    file: "scram-external-key",
    title: "SCRAM-SHA-256 with the key derived outside",
    prose:
      "The core stops at a `keyDerivation` event, " +
      "and the caller (WebCrypto in the driver) hands in the salted password.",
    run: (s) =>
      login(s, { user: "app", secret: "app-secret", allowed: SCRAM, before: () => s.externalKeyDerivation() }),
  },
  {
    file: "scram-wrong-password",
    title: "A wrong password",
    prose: "The server refuses the proof: its ErrorResponse ends startup and the connection.",
    run: (s) =>
      login(s, { user: "app", secret: "not-the-secret", allowed: SCRAM, before: () => s.externalKeyDerivation() }),
  },
  {
    file: "scram-early-query",
    title: "A query right after SASLResponse",
    prose:
      "The caller asked for a query before the session was ready and allowed it to leave early. " +
      "It follows SASLResponse in the same write, which saves a round trip.",
    run: async (s) => {
      await login(s, {
        user: "app",
        secret: "app-secret",
        allowed: SCRAM,
        before: () => {
          s.externalKeyDerivation();
          s.earlyQuery();
          s.queue(() => s.execute(1, "select 'early' as when", { formats: [1] }));
        },
      });
    },
  },
  {
    file: "trust",
    title: "No authentication",
    prose: "The caller allows it, as it does for a pooler on the same machine. Terminate ends the session.",
    after: (s) => s.terminate(),
  },
  {
    file: "trust-refused",
    title: "No authentication where it is not allowed",
    prose:
      "The caller wants SCRAM. A server that sends AuthenticationOk without a challenge has not proved who it is, " +
      "so the connection ends.",
    run: (s) => login(s, { secret: "app-secret", allowed: SCRAM }),
  },
  {
    file: "md5",
    title: "MD5",
    prose: "The caller computes the answer to the `md5` event. The core adds a notice that MD5 is deprecated.",
    run: (s) => login(s, { user: "app_md5", secret: "app_md5-secret", allowed: MD5 | SCRAM }),
  },
  {
    file: "cleartext",
    title: "A cleartext password",
    prose: "The caller allows it, as it does over TLS.",
    run: (s) => login(s, { user: "app_clear", secret: "app_clear-secret", allowed: CLEARTEXT | SCRAM }),
  },
  {
    file: "cleartext-refused",
    title: "A cleartext password where it is not allowed",
    prose: "No byte of the password is sent.",
    run: (s) => login(s, { user: "app_clear", secret: "app_clear-secret", allowed: SCRAM }),
  },
  {
    file: "unknown-database",
    title: "A database that does not exist",
    prose: "The server refuses after authentication.",
    run: (s) => login(s, { database: "nowhere" }),
  },
  {
    file: "protocol-3-2",
    settings: true,
    title: "Protocol 3.2",
    prose: "The key for CancelRequest has 32 bytes.",
    run: async (s) => {
      await login(s, { version: "3.2" });
      s.cancelRequest();
    },
  },
  {
    file: "negotiate-protocol-version",
    settings: true,
    major: 15,
    title: "A server that has only protocol 3.0",
    prose: "When asked for 3.2, PostgreSQL 15 answers NegotiateProtocolVersion and goes on. The key has 4 bytes.",
    run: async (s) => {
      await login(s, { version: "3.2" });
      s.cancelRequest();
    },
  },
  {
    file: "describe",
    title: "Learning a statement's types",
    prose:
      "Parse, Describe, Sync. First a statement with parameters and columns, then one that returns no rows, " +
      "then one with an error.",
    after: async (s) => {
      await s.simpleQuery("create temporary table item (id int8, label varchar(20), price numeric(10,2))");
      await s.describe("select id, label, price * $1::numeric as total, $2::int4[] from item where label = $3");
      await s.describe("insert into item values ($1, $2, $3)");
      await s.describe("select nothing from item");
    },
  },
  {
    file: "execute-types",
    title: "One row of each type",
    prose: "All types that have a decoder, in binary, and one type as text; then the same columns as NULL.",
    after: async (s) => {
      const { resultFormats } = await s.describe(allTypes);
      await s.execute(1, allTypes, { formats: resultFormats });
      await s.execute(2, "select null::int4 as a, null::text as b, null::jsonb as c, null::int4[] as d", {
        formats: [1, 1, 1, 1],
      });
    },
  },
  {
    file: "execute-text",
    title: "Results in text format",
    prose: "No result in binary, as from a server that lacks a binary form. The JSON is the same for known types.",
    after: async (s) => {
      await s.execute(
        1,
        "select true as a, 1 as b, 2.50 as c, 'x' as d, '[1]'::jsonb as e, 'NaN'::float8 as f, null as g",
      );
    },
  },
  {
    file: "execute-parameters",
    title: "Parameters",
    prose:
      "Binary, text and NULL in one Bind. Rows as arrays, where an int8 is a string; then rows that are only counted.",
    after: async (s) => {
      const sql =
        "select n, $2::text || n as label, $3::text as nothing, n::int8 as big from generate_series(1, $1::int4) n";
      const parameters = {
        types: [INT4, TEXT, TEXT],
        formats: [1, 1, 1, 1],
        parameterFormats: [1, 0, 0],
        values: [int4(3), Buffer.from("né "), null],
      };
      await s.execute(1, sql, parameters);
      await s.execute(2, sql, { ...parameters, format: "arrays" });
      await s.execute(3, sql, { ...parameters, format: "none" });
    },
  },
  {
    file: "named-statement",
    title: "The same shape three times",
    prose:
      "First unnamed, then parsed under a name, then only bound: the third flight has no Parse. " +
      "The rows are identical.",
    after: async (s) => {
      for (let n = 0; n < 3; n++)
        await s.execute(7, "select $1::int4 as n", {
          types: [INT4],
          formats: [1],
          parameterFormats: [1],
          values: [int4(42)],
        });
    },
  },
  {
    file: "statement-eviction",
    title: "One shape more than the cache holds",
    prose:
      "The cache has room for one name. The second shape's name pushes out the first one: " +
      "the same flight begins with its Close. The first shape is then parsed again.",
    run: async (s) => {
      await login(s, { settings: [1 << 20, "t", 1] });
      for (const shape of [1, 1, 1, 2, 2, 2, 1]) await s.execute(shape, `select ${shape} as shape`, { formats: [1] });
    },
  },
  {
    file: "statement-forgotten",
    title: "A shape that the caller forgets",
    prose: "The Close goes with the next flight that can carry it.",
    run: async (s) => {
      await login(s, { settings: [1 << 20, "t", 8] });
      for (let n = 0; n < 2; n++) await s.execute(1, "select 1 as a", { formats: [1] });
      s.forget(1);
      await s.simpleQuery("select 'no Close here' as b");
      await s.describe("select 2");
      await s.execute(1, "select 1 as a", { formats: [1] });
    },
  },
  {
    file: "statement-lost",
    title: "A name that the server does not know",
    prose: "SQLSTATE 26000, as behind a pooler that changes servers. From then on every statement is unnamed.",
    run: async (s) => {
      await login(s, { settings: [1 << 20, "t", 8] });
      for (let n = 0; n < 2; n++) await s.execute(1, "select 1 as a", { formats: [1] });
      await s.simpleQuery("deallocate all");
      for (let n = 0; n < 3; n++) await s.execute(1, "select 1 as a", { formats: [1] });
    },
  },
  {
    file: "error-parse",
    title: "A statement that does not parse",
    prose:
      "The server skips to Sync. The second use asked for a name, but the statement does not exist, " +
      "so the third use parses again.",
    after: async (s) => {
      for (let n = 0; n < 3; n++) await s.execute(1, "selec 1", { formats: [] });
    },
  },
  {
    file: "error-bind",
    title: "A value that the parameter's type does not accept",
    prose: "Bind fails.",
    after: (s) => s.execute(1, "select $1::int4", { types: [INT4], formats: [1], values: [Buffer.from("ten")] }),
  },
  {
    file: "error-mid-rows",
    title: "An error between rows",
    prose: "Two rows have been sent when the third fails. The next query works.",
    after: async (s) => {
      await s.execute(1, "select n, 6 / (3 - n) as quotient from generate_series(1, 5) n", { formats: [1, 1] });
      await s.execute(2, "select 'well' as session", { formats: [1] });
    },
  },
  {
    file: "error-at-sync",
    title: "An error after CommandComplete",
    prose: "A deferred constraint is checked when Sync commits, so the error comes after the statement is complete.",
    after: async (s) => {
      await s.simpleQuery("create temporary table once (id int unique deferrable initially deferred)");
      await s.execute(1, "insert into once values (1), (1)");
      await s.execute(2, "select count(*) as kept from once", { formats: [1] });
    },
  },
  {
    file: "transaction",
    title: "A transaction that fails",
    prose: "ReadyForQuery says T, then E, then I.",
    after: async (s) => {
      await s.execute(1, "begin");
      await s.execute(2, "select 1 / 0", { formats: [1] });
      await s.execute(3, "select 1", { formats: [1] });
      await s.execute(4, "rollback");
    },
  },
  {
    file: "pipeline",
    title: "Three operations at once",
    prose:
      "Each flight ends in Sync, so the error of the second does not affect the third. " +
      "The answers come in the order of the calls.",
    after: async (s) => {
      await s.together(() => {
        s.execute(1, "select 'first' as n", { formats: [1] });
        s.execute(2, "select 1 / 0 as n", { formats: [1] });
        s.describe("select $1::int4 as n");
        s.simpleQuery("select 'last' as n");
      });
    },
  },
  {
    file: "empty-query",
    title: "An empty query",
    prose: "In the extended and in the simple protocol: EmptyQueryResponse instead of CommandComplete.",
    after: async (s) => {
      await s.execute(1, "");
      await s.simpleQuery(" ; ");
    },
  },
  {
    file: "no-rows",
    title: "Statements without rows",
    prose:
      "NoData for a statement that cannot return rows, RowDescription for one that happens to return none, " +
      "and a table without columns.",
    after: async (s) => {
      await s.execute(1, "create temporary table empty (id int)");
      await s.execute(2, "select id from empty", { formats: [1] });
      await s.execute(3, "select from generate_series(1, 2)");
      await s.execute(4, "insert into empty values (1), (2)");
      await s.execute(5, "delete from empty returning id", { formats: [1] });
    },
  },
  {
    file: "cursor",
    title: "A portal that is suspended",
    prose:
      "Three rows at a time inside a transaction. Each flight ends in Sync, and the portal stays. " +
      "The last Execute returns the remaining rows. The caps count over all flights.",
    after: async (s) => {
      await s.together(() => {
        s.simpleQuery("begin");
        s.execute(1, "select n from generate_series(1, 7) n", { formats: [1], fetch: 3, rows: 7 });
      });
      await s.fetch();
      await s.fetch();
      await s.simpleQuery("commit");
    },
  },
  {
    file: "cursor-closed",
    title: "A portal that is closed early",
    prose:
      "After Close the portal is gone, and its remaining rows cannot be fetched. " +
      "A cap that is passed in the second flight counts the rows of the first.",
    after: async (s) => {
      await s.simpleQuery("begin");
      await s.execute(1, "select n from generate_series(1, 7) n", { formats: [1], fetch: 3, rows: 4 });
      await s.fetch();
      await s.closePortal();
      await s.fetch();
      await s.simpleQuery("rollback");
    },
  },
  {
    file: "notice",
    title: "Notices",
    prose: "They can come at any time, here before any answer to Execute and between rows.",
    after: async (s) => {
      s.wantNotices();
      await s.execute(1, "do $$ begin raise warning 'careful' using detail = 'much', hint = 'go on'; end $$");
      await s.simpleQuery(
        "create function pg_temp.loud(n int) returns int language plpgsql as $$ begin raise notice 'at %', n; return n; end $$",
      );
      await s.execute(2, "select pg_temp.loud(n) as n from generate_series(1, 2) n", { formats: [1] });
    },
  },
  {
    file: "notification",
    title: "Notifications",
    prose:
      "One from the session itself, with the answer to the statement that sent it, " +
      "and one from another session while this one is idle.",
    after: async (s) => {
      await s.execute(1, "listen news");
      await s.execute(2, "select pg_notify('news', 'from us: é')");
      await s.elsewhere("select pg_notify('news', '')");
      await s.idle();
      await s.execute(3, "unlisten news");
    },
  },
  {
    file: "parameter-status",
    title: "A setting that the server reports",
    prose: "ParameterStatus comes with the answer to SET, and again when a transaction rolls back.",
    after: async (s) => {
      await s.execute(1, "set timezone = 'Asia/Tokyo'");
      await s.simpleQuery("begin; set application_name = 'é'; rollback");
    },
  },
  {
    file: "copy-in-refused",
    title: "COPY FROM STDIN without data",
    prose:
      "The core answers CopyFail. In the extended protocol it also sends a new Sync, " +
      "because the server has swallowed the one after Execute.",
    after: async (s) => {
      await s.simpleQuery("create temporary table target (id int)");
      await s.execute(1, "copy target from stdin");
      await s.simpleQuery("copy target from stdin; select 'never'");
      await s.execute(2, "select 'well' as session", { formats: [1] });
    },
  },
  {
    file: "copy-out-refused",
    title: "COPY TO STDOUT in a call that cannot take it",
    prose: "The core drops the data and goes on.",
    after: async (s) => {
      await s.execute(1, "copy (select generate_series(1, 3)) to stdout");
      await s.simpleQuery("copy (select 1) to stdout; select 'well' as session");
    },
  },
  {
    file: "simple-query",
    title: "Several statements in one Query",
    prose: "Each has its own result. An error ends the rest.",
    after: async (s) => {
      await s.simpleQuery(
        "select 1 as a, 'x' as b; create temporary table t (id int); ; insert into t values (1), (2); select * from t; select 1 / 0; select 'never'",
      );
      await s.simpleQuery("select n from generate_series(1, 2) n", { format: "arrays" });
    },
  },
  {
    file: "limit-rows",
    title: "A cap on rows",
    prose:
      "Two rows pass. The third is not passed on; the rest is read and dropped, and the session goes on. " +
      "Exactly as many rows as the cap are not an error.",
    after: async (s) => {
      await s.execute(1, "select n from generate_series(1, 5) n", { formats: [1], rows: 2 });
      await s.execute(2, "select n from generate_series(1, 2) n", { formats: [1], rows: 2 });
    },
  },
  ...Object.keys(formats).map((format) => ({
    file: `format-${format}`,
    title: `Rows as ${format}`,
    prose: "What stands before the first row and after the last, also when there are no rows.",
    after: async (s) => {
      await s.execute(1, "select n from generate_series(1, 5) n", { formats: [1], format });
      await s.execute(2, "select n from generate_series(1, 0) n", { formats: [1], format });
    },
  })),
  {
    file: "limit-truncate",
    title: "A cap that truncates the output and marks it",
    prose:
      "The third row is not passed on, and the last line says so. " +
      "The rest is read and dropped, and the session goes on.",
    after: async (s) => {
      await s.execute(1, "select n from generate_series(1, 5) n", { formats: [1], rows: 2, truncate: true });
      await s.execute(2, "select n from generate_series(1, 2) n", { formats: [1], rows: 2, truncate: true });
    },
  },
  {
    file: "limit-field-bytes",
    title: "A cap on the bytes of a field",
    prose: "A field of four bytes is longer than three.",
    after: async (s) => {
      await s.execute(1, "select n from generate_series(1, 5) n", { formats: [1], field_bytes: 3 });
      await s.execute(2, "select n from generate_series(1, 2) n", { formats: [1], field_bytes: 3 });
    },
  },
  {
    file: "limit-bytes",
    title: "A cap on bytes",
    prose: 'A row of `{"n":1}` and its newline have 8 bytes; 20 hold two of them.',
    after: async (s) => {
      await s.execute(1, "select n from generate_series(1, 5) n", { formats: [1], bytes: 20 });
      await s.simpleQuery("select n from generate_series(1, 5) n", { bytes: 16 });
    },
  },
  {
    file: "discard",
    title: "Rows that the caller no longer wants",
    prose: "They are read and dropped. CommandComplete still has their count.",
    after: async (s) => {
      await s.together(() => {
        s.execute(1, "select n from generate_series(1, 3) n", { formats: [1] });
        s.discard();
      });
      await s.execute(2, "select 'well' as session", { formats: [1] });
    },
  },
  {
    file: "terminated-by-administrator",
    title: "A session that the server ends while it is idle",
    prose: "The server says why and closes the connection.",
    after: async (s) => {
      await s.elsewhere("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app_trust'");
      await s.idle();
    },
  },
];

/** `after` is a `run` after the login of app_trust. */
export const scenarios = all.map(({ after, ...scenario }) => ({
  async run(session) {
    await login(session);
    await after(session);
  },
  ...scenario,
}));
