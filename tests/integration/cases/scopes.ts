// A scope gives each of its calls settings and a role, here on a real server: what holds inside, that nothing remains
// afterwards, and what cannot run there.
import type { Client } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { abortedAt, codeOf, newMark, newSchema, rowsOf, text } from "./helpers.ts";

const TENANT = "select current_setting('app.tenant', true) as tenant, current_user::text as role";

/**
 * Checks what the client itself sees: no tenant, and its own role. After such a setting has been reset it is an empty
 * text.
 */
async function expectNothingLeft(t: Context, client: Client, when: string): Promise<void> {
  const { rows } = await client.query<{ tenant: string | null; role: string }>(TENANT);
  t.assert.deepEqual([rows[0]!.tenant || null, rows[0]!.role], [null, t.options.user], when);
}

/** Checks that the call throws or rejects with this code. */
async function expectCode(t: Context, code: string, what: string, call: () => unknown): Promise<void> {
  const error = await (async () => call())().then(
    () => undefined,
    (error: { code: string }) => error,
  );
  t.assert.equal(error?.code, code, what);
}

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const row of rows) seen.push(row);
  return seen;
}

/** Creates a role that the login role may assume, and a table whose policy shows each tenant its own rows. */
async function newTenants(t: Context): Promise<[client: Client, table: string, role: string]> {
  const [client, schema] = await newSchema(t);
  const role = `role_${schema}`;
  await t.side(`create role ${role}; grant ${role} to ${t.options.user}`);
  t.after(async () => {
    await client.simple(`drop table ${schema}.t; revoke all on schema ${schema} from ${role}`);
    await t.side(`drop role ${role}`);
  });
  await client.simple(`
    create table ${schema}.t (tenant int4, n int4);
    insert into ${schema}.t select tenant, n from generate_series(1, 3) tenant, generate_series(1, 5) n;
    alter table ${schema}.t enable row level security;
    create policy own on ${schema}.t using (tenant = current_setting('app.tenant')::int4);
    grant usage on schema ${schema} to ${role};
    grant select, insert, update, delete on ${schema}.t to ${role};`);
  return [client, `${schema}.t`, role];
}

