// Mistakes of the caller: each gives a typed error before anything is sent, and the connection is unchanged.
import type { Cases, Context } from "../context.ts";

const sound = (t: Context, client: { query(text: string): Promise<{ rows: unknown[] }> }) =>
  client.query("select 1 as a").then(({ rows }) => t.assert.deepEqual(rows, [{ a: 1 }]));

export const usage: Cases = {
  async "SQL that the server refuses is a PostgresError with its fields"(t) {
    const client = await t.client();
    const syntax = await t.assert.rejects(client.query("selec 1"), {
      code: "42601",
      position: "1",
      severity: "ERROR",
      committed: false,
    });
    t.assert(syntax instanceof t.pgz.PostgresError, "a PostgresError");
    await t.assert.code(client.query("select * from no_such_table"), "42P01");
    await client.exec("create temp table uniq (id int4 primary key)");
    await client.exec("insert into uniq values (1)");
    const unique = await t.assert.rejects(client.exec("insert into uniq values (1)"), {
      code: "23505",
      table: "uniq",
      constraint: "uniq_pkey",
    });
    t.assert.equal((unique as { isUniqueViolation?: unknown }).isUniqueViolation, true);
    await sound(t, client);
  },
  async "query, rows and exec accept a text and its values, as pg does"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const text = "select $1::int4 as a, $2::text as b";
    await t.assert.rows(client.query(text, [1, "x"]), [{ a: 1, b: "x" }]);
    await t.assert.rows(client.query(text, [1, null], { rowMode: "array" }), [[1, null]]);
    const rows = [];
    for await (const row of client.rows(text, [2, "y"])) rows.push(row);
    t.assert.deepEqual(rows, [{ a: 2, b: "y" }]);
    t.assert.deepEqual(await client.exec(text, [3, "z"]), { command: "SELECT", rowCount: 1 });
    const whole = sql.unsafe("select $2::int4 as a, $1::text as b, $2 + 1 as c", ["w", 4]);
    await t.assert.rows(client.query(whole), [{ a: 4, b: "w", c: 5 }]);
    t.assert.deepEqual((await client.batch([whole]))[0]!.rows, [{ a: 4, b: "w", c: 5 }]);
    await client.exec("create temp table single (a int4, b text)");
    await client.exec(sql`insert into single ${sql.values({ a: 5, b: "v" })}`);
    await t.assert.rows(client.query("select * from single where a = $1", [5]), [{ a: 5, b: "v" }]);
  },
  async "a name that the server would cut is refused, and one that it keeps is the name of one thing"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    // 11 bytes and 26 letters of two bytes.
    const longest = `${Math.random().toString(36).slice(2, 13).padEnd(11, "_")}${"é".repeat(26)}`;
    const long = `${longest}b`;
    await t.assert.code(client.listen(long), "INVALID_QUERY");
    await t.assert.code(client.copyFromRows(long, ["a"], []), "INVALID_QUERY");
    await t.assert.code(client.copyFromRows("t", [long], []), "INVALID_QUERY");
    const scoped = async () => client.scope({ role: long });
    await t.assert.code(scoped(), "INVALID_OPTION");
    const channel = await client.listen(longest);
    await client.notify(longest, "to me");
    for await (const { channel: name, payload } of channel) {
      t.assert.deepEqual([name, payload], [longest, "to me"]);
      break;
    }
    await t.assert.rows(client.query(sql`select 1 as ${sql.identifier(longest)}`), [{ [longest]: 1 }]);
  },
  async "a mistake that the SQL shows is answered with advice"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    for (const [query, advice] of [
      [sql`select 1 where 1 in ${[1, 2]}`, /= any\(\$1\).*sql\.in/],
      [sql`select * from ${"pg_class"}`, /sql\.identifier/],
      [sql`select now() - interval ${"1 day"}`, /\$1::interval/],
      [sql`set work_mem = ${"4MB"}`, /set_config/],
      [sql`vacuum ${"t"}`, /takes no parameters/],
      [sql`select 1 ${false}`, /without &&/],
      [sql`select 1 ${null}`, /without &&/],
      [sql`insert into t ${{ a: 1 }}`, /sql\.values\(rows\)/],
      [sql`insert into t ${[{ a: 1 }]}`, /sql\.values\(rows\)/],
      [sql`insert into t ${[1, 2]}`, /stands for a value/],
      [sql`select * from ${new Date(0)}`, /stands for a value/],
      ["select 1; select 2", /simple\(\)/],
    ] as const) {
      const error = await t.assert.code(client.query(query), "42601");
      t.assert.match(String(error.advice), advice);
      t.assert((error.stack ?? "").includes(`ADVICE: ${String(error.advice)}\n`), "the stack has it");
    }
    for (const [text, advice] of [
      ["select 1 where 1 = ?", /\$1, \$2/],
      ["select * from (values (?, ?)) as v", /\$1, \$2/],
      ["select 1 where 1 = :id", /: is not a placeholder/],
      ["select 1 where 1 = %s", /% is not a placeholder/],
      ["select 1 where 1 = %(id)s", /% is not a placeholder/],
      ["select 1 where 1 = @p1", /@ is not a placeholder/],
      ["select 'it is $1'", /Within quotes/],
      ["select $$ $2 $$, '%$1%'", /Within quotes/],
    ] as const) {
      const error = await t.assert.rejects(client.query(text, [1]));
      t.assert.match(String(error.advice), advice);
    }
    for (const misnamed of [
      () => client.copyFromRows("public.pgz_none", ["a"], [[1]]),
      () => client.query(sql`select * from ${sql.identifier("public.pgz_none")}`),
    ]) {
      const error = await t.assert.code(misnamed(), "42P01");
      t.assert.match(String(error.advice), /sql\.identifier\("schema", "table"\)/);
    }
    const absent = await t.assert.code(client.query("select * from public.pgz_none"), "42P01");
    t.assert.equal(absent.advice, undefined);
    // Question marks that are operators, and texts that do not mention placeholders.
    for (const text of [
      ...["select '{}'::jsonb ? $1 from", "select '?' from", "select '$1' from"],
      ...["select '{}'::jsonb ? 'a' from t limt 5", "do $$ select $1 $$", "select '$5 off'"],
    ])
      t.assert.equal((await t.assert.rejects(client.query(text, ["a"]))).advice, undefined);
    const one = await t.assert.code(client.query("select 1 = any($1::int4[])", ["1"]), "22P02");
    t.assert.match(String(one.advice), /^This parameter takes an array/);
    const set = await t.assert.code(client.query("select 1 = any($1::int4[])", [new Set([1])]), "INVALID_PARAMETER");
    t.assert.match(set.message, /pass an array, as in \[\.\.\.values\]/);
    for (const atomic of [true, false]) {
      const batch = client.batch(["create table pgz_made (n int4)", "insert into pgz_made values (1)"], { atomic });
      const refused = atomic ? await t.assert.code(batch, "42P01") : (await batch)[1];
      const { advice } =
        "reason" in refused! ? (refused.reason as { advice?: string }) : (refused as { advice?: string });
      t.assert.match(String(advice), /describes its statements before it runs/);
    }
    await client.exec("drop table if exists pgz_made");
    const json = await t.assert.code(client.query("select $1::jsonb", ["hello"]), "22P02");
    t.assert.match(String(json.advice), /sql\.json\(value\)/);
    const promise = await t.assert.rejects(client.query("select $1::jsonb", [Promise.resolve(1)]));
    t.assert.match(promise.message, /Promise: await it first/);
    const builder = await t.assert.rejects(client.query(sql`select ${{ then: () => {} } as never}::text`));
    t.assert.match(builder.message, /await it first/);
    const made = Promise.resolve().then(() => sql.json(Promise.resolve(1)));
    await t.assert.code(made, "INVALID_PARAMETER");
    const untyped = await t.assert.rejects(client.query("select $1 is null and $1 is null", [null]));
    t.assert.match(String(untyped.advice), /\$1::text/);
    const list = await t.assert.code(client.query(sql`select 1 where 1 = ${[1, 2]}`), "INVALID_PARAMETER");
    t.assert.match(list.message, /= any\(\$1\)/);
    const hinted = await t.assert.rejects(client.query("select relnme from pg_class"));
    t.assert.match(hinted.stack ?? "", /\nHINT: .*relname/);
  },
  async "a mistake with a placeholder, a row or an array is answered with advice"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    await client.exec("create temp table advised (id int4, name text, created_at timestamptz, list int4[])");
    const row = { id: 1, name: "a" };
    const doubled = /^sql\.values writes the columns and VALUES itself/;
    for (const [query, code, advice] of [
      [sql`insert into advised (id, name) ${sql.values([row])}`, "42601", doubled],
      [sql`insert into advised values ${sql.values(row)}`, "42601", doubled],
      [sql`insert into advised (id, name) values ${sql.values([[1, "a"]])}`, "42601", doubled],
      [sql`insert into advised values (${sql.values([[1, "a"]])})`, "42601", doubled],
      [sql`insert into advised ${sql.values({ createdAt: null })}`, "42703", /sql\.snakeCase\(row\)/],
      [sql`update advised set ${sql.set({ createdAt: null })}`, "42703", /sql\.snakeCase\(row\)/],
      [sql`create temp table bad (id int4 default ${1})`, "INVALID_QUERY", /takes no parameters/],
      [sql`alter table advised add check (id > ${1})`, "INVALID_QUERY", /takes no parameters/],
      [sql`select now() - interval '${1} day'`, "INVALID_QUERY", /\$1 \* interval '1 day'/],
      [sql`select now() - '${1} day'::interval`, "INVALID_QUERY", /\$1 \* interval '1 day'/],
      [sql`select now() - interval '${1} day' where ${true}`, "42P18", /\$1 \* interval '1 day'/],
      [sql`select date '${"2020-01-01"}'`, "22007", /^Within quotes/],
      [sql`select * from advised where id = '${1}'`, "22P02", /^Within quotes/],
    ] as const) {
      const error = await t.assert.code(client.query(query), code);
      t.assert.match(String(error.advice), advice);
    }
    for (const [text, code, advice] of [
      ["select * from advised where id = @id", "INVALID_QUERY", /@ is not a placeholder/],
      ["select * from advised where name = @name", "42883", /@ is not a placeholder/],
      ["select $0", "42P02", /^Placeholders are numbered from \$1/],
      ["select $2::int4", "42P18", /^The SQL has no \$1/],
    ] as const) {
      const error = await t.assert.code(client.query(text, [1]), code);
      t.assert.match(String(error.advice), advice);
    }
    const tooLarge = await t.assert.rejects(client.query("select $99999999999", [1])); // its code depends on the version
    t.assert.match(String(tooLarge.advice), /^Placeholders are numbered from \$1/);
    // The mistake is another one: operators, columns that are nowhere, a statement without a placeholder.
    for (const text of [
      ...["select @ id from advised", "select '{}'::jsonb @> '{}'", "drop table if exists advised_none"],
      ...["update advised set created = 1", 'insert into advised (id) select "idX" from advised'],
      ...["insert into advised (id) (values (1)) limt 5", "select '{1,{2}'::int4[]"],
    ])
      t.assert.equal((await t.assert.rejects(client.query(text, ["a"]))).advice, undefined);
  },
  async "a COMMIT that fails is reported"(t) {
    const client = await t.client();
    await client.exec("create temp table late (id int4 unique deferrable initially deferred)");
    // Outside a transaction block the constraint fails at Sync, after CommandComplete.
    await t.assert.code(client.exec("insert into late values (1), (1)"), "23505");
    await sound(t, client);
  },
};
