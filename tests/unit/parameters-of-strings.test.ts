// How libpq's parameters, those of providers, and the environment become options.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import { fates, variables } from "../../js/config/parameters.ts";
import { createPool } from "../../js/pool/pool.ts";
import { useMemoryServer } from "../support/memory-session.ts";
import { of, passwordOf, refused } from "./config-input.ts";

useMemoryServer();

// -- strings as providers give them ----------------------------------------------------------------------------------

test.each<[string, string, object]>([
  [
    "Neon",
    "postgresql://neondb_owner:npg_x@ep-cool-a1.eu-central-1.aws.neon.tech/neondb?sslmode=require",
    { host: "ep-cool-a1.eu-central-1.aws.neon.tech", database: "neondb", sslmode: "require" },
  ],
  [
    "Neon, for clients without SNI",
    "postgres://u:p@ep-cool-a1.neon.tech/neondb?options=endpoint%3Dep-cool-a1",
    { options: "endpoint=ep-cool-a1" },
  ],
  [
    "Supabase's pooler",
    "postgresql://postgres.abcdefgh:pw@aws-0-eu-central-1.pooler.supabase.com:6543/postgres?pgbouncer=true",
    { user: "postgres.abcdefgh", port: 6543, prepare: "unnamed" },
  ],
  [
    "Supabase in Vercel",
    "postgres://postgres.ref:pw@aws-0-us-east-1.pooler.supabase.com:6543/postgres?sslmode=require&supa=base-pooler.x",
    { user: "postgres.ref", sslmode: "require" },
  ],
  [
    "RDS",
    "postgresql://master:p%2Fw@db.c1.eu-central-1.rds.amazonaws.com:5432/postgres?sslmode=verify-full&sslrootcert=system",
    { host: "db.c1.eu-central-1.rds.amazonaws.com", sslmode: "verify-full" },
  ],
  [
    "Cloud SQL, with its Unix socket",
    "postgresql://u:p@/app?host=/cloudsql/project:europe-west1:instance",
    {
      host: "/cloudsql/project:europe-west1:instance",
      port: 5432,
      database: "app",
      sslmode: "disable",
      localLink: true,
    },
  ],
  [
    "Cloud SQL, as keywords",
    "host='/cloudsql/project:europe-west1:instance' user=u password='a b' dbname=app",
    { host: "/cloudsql/project:europe-west1:instance", database: "app" },
  ],
  [
    "Prisma",
    "postgresql://u:p@h:5432/d?schema=Tenant%20%22A%22&connection_limit=5&pool_timeout=10&sslaccept=strict&socket_timeout=7",
    { startup: [["search_path", '"Tenant ""A"""']], sslmode: "verify-full", timeout: 7_000 },
  ],
  [
    "Prisma, with certificates that nobody checks",
    "postgresql://u:p@h/d?sslmode=require&sslaccept=accept_invalid_certs&statement_cache_size=0",
    { sslmode: "require", statementCacheSize: 0 },
  ],
  ["Prisma, without TLS", "postgresql://u:p@h/d?sslmode=disable&sslaccept=strict", { sslmode: "disable" }],
  ["Heroku", "postgres://u:p@ec2-1-2-3-4.compute-1.amazonaws.com:5432/d12", { database: "d12", sslmode: "prefer" }],
  ["Render", "postgresql://u:p@dpg-abc-a.frankfurt-postgres.render.com/app_x", { port: 5432 }],
  [
    "Timescale",
    "postgres://tsdbadmin:p@x.y.tsdb.cloud.timescale.com:35000/tsdb?sslmode=require",
    { port: 35_000, sslmode: "require" },
  ],
  [
    "Azure",
    "postgres://ada%40server:p@server.postgres.database.azure.com:5432/postgres?sslmode=require",
    { user: "ada@server" },
  ],
  [
    "Azure, as keywords",
    "host=server.postgres.database.azure.com port=5432 dbname=postgres user=ada@server password=p sslmode=require",
    { user: "ada@server", port: 5432, sslmode: "require" },
  ],
  [
    "CockroachDB",
    "postgresql://u:p@free-tier.gcp-us-central1.cockroachlabs.cloud:26257/defaultdb?sslmode=verify-full&options=--cluster%3Dmy-1",
    { options: "--cluster=my-1", sslmode: "verify-full" },
  ],
  [
    "Patroni's cluster",
    "postgres://u:p@n1:5432,n2:5433,[::1]/d?target_session_attrs=read-write&load_balance_hosts=random&connect_timeout=3",
    {
      targetSessionAttrs: "read-write",
      loadBalanceHosts: "random",
      connectTimeout: 3_000,
      hosts: [
        { host: "n1", port: 5432 },
        { host: "n2", port: 5433 },
        { host: "::1", port: 5432 },
      ],
    },
  ],
  ["JDBC", "postgres://u:p@h/d?ssl=true", { sslmode: "require" }],
  ["JDBC, beside a mode", "postgres://u:p@h/d?ssl=true&sslmode=verify-full", { sslmode: "verify-full" }],
  ["node-postgres", "postgres://u:p@h/d?uselibpqcompat=true&sslmode=require", { sslmode: "require" }],
  [
    "Supabase in Vercel, for Prisma",
    "postgres://u:p@h/d?pgbouncer=true&workaround=supabase-pooler.vercel&connection_limit=1",
    { prepare: "unnamed" },
  ],
  [
    "JDBC, with its own parameters",
    "postgresql://u:p@h/d?currentSchema=app,public&ApplicationName=shop&loginTimeout=3&socketTimeout=7&tcpKeepAlive=true" +
      "&prepareThreshold=5&reWriteBatchedInserts=true",
    { startup: [["search_path", "app,public"]], applicationName: "shop", connectTimeout: 3_000, timeout: 7_000 },
  ],
  [
    "JDBC behind a pooler",
    "postgres://u:p@h/d?prepareThreshold=0&tcpKeepAlive=false",
    { prepare: "unnamed", keepAlive: 0 },
  ],
  [
    "Go's gorm",
    "host=h user=u password=p dbname=d port=9920 sslmode=disable TimeZone=Asia/Shanghai",
    { port: 9920, startup: [["TimeZone", "Asia/Shanghai"]] },
  ],
  [
    "pgx",
    "postgres://u:p@h/d?pool_max_conns=10&pool_min_conns=1&search_path=a&statement_timeout=5s",
    {
      startup: [
        ["search_path", "a"],
        ["statement_timeout", "5s"],
      ],
    },
  ],
  ["postgres.js", "postgres://u:p@h/d?max=5&idle_timeout=20&max_lifetime=1800&prepare=false", { prepare: "unnamed" }],
  ["Rails", "postgres://u:p@h/d?encoding=unicode&pool=5&prepared_statements=false", { prepare: "unnamed" }],
  ["with this driver's own words", "postgres://u:p@h/d?prepare=named", { prepare: "named" }],
  ["Laravel", "postgres://u:p@h/d?charset=utf8", { startup: [] }],
  ["SQLAlchemy", "postgresql://u:p@h/d?prepared_statement_cache_size=0", { statementCacheSize: 0 }],
])("a string of %s works unchanged", async (_, text, expected) => {
  const config = of(text);
  expect(config).toMatchObject(expected);
  expect(await passwordOf(config)).toBeTypeOf("string");
});

