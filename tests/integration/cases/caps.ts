// Caps: a cap of N lets exactly N pass, the row that would cross it is never delivered, and the server is told to stop.
import type { Cases } from "../context.ts";
import { canceled, newMark, readSome, series, text } from "./helpers.ts";

export const caps: Cases = {
  async "exactly maxRows rows pass, one more is an error"(t) {
    const client = await t.client();
    t.assert.equal((await client.query("select generate_series(1, 10)", { maxRows: 10 })).rowCount, 10);
    t.assert.equal(
      (await text(await client.stream("select generate_series(1, 10)", { maxRows: 10 }))).split("\n").length,
      11,
    );
    const error = await t.assert.rejects(client.query("select generate_series(1, 11)", { maxRows: 10 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "rows",
      value: 10,
      observed: 11,
    });
    t.assert(error instanceof t.pgz.ResponseTooLargeError, "its class");
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "exactly maxBytes bytes pass; with one byte less allowed, the call fails and sends nothing"(t) {
    const client = await t.client();
    t.assert.equal((await text(await client.stream("select 1 as a", { maxBytes: 8 }))).length, 8);
    await t.assert.rejects(client.stream("select 1 as a", { maxBytes: 7 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "bytes",
      value: 7,
      observed: 8,
      committed: false,
    });
    await t.assert.code(client.respond("select 1 as a", { maxBytes: 7 }), "RESPONSE_TOO_LARGE");
  },
  "a cap reached in a long stream stops the server and lets only whole rows out": {
    differs: ["streams"],
    async run(t) {
      const client = await t.client();
      const mark = newMark();
      const { reader, text: first } = await readSome(
        await client.stream(`select /* ${mark} */ g, repeat('x', 100) as pad from ${series(50_000_000, "g")}`, {
          maxBytes: 1_000_000,
        }),
      );
      let bytes = first.length;
      await t.assert.rejects(
        (async () => {
          for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            bytes += value.length;
            t.assert.equal(value.at(-1), 0x0a);
          }
        })(),
        { code: "RESPONSE_TOO_LARGE", committed: true },
      );
      t.assert(bytes <= 1_000_000, `${bytes} bytes left`);
      await canceled(t, client, mark);
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    },
  },
  "a row over a cap is refused while it arrives, and the client remains usable": {
    differs: ["sockets"],
    async run(t) {
      const idle = await t.client();
      const client = await t.client({ firstRun: "describe" });
      const long = (type: string) => `select 1 as a, ${type} as long`;
      const text = "repeat('x', 20000000)";
      const value = 1 << 20;
      const bytes = { maxBytes: value };
      const tooLarge = (call: Promise<unknown>, limit: string, observed: number) =>
        t.assert.rejects(call, { code: "RESPONSE_TOO_LARGE", limit, value, observed, committed: false });
      // These cannot get shorter on their way out: text, and bytea and jsonb, which may differ by one byte.
      await tooLarge(client.query(long(text), bytes), "bytes", 19_999_999);
      await tooLarge(client.stream(long(`${text}::bytea`), bytes), "bytes", 19_999_999);
      await tooLarge(client.respond(long(`to_jsonb(${text})`), bytes), "bytes", 20_000_002);
      // In json, line breaks do not count, so its bytes are counted as they arrive.
      await tooLarge(client.json(long(`to_json(${text})`), bytes), "bytes", value + 1);
      await tooLarge(client.query(long(text), { maxFieldBytes: value }), "fieldBytes", 20_000_000);
      const second = "select repeat('x', case g when 1 then 1 else 20000000 end) from generate_series(1, 2) g";
      await t.assert.rejects(client.query(second, { maxRows: 1 }), { limit: "rows", observed: 2 });
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      await t.assert.rows(idle.query("select 2 as a"), [{ a: 2 }]);
    },
  },
  async "a byte cap is exact: values that get shorter on their way out pass"(t) {
    const client = await t.client();
    const passes = async (query: string, length: number) => {
      t.assert.equal((await text(await client.stream(query, { maxBytes: length }))).length, length);
      await t.assert.rejects(client.stream(query, { maxBytes: length - 1 }), { limit: "bytes", observed: length });
    };
    await passes("select repeat('x', 100000) as t", 100_009);
    await passes("select array_fill(1::int8, array[50000]) as a", 100_000 + 8);
    await passes("select ('[1' || repeat(E'\\n\\r', 100000) || ']')::json as j", 3 + 7);
    await passes("select 0::numeric(1000, 900) as n, (repeat(E'\\n', 20000) || '1')::json as j", 902 + 5 + 1 + 6 + 1);
  },
  async "rows before a refused row are delivered whole, and a truncation mark follows"(t) {
    const client = await t.client();
    const query = "select g, repeat('x', case g when 3 then 20000000 else 1 end) as t from generate_series(1, 4) g";
    const before = '{"g":1,"t":"x"}\n{"g":2,"t":"x"}\n';
    for (const cap of [{ maxFieldBytes: 1000 }, { maxBytes: 1000 }]) {
      const [limit] = Object.keys(cap).map((name) => (name === "maxBytes" ? "bytes" : "fieldBytes"));
      t.assert.equal(
        await text(await client.stream(query, { ...cap, onLimit: "truncate" })),
        `${before}{"$truncated":{"limit":"${limit}","value":1000,"rows":2}}\n`,
      );
      const { rows, truncated } = await client.query(query, { ...cap, onLimit: "truncate" });
      t.assert.deepEqual(
        [rows, truncated?.limit],
        [
          [
            { g: 1, t: "x" },
            { g: 2, t: "x" },
          ],
          limit,
        ],
      );
    }
  },
  async "copyTo refuses CopyData longer than maxFieldBytes"(t) {
    const client = await t.client();
    const copy = (length: number) => `copy (select repeat('x', ${length})) to stdout`;
    t.assert.equal((await text(await client.copyTo(copy(99), { maxFieldBytes: 100 }))).length, 100);
    await t.assert.rejects(client.copyTo(copy(100), { maxFieldBytes: 100 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "fieldBytes",
      value: 100,
      observed: 101,
    });
    await t.assert.rejects(client.copyTo(copy(20_000_000), { maxFieldBytes: 1 << 20 }), {
      limit: "fieldBytes",
      observed: 20_000_001,
    });
    await t.assert.rejects(client.copyTo(copy(20_000_000), { maxBytes: 1 << 20 }), {
      limit: "bytes",
      observed: 20_000_001,
    });
    const rows = client.copyToRows("select repeat('x', 20000000) as t", { maxFieldBytes: 1 << 20 });
    await t.assert.rejects(
      (async () => {
        for await (const row of rows) t.assert(row);
      })(),
      { limit: "fieldBytes", observed: 20_000_000 },
    );
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a message over maxMessageBytes is refused from its header"(t) {
    const client = await t.pgz.connect({ ...t.options, maxMessageBytes: 1 << 20 });
    t.assert.equal((await client.query("select length(repeat('x', 1000000)) as n")).rowCount, 1);
    const row = await t.assert.code(client.query("select repeat('x', 2000000)"), "MESSAGE_TOO_LARGE");
    t.assert.match(row.message, /select less per row/);
    const raise = client.exec("do $$ begin raise notice '%', repeat('x', 2000000); end $$");
    t.assert.match((await t.assert.code(raise, "MESSAGE_TOO_LARGE")).message, /let RAISE write less/);
    await client.close();
  },
};
