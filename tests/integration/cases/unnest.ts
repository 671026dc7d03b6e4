// Rows of any number by one text: what is stored, and that the statement is known after its first run.
import type { Cases } from "../context.ts";
import { newSchema } from "./helpers.ts";

export const unnest: Cases = {
  async "unnest inserts, updates and deletes any number of rows, each type by its values"(t) {
    const [client, schema] = await newSchema(t);
    const { sql, unnest } = t.pgz;
    await client.simple(`create type ${schema}."My mood" as enum ('sad', 'happy');
      create table ${schema}.t (id int8 primary key, b bool, f float8, m numeric(10, 2), s text, at timestamptz, u uuid,
        by bytea, j jsonb, mood ${schema}."My mood")`);
    const table = sql.identifier(schema, "t");
    const types = {
      id: "int8",
      b: "bool",
      f: "float8",
      m: sql`numeric(10, 2)`,
      s: "text",
      at: "timestamptz",
      u: "uuid",
      by: "bytea",
      j: "pg_catalog.jsonb",
      mood: sql.identifier(schema, "My mood"),
    };
    const whole = {
      id: 2n ** 62n,
      b: true,
      f: 0.1,
      m: "1.005",
      s: 'quote" comma, brace} back\\ NULL ü€𝄞',
      at: new Date(86_400_123),
      u: "00000000-0000-0000-0000-00000000000a",
      by: Uint8Array.of(0, 255),
      j: [1, { a: ["x", null] }],
      mood: "happy",
    };
    const empty = {
      ...whole,
      id: 7,
      b: null,
      f: null,
      m: null,
      s: "",
      at: null,
      u: null,
      by: null,
      j: null,
      mood: null,
    };
    const insert = (rows: (typeof whole | typeof empty)[]) =>
      client.query(sql`insert into ${table} (${sql.join(Object.keys(types).map((name) => sql.identifier(name)))})
        ${unnest(rows, types)} returning id`);
    t.assert.deepEqual((await insert([whole, empty])).rowCount, 2);
    t.assert.deepEqual((await insert([])).rowCount, 0);
    await t.assert.rows(
      client.query(`select id::text, b, f, m::text, s, at = 'epoch'::timestamptz + '86400.123 s' as at, u, by::text,
        j::text, mood::text from ${schema}.t t order by t.id`),
      [
        { id: "7", b: null, f: null, m: null, s: "", at: null, u: null, by: null, j: null, mood: null },
        {
          ...whole,
          id: String(whole.id),
          m: "1.01",
          at: true,
          by: "\\x00ff",
          j: '[1, {"a": ["x", null]}]',
        },
      ],
    );

    const changes = [
      { id: 7, s: "seven" },
      { id: 8, s: "nothing" },
    ];
    const updated = await client.query(sql`update ${table} t set s = new.s
      from ${unnest(changes, { id: "int8", s: "text" })} as new where t.id = new.id returning t.s`);
    t.assert.deepEqual(updated.rows, [{ s: "seven" }]);
    const ids = [{ id: 7 }, { id: whole.id }];
    const deleted = await client.exec(sql`delete from ${table} where id in ${unnest(ids, { id: "int8" })}`);
    t.assert.equal(deleted.rowCount, 2);
  },

  async "a composite is one column, and camelCase members become columns by sql.snakeCase"(t) {
    const [client, schema] = await newSchema(t);
    const { sql, unnest } = t.pgz;
    await client.simple(`create type ${schema}.point as (x int4, y int4);
      create table ${schema}.t (user_id int4, at ${schema}.point, n int4)`);
    const rows = sql.snakeCase([{ userId: 1, at: "(10,20)", n: 99 }]);
    const types = { user_id: "int4", at: sql.identifier(schema, "point"), n: "int4" };
    await client.exec(sql`insert into ${sql.identifier(schema, "t")} (user_id, at, n) ${unnest(rows, types)}`);
    await t.assert.rows(client.query(`select user_id, at::text, n from ${schema}.t`), [
      { user_id: 1, at: "(10,20)", n: 99 },
    ]);
  },

  async "a statement with unnest is prepared once, whatever the number of rows"(t) {
    const client = await t.client();
    const { unnest, sql } = t.pgz;
    for (const length of [2, 2, 0, 1, 3, 70_000]) {
      const rows = Array.from({ length }, (_, n) => ({ n }));
      await t.assert.rows(
        client.query(sql`select count(distinct n)::int4 as count from ${unnest(rows, { n: "int4" })} as rows`),
        [{ count: length }],
      );
    }
    await t.assert.rows(
      client.query(
        "select count(*)::int4 as n from pg_prepared_statements where statement like 'select count(distinct n)%'",
      ),
      [{ n: 1 }],
    );
  },

  async "a word that is no type with arrays fails as the server says"(t) {
    const client = await t.client();
    const { unnest, sql } = t.pgz;
    const select = (type: string) => client.query(sql`select * from ${unnest([{ a: null }], { a: type })} as rows`);
    await t.assert.code(select("nothing"), "42704");
    await t.assert.code(select("_int4"), "42704");
    await t.assert.code(select("select"), "42601");
  },
};
