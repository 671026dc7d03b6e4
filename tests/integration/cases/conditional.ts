// Answers with an ETag: what a request gets that has the tag, in the form in which the runtime gives it.
import type { Cases, Context } from "../context.ts";
import { canceled, newMark, newSchema, series } from "./helpers.ts";

/** A tag that no answer has. */
const OTHER = 'W/"other"';
const ask = (tag?: string | null, method = "GET") =>
  new Request("https://example.com/", { method, headers: tag ? { "if-none-match": tag } : {} });

const decompressed = (response: Response) =>
  new Response(
    response.body!.pipeThrough(new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>),
  ).text();

/** A transaction, scope and pool can be asked like a client. */
async function asked(t: Context, tag: string, options: object): Promise<number[]> {
  const pool = t.pgz.createPool(t.options);
  t.after(() => pool.close());
  const get = (caller: Parameters<typeof t.pgz.conditional>[1]) =>
    t.pgz.conditional(ask(tag), caller, "select 1 as a", options).then(({ status }) => status);
  return [
    await get(pool),
    await pool.transaction((tx) => get(tx)),
    await get(pool.scope({ settings: { "app.tenant": "1" } })),
  ];
}

export const conditional: Cases = {
  async "an answer has a tag, with which the next request gets 304, until the rows change"(t) {
    const [client, schema] = await newSchema(t);
    const { conditional, sql } = t.pgz;
    await client.simple(`create table ${schema}.t (n int4); insert into ${schema}.t values (1)`);
    const query = sql`select n from ${sql.identifier(schema, "t")} order by n`;
    const options = { format: "json", headers: { "cache-control": "no-cache" } } as const;
    const first = await conditional(ask(), client, query, options);
    t.assert.equal(await first.text(), '[{"n":1}]');
    t.assert.match(first.headers.get("content-type") ?? "", /^application\/json/);
    const tag = first.headers.get("etag");
    const second = await conditional(ask(tag), client, query, options);
    t.assert.deepEqual([second.status, second.headers.get("etag"), await second.text()], [304, tag, ""]);
    t.assert.deepEqual([second.headers.get("cache-control"), second.headers.get("content-type")], ["no-cache", null]);
    await client.exec(sql`insert into ${sql.identifier(schema, "t")} values (${2})`);
    const third = await conditional(ask(tag), client, query, options);
    t.assert.deepEqual([third.status, await third.json()], [200, [{ n: 1 }, { n: 2 }]]);
  },
  async "the compressed form has the tag of the plain one, and pools, transactions and scopes answer alike"(t) {
    const client = await t.client();
    const plain = await t.pgz.conditional(ask(), client, "select 1 as a", { format: "json" });
    const tag = plain.headers.get("etag")!;
    const zipped = await t.pgz.conditional(ask(), client, "select 1 as a", { format: "json", gzip: true });
    t.assert.deepEqual([zipped.headers.get("etag"), zipped.headers.get("content-encoding")], [tag, "gzip"]);
    t.assert.equal(await decompressed(zipped), await plain.text());
    t.assert.deepEqual(await asked(t, tag, { format: "json" }), [304, 304, 304]);
  },
  async "a result above the bound comes as a stream, plain and compressed"(t) {
    const client = await t.client();
    const many = `select repeat('x', 900) as a from ${series(3_000, "g")}`;
    const line = `{"a":"${"x".repeat(900)}"}\n`;
    for (const gzip of [false, true]) {
      const response = await t.pgz.conditional(ask(OTHER), client, many, { gzip });
      t.assert.deepEqual([response.status, response.headers.get("etag")], [200, null]);
      const all = await (gzip ? decompressed(response) : response.text());
      t.assert(all === line.repeat(3_000), `gzip ${gzip}: ${all.length} characters`);
    }
  },
  "leaving such a stream cancels its query, and so does HEAD": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      for (const method of ["GET", "HEAD"]) {
        const mark = newMark();
        const endless = `select /* ${mark} */ md5(g::text) as a from ${series(500_000_000, "g")}`;
        const response = await t.pgz.conditional(ask(null, method), client, endless);
        t.assert.equal(response.status, 200);
        if (method === "GET") await response.body!.cancel();
        else t.assert.equal(response.body, null);
        await canceled(t, client, mark);
      }
    },
  },
  async "a query that fails after some rows rejects with the server's error, and no answer has begun"(t) {
    const client = await t.client();
    const query = `select 1 / (1000 - g) as a from ${series(2_000, "g")}`;
    await t.assert.code(t.pgz.conditional(ask(), client, query), "22012");
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "closeWhenDone closes the client after a 304, too"(t) {
    const [open, closed] = [await t.client(), t.pgz.createClient(t.options)];
    const tag = (await t.pgz.conditional(ask(), open, "select 1 as a")).headers.get("etag");
    const response = await t.pgz.conditional(ask(tag), closed, "select 1 as a", { closeWhenDone: true });
    t.assert.equal(response.status, 304);
    await t.assert.code(closed.query("select 1"), "CLIENT_CLOSED");
  },
};
