// What ends an output, so that its reader knows that nothing is missing: the mark of NDJSON, and the two bytes that
// older servers take for the end of a COPY in CSV.
import type { Cases } from "../context.ts";
import { text } from "./helpers.ts";

const THREE = "select g as id from generate_series(1, 3) as g";
const ROWS = '{"id":1}\n{"id":2}\n{"id":3}\n';
const mark = (rows: number) => `{"$end":{"rows":${rows}}}\n`;
const endMark = true;

export const endMarks: Cases = {
  async "with endMark the last line of NDJSON says how many rows there were"(t) {
    const client = await t.client();
    await client.exec("create temp table marked (id int4)");
    for (const [sql, expected] of [
      [THREE, ROWS + mark(3)],
      [`${THREE} where g > 3`, mark(0)],
      ["insert into marked select generate_series(1, 5)", mark(0)],
      ["insert into marked values (1), (2), (3) returning id", ROWS + mark(3)],
    ] as const)
      for (const _ of ["first run", "known"]) {
        t.assert.equal(await text(await client.stream(sql, { endMark })), expected);
        t.assert.equal(new TextDecoder().decode(await client.json(sql, { format: "ndjson", endMark })), expected);
      }
    const zipped = (await client.respond(THREE, { endMark, gzip: true })).body!;
    const unzip = new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>;
    t.assert.equal(await text(zipped.pipeThrough(unzip)), ROWS + mark(3));
    const cut = await text(await client.stream(THREE, { endMark, maxRows: 2, onLimit: "truncate" }));
    t.assert.equal(cut, `{"id":1}\n{"id":2}\n{"$truncated":{"limit":"rows","value":2,"rows":2}}\n${mark(2)}`);
    await t.assert.code(client.stream(THREE, { endMark, maxRows: 2 }).then(text), "RESPONSE_TOO_LARGE");
  },
  async "a format without a place for the mark, and a column of its name, are refused"(t) {
    const client = await t.client();
    for (const format of ["json", "columnar", "csv", "toon"] as const)
      await t.assert.code(client.stream(THREE, { format, endMark }), "INVALID_OPTION");
    await t.assert.code(client.json(THREE, { endMark }), "INVALID_OPTION");
    const named = 'select 1 as "$end"';
    await t.assert.code(client.json(named, { format: "ndjson", endMark }), "DUPLICATE_COLUMN");
    t.assert.equal(await text(await client.stream(named)), '{"$end":1}\n');
  },
  async "rows of CSV that look like the end of a COPY are all read by the server"(t) {
    const client = await t.client();
    const texts = ["a", "\\.", "b\\.", "\\.c", "d"];
    await client.exec("create temp table dots (t text)");
    const csv = await client.json(t.pgz.sql`select unnest(${texts}::text[]) as t`, { format: "csv", header: false });
    t.assert.equal((await client.copyFrom("copy dots from stdin (format csv)", csv)).rowCount, texts.length);
    await t.assert.rows(client.query("select array_agg(t) as all from dots"), [{ all: texts }]);
  },
};
