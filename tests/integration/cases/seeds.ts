// Mistakes that were seen in other drivers: each probe of the seeds' lists, as a case that says what must happen here.
import type { Case } from "../context.ts";
import { inTime } from "../../support/until.mjs";
import { newMark, started, terminate, text, withClient } from "./helpers.ts";

export const seeds: Case[] = [
  {
    name: "seed 001: errors, notices, commands without rows and text beyond ASCII are ordinary results",
    differs: ["text"],
    run: (t) =>
      withClient(t, async (client) => {
        const { sql } = t.pgz;
        await t.assert.rejects(client.query("SELECT 1/0"), { code: "22012" });
        t.assert.deepEqual(await client.exec("CREATE TEMP TABLE seed (a int4)"), {
          command: "CREATE TABLE",
          rowCount: null,
        });
        await client.exec("do $$ begin raise notice 'n'; raise warning 'w'; end $$");
        t.assert.deepEqual((await client.query(sql`SELECT 'é', ${"ж😀"}::text as "ü"`)).rows, [
          { "?column?": "é", ü: "ж😀" },
        ]);
        t.assert.deepEqual((await client.query("")).rows, []);
      }),
  },
  {
    name: "seed 001: long parameters, long SQL and long rows, on a first and on a second connection",
    differs: ["text"],
    run: async (t) => {
      for (const _ of ["first", "second"]) {
        await withClient(t, async (client) => {
          const { sql } = t.pgz;
          for (const length of [4_095, 4_096, 5_000, 70_000, 1_000_000]) {
            const long = "x".repeat(length);
            t.assert.equal(
              (await client.query<{ a: string }>(sql`select ${long}::text as a`)).rows[0]?.a === long,
              true,
              String(length),
            );
            t.assert.equal((await client.query<{ a: number }>(`select /* ${long} */ 7 as a`)).rows[0]?.a, 7);
          }
          // These are larger than any buffer of those drivers, in rows and in columns.
          t.assert.equal(
            (await text(await client.stream("select repeat('x', 100000) as a from generate_series(1, 20)"))).length,
            20 * (100_000 + '{"a":""}\n'.length),
          );
          const wide = Array.from({ length: 1_600 }, (_, index) => `${index} as c${index}`).join();
          t.assert.equal(
            Object.keys((await client.query<Record<string, unknown>>(`select ${wide}`)).rows[0]!).length,
            1_600,
          );
        });
      }
    },
  },
  {
    name: "seed 001: every type has a value, arrays keep their elements and shape, and numbers their digits",
    run: (t) =>
      withClient(t, async (client) => {
        const { sql } = t.pgz;
        const { rows } = await client.query(sql`select 'v'::varchar as v, 'b'::char(3) as b, interval '1 day' as i,
          time '01:02:03' as t, inet '10.0.0.1' as n, ${[10, 20, 30]}::int4[] as a,
          '{{1,2},{3,4}}'::int4[] as m, '{}'::int4[] as e, array[1,null]::int4[] as h, 9007199254740993::int8 as l,
          12345678901234567890.12345::numeric as d, 'infinity'::timestamptz as f,
          'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid as u, null::varchar as z`);
        t.assert.deepEqual(rows, [
          {
            v: "v",
            b: "b  ",
            i: "P1D",
            t: "01:02:03",
            n: "10.0.0.1",
            a: [10, 20, 30],
            m: [
              [1, 2],
              [3, 4],
            ],
            e: [],
            h: [1, null],
            l: "9007199254740993",
            d: "12345678901234567890.12345",
            f: "infinity",
            u: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            z: null,
          },
        ]);
      }),
  },
  {
    name: "seed 001: column names are never code",
    run: (t) =>
      withClient(t, async (client) => {
        for (const name of [
          "a\\",
          "a'b",
          'a"b',
          "`${1}`",
          "constructor",
          "__proto__",
          "a\nb",
          "\u2028",
          "'];throw 1;['",
        ]) {
          const { rows } = await client.query<Record<string, unknown>>(
            t.pgz.sql`select 7 as ${t.pgz.sql.identifier(name)}`,
          );
          t.assert.deepEqual(Object.entries(rows[0]!), [[name, 7]] as never);
          t.assert.deepEqual(
            JSON.parse(
              await text(await client.stream(t.pgz.sql`select 7 as ${t.pgz.sql.identifier(name)}`)),
            ) as unknown,
            JSON.parse(`{${JSON.stringify(name)}:7}`),
          );
        }
      }),
  },
  {
    name: "seeds 001 and 002: concurrent calls take turns, and an error spoils no other call",
    run: (t) =>
      withClient(t, async (client) => {
        const { sql } = t.pgz;
        const calls = Array.from({ length: 60 }, (_, index) =>
          (index % 7 === 3
            ? client.query("select 1/0")
            : client.query<{ n: number }>(sql`select ${index}::int4 as n`)
          ).then(
            ({ rows }) => (rows[0] as { n: number }).n,
            (error: { code: string }) => error.code,
          ),
        );
        t.assert.deepEqual(
          await Promise.all(calls),
          Array.from({ length: 60 }, (_, index) => (index % 7 === 3 ? "22012" : index)),
        );
      }),
  },
  {
    name: "seed 001: a terminated backend, and close() during a call, are errors of that call",
    ownServer: true,
    run: async (t) => {
      const client = await t.pgz.connect(t.options);
      const [row] = (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
      const mark = newMark(t);
      const sleeping = client.query(`select pg_sleep(60) /* ${mark} */`).then(
        () => "done",
        (error: { code: string }) => error.code,
      );
      await started(t, mark);
      await terminate(t, row!.pid);
      t.assert.equal(/^(57P01|CONNECTION_LOST)$/.test(await sleeping), true);
      await client.close();
      const other = await t.pgz.connect(t.options);
      const another = newMark(t);
      const closed = other.query(`select pg_sleep(60) /* ${another} */`).then(
        () => "done",
        (error: { code: string }) => error.code,
      );
      await started(t, another);
      await inTime(other.close());
      t.assert.equal(await closed, "CLIENT_CLOSED");
    },
  },
  {
    name: "seed 001: statements with new texts do not pile up on the server",
    run: (t) =>
      withClient(
        t,
        async (client) => {
          for (let index = 0; index < 40; index++)
            for (const _ of ["once", "twice"]) await client.query(`select ${index} as a`);
          const { rows } = await client.query<{ n: number }>("select count(*)::int4 as n from pg_prepared_statements");
          t.assert.equal(rows[0]!.n <= 5, true, String(rows[0]!.n));
        },
        { statementCacheSize: 4 },
      ),
  },
];