// -- each parameter --------------------------------------------------------------------------------------------------

test.each<[string, Options]>([
  ["host=h hostaddr=10.0.0.1", { host: "h", hostaddr: "10.0.0.1" }],
  ["hostaddr=10.0.0.1", { host: "10.0.0.1", hostaddr: "10.0.0.1" }],
  ["fallback_application_name=psql", { applicationName: "psql" }],
  ["fallback_application_name=psql application_name=mine", { applicationName: "mine" }],
  ["max_protocol_version=latest min_protocol_version=3.0", { maxProtocolVersion: "3.2" }],
  ["keepalives=0 keepalives_idle=9", { keepAlive: 0 }],
  ["keepalives=1 keepalives_idle=9", { keepAlive: 9_000 }],
  ["keepalives_idle=0", { keepAlive: 30_000 }],
  ["require_auth=scram-sha-256 channel_binding=disable", { requireAuth: "scram-sha-256", channelBinding: "disable" }],
  ["application_name='' connect_timeout=4", { applicationName: "pgz-edge", connectTimeout: 4_000 }],
  ["gssencmode=prefer sslcompression=0 sslsni=1 replication=false tcp_user_timeout=0 sslcertmode=allow", {}],
  ["ssl_min_protocol_version=TLSv1.2 ssl_max_protocol_version=TLSv1.3 client_encoding=UTF8 pgbouncer=false", {}],
])("%s", (text, expected) => {
  const config = of(`user=ada ${text}`);
  expect(config).toMatchObject(expected);
  expect(config.notices).toEqual([]);
});

