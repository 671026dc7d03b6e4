// pgz-edge/prisma by Prisma's contract: compared with @prisma/adapter-pg over the same server, value by value and error
// by error, and tested for what it does better. prisma-client.test.ts uses the client itself.
import { PrismaPg } from "@prisma/adapter-pg";
import type { ArgType, SqlDriverAdapter, SqlDriverAdapterFactory } from "@prisma/driver-adapter-utils";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { inTime, pause } from "../support/until.mjs";

const built = (await import("../../dist/prisma.js" as string)) as typeof import("../../js/adapters/prisma.ts");
const pgz = (await import(`../../dist/${runtime}.js` as string)) as typeof import("../../js/index.ts");

interface Proxy {
  listen(): Promise<number>;
  report(): { readonly flights: readonly unknown[] }[];
  close(): void;
}
const { ByteProxy } = (await import("../support/byte-proxy.mjs" as string)) as {
  ByteProxy: new (target: { host: string; port: number }) => Proxy;
};

const SCHEMA = "prisma_adapter";
const unknown: ArgType = { scalarType: "unknown", arity: "scalar" };
const of = (scalarType: ArgType["scalarType"], dbType?: string, arity: ArgType["arity"] = "scalar"): ArgType => ({
  scalarType,
  arity,
  ...(dbType !== undefined && { dbType }),
});

/** SQL of one column each. Both must read the same from a value, from NULL, and from the extremes. */
const SAME: Record<string, string[]> = {
  int2: ["-32768", "7"],
  int4: ["-2147483648", "7"],
  int8: ["9223372036854775807", "-7"],
  oid: ["4294967295"],
  float4: ["0.1", "NaN", "-Infinity", "1e-30"],
  float8: ["0.1", "NaN", "Infinity", "1e300"],
  numeric: ["123456789012345678901234567890.1200", "NaN", "-0.5"],
  money: ["1.50"],
  bool: ["true", "false"],
  text: ["Zoë 🦀", ""],
  varchar: ["x"],
  "char(4)": ["x"],
  name: ["x"],
  uuid: ["550e8400-e29b-41d4-a716-446655440000"],
  bytea: ["\\x00ff10", "\\x"],
  json: ['{ "a" :  [1, null] }', '"x"', "null"],
  jsonb: ['{"a": [1, 1.50], "b": "\\n"}', "3"],
  date: ["2024-02-29", "0044-03-15 BC", "infinity"],
  time: ["03:04:05.12", "24:00:00", "00:00:00"],
  timetz: ["03:04:05.12-05:30", "03:04:05+02"],
  timestamp: ["2024-01-02 03:04:05.123456", "1970-01-01", "infinity", "12345-01-01"],
  timestamptz: ["2024-01-02 03:04:05.123456+02", "1970-01-01 00:00:00+00", "-infinity"],
  inet: ["10.0.0.1/8", "::1"],
  cidr: ["10.0.0.0/8"],
  "bit(3)": ["101"],
  varbit: ["10101"],
  xml: ["<a b='1'>x</a>"],
  "int2[]": ["{1,NULL,-3}", "{}"],
  "int4[]": ["{1,2}", "{{1,2},{3,4}}", "[0:1]={1,2}"],
  "int8[]": ["{9223372036854775807,NULL}"],
  "oid[]": ["{4294967295,1}"],
  "float4[]": ["{0.1,NULL}"],
  "float8[]": ["{0.1,1e300}"],
  "numeric[]": ["{1.50,NULL,-3}"],
  "money[]": ["{1.50,NULL}"],
  "bool[]": ["{t,f,NULL}"],
  "text[]": ['{a,"b c",NULL,"NULL","q\\"r\\\\s"}', "{}"],
  "varchar[]": ["{a,b}"],
  "char(2)[]": ["{a,b}"],
  "date[]": ["{2024-02-29,NULL}"],
  "time[]": ["{03:04:05.12}"],
  "timestamp[]": ['{"2024-01-02 03:04:05.5",NULL}'],
  "timestamptz[]": ['{"2024-01-02 03:04:05.5+02",NULL}'],
  "json[]": ['{"{\\"a\\":1}",NULL,"[1, 2]"}'],
  "jsonb[]": ['{"{\\"a\\": 1}",NULL,"3"}'],
  "bytea[]": ['{"\\\\x00ff",NULL}'],
  "uuid[]": ["{550e8400-e29b-41d4-a716-446655440000}"],
  "inet[]": ["{10.0.0.1,NULL}"],
  "cidr[]": ["{10.0.0.0/8}"],
  "bit(3)[]": ["{101,NULL}"],
  "varbit[]": ["{10101}"],
  "xml[]": ["{<a/>,NULL}"],
  mood: ["happy", "so so"],
};