export const scopes: Cases = {
  async "a text with the words that detect Citus is the caller's own error, and changes nothing for scopes"(t) {
    const client = await t.client();
    const scope = client.scope({ settings: { "app.tenant": 1 } });
    const literal = "select 'pgz_citus '::int4";
    const value = ["pgz_citus "];
    for (const call of [
      () => client.query(literal),
      () => client.describe(literal),
      () => client.query("select $1::text::int4", value),
      () =>
        client.batch([
          { text: "select 1", values: [] },
          { text: literal, values: [] },
        ]),
      () => scope.query(literal),
      () => scope.query("select $1::text::int4", value),
      () => scope.transaction((tx) => tx.query(literal)),
      () =>
        scope.batch([
          { text: "select 1", values: [] },
          { text: literal, values: [] },
        ]),
    ])
      for (const run of ["first", "second"]) await expectCode(t, "22P02", `${call} ${run}`, call);
    t.assert.equal((await scope.query<{ tenant: string }>(TENANT)).rows[0]!.tenant, "1");
  },
  "a scope's settings and role hold for its own call, whether new or known, and for no call after it": {
    ownServer: true,
    async run(t) {
      const [client, table, role] = await newTenants(t);
      const { sql } = t.pgz;
      const count = sql`select ${7}::int4 as seven, tenant, count(*)::int4 as n from ${sql.unsafe(table)} group by 2`;
      for (const tenant of [1, 2, 3, 1]) {
        const scope = client.scope({ settings: { "app.tenant": tenant }, role });
        await t.assert.rows(scope.query(count), [{ seven: 7, tenant, n: 5 }]);
        await t.assert.rows(scope.query(TENANT), [{ tenant: String(tenant), role }]);
        await expectNothingLeft(t, client, `behind tenant ${tenant}`);
      }
      // The owner sees all rows, with the same text.
      t.assert.equal((await client.query(count)).rows.length, 3);
    },
  },
  "calls of several scopes and of their client, made together, each see their own tenant": {
    ownServer: true,
    async run(t) {
      const [client, table, role] = await newTenants(t);
      const { sql } = t.pgz;
      const own = sql`select array_agg(distinct tenant) as tenants from ${sql.unsafe(table)}`;
      for (let round = 0; round < 3; round++) {
        const calls = [1, 2, 3].flatMap((tenant) => {
          const scope = client.scope({ settings: { "app.tenant": tenant }, role });
          return [scope.query(own), client.query(own), scope.query("select 1 / 0").catch(() => ({ rows: [] }))];
        });
        const all = [{ tenants: [1, 2, 3] }];
        t.assert.deepEqual(
          rowsOf(await Promise.all(calls)),
          [1, 2, 3].flatMap((tenant) => [[{ tenants: [tenant] }], all, []]),
        );
      }
    },
  },
  "a scope leaves nothing after an error, a cap, an abort, a timeout or an abandoned stream": {
    differs: ["streams", "timers"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const scope = client.scope({ settings: { "app.tenant": "left" } });
      const mark = newMark();
      const failing: [string, () => Promise<unknown>, string][] = [
        ["a new statement that fails", () => scope.query("select 1 / 0 as new"), "22012"],
        ["one that is no SQL", () => scope.query("selec 1"), "42601"],
        ["a value that fits no parameter", () => scope.query(sql`select ${"x"}::int4`), "INVALID_PARAMETER"],
        ["a cap", () => scope.query("select generate_series(1, 100)", { maxRows: 10 }), "RESPONSE_TOO_LARGE"],
        ["a timeout", () => scope.query("select pg_sleep(10)", { timeout: 50 }), "QUERY_TIMEOUT"],
        ["an abort", () => scope.exec(`select pg_sleep(60) /* ${mark} */`, { signal: abortedAt(t, mark) }), "ABORTED"],
        ["a statement_timeout", () => slow(client).query("select pg_sleep(10)"), "57014"],
        ["a role that is not", () => client.scope({ role: "nobody at all" }).query("select 1"), "22023"],
        ["a setting that is not", () => client.scope({ settings: { no_such: 1 } }).query("select 1"), "42704"],
      ];
      for (let round = 0; round < 2; round++)
        for (const [when, call, code] of failing) {
          await expectCode(t, code, when, call);
          await expectNothingLeft(t, client, when);
        }
      for await (const row of scope.rows<{ tenant: string }>(`${TENANT} from generate_series(1, 100000)`)) {
        t.assert.equal(row.tenant, "left");
        break;
      }
      await expectNothingLeft(t, client, "a loop that is left");
      const stream = await scope.stream(`${TENANT} from generate_series(1, 100000)`);
      await stream.cancel();
      await expectNothingLeft(t, client, "a stream that is left");
    },
  },
  async "every kind of call works in a scope: json, stream, rows, cursor, batches, prepared statements"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const scope = client.scope({ settings: { "app.tenant": 'it\'s \\ "quoted"' } });
    const tenant = 'it\'s \\ "quoted"';
    const query = "select current_setting('app.tenant', true) as tenant";
    for (let round = 0; round < 2; round++) {
      const row = { tenant };
      await t.assert.rows(scope.query(query), [row]);
      t.assert.deepEqual(JSON.parse(new TextDecoder().decode(await scope.json(query))), [row]);
      t.assert.equal(await text(await scope.stream(query)), `${JSON.stringify(row)}\n`);
      t.assert.deepEqual(await (await scope.respond(query, { format: "json" })).json(), [row]);
      t.assert.deepEqual(await all(scope.rows(query)), [row]);
      t.assert.deepEqual(await all(scope.cursor(`${query} from generate_series(1, 3)`, 2)), [[row, row], [row]]);
      t.assert.equal((await scope.exec(query)).rowCount, 1);
      const several = [query, sql`select ${round}::int4 as n`, query];
      const atomic = await scope.batch(several);
      t.assert.deepEqual(rowsOf(atomic), [[row], [{ n: round }], [row]]);
      const isolated = await scope.batch([query, "select 1 / 0", query, query], { atomic: false });
      t.assert.deepEqual(rowsOf(isolated), [[row], "22012", [row], [row]]);
      const prepared = await scope.prepare(query);
      await t.assert.rows(prepared.query(), [row]);
      await expectNothingLeft(t, client, "behind all of them");
    }
  },
  async "with a schema per tenant, the same text has other types in other scopes"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    await client.simple(`create schema ${schema}_b;
          create table ${schema}.t (v int4, w text); insert into ${schema}.t values (1, 'x');
          create table ${schema}_b.t (v text[]); insert into ${schema}_b.t values ('{a,b}')`);
    try {
      const a = client.scope({ settings: { search_path: schema } });
      const b = client.scope({ settings: { search_path: `${schema}_b` } });
      for (let round = 0; round < 3; round++) {
        await t.assert.rows(a.query("select * from t"), [{ v: 1, w: "x" }]);
        await t.assert.rows(b.query("select * from t"), [{ v: ["a", "b"] }]);
        await t.assert.rows(a.query(sql`select v from t where v = ${"1"}`), [{ v: 1 }]);
        await t.assert.rows(b.query(sql`select v from t where v = ${["a", "b"]}`), [{ v: ["a", "b"] }]);
        t.assert.deepEqual((await a.describe("select v from t")).fields[0]!.typeOid, 23);
        t.assert.deepEqual((await b.describe("select v from t")).fields[0]!.typeOid, 1009);
      }
    } finally {
      await client.exec(`drop schema ${schema}_b cascade`);
    }
  },
  async "a text that the server reads by a setting is read anew in a scope with another setting"(t) {
    const client = await t.client({ prepare: "named", startup: { TimeZone: "UTC" } });
    const query = "select extract(epoch from '2026-01-01 00:00'::timestamptz)::int4 as s, 1 as n";
    const tokyo = client.scope({ settings: { TimeZone: "Asia/Tokyo" } });
    const utc = { s: 1767225600, n: 1 };
    for (let round = 0; round < 3; round++) {
      await t.assert.rows(client.query(query), [utc]);
      await t.assert.rows(tokyo.query(query), [{ ...utc, s: utc.s - 9 * 3600 }]);
    }
  },
  async "rows are the same in a scope whose settings change how text is written"(t) {
    const client = await t.client();
    const query = "select '2026-02-01'::date as d, '1 day 2 h'::interval as i, 0.1::float4 as f, 1::float8 / 3 as g";
    const expected = (await client.query(query)).rows;
    const settings = { DateStyle: "German, DMY", IntervalStyle: "sql_standard", extra_float_digits: -3 };
    for (let round = 0; round < 4; round++) await t.assert.rows(client.scope({ settings }).query(query), expected);
  },
  "scope.transaction keeps the settings from the first statement to the end, in savepoints and retries too": {
    ownServer: true,
    async run(t) {
      const [client, table, role] = await newTenants(t);
      const { sql } = t.pgz;
      const from = sql.unsafe(table);
      const scope = client.scope({ settings: { "app.tenant": 2 }, role });
      const conflict = `${table}_conflict`;
      await client.exec(`create function ${conflict}() returns void language plpgsql
          as $$ begin raise exception 'a conflict' using errcode = '40001'; end $$`);
      const count = sql`select count(*)::int4 as n, max(tenant) as tenant from ${from}`;
      const result = await scope
        .transaction(async (tx) => {
          await tx.exec(sql`update ${from} set n = n + 100`);
          await tx
            .transaction(async (inner) => {
              await t.assert.rows(inner.query(count), [{ n: 5, tenant: 2 }]);
              await inner.exec(sql`insert into ${from} values (3, 3)`);
            })
            .catch((error: { code: string }) => t.assert.equal(error.code, "42501", "the policy refuses the row"));
          await t.assert.rows(tx.query(count), [{ n: 5, tenant: 2 }]);
          await tx.copyFrom(`copy ${table} (tenant, n) from stdin`, "2\t9\n").catch((error: { code: string }) => {
            t.assert.equal(error.code, "0A000", "PostgreSQL refuses COPY FROM with row-level security");
          });
          return 1;
        })
        .catch((error: { code: string }) => error.code);
      t.assert.equal(result, "TRANSACTION_ROLLED_BACK", "COPY's error was caught outside of a savepoint");
      await expectNothingLeft(t, client, "behind a transaction");

      let attempts = 0;
      await scope.transaction(
        async (tx) => {
          await t.assert.rows(tx.query(count), [{ n: 5, tenant: 2 }], `attempt ${++attempts}`);
          if (attempts < 2) await tx.query(sql`select ${sql.unsafe(conflict)}()`);
        },
        { retry: true },
      );
      t.assert.equal(attempts, 2);
      const [one, two] = await scope.transaction(async (tx) => [
        await tx.query(count),
        await tx.last<{ tenant: string }>("select current_setting('app.tenant') as tenant"),
      ]);
      t.assert.deepEqual([one!.rows, two!.rows], [[{ n: 5, tenant: 2 }], [{ tenant: "2" }]]);
      // This transaction begins with a call that does not use the extended protocol.
      const streamed = await scope.transaction(async (tx) => text(await tx.copyTo(`copy (${count.text}) to stdout`)));
      t.assert.equal(streamed, "5\t2\n");
      await expectNothingLeft(t, client, "behind four transactions");
    },
  },
  async "a transaction in a scope whose settings fail does nothing and reports why"(t) {
    const client = await t.client();
    for (const known of [false, true]) {
      const scope = client.scope({ settings: { "app.tenant": 1 }, role: "nobody at all" });
      await expectCode(t, "22023", `known: ${known}`, () => scope.transaction((tx) => tx.query("select 1 as n")));
      const swallowed = scope.transaction((tx) => tx.query("select 1 as n").catch(() => undefined));
      await t.assert.code(swallowed, "TRANSACTION_ROLLED_BACK");
      await t.assert.code(scope.batch(["select 1 as n", "select 2 as n"]), "22023");
      const [isolated] = await scope.batch(["select 1 as n"], { atomic: false });
      t.assert.equal((isolated as PromiseRejectedResult).reason.code, "22023");
      await t.assert.code(scope.describe("select 3 as n"), "22023");
      await expectNothingLeft(t, client, "behind a role that is not");
      await client.batch(["select 1 as n", "select 2 as n"]);
    }
  },
  async "a call that cannot run in a scope is refused and not sent"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const scope = client.scope({ settings: { "app.tenant": 1 } });
    const before = client.stats().writes;
    const refused = { code: "NOT_IN_SCOPE" };
    for (const statement of [
      "begin",
      "START TRANSACTION",
      "/* a comment */ commit",
      "-- one more\n rollback",
      ";end",
      "savepoint a",
      "call p()",
      "do $$ begin end $$",
      "listen a",
      "set app.tenant = '2'",
      "set local.tenant = '2'",
      "set constraints.tenant = '2'",
      "set role none",
      "reset role",
      "discard all",
      "vacuum",
      "/* /* */ select */ commit",
      "/**//* ; */-- \r reset role",
      "/*/**/*/set role none",
      "/* /* */ */ do $$ begin end $$",
      "set local role none",
      "SET LOCAL ROLE 'None'",
      'set local "ROLE" to "none"',
      "set local role 'no' -- a\n'ne'",
      `set local U&"r!006fle" uescape E'\\x21' to none`,
      "set local role = default",
      "set local role E'n\\157ne'",
      "set local session authorization default",
    ]) {
      const refuses = (call: () => unknown) => expectCode(t, "NOT_IN_SCOPE", statement, call);
      await refuses(() => scope.query(statement));
      await refuses(() => scope.exec(statement));
      await refuses(() => scope.batch(["select 1", statement]));
      await refuses(() => scope.transaction((tx) => tx.exec(statement)));
    }
    await t.assert.rejects(scope.simple("select 1"), refused);
    await t.assert.rejects(
      scope.transaction((tx) => tx.simple("commit; select 1")),
      refused,
    );
    await t.assert.rejects(scope.copyFrom("copy t from stdin", "1"), refused);
    await t.assert.rejects(scope.copyFromRows("t", ["a"], [[1]]), refused);
    await t.assert.rejects(scope.copyTo("copy t to stdout"), refused);
    await expectCode(t, "NOT_IN_SCOPE", "copyToRows", () => scope.copyToRows("select 1"));
    t.assert.equal(client.stats().writes, before);
    await t.assert.rows(scope.query(sql`select ${1}::int4 as "set"`), [{ set: 1 }]);
    await scope.batch(["set local app.more = '1'", "select 1"]);
    // These are sent, and the server refuses them.
    await t.assert.code(scope.batch(["/* /* */ */ set local role no_such_role"]), "22023");
    for (const role of ["none", "NONE", '"none"', " none "])
      await expectCode(t, "INVALID_OPTION", role, async () => client.scope({ role }));
    await t.assert.code(scope.exec("create index concurrently on pg_class (relname)"), "25001");
    await expectNothingLeft(t, client, "what the server refuses");

    await client.exec("begin");
    await t.assert.code(scope.query("select 1"), "TRANSACTION_OPEN");
    t.assert.equal(await codeOf(scope.transaction((tx) => tx.query("select 1"))), "TRANSACTION_OPEN");
    await client.exec("rollback");
  },
  async "a scope without a tenant is refused"(t) {
    const client = await t.client();
    const make = (options: unknown) => () => client.scope(options as Parameters<Client["scope"]>[0]);
    for (const options of [
      {},
      undefined,
      { settings: {} },
      { settings: { "app.tenant": undefined } },
      { settings: { "app.tenant": null } },
      { settings: { "app.tenant": "\0" } },
      { settings: { "app.tenant": {} } },
      { settings: { role: "x" } },
      { settings: { Client_Encoding: "LATIN1" } },
      { settings: { SEED: 0.5 } },
      { settings: { "": "x" } },
      { settings: "x" },
      { role: "" },
      { role: null },
    ])
      await expectCode(t, "INVALID_OPTION", JSON.stringify(options), make(options));
    await expectCode(t, "UNKNOWN_OPTION", "setting", make({ setting: { "app.tenant": 1 } }));
    await t.assert.rows(
      client
        .scope({ settings: { "app.a": true, "app.b": 2n, "app.c": "" } })
        .query("select current_setting('app.a') as a, current_setting('app.b') as b, current_setting('app.c') as c"),
      [{ a: "true", b: "2", c: "" }],
    );
  },
};

const slow = (client: Client) => client.scope({ settings: { statement_timeout: "50ms", "app.tenant": "left" } });
