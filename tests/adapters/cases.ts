// What an application does with `pg`, over pgz-edge/pg: written once, run on Node, Deno, Bun and in workerd.
//
// Each case gets the module and a URL. In addition, tests/ecosystem runs node-postgres' own tests.
import type { EventEmitter } from "node:events";
import { sql } from "../../js/statement/sql.ts";
import { assert } from "../integration/assert.ts";

const equal = assert.deepEqual;

type Pg = typeof import("../../js/adapters/pg.ts");
type Client = InstanceType<Pg["Client"]>;

type Case = (pg: Pg, url: string) => Promise<void>;

/** Returns a case with a client. */
const overClient =
  (work: (client: Client, pg: Pg, url: string) => Promise<void>, options: object = {}): Case =>
  async (pg, url) => {
    const client = new pg.Client({ connectionString: url, ...options });
    await client.connect();
    try {
      await work(client, pg, url);
    } finally {
      await client.end();
    }
  };

/** Returns the error with which a promise rejects. */
const failure = (work: Promise<unknown>) => assert.rejects(work);

const event = (emitter: EventEmitter, name: string) =>
  new Promise<Record<string, unknown>>((resolve) => emitter.once(name, resolve));

export const cases: Record<string, Case> = {
  "a query with values returns rows, fields and counts": overClient(async (client) => {
    const result = await client.query("select $1::int4 as id, $2::text as name, $3::int8 as big", [
      7,
      "Zoë",
      2n ** 60n,
    ]);
    equal(result.rows, [{ id: 7, name: "Zoë", big: "1152921504606846976" }]);
    equal([result.command, result.rowCount], ["SELECT", 1]);
    equal(
      result.fields.map(({ name, dataTypeID, format }) => [name, dataTypeID, format]),
      [
        ["id", 23, "text"],
        ["name", 25, "text"],
        ["big", 20, "text"],
      ],
    );
  }),

  "a query of the driver's sql runs, whose members are getters of private ones": overClient(async (client) => {
    const query = sql`select ${7}::int4 as id, ${{ a: [1] }}::jsonb as json, ${["x", null]}::text[] as texts`;
    const { rows } = await client.query(query as object as { text: string });
    equal(rows, [{ id: 7, json: { a: [1] }, texts: ["x", null] }]);
    equal((await client.query(query as object as { text: string }, [8, "{}", []])).rows[0]!.id, 8);
  }),

  "types are parsed as pg parses them": overClient(async (client) => {
    const { rows } = await client.query(
      `select true as b, 1.5::float8 as f, 1.50::numeric as n, '{"a":[1]}'::jsonb as j, '{1,NULL,3}'::int4[] as a,
         '{"x,y",NULL,"q\\"r"}'::text[] as t, '2024-02-29 12:00:00.25+00'::timestamptz as at,
         '\\x00ff'::bytea as bytes, '1 day 02:03:04.5'::interval as i, '(1,2)'::point as p, null::int4 as nothing`,
    );
    const { at, bytes, i, ...rest } = rows[0];
    equal(rest, {
      b: true,
      f: 1.5,
      n: "1.50",
      j: { a: [1] },
      a: [1, null, 3],
      t: ["x,y", null, 'q"r'],
      p: { x: 1, y: 2 },
      nothing: null,
    });
    equal((at as Date).toISOString(), "2024-02-29T12:00:00.250Z");
    equal([...(bytes as Uint8Array)], [0, 255]);
    equal({ ...(i as object) }, { days: 1, hours: 2, minutes: 3, seconds: 4, milliseconds: 500 });
  }),

  "values are converted as pg converts them": overClient(async (client) => {
    const at = new Date("2024-02-29T12:00:00.250Z");
    const text = "select $1::jsonb as j, $2::text[] as a, $3::bytea as b, $4::timestamptz as at, $5::text as u";
    const { rows } = await client.query(text, [{ a: 1 }, ["x", null, 'y"'], new Uint8Array([1, 2]), at, undefined]);
    equal(rows[0].j, { a: 1 });
    equal(rows[0].a, ["x", null, 'y"']);
    equal([...rows[0].b], [1, 2]);
    equal(rows[0].at.getTime(), at.getTime());
    equal(rows[0].u, null);
  }),

  "several statements in one text return several results": overClient(async (client) => {
    const results = (await client.query(
      "select 1 as a; create temp table t_several (id int4); select 2 as b",
    )) as never;
    equal(
      (results as { command: string; rows: unknown[] }[]).map(({ command, rows }) => [command, rows]),
      [
        ["SELECT", [{ a: 1 }]],
        ["CREATE", []],
        ["SELECT", [{ b: 2 }]],
      ],
    );
  }),

  "rowMode array, parsers per query and repeated names work": overClient(async (client) => {
    const types = { getTypeParser: (oid: number) => (value: string) => `${oid}:${value}` };
    const { rows } = await client.query({ text: "select 1 as a, 2 as a", rowMode: "array", types });
    equal(rows, [["23:1", "23:2"]]);
    equal((await client.query("select 1 as a, 2 as a")).rows, [{ a: 2 }]);
    equal(Object.keys((await client.query('select 1 as "__proto__"')).rows[0]), ["__proto__"]);
  }),

  "a named statement is prepared once, and its name belongs to one text": overClient(async (client) => {
    for (const id of [1, 2])
      equal((await client.query({ name: "n", text: "select $1::int4 as id", values: [id] })).rows, [{ id }]);
    equal((await client.query("select name from pg_prepared_statements")).rows, [{ name: "n" }]);
    const error = await failure(client.query({ name: "n", text: "select 2" }));
    assert(error.message.includes("Prepared statements must be unique"), error.message);
  }),

  "an error has the server's fields, and the client still works": overClient(async (client, pg) => {
    await client.query("create temp table t_error (id int4 constraint one primary key)");
    await client.query("insert into t_error values (1)");
    const error = await failure(client.query("insert into t_error values ($1)", [1]));
    assert(error instanceof pg.DatabaseError, "a DatabaseError");
    equal([error.name, error["code"], error["constraint"], error["severity"]], ["error", "23505", "one", "ERROR"]);
    equal((await client.query("select 1 as a")).rows, [{ a: 1 }]);
  }),

  "callbacks are called, and queries run in their order": overClient(async (client) => {
    const seen: unknown[] = [];
    const push = (_: unknown, result?: { rows: unknown[] }) => void seen.push(result!.rows[0]);
    client.query("select pg_sleep(0.05)", () => seen.push("first"));
    client.query("select $1::int4 as a", [2], push);
    await new Promise<void>((resolve) => client.query("select 3 as a", (...answer) => resolve(push(...answer))));
    equal(seen, ["first", { a: 2 }, { a: 3 }]);
  }),

  "notices and notifications are events": overClient(async (client) => {
    const notice = event(client, "notice");
    await client.query("do $$ begin raise notice 'hello'; end $$");
    equal((await notice)["message"], "hello");
    const notification = event(client, "notification");
    await client.query("listen facade; notify facade, 'x'");
    const { channel, payload } = await notification;
    equal([channel, payload], ["facade", "x"]);
  }),

  "rows are events when there is a listener for them": overClient(async (client, pg) => {
    const query = new pg.Query("select i from generate_series(1, 3) i");
    const rows: unknown[] = [];
    query.on("row", (row) => rows.push(row));
    const end = event(query, "end");
    client.query(query);
    equal((await end)["rowCount"], 3);
    equal(rows, [{ i: 1 }, { i: 2 }, { i: 3 }]);
  }),

  "ten thousand rows keep their values, whatever their length": overClient(async (client) => {
    const text = "select i, repeat('é', i % 90) as t, md5(i::text) as m from generate_series(1, 10000) i";
    const { rows } = await client.query(text);
    equal(rows.length, 10_000);
    const wrong = rows.filter(({ i, t, m }, index) => i !== index + 1 || t !== "é".repeat(i % 90) || m.length !== 32);
    equal(wrong, []);
  }),

  "a pipelined client sends all queries at once, and each gets its own result": overClient(
    async (client) => {
      const calls = [1, 2, 3].map((n) => client.query("select 6 / (2 - $1::int4) as n", [n]));
      const [one, two, three] = await Promise.allSettled(calls);
      equal(
        [one, three].map((settled) => settled?.status === "fulfilled" && settled.value.rows[0].n),
        [6, -6],
      );
      equal(two?.status === "rejected" && (two.reason as { code: string }).code, "22012");
    },
    { pipeline: true },
  ),

  "a password function's error is passed on unchanged": async (pg, url) => {
    const client = new pg.Client({ connectionString: url });
    const thrown = new Error("vault is sealed");
    client.password = () => Promise.reject(thrown);
    const error = await client.connect().catch((one: unknown) => one);
    equal(error === thrown, true);
  },

  "a wrong password and a refused connection are errors with their codes": async (pg, url) => {
    const wrong = new pg.Client({ connectionString: url.replace(/:[^:@/]+@/, ":wrong@") });
    equal((await failure(wrong.connect()))["code"], "28P01");
    const client = new pg.Client({ connectionString: url.replace(/:\d+\//, ":1/") });
    assert((await failure(client.connect())) instanceof Error, "an error");
  },

  "a pool lends, waits, counts and ends": async (pg, url) => {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    const told: string[] = [];
    for (const name of ["connect", "acquire", "release", "remove"]) pool.on(name, () => told.push(name));
    const [one, two] = await Promise.all([pool.connect(), pool.connect()]);
    const third = pool.connect();
    equal([pool.totalCount, pool.idleCount, pool.waitingCount], [2, 0, 1]);
    one.release();
    assert((await third) === one, "the same client");
    (await third).release();
    two.release(true);
    await pool.end();
    equal([pool.totalCount, pool.ended], [0, true]);
    equal(told.filter((name) => name === "remove").length, 2);
    assert(new pg.Pool() instanceof pg.Pool && new pg.Pool().constructor.name.includes("Pool"), "a Pool by name");
  },

  "pool.end rejects the callers that wait, and lets running queries finish": async (pg, url) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    await pool.query("select 1");
    const running = pool.connect();
    const waiting = [pool.query("select 1"), pool.connect()];
    const client = await running;
    const query = client.query("select 1 as a");
    const ended = pool.end();
    for (const error of await Promise.all(waiting.map(failure)))
      equal(error["message"], "Cannot use a pool after calling end on the pool");
    equal((await query).rows, [{ a: 1 }]);
    client.release();
    await ended;
    const unconnected = new pg.Client({ connectionString: url });
    const failed = failure(unconnected.query("select 1"));
    await unconnected.end();
    equal((await failed)["message"], "Connection terminated");
  },

  "pool.query keeps the connection after an error of the server": async (pg, url) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const before = (await pool.query("select pg_backend_pid() as pid")).rows[0].pid;
    equal((await failure(pool.query("select 1/0")))["code"], "22012");
    equal((await pool.query("select pg_backend_pid() as pid")).rows[0].pid, before);
    await failure(pool.query("begin; select 1/0"));
    assert((await pool.query("select pg_backend_pid() as pid")).rows[0].pid !== before, "not with an open transaction");
    await pool.end();
  },

  "pool.query that leaves a transaction open rejects, and its client is closed": async (pg, url) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const error = await failure(pool.query("begin"));
    assert(String(error["message"]).includes("pool.connect()"), "what to use instead");
    equal((await pool.query("select pg_current_xact_id_if_assigned() is null as it")).rows, [{ it: true }]);
    equal(((await pool.query("begin; select 1 as a; commit")) as unknown as unknown[]).length, 3);
    await pool.end();
  },

  "a lost connection rejects its query, tells the client, and the pool replaces it": async (pg, url) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    equal((await failure(pool.query("select pg_terminate_backend(pg_backend_pid())")))["code"], "57P01");
    equal((await pool.query("select 1 as a")).rows, [{ a: 1 }]);
    await pool.end();
  },

  "a query that takes too long rejects, and the next query waits for its end": overClient(async (client) => {
    const error = await failure(client.query({ text: "select pg_sleep(0.3)", query_timeout: 50 }));
    equal(error.message, "Query read timeout");
    equal((await client.query("select 1 as a")).rows, [{ a: 1 }]);
  }),

  "cancel ends the running query": overClient(async (client, pg) => {
    const query = new pg.Query("select pg_sleep(10)");
    const error = event(query, "error");
    client.query(query);
    setTimeout(() => new pg.Client().cancel(client, query), 100);
    equal((await error)["code"], "57014");
  }),

  "a query that throws in submit fails alone, and its error says how to read the socket": overClient(async (client) => {
    const told: Error[] = [];
    const reader = {
      submit: (connection: Client["connection"]) => void connection.stream.listeners("data"),
      handleError: (error: Error) => void told.push(error),
    };
    client.query(reader as never);
    equal((await client.query("select 1 as a")).rows, [{ a: 1 }]);
    assert(told.length === 1 && told[0]!.message.includes("use pgz-edge/pg-copy-streams"), String(told[0]));
  }),
};