test("JDBC's connectTimeout in milliseconds is an error that names the unit", () => {
  expect(of("postgres://ada@h/d?connectTimeout=999").connectTimeout).toBe(999_000);
  const { code, message } = refused("postgres://ada@h/d?connectTimeout=1000");
  expect(code).toBe("INVALID_OPTION");
  expect(message).toContain("in seconds");
});

test("ignored parameters are reported with the reason and without the value", () => {
  const { notices } = of("user=ada tcp_user_timeout=123 client_encoding=LATIN1 krbsrvname=s3cret connection_limit=7");
  expect(notices).toHaveLength(4);
  expect(notices.join(" ")).toMatch(/"client_encoding" is ignored: .*UTF-8.*"tcp_user_timeout" is ignored: /s);
  expect(notices.join(" ")).not.toMatch(/123|LATIN1|s3cret|7/);
});

test("a pool takes its options from the string, and explicit options win", () => {
  const text =
    "postgresql://u@h/d?connection_limit=5&pool_timeout=10&max_connection_lifetime=0&max_idle_connection_lifetime=60";
  const { pool, notices } = resolveConfig(text, { isPool: true });
  expect(pool).toEqual({ max: 5, acquireTimeout: 10_000, maxLifetime: 0, idleTimeout: 60_000 });
  expect(notices).toEqual([]);
  expect(createPool(text).options).toEqual({ max: 5, min: 0, idleTimeoutMillis: 60_000 });
  expect(createPool(text, { max: 7 }).options.max).toBe(7);
  expect(createPool({ connectionString: text, max: 8 }).options.max).toBe(8);
  const others = "postgres://u@h/d?pool_min_conns=1&pool_max_conns=9&idle_timeout=20&max_lifetime=1800";
  expect(resolveConfig(others, { isPool: true }).pool).toEqual({
    min: 1,
    max: 9,
    idleTimeout: 20_000,
    maxLifetime: 1_800_000,
  });
  const wrong = () => createPool("postgresql://u@h/d?connection_limit=many");
  expect(wrong).toThrow(expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining('"max"') }));
});

test("a string's schema and the option startup are combined", () => {
  const config = of({ connectionString: "postgres://ada@h?schema=a", startup: { TimeZone: "UTC" } });
  expect(config.startup).toEqual([
    ["search_path", '"a"'],
    ["TimeZone", "UTC"],
  ]);
  expect(of("postgres://ada@h?schema=a", { startup: { search_path: "b" } }).startup).toEqual([["search_path", "b"]]);
});

test("several hosts share a single port, an empty port is the default, and an option wins over the string", () => {
  const hosts = (options: Options) => of({ user: "ada", ...options }).hosts.map(({ host, port }) => `${host}:${port}`);
  expect(hosts({ host: "a,b", port: 6000 })).toEqual(["a:6000", "b:6000"]);
  expect(hosts({ host: "a,b", port: "6000" })).toEqual(["a:6000", "b:6000"]);
  expect(hosts({ host: "a,b,c", port: "1,,3" })).toEqual(["a:1", "b:5432", "c:3"]);
  expect(of("postgres://ada@a:1,b:2/d", { host: "c", port: "3" })).toMatchObject({ host: "c", port: 3 });
  expect(of({ user: "ada", host: "/tmp,db.example.com,x.hyperdrive.local" }).hosts).toMatchObject([
    { localLink: true, sslmode: "disable" },
    { localLink: false, sslmode: "prefer" },
    { localLink: true, sslmode: "disable" },
  ]);
  expect(of({ user: "ada", host: "/tmp,h", sslmode: "require" }).hosts.map(({ sslmode }) => sslmode)).toEqual([
    "require",
    "require",
  ]);
});

