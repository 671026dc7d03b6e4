// Caps: exactly N passes a cap of N; the row that would cross never leaves; the server is told to stop.
import type { Case } from "../context.ts";
import { eventually, newMark, readSome, running, series, text, withClient } from "./helpers.ts";

export const caps: Case[] = [
  {
    name: "exactly maxRows rows pass, one more is an error",
    run: (t) =>
      withClient(t, async (client) => {
        t.assert.equal((await client.query("select generate_series(1, 10)", { maxRows: 10 })).rowCount, 10);
        t.assert.equal((await text(await client.stream("select generate_series(1, 10)", { maxRows: 10 }))).split("\n").length, 11);
        const error = await t.assert.rejects(client.query("select generate_series(1, 11)", { maxRows: 10 }), { code: "RESPONSE_TOO_LARGE", limit: "rows", value: 10, observed: 11 });
        t.assert(error instanceof t.pgz.ResponseTooLargeError, "its class");
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "exactly maxBytes bytes pass, one less allowed is an error with nothing sent",
    run: (t) =>
      withClient(t, async (client) => {
        t.assert.equal((await text(await client.stream("select 1 as a", { maxBytes: 8 }))).length, 8);
        await t.assert.rejects(client.stream("select 1 as a", { maxBytes: 7 }), { code: "RESPONSE_TOO_LARGE", limit: "bytes", value: 7, observed: 8, committed: false });
        await t.assert.rejects(client.respond("select 1 as a", { maxBytes: 7 }), { code: "RESPONSE_TOO_LARGE" });
      }),
  },
  {
    name: "a cap that trips in a long stream stops the server and lets only whole rows out",
    run: (t) =>
      withClient(t, async (client) => {
        const mark = newMark(t);
        const { reader, text: first } = await readSome(await client.stream(`select /* ${mark} */ g, repeat('x', 100) as pad from ${series(50_000_000, "g")}`, { maxBytes: 1_000_000 }));
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
        await eventually("the server's query is gone", 1000, async () => (await running(t, mark)) === 0);
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "a message over maxMessageBytes is refused from its header",
    async run(t) {
      const client = await t.pgz.connect({ ...t.options, maxMessageBytes: 1 << 20 });
      t.assert.equal((await client.query("select length(repeat('x', 1000000)) as n")).rowCount, 1);
      await t.assert.rejects(client.query("select repeat('x', 2000000)"), { code: "MESSAGE_TOO_LARGE" });
      await client.close();
    },
  },
];