/** Buffers are compared as bytes. */
const plain = (value: unknown): unknown =>
  value instanceof Uint8Array ? new Uint8Array(value) : Array.isArray(value) ? value.map(plain) : value;
const all = ({ columnTypes, columnNames, rows }: Awaited<ReturnType<SqlDriverAdapter["queryRaw"]>>) => ({
  columnTypes,
  columnNames,
  rows: plain(rows),
});
const query = (sql: string, args: unknown[] = [], argTypes: ArgType[] = args.map(() => unknown)) => ({
  sql,
  args,
  argTypes,
});
/** Returns the kind of an error, with everything that Prisma learns of it. */
const causeOf = async (work: Promise<unknown>): Promise<Record<string, unknown>> =>
  work.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: Error) => {
      expect(error.name).toBe("DriverAdapterError");
      return JSON.parse(JSON.stringify(error.cause)) as Record<string, unknown>;
    },
  );

describe.each(testServers().servers)("$name", (server) => {
  const url = `${server.url.split("?")[0]}?sslmode=disable`;
  /** A session with the settings that Prisma assumes, in which adapter-pg's times are right. */
  const utc = (text: string) => `${text}&options=-c%20search_path%3D${SCHEMA}%20-c%20timezone%3DUTC`;
  const factory: SqlDriverAdapterFactory = new built.PrismaPgz(utc(url));
  let ours: SqlDriverAdapter;
  let theirs: SqlDriverAdapter;

  beforeAll(async () => {
    ours = await factory.connect();
    theirs = await new PrismaPg(utc(url)).connect();
    await ours.executeScript(`drop schema if exists ${SCHEMA} cascade; create schema ${SCHEMA};
      create type mood as enum ('happy', 'so so');
      create type pair as (a int4, b text);
      create table parents (id int4 primary key);
      create table items (id int4 primary key, code varchar(3), parent int4 references parents,
        qty int2 check (qty > 0), needed text not null default 'x', unique (code, qty));
      create table guarded (id int4 references parents on delete restrict);
      insert into parents values (1); insert into guarded values (1);
      insert into items values (1, 'abc', 1, 1, 'x')`);
  });
  afterAll(async () => {
    await ours.executeScript(`drop schema ${SCHEMA} cascade`);
    await ours.dispose();
    await theirs.dispose();
  });
  const both = async <T>(work: (adapter: SqlDriverAdapter) => Promise<T>): Promise<[T, T]> => [
    await work(ours),
    await work(theirs),
  ];

  // -- values ---------------------------------------------------------------------------------------------------------

  test.each(Object.entries(SAME))(
    "%s: kind and values are adapter-pg's, in the first run and later",
    async (type, values) => {
      const list = values.map((value) => `('${value.replaceAll("'", "''")}'::${type})`).join(", ");
      const asked = query(`select v as "the value" from (values ${list}, (null)) as t(v)`);
      const wanted = all(await theirs.queryRaw(asked));
      for (let run = 0; run < 3; run++) expect(all(await ours.queryRaw(asked))).toEqual(wanted);
      expect(wanted.rows).toHaveLength(values.length + 1);
    },
  );

  test("a result without rows has its columns, and a statement without a result has none", async () => {
    const [one, other] = await both((adapter) => adapter.queryRaw(query("select 1::int4 as a, '' as b where false")));
    expect(all(one)).toEqual(all(other));
    const [none, nothing] = await both((adapter) =>
      adapter.queryRaw(query("create temp table if not exists t (id int4)")),
    );
    expect(all(none)).toEqual(all(nothing));
    expect(await both((adapter) => adapter.executeRaw(query("update items set qty = qty")))).toEqual([1, 1]);
    expect(await both((adapter) => adapter.executeRaw(query("create schema if not exists prisma_adapter")))).toEqual([
      0, 0,
    ]);
  });

  test("executeRaw without arguments runs several statements, in a transaction too", async () => {
    const several = query("insert into parents values (20); insert into parents values (21), (22);");
    const undone = await ours.startTransaction();
    expect(await undone.executeRaw(several)).toBe(3);
    await undone.rollback();
    expect(await ours.executeRaw(several)).toBe(3);
    expect(await theirs.executeRaw(query("delete from parents where id = 20; delete from parents where id > 20"))).toBe(
      0,
    );
    const broken = query("insert into parents values (30); select 1 / 0");
    expect(await causeOf(ours.executeRaw(broken))).toMatchObject({ kind: "postgres", code: "22012" });
    expect(await ours.executeRaw(query("select from parents where id = 30"))).toBe(0);
    // A single statement whose text has a semicolon, and a statement with nothing after its semicolon.
    for (const text of [
      "update parents set id = id -- ; none",
      "update parents set id = id; ",
      "update parents set id = id",
    ])
      expect(await both((adapter) => adapter.executeRaw(query(text)))).toEqual([1, 1]);
    expect(await causeOf(ours.executeRaw(query("select $1::int4; select 1", [1])))).toMatchObject({ code: "42601" });
  });

  test("columns of the same name stay separate", async () => {
    const [one, other] = await both((adapter) => adapter.queryRaw(query("select 1 as a, 2 as a")));
    expect(all(one)).toEqual(all(other));
  });

  test("arguments are read as adapter-pg reads them", async () => {
    const at = "2024-02-29T12:34:56.789Z";
    const given: [type: string, arg: unknown, argType: ArgType][] = [
      ["int4", 7, of("int")],
      ["int8", "9007199254740993", of("bigint")],
      ["int8", 9007199254740993n, of("bigint")],
      ["float8", 1.5, of("float")],
      ["numeric", "1.500", of("decimal")],
      ["bool", true, of("boolean")],
      ["text", "Zoë", of("string")],
      ["text", 7, unknown],
      ["mood", "so so", of("enum")],
      ["uuid", "550e8400-e29b-41d4-a716-446655440000", of("uuid")],
      ["jsonb", '{"a":1}', of("json")],
      ["jsonb", "null", of("json")],
      ["timestamp", at, of("datetime", "TIMESTAMP")],
      ["timestamp", new Date(at), of("datetime")],
      ["timestamptz", at, of("datetime", "TIMESTAMPTZ")],
      ["date", at, of("datetime", "DATE")],
      ["time", at, of("datetime", "TIME")],
      ["timetz", at, of("datetime", "TIMETZ")],
      ["bytea", "AP8Q", of("bytes")],
      ["bytea", new Uint8Array([0, 255]), of("bytes")],
      ["int4[]", [1, null, 3], of("int", undefined, "list")],
      ["text[]", ["a", 'b "c"'], of("string", undefined, "list")],
      ["timestamp[]", [at], of("datetime", undefined, "list")],
      ["jsonb[]", ['{"a":1}', '"x"'], of("json", undefined, "list")],
      ["bytea[]", ["AP8Q"], of("bytes", undefined, "list")],
      ["mood[]", ["happy"], of("enum", undefined, "list")],
      ["int4", null, of("int")],
    ];
    for (const [type, arg, argType] of given) {
      const asked = query(`select $1::${type}::text as v`, [arg], [argType]);
      const [one, other] = await both((adapter) => adapter.queryRaw(asked));
      expect([type, arg, all(one)]).toEqual([type, arg, all(other)]);
    }
  });

  // -- errors ---------------------------------------------------------------------------------------------------------

  const FAILING: Record<string, [sql: string, args?: unknown[]]> = {
    UniqueConstraintViolation: ["insert into items (id, code, qty) values (2, 'abc', 1)"],
    ForeignKeyConstraintViolation: ["insert into items (id, parent) values (3, 99)"],
    LengthMismatch: ["insert into items (id, code) values (4, 'abcd')"],
    ValueOutOfRange: ["select 70000::int4::int2"],
    InvalidInputValue: ["select 'x'::int4"],
    TableDoesNotExist: ['select * from "Nowhere"'],
    ColumnNotFound: ['select "no ""such" from items'],
    postgres: ["insert into items (id, qty) values (5, 0)"],
  };
  test.each(Object.entries(FAILING))("%s: the error is adapter-pg's", async (kind, [sql, args = []]) => {
    const [one, other] = await both((adapter) => causeOf(adapter.executeRaw(query(sql, args))));
    expect(one).toEqual(other);
    expect(one["kind"]).toBe(kind);
  });

  test("a violation of NOT NULL names the column, which adapter-pg does not", async () => {
    const [one, other] = await both((adapter) =>
      causeOf(adapter.executeRaw(query("insert into items (id, needed) values (6, null)"))),
    );
    expect(one).toEqual({ ...other, constraint: { fields: ["needed"] } });
    expect(one["kind"]).toBe("NullConstraintViolation");
  });

  test("an argument that does not fit is refused as the server would refuse it", async () => {
    const invalid = await causeOf(ours.queryRaw(query("select $1::int4", [true], [of("boolean")])));
    expect(invalid).toMatchObject({ kind: "InvalidInputValue", originalCode: "22P02" });
    const far = await causeOf(ours.queryRaw(query("select $1::int2 + 1::int2", [70_000], [of("int")])));
    expect(far).toMatchObject({ kind: "ValueOutOfRange", originalCode: "22003" });
  });

  test("an invalid time is refused like other invalid values, in arrays too", async () => {
    for (const arg of ["junk", new Date(Number.NaN), [new Date(Number.NaN)]])
      for (const type of ["timestamptz", "date"]) {
        const list = Array.isArray(arg);
        const argType = of("datetime", type === "date" ? "DATE" : undefined, list ? "list" : "scalar");
        const asked = query(`select $1::${type}${list ? "[]" : ""}`, [arg], [argType]);
        const [one, other] = await both((adapter) => causeOf(adapter.queryRaw(asked)));
        expect(["InvalidInputValue", "postgres"]).toContain(one["kind"]);
        expect(["InvalidInputValue", "postgres"]).toContain(other["kind"]);
      }
  });

  test("rare errors have the same kinds", async () => {
    const raise = (code: string) =>
      `do $$ begin raise exception using errcode = '${code}', message = 'made up'; end $$`;
    for (const [code, kind] of [
      ["40001", "TransactionWriteConflict"],
      ["40P01", "TransactionWriteConflict"],
      ["23001", "RestrictViolation"],
      ["53300", "TooManyConnections"],
      ["42P04", "DatabaseAlreadyExists"],
      ["28000", "DatabaseAccessDenied"],
    ] as const) {
      const [one, other] = await both((adapter) => causeOf(adapter.executeRaw(query(raise(code)))));
      expect(one).toEqual(other);
      expect(one["kind"]).toBe(kind);
    }
  });

  test("failures of a connection have Prisma's kinds", async () => {
    const connected = async (to: string) => {
      const adapter = await new built.PrismaPgz(to).connect();
      try {
        return await causeOf(adapter.queryRaw(query("select 1")));
      } finally {
        await adapter.dispose();
      }
    };
    const changed = (change: (to: URL) => void) => {
      const to = new URL(url);
      change(to);
      return to.href;
    };
    expect(await connected(changed((to) => (to.port = "1")))).toMatchObject({ kind: "DatabaseNotReachable" });
    expect(await connected(changed((to) => (to.pathname = "/nowhere")))).toMatchObject({
      kind: "DatabaseDoesNotExist",
      db: "nowhere",
      originalCode: "3D000",
    });
    expect(await connected(changed((to) => (to.password = "wrong")))).toMatchObject({
      kind: "AuthenticationFailed",
      user: server.user,
      originalCode: "28P01",
    });
    const ended = causeOf(ours.queryRaw(query("select pg_terminate_backend(pg_backend_pid())")));
    expect(["ConnectionClosed", "postgres"]).toContain((await ended)["kind"]);
    expect((await ours.queryRaw(query("select 1 as a"))).rows).toEqual([[1]]);
  });

  // -- transactions ---------------------------------------------------------------------------------------------------

  const count = async () => (await ours.queryRaw(query("select count(*)::int4 from parents"))).rows[0]![0];

  test("BEGIN with its isolation level leaves with the first statement, and COMMIT alone", async () => {
    const proxy = new ByteProxy({ host: server.host, port: server.port });
    const port = await proxy.listen();
    const to = new URL(url);
    to.hostname = "127.0.0.1";
    to.port = String(port);
    const adapter = await new built.PrismaPgz(to.href).connect();
    try {
      const asked = query("select current_setting('transaction_isolation')");
      await adapter.queryRaw(asked);
      const before = proxy.report()[0]!.flights.length;
      const transaction = await adapter.startTransaction("SERIALIZABLE");
      expect((await transaction.queryRaw(asked)).rows).toEqual([["serializable"]]);
      await transaction.commit();
      expect(proxy.report()[0]!.flights.length - before).toBe(2);
      const unused = await adapter.startTransaction();
      await unused.rollback();
      expect(proxy.report()[0]!.flights.length - before).toBe(2);
    } finally {
      await adapter.dispose();
      proxy.close();
    }
  });

  test("commit keeps changes, rollback undoes them, and savepoints work", async () => {
    const before = await count();
    const kept = await ours.startTransaction();
    expect(kept.options).toEqual({ usePhantomQuery: true });
    await kept.executeRaw(query("insert into parents values (10)"));
    await kept.createSavepoint!("one");
    await causeOf(kept.executeRaw(query("insert into parents values (10)")));
    await kept.rollbackToSavepoint!("one");
    await kept.executeRaw(query("SAVEPOINT prisma_sp_0"));
    await kept.executeRaw(query("insert into parents values (11)"));
    await kept.executeRaw(query("ROLLBACK TO SAVEPOINT prisma_sp_0"));
    await kept.executeRaw(query("RELEASE SAVEPOINT prisma_sp_0"));
    await kept.releaseSavepoint!("one");
    await kept.commit();
    expect(await count()).toBe((before as number) + 1);
    const undone = await ours.startTransaction("READ COMMITTED");
    await undone.executeRaw(query("delete from parents where id = 10"));
    await undone.rollback();
    expect(await count()).toBe((before as number) + 1);
    expect(await causeOf(undone.queryRaw(query("select 1")))).toMatchObject({ kind: "TransactionAlreadyClosed" });
    await ours.executeRaw(query("delete from parents where id >= 10"));
  });

  test("a COMMIT that rolled back is an error, although adapter-pg reports success", async () => {
    const failed = await ours.startTransaction();
    await causeOf(failed.executeRaw(query("insert into parents values (1)")));
    expect(await causeOf(failed.executeRaw(query("select 1")))).toMatchObject({ originalCode: "25P02" });
    expect(await causeOf(failed.commit())).toMatchObject({ kind: "TransactionAlreadyClosed" });
  });

  test("rollback cancels a running statement", async () => {
    const transaction = await ours.startTransaction();
    const sleeping = transaction.queryRaw(query("select pg_sleep(60)::text")).catch(() => "ended");
    await pause(100);
    await inTime(transaction.rollback());
    expect(await sleeping).toBe("ended");
  });

  test("statements of a transaction that are made together all run", async () => {
    const transaction = await ours.startTransaction();
    const results = await Promise.all(
      [1, 2, 3].map((id) => transaction.queryRaw(query("select $1::int4 as id", [id]))),
    );
    await transaction.commit();
    expect(results.map(({ rows }) => rows)).toEqual([[[1]], [[2]], [[3]]]);
  });

  test("transactions give their connections back, whatever their outcome", async () => {
    const pool = pgz.createPool(url, { max: 2 });
    const adapter = await new built.PrismaPgz(pool).connect();
    for (let round = 0; round < 20; round++) {
      const transaction = await adapter.startTransaction();
      if (round % 2) await causeOf(transaction.executeRaw(query("select 1 / 0")));
      await (round % 3 ? transaction.rollback() : transaction.commit().catch(() => {}));
    }
    await pool.waitIdle();
    expect(pool.stats()).toMatchObject({ acquired: 0, waiting: 0 });
    expect(await causeOf(adapter.startTransaction("SNAPSHOT"))).toMatchObject({ kind: "InvalidIsolationLevel" });
    await adapter.dispose();
    expect(pool.stats().state).toBe("open");
    await (await new built.PrismaPgz(pool, { disposeExternalPool: true }).connect()).dispose();
    expect(pool.stats().state).toBe("closed");
    await expect(adapter.startTransaction()).rejects.toMatchObject({ code: "POOL_CLOSED" });
  });

  // -- what is different by intent ------------------------------------------------------------------------------------

  test("times are right in every time zone of the session", async () => {
    const adapter = await new built.PrismaPgz(url, {}).connect();
    const at = "2024-01-02T03:04:05.000Z";
    const transaction = await adapter.startTransaction();
    await transaction.executeRaw(query("set local timezone to 'Asia/Tokyo'"));
    const { rows } = await transaction.queryRaw(
      query(
        "select $1::timestamptz as a, $2::timestamp as b, extract(epoch from $3::timestamptz)::int8 as c",
        [at, at, at],
        [of("datetime"), of("datetime"), of("datetime")],
      ),
    );
    expect(rows).toEqual([["2024-01-02T03:04:05+00:00", "2024-01-02T03:04:05+00:00", "1704164645"]]);
    await transaction.rollback();
    await adapter.dispose();
  });

  test("types that adapter-pg refuses are texts, and structured values are JSON", async () => {
    const asked = query(`select '1 day'::interval as a, '(1,2)'::point as b, pg_sleep(0) as c,
      '{happy,"so so"}'::mood[] as d, (1, 'x')::pair as e, '{a}'::name[] as f, '-1234.50'::money as g`);
    const { columnTypes, rows } = await ours.queryRaw(asked);
    expect(columnTypes).toEqual([7, 7, 7, 11, 11, 11, 4]);
    expect(rows).toEqual([["P1D", "(1,2)", "", '["happy","so so"]', '{"a":1,"b":"x"}', '["a"]', "-1234.50"]]);
  });

  test("years before 1 and after 9999 are written as the server reads them", async () => {
    const args = ["-000043-03-15T00:00:00.000Z", "+012345-01-01T00:00:00.000Z"];
    const { rows } = await ours.queryRaw(
      query(
        "select $1::timestamp::text as a, $2::timestamp::text as b, $3::date::text as c",
        [...args, args[0]],
        [of("datetime"), of("datetime"), of("datetime", "DATE")],
      ),
    );
    expect(rows).toEqual([["0044-03-15 00:00:00 BC", "12345-01-01 00:00:00", "0044-03-15 BC"]]);
  });

  test("executeScript runs a function with semicolons in its body", async () => {
    await ours.executeScript(`create function two() returns int4 language plpgsql as $$ begin return 2; end; $$;
      insert into parents select two()`);
    expect((await ours.queryRaw(query("select two()"))).rows).toEqual([[2]]);
    expect(await causeOf(ours.executeScript("select 1; selec"))).toMatchObject({ kind: "postgres", code: "42601" });
    await ours.executeRaw(query("delete from parents where id = 2"));
  });

  test("a parser for types of the database gets their values", async () => {
    const seen: unknown[] = [];
    const adapter = await new built.PrismaPgz(utc(url), {
      schema: "app",
      userDefinedTypeParser: async (typeOid, value, asks) => {
        seen.push(value);
        const { rows } = await asks.queryRaw(query("select typname::text from pg_type where oid = $1", [typeOid]));
        return `${rows[0]![0] as string}: ${String(value)}`;
      },
    }).connect();
    expect((await adapter.queryRaw(query("select 'happy'::mood as a, 1 as b"))).rows).toEqual([["mood: happy", 1]]);
    expect(seen).toEqual(["happy"]);
    expect(adapter.getConnectionInfo!()).toEqual({ schemaName: "app", supportsRelationJoins: true });
    await adapter.dispose();
  });

  test("a parser's result stays unchanged, whatever the value was", async () => {
    const adapter = await new built.PrismaPgz(utc(url), {
      userDefinedTypeParser: (_, value) => Promise.resolve(`parsed ${JSON.stringify(value)}`),
    }).connect();
    const asked = query(
      `select (1, 'x')::pair as a, '{happy,"so so"}'::mood[] as b, null::pair as c, '{a}'::name[] as d`,
    );
    for (let run = 0; run < 2; run++) {
      const { columnTypes, rows } = await adapter.queryRaw(asked);
      expect(columnTypes).toEqual([7, 7, 7, 11]);
      expect(rows).toEqual([['parsed {"a":1,"b":"x"}', 'parsed ["happy","so so"]', "parsed null", '["a"]']]);
    }
    await adapter.dispose();
  });

  test("an option that does not exist is refused", () => {
    expect(() => new built.PrismaPgz(url, { statementNameGenerator: () => "x" } as object)).toThrow(
      "statementNameGenerator",
    );
  });
});