// -- environment -----------------------------------------------------------------------------------------------------

const inEnvironment = (
  variables: Record<string, string>,
  input: Parameters<typeof of>[0] = {},
  options: Options = {},
) => resolveConfig(input, { environment: (name) => variables[name] }, options);

test("variables are defaults for missing options", async () => {
  const variables = {
    PGHOST: "a,b",
    PGPORT: "1,2",
    PGUSER: "ada",
    PGPASSWORD: "secret",
    PGDATABASE: "app",
    PGSSLMODE: "require",
    PGAPPNAME: "shell",
    PGOPTIONS: "-c geqo=off",
    PGCONNECT_TIMEOUT: "3",
    PGTARGETSESSIONATTRS: "primary",
    PGTZ: "UTC",
    PGDATESTYLE: "",
  };
  const config = inEnvironment(variables);
  expect(config).toMatchObject({
    hosts: [
      { host: "a", port: 1, sslmode: "require" },
      { host: "b", port: 2, sslmode: "require" },
    ],
    user: "ada",
    database: "app",
    applicationName: "shell",
    options: "-c geqo=off",
    connectTimeout: 3_000,
    targetSessionAttrs: "primary",
    startup: [["TimeZone", "UTC"]],
  });
  expect(await passwordOf(config)).toBe("secret");
  const other = inEnvironment(variables, "postgres://eve:x@h:9/d?sslmode=disable", { applicationName: "mine" });
  expect(other).toMatchObject({ host: "h", port: 9, user: "eve", database: "d", sslmode: "disable" });
  expect(other.applicationName).toBe("mine");
  expect(await passwordOf(other)).toBe("x");
});

test("option environment sets the source of variables, or turns them off", async () => {
  const given = { PGUSER: "eve" };
  expect(inEnvironment({ PGUSER: "ada" }, { environment: given }).user).toBe("eve");
  expect(inEnvironment({ PGUSER: "ada" }, {}, { environment: given }).user).toBe("eve");
  expect(of({ environment: { PGUSER: "eve", PGPASSWORD: "x", PGHOST: {} } })).not.toHaveProperty("environment");
  expect(inEnvironment({ PGHOST: "x" }, { user: "u", environment: false }).host).toBe("localhost");
  expect(refused({ environment: Object.create({ PGUSER: "eve" }) as object }).message).toContain('"user"');
});

test("an error about a variable names it, and shows no value", () => {
  for (const [variable, code] of [
    ["PGSERVICE", "UNKNOWN_OPTION"],
    ["PGSSLROOTCERT", "UNKNOWN_OPTION"],
    ["PGGSSENCMODE", "UNKNOWN_OPTION"],
  ] as const) {
    const error = refused({ user: "ada", environment: { [variable]: "s3cret" } });
    expect(error.code).toBe(code);
    expect(error.message).toContain(variable);
    expect(error.message).not.toContain("s3cret");
  }
  const { notices } = inEnvironment({ PGUSER: "ada", PGKRBSRVNAME: "x" });
  expect(notices).toEqual([expect.stringContaining("PGKRBSRVNAME")]);
});

// -- the page --------------------------------------------------------------------------------------------------------

test("docs/connecting.md lists each parameter with its variable and its effect", () => {
  const rows = readFileSync(join(import.meta.dirname, "../../docs/connecting.md"), "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, name = "", variable = "", fate = ""] = line.split("|").map((cell) => cell.trim().replaceAll("`", ""));
      if (!/^(done|ignored|refused|by value|pool)\b/.test(fate)) return [];
      return name.split(", ").map((one) => [one, variable, fate.split(":")[0]]);
    });
  expect(rows.sort()).toEqual(
    fates()
      .map(([name, fate]) => [name, variables.get(name) ?? "", fate])
      .sort(),
  );
});
