// The output formats: their exact bytes, whole and streamed, what surrounds the rows when there are none, and how a
// limit ends each.
import type { Format, PgzError, QueryEnd } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import { canceled, newMark, series, text, unseen } from "./helpers.ts";

const ROWS = 20_000;
/**
 * Values that every format must escape somewhere: quotes, commas, line breaks, backslashes, NULL and the empty text.
 */
const TRICKY = `select g::int4 as id,
  case g % 5 when 0 then null when 1 then '' when 2 then 'a,"b"'
    when 3 then E'two\\r\\nlines' else 'back\\slash' end as "n m",
  g::int8 * 1000000007 as big, array[g, null] as list, jsonb_build_object('k', g) as meta, g % 2 = 0 as flag,
  date '2024-02-28' + g % 3 as day
  from generate_series(1, ${ROWS}) g`;
const TWO = "select * from (values (1, 'n1'), (2, 'n2')) t (id, \"n m\")";

/** The bytes of each format for the same results. A format that is missing here does not compile. */
interface Expected {
  /** Two rows of `id`, `"n m"`. */
  readonly two: string;
  /** A statement with the column `id` that finds no rows. */
  readonly none: string;
  /** Two rows without columns. */
  readonly bare: string;
  /** A statement that returns no rows. */
  readonly nothing: string;
  /** Two rows of `id`, then a cap of two rows; `null` means that the call is refused. */
  readonly truncated: string | null;
  readonly contentType: string;
}

/** The output of the formats without a truncation mark when a cap cuts them. */
const CUT: Partial<Record<Format, string>> = { toon: "[?]{id}\n1\n2\n", csv: "id\r\n1\r\n2\r\n" };

const EXPECTED: Readonly<Record<Format, Expected>> = {
  ndjson: {
    two: '{"id":1,"n m":"n1"}\n{"id":2,"n m":"n2"}\n',
    none: "",
    bare: "{}\n{}\n",
    nothing: "",
    truncated: '{"id":1}\n{"id":2}\n{"$truncated":{"limit":"rows","value":2,"rows":2}}\n',
    contentType: "application/x-ndjson; charset=utf-8",
  },
  json: {
    two: '[{"id":1,"n m":"n1"},{"id":2,"n m":"n2"}]',
    none: "[]",
    bare: "[{},{}]",
    nothing: "[]",
    truncated: '[{"id":1},{"id":2},{"$truncated":{"limit":"rows","value":2,"rows":2}}]',
    contentType: "application/json",
  },
  columnar: {
    two: '{"columns":["id","n m"],"rows":[[1,"n1"],[2,"n2"]]}',
    none: '{"columns":["id"],"rows":[]}',
    bare: '{"columns":[],"rows":[[],[]]}',
    nothing: '{"columns":[],"rows":[]}',
    truncated: '{"columns":["id"],"rows":[[1],[2]],"$truncated":{"limit":"rows","value":2,"rows":2}}',
    contentType: "application/json",
  },
  toon: {
    two: '[?]{id,"n m"}\n1,"n1"\n2,"n2"\n',
    none: "[?]{id}\n",
    bare: "[?]{}\n\n\n",
    nothing: "[?]{}\n",
    truncated: null,
    contentType: "text/plain; charset=utf-8",
  },
  csv: {
    two: "id,n m\r\n1,n1\r\n2,n2\r\n",
    none: "id\r\n",
    bare: "\r\n\r\n",
    nothing: "",
    truncated: null,
    contentType: "text/csv; charset=utf-8",
  },
};
const FORMATS = Object.keys(EXPECTED) as Format[];

export const formats: Cases = {
  "two rows, and no rows, in every format to the byte": {
    differs: ["engine"],
    async run(t) {
      const client = await t.client();
      for (const format of FORMATS) {
        const { two, none } = EXPECTED[format];
        for (const [sql, expected] of [
          [TWO, two],
          ["select 1 as id where false", none],
        ] as const) {
          t.assert.equal(await text(await client.stream(sql, { format })), expected, format);
          t.assert.equal(new TextDecoder().decode(await client.json(sql, { format })), expected, format);
        }
      }
      t.assert.equal(await text(await client.stream(TWO, { format: "csv", header: false })), "1,n1\r\n2,n2\r\n");
    },
  },
  async "rows without columns, and statements without rows, in every format"(t) {
    const client = await t.client();
    for (const format of FORMATS) {
      const { bare, nothing } = EXPECTED[format];
      const whole = async (sql: string) => text(await client.stream(sql, { format }));
      t.assert.equal(await whole("select from generate_series(1, 2)"), bare);
      t.assert.equal(await whole("set statement_timeout = 0"), nothing);
      t.assert.equal(await whole(""), nothing);
    }
  },
  async "json equals the server's own json_agg, and columnar has its rows as arrays"(t) {
    const client = await t.client();
    const rows = (await t.side(`select to_json(t)::text from (${TRICKY}) t`)).map(([row]) => row as string);
    t.assert(`[${rows.join(",")}]` === (await text(await client.stream(TRICKY, { format: "json" }))), "json");
    const parsed = rows.map((row) => Object.values(JSON.parse(row) as object));
    const columnar = JSON.parse(await text(await client.stream(TRICKY, { format: "columnar" }))) as {
      columns: string[];
      rows: unknown[][];
    };
    t.assert.deepEqual(columnar.columns, ["id", "n m", "big", "list", "meta", "flag", "day"]);
    t.assert.equal(JSON.stringify(columnar.rows), JSON.stringify(parsed));
    const toon = (await text(await client.stream(TRICKY, { format: "toon" }))).split("\n");
    t.assert.equal(toon[0], '[?]{id,"n m",big,list,meta,flag,day}');
    t.assert.equal(
      `[${toon
        .slice(1, -1)
        .map((line) => `[${line}]`)
        .join(",")}]`.replaceAll('": ', '":'),
      JSON.stringify(parsed),
    );
  },
  async "csv reads back like the server's COPY … CSV"(t) {
    const client = await t.client();
    const [header, ...ours] = readCsv(await text(await client.stream(TRICKY, { format: "csv" })));
    t.assert.deepEqual(header, ["id", "n m", "big", "list", "meta", "flag", "day"]);
    const expected = (await t.side(`select to_json(t)::text from (${TRICKY}) t`)).map(([row]) => row as string);
    t.assert.equal(ours.length, expected.length);
    for (const [index, row] of ours.entries()) {
      const cells = Object.values(JSON.parse(expected[index]!) as object).map((value) =>
        value === null
          ? null
          : typeof value === "string"
            ? value
            : Array.isArray(value)
              ? JSON.stringify(value)
              : typeof value === "object"
                ? JSON.stringify(value).replace('":', '": ')
                : String(value),
      );
      t.assert.deepEqual(row, cells, `row ${index}`);
    }
  },
  async "json with leading white space is one csv cell, whatever it contains"(t) {
    const client = await t.client();
    const sql = `select ' {"a":1,"b":2}'::json as a, ' "s"'::json as b, '"s,"'::jsonb as c,
          E'[1,\\n2]'::json as d, '7'::json as e`;
    t.assert.equal(
      await text(await client.stream(sql, { format: "csv", header: false })),
      '" {""a"":1,""b"":2}"," ""s""","""s,""","[1,2]",7\r\n',
    );
    t.assert.equal(
      await text(await client.stream(sql, { format: "toon", toon: t.pgz.standardToon })),
      '[1]{a,b,c,d,e}:\n  "{\\"a\\":1,\\"b\\":2}",s,"s,","[1,2]",7',
    );
  },
  async "csv keeps text that looks like a formula, or escapes it on request"(t) {
    const client = await t.client();
    const sql =
      `select '=1+1' as "=a", E'+"' as b, E'-\\n' as c, '@a,b' as d, E'\\t=1' as e, E'\\r=1' as f, 'a=1' as g, '' as h, ` +
      "null::text as i, '=n'::name as j, '\"=s\"'::jsonb as k, array['=1'] as l, -5 as m, -0.5::float8 as n, -1.50::numeric as o, " +
      "'-infinity'::date as p, -1::int8 as q, interval '-1 day' as r, '-7'::jsonb as s, row(1, '=x') as t";
    const names = "b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t\r\n";
    const rest = '"[""=1""]",-5,-0.5,-1.50,-infinity,-1,P-1D';
    const row = ',"{""f1"":1,""f2"":""=x""}"\r\n';
    const format = "csv";
    t.assert.equal(
      await text(await client.stream(sql, { format })),
      `=a,${names}=1+1,"+""","-\n","@a,b",\t=1,"\r=1",a=1,"",,=n,"""=s""",${rest},-7${row}`,
    );
    const escaped = `"'=a",${names}"'=1+1","'+""","'-\n","'@a,b","'\t=1","'\r=1",a=1,"",,"'=n","""=s""",${rest},"'-7"${row}`;
    const csvFormulas = "escape";
    t.assert.equal(await text(await client.stream(sql, { format, csvFormulas })), escaped);
    t.assert.equal(await (await client.respond(sql, { format, csvFormulas })).text(), escaped);
    t.assert.equal(new TextDecoder().decode(await client.json(sql, { format, csvFormulas })), escaped);
    t.assert.equal(await text(await client.stream("select '=1' as a", { csvFormulas })), '{"a":"=1"}\n');
    await t.assert.code(client.stream(sql, { format, csvFormulas: "quote" as "keep" }), "INVALID_OPTION");
  },
  async "columnNames: camelCase holds in every format and for values"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const query = `select 1 as user_id, '{"of_json": 1}'::jsonb as meta_data, 2 as _id`;
    const options = { columnNames: "camelCase" } as const;
    const row = '{"userId":1,"metaData":{"of_json": 1},"_id":2}';
    for (const [format, expected] of [
      ["ndjson", `${row}\n`],
      ["json", `[${row}]`],
      ["columnar", '{"columns":["userId","metaData","_id"],"rows":[[1,{"of_json": 1},2]]}'],
      ["toon", '[?]{userId,metaData,_id}\n1,{"of_json": 1},2\n'],
      ["csv", 'userId,metaData,_id\r\n1,"{""of_json"": 1}",2\r\n'],
    ] as const) {
      // The first run is in text, later runs are in binary.
      for (let run = 0; run < 3; run++)
        t.assert.equal(await text(await client.stream(query, { ...options, format })), expected, format);
    }
    const standard = { ...options, format: "toon", toon: t.pgz.standardToon } as const;
    t.assert.match(await text(await client.stream(query, standard)), /^\[1\]\{userId,metaData,_id\}:/);
    const { rows, fields } = await client.query(query, options);
    t.assert.deepEqual(rows, [{ userId: 1, metaData: { of_json: 1 }, _id: 2 }]);
    t.assert.equal(fields[0]!.name, "user_id");
    for await (const one of client.rows<{ userId: number }>(query, options)) t.assert.equal(one.userId, 1);
    await t.assert.rows(client.query(query), [{ user_id: 1, meta_data: { of_json: 1 }, _id: 2 }]);
    await t.assert.code(
      client.query('select 1 as a_b, 2 as "aB"', { ...options, duplicates: "error" }),
      "DUPLICATE_COLUMN",
    );

    // The option also works for a whole client, and `snakeCase` is the way back.
    await using camel = t.pgz.createClient({ ...t.options, ...options });
    await camel.exec("create temporary table people (user_id int, created_at timestamptz, line_2 text)");
    const people = [{ userId: 7, createdAt: "2024-01-02 00:00:00+00", line_2: "x" }];
    await camel.exec(sql`insert into people ${sql.values(sql.snakeCase(people))}`);
    await camel.exec(sql`update people set ${sql.set(sql.snakeCase({ userId: 8 }))}`);
    const found = await camel.query("select user_id, line_2 from people");
    t.assert.deepEqual(found.rows, [{ userId: 8, line_2: "x" }]);
    const [first] = await camel.batch(["select 1 as user_id", "select 2 as b_c"]);
    t.assert.deepEqual(first!.rows, [{ userId: 1 }]);
    const inside = await camel.transaction((tx) => tx.query("select 3 as user_id"));
    t.assert.deepEqual(inside.rows, [{ userId: 3 }]);
  },
  async "standard TOON counts its rows first"(t) {
    const client = await t.client();
    const toon = t.pgz.standardToon;
    t.assert.equal(await text(await client.stream(TWO, { format: "toon", toon })), '[2]{id,"n m"}:\n  1,n1\n  2,n2');
    const values =
      "select 0.10::numeric as a, 1e21::float8 as b, '{\"k\": [1]}'::jsonb as c, null as d, " +
      "'true' as e, 9007199254740993 as f";
    t.assert.equal(
      new TextDecoder().decode(await client.json(values, { format: "toon", toon })),
      '[1]{a,b,c,d,e,f}:\n  0.1,1e+21,"{\\"k\\": [1]}",null,"true",9007199254740993',
    );
    t.assert.equal(await (await client.respond("select 1 as a where false", { format: "toon", toon })).text(), "[0]:");
    t.assert.equal((await text(await client.stream(TRICKY, { format: "toon", toon }))).split("\n").length, ROWS + 1);
    await t.assert.rejects(client.stream(TWO, { format: "toon", toon, maxBytes: 27 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "bytes",
    });
    await t.assert.code(client.stream(TWO, { format: "toon", toon: "standard" as never }), "INVALID_OPTION");
  },
  "truncate ends the output with a mark, and the server stops": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const sql = `select g as id from ${series(500_000_000, "g")}`;
      for (const format of FORMATS) {
        const { truncated: expected } = EXPECTED[format];
        const options = { format, maxRows: 2, onLimit: "truncate" } as const;
        if (expected === null) await t.assert.code(client.stream(sql, options), "INVALID_OPTION");
        else {
          t.assert.equal(await text(await client.stream(sql, options)), expected);
          t.assert.equal(await (await client.respond(sql, options)).text(), expected);
        }
      }
      const { rows, truncated } = await client.query(sql, { maxRows: 2, onLimit: "truncate" });
      t.assert.deepEqual([rows, truncated], [[{ id: 1 }, { id: 2 }], { limit: "rows", value: 2, observed: 3 }]);
      t.assert.equal(
        await text(await client.stream(sql, { maxBytes: 20, onLimit: "truncate" })),
        '{"id":1}\n{"id":2}\n{"$truncated":{"limit":"bytes","value":20,"rows":2}}\n',
      );
      await t.assert.rows(client.query("select 1 as a", { maxRows: 1, onLimit: "truncate" }), [{ a: 1 }]);
    },
  },
  async "with an observer that is told of the cut, every format may be truncated"(t) {
    const client = await t.client();
    const sql = `select g as id from ${series(500_000_000, "g")}`;
    const ends: QueryEnd[] = [];
    const observer = { onQueryEnd: (event: QueryEnd) => void ends.push(event) };
    for (const format of FORMATS) {
      const options = { format, maxRows: 2, onLimit: "truncate", observer } as const;
      const found = await text(await client.stream(sql, options));
      t.assert.equal(found, EXPECTED[format].truncated ?? CUT[format]);
      const { truncated, rows, error } = ends.pop()!;
      t.assert.deepEqual([truncated, rows, error], [{ limit: "rows", value: 2, observed: 3 }, null, undefined]);
      t.assert((await client.json("select 1::int4 as id", options)).length > 0);
      t.assert.deepEqual([ends[0]!.truncated, ends.pop()!.rows], [undefined, 1]);
    }
    const blind = { format: "csv", maxRows: 2, onLimit: "truncate", observer: {} } as const;
    await t.assert.code(client.json(sql, blind), "INVALID_OPTION");
  },
  async "a byte cap counts what surrounds the rows, in every format"(t) {
    const client = await t.client();
    for (const format of FORMATS) {
      const whole = await client.json(TWO, { format });
      t.assert.equal((await client.json(TWO, { format, maxBytes: whole.length })).length, whole.length);
      await t.assert.rejects(client.json(TWO, { format, maxBytes: whole.length - 1 }), {
        code: "RESPONSE_TOO_LARGE",
        limit: "bytes",
        observed: whole.length,
        committed: false,
      });
      await t.assert.rejects(client.json(TWO, { format, maxRows: 1 }), {
        code: "RESPONSE_TOO_LARGE",
        limit: "rows",
        value: 1,
        observed: 2,
      });
    }
  },
  async "a cap on a field's bytes holds in every format and for objects"(t) {
    const client = await t.client();
    const sql = "select repeat('x', 100) as a, 1 as b";
    for (const format of FORMATS) {
      t.assert((await client.json(sql, { format, maxFieldBytes: 100 })).length > 100);
      await t.assert.rejects(client.json(sql, { format, maxFieldBytes: 99 }), {
        code: "RESPONSE_TOO_LARGE",
        limit: "fieldBytes",
        value: 99,
        observed: 100,
      });
    }
    await t.assert.rejects(client.query(sql, { maxFieldBytes: 99 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "fieldBytes",
    });
    t.assert.equal((await client.query(sql, { maxFieldBytes: 100 })).rows.length, 1);
  },
  async "columns of the same name are kept, renamed or refused"(t) {
    const client = await t.client();
    const sql = "select 1 as a, 2 as a, 3 as a_2, 4 as a";
    t.assert.equal(await text(await client.stream(sql)), '{"a":1,"a":2,"a_2":3,"a":4}\n');
    t.assert.equal(
      await text(await client.stream(sql, { duplicates: "rename" })),
      '{"a":1,"a_2":2,"a_2_2":3,"a_3":4}\n',
    );
    await t.assert.rows(client.query(sql, { duplicates: "rename" }), [{ a: 1, a_2: 2, a_2_2: 3, a_3: 4 }]);
    await t.assert.rows(client.query(sql), [{ a: 4, a_2: 3 }]);
    await t.assert.rejects(client.stream(sql, { duplicates: "error" }), {
      code: "DUPLICATE_COLUMN",
      committed: false,
    });
    await t.assert.code(client.query(sql, { duplicates: "error" }), "DUPLICATE_COLUMN");
    // A duplicate name may go away later: the refusal must not be remembered.
    await client.simple(
      "create temp table one_id (id int4); create temp table other_id (id int4); " +
        "insert into one_id values (1); insert into other_id values (2)",
    );
    const both = () => client.query("select * from one_id, other_id", { duplicates: "error" });
    for (let time = 0; time < 3; time++) await t.assert.code(both(), "DUPLICATE_COLUMN");
    await unseen(client, "alter table other_id rename id to other");
    for (let time = 0; time < 3; time++) await t.assert.rows(both(), [{ id: 1, other: 2 }]);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  "gzip gives the same bytes, compressed": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      const plain = await text(await client.stream(TRICKY));
      const stream = (await client.stream(TRICKY, { gzip: true })).pipeThrough(
        new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>,
      );
      t.assert((await text(stream)) === plain, "the same text");
      const response = await client.respond(TWO, { gzip: true, format: "json" });
      t.assert.equal(response.headers.get("content-encoding"), "gzip");
      t.assert.equal(
        await text(
          response.body!.pipeThrough(
            new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>,
          ),
        ),
        '[{"id":1,"n m":"n1"},{"id":2,"n m":"n2"}]',
      );
    },
  },
  "leaving a compressed stream cancels the query": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      const mark = newMark();
      const stream = await client.stream(`select /* ${mark} */ md5(g::text) as a from ${series(500_000_000, "g")}`, {
        gzip: true,
      });
      const reader = stream.getReader();
      await reader.read();
      await reader.cancel();
      await canceled(t, client, mark);
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    },
  },
  // Node's own CompressionStream threw an error that only uncaughtException sees
  // (https://github.com/nodejs/node/issues/64529); vitest fails for that.
  "a compressed stream may be left while it is read": {
    differs: ["streams"],
    async run(t) {
      for (let time = 0; time < 4; time++) {
        const client = await t.client();
        const stream = await client.stream(`select md5(g::text) as a from ${series(1_000_000, "g")}`, { gzip: true });
        const reader = stream.getReader();
        await reader.read();
        await pause(30);
        const next = reader.read();
        await reader.cancel("enough");
        // On workerd the read fails with the reason, elsewhere the stream ends.
        await next.catch((error: unknown) => t.assert.equal(t.runtime, "workerd", String(error)));
        await pause(5);
      }
    },
  },
  // workerd reports the cancel later, because its own streams carry the bytes.
  "a compressed stream that was left does not block the next call": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      const many = `select md5(g::text) as a from ${series(100_000, "g")}`;
      for (const chunks of [0, 1, 2]) {
        for (const call of ["stream", "respond"] as const) {
          const given = await client[call](many, { gzip: true });
          const reader = (given instanceof Response ? given.body! : given).getReader();
          for (let at = 0; at < chunks; at++) await reader.read();
          await reader.cancel();
          if (t.runtime === "workerd" && call === "respond")
            await until(() =>
              client.query("select 1").then(
                () => true,
                (error: PgzError) => (t.assert.equal(error.code, "STREAM_OPEN"), false),
              ),
            );
          await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }], `${call}, ${chunks} chunks`);
        }
      }
    },
  },
  "each format has its content type": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      for (const format of FORMATS) {
        const response = await client.respond(TWO, { format });
        t.assert.equal(response.headers.get("content-type"), EXPECTED[format].contentType);
        await response.text();
      }
      await t.assert.code(client.respond(TWO, { format: "xml" as "csv" }), "INVALID_OPTION");
    },
  },
  async "int8 and numeric are text in JSON on request"(t) {
    const client = await t.client();
    const sql = "select 9007199254740993::int8 as a, 0.10::numeric as b, array[1::int8] as c, 'NaN'::numeric as d";
    t.assert.equal(await text(await client.stream(sql)), '{"a":9007199254740993,"b":0.10,"c":[1],"d":"NaN"}\n');
    t.assert.equal(
      await text(await client.stream(sql, { int8: "string", numeric: "string" })),
      '{"a":"9007199254740993","b":"0.10","c":["1"],"d":"NaN"}\n',
    );
    t.assert.equal(
      await text(await client.stream(sql, { int8: "bigint" })),
      '{"a":9007199254740993,"b":0.10,"c":[1],"d":"NaN"}\n',
    );
  },
};

/** Reads CSV by RFC 4180. NULL differs from the empty text by its missing quotes. */
function readCsv(csv: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  const cell = /(?:"((?:[^"]|"")*)"|([^,\r\n"]*))(,|\r\n)/gy;
  let row: (string | null)[] = [];
  for (let match; (match = cell.exec(csv));) {
    const [, quoted, bare, end] = match;
    row.push(quoted === undefined ? bare || null : quoted.replaceAll('""', '"'));
    if (end === "\r\n") row = (rows.push(row), []);
    if (cell.lastIndex === csv.length) return rows;
  }
  throw new Error(`not CSV at ${cell.lastIndex}: ${csv.slice(cell.lastIndex, cell.lastIndex + 40)}`);
}
