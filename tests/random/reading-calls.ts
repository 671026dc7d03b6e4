// Calls that read: the whole result, row by row, as a stream or by a cursor, and up to a cap.
//
// Each is made from the dice before anything runs, and knows its right result. Must not know what disturbs it.
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { checkAll, checkSome, decode, range, readLines, series, type Caller, type Make } from "./plan.ts";
import { values } from "./values.ts";

export const one: Make = (dice, world) => {
  const number = ++world.number;
  const call = dice.pick(["query", "json", "rows"] as const);
  return {
    says: `${call} of ${number}`,
    streams: call === "rows",
    async run(caller, options) {
      const query = world.sql`select ${number}::int4 as n`;
      if (call === "query") assert.deepEqual((await caller.query(query, options)).rows, [{ n: number }]);
      else if (call === "json") assert.equal(decode(await caller.json(query, options)), `[{"n":${number}}]`);
      else for await (const row of caller.rows(query, options)) assert.deepEqual(row, { n: number });
    },
  };
};

export const ofValues: Make = (dice, world) => {
  const all = values(dice, world);
  const texts = all.map(({ type }, at) => `$${at + 1}::${type} as v${at}`);
  const mode = dice.pick(["object", "array"] as const);
  return {
    says: `query of values ${all.map(({ type, given }) => `${given === null ? "null " : ""}${type}`).join()}`,
    async run(caller, options) {
      const query = { text: `select ${texts.join()}`, values: all.map(({ given }) => given) };
      const { rows } = await caller.query(query, { ...options, rowMode: mode });
      const expected = all.map((value) => value.expected);
      const row = mode === "array" ? expected : Object.fromEntries(expected.map((value, at) => [`v${at}`, value]));
      assert.deepEqual(rows, [row]);
    },
  };
};

/** Only a record's bytes contain the types of its fields, which may be types of the database itself. */
export const ofRecord: Make = (dice, world) => {
  const all = values(dice, world).filter(({ type }) =>
    /^(int2|int4|text|bool|date|jsonb|.*\.(mood|whole|pair))$/.test(type),
  );
  const texts = all.map(({ type }, at) => `$${at + 1}::${type}`);
  const number = ++world.number;
  const call = dice.pick(["query", "json"] as const);
  return {
    says: `${call} of a record of ${all.map(({ type }) => type).join()}`,
    async run(caller, options) {
      const query = {
        text: `select row(${[...texts, `${number}::int4`].join()}) as r`,
        values: all.map(({ given }) => given),
      };
      const expected = [...all.map((value) => value.expected), number];
      const rows =
        call === "json"
          ? (JSON.parse(decode(await caller.json(query, options))) as unknown[])
          : (await caller.query(query, options)).rows;
      assert.deepEqual(rows, [{ r: Object.fromEntries(expected.map((value, at) => [`f${at + 1}`, value])) }]);
    },
  };
};

/** The row of the table `own_types` (judge.ts). */
const OWN_TYPES = { moods: ["glad"], label: "x", pair: { a: 1, "b c": "y", m: "calm" }, whole: 7 };
/** The same, as `simple` has it while the types are unknown. */
const UNKNOWN_TYPES = { ...OWN_TYPES, moods: "{glad}", pair: "(1,y,calm)" };

/** Columns of the database's own types beside others, by calls that learn these types, and by one that does not. */
export const ofOwnTypes: Make = (dice, world) => {
  const names = dice.pick([
    ["moods", "label", "pair", "whole"],
    ["pair", "moods"],
  ] as const);
  const call = dice.pick(["query", "simple", "simple", "batch", "rows"] as const);
  const text = `select ${names.join()} from ${world.schema}.own_types`;
  return {
    says: `${call} of the columns ${names.join()}`,
    streams: call === "rows",
    async run(caller, options) {
      const rows: unknown[] = [];
      if (call === "query") rows.push(...(await caller.query(text, options)).rows);
      else if (call === "simple") rows.push(...(await caller.simple(text, options))[0]!.rows);
      else if (call === "batch") rows.push(...(await caller.batch([text], options))[0]!.rows);
      else for await (const row of caller.rows(text, options)) rows.push(row);
      assert.equal(rows.length, 1);
      const row = rows[0] as Record<string, unknown>;
      // Each column is known or not, by itself.
      for (const name of names) {
        const isText = call === "simple" && typeof row[name] === "string";
        assert.deepEqual(row[name], (isText ? UNKNOWN_TYPES : OWN_TYPES)[name]);
      }
      assert.deepEqual(Object.keys(row), names);
    },
  };
};

export const manyRows: Make = (dice, world) => {
  const some = series(dice, world, 400);
  return {
    says: `query of ${some.says}`,
    run: async (caller, options) => checkAll((await caller.query(some.query, options)).rows, some),
  };
};

export const loop: Make = (dice, world) => {
  const some = series(dice, world, 400);
  const leave = dice.oneIn(2) ? 1 + dice.below(100) : Infinity;
  const size = dice.pick([0, 1, 7, 100]);
  return {
    says: `rows of ${some.says}${leave < Infinity ? `, left after ${leave}` : ""}${size ? `, by ${size}` : ""}`,
    streams: true,
    leaves: leave < Infinity,
    async run(caller, options) {
      const seen: unknown[] = [];
      const rows = caller.rows(some.query, options);
      if (size)
        for await (const batch of rows.batches(size)) {
          seen.push(...batch);
          if (seen.length >= leave) break;
        }
      else
        for await (const row of rows) {
          seen.push(row);
          if (seen.length >= leave) break;
        }
      if (leave === Infinity) checkAll(seen, some);
      else checkSome(seen, some, leave);
    },
  };
};

export const stream: Make = (dice, world) => {
  const some = series(dice, world, 600);
  const leave = dice.oneIn(3) ? 1 + dice.below(100) : Infinity;
  const gzip = dice.oneIn(4) && world.gzip;
  const call = dice.pick(["stream", "respond"] as const);
  return {
    says: `${call}${gzip ? " gzip" : ""} of ${some.says}${leave < Infinity ? `, left after ${leave}` : ""}`,
    streams: true,
    leaves: leave < Infinity,
    async run(caller, options) {
      const given = { ...options, gzip };
      const raw =
        call === "stream" ? await caller.stream(some.query, given) : (await caller.respond(some.query, given)).body!;
      const isOwn = world.hasOwnBody && call === "respond";
      const told = (error: unknown): never => {
        throw isOwn ? withCode(error) : error;
      };
      if (gzip && leave < Infinity) {
        await leaveCompressed(raw, leave % 2).catch(told);
        return world.hasOwnBody ? untilNoticed(caller) : undefined;
      }
      const bytes = gzip ? await decompressed(raw).catch(told) : raw;
      const seen = await readLines(bytes, leave).catch(told);
      if (leave === Infinity) return checkAll(seen, some);
      checkSome(seen, some, leave);
      if (isOwn) await untilNoticed(caller);
    },
  };
};

/**
 * Waits until the driver knows that a body of the runtime was left: workerd says so at the next write. The call that
 * asks has a wrong option, so it is never sent: it is refused with STREAM_OPEN, later for its option, or because the
 * session has ended.
 */
async function untilNoticed(caller: Caller): Promise<void> {
  const code = () =>
    caller.query("select 1", { timeout: -1 }).then(
      () => assert(false, "a call with a wrong option has run"),
      (error: { code?: string }) => error.code,
    );
  await until(async () => (await code()) !== "STREAM_OPEN", "a body that was left is over");
}

/** Reads all first: workerd's DecompressionStream would keep only the text of an error. */
async function decompressed(stream: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk as Uint8Array<ArrayBuffer>);
  return new Blob(chunks).stream().pipeThrough(new DecompressionStream("gzip"));
}

/** The number of rows in compressed chunks is unknown. */
async function leaveCompressed(bytes: ReadableStream<Uint8Array>, chunks: number): Promise<void> {
  const reader = bytes.getReader();
  for (let at = 0; at < chunks; at++) await reader.read();
  await reader.cancel();
}

/** Restores the code from the error into which the runtime has converted the error of its body. */
function withCode(error: unknown): unknown {
  const codes: [RegExp, string][] = [
    [/TimeoutError/, "QUERY_TIMEOUT"],
    [/AbortError/, "ABORTED"],
    [/ConnectionError/, "CONNECTION_LOST"],
    [/terminating connection/, "57P01"],
    [/canceling statement/, "57014"],
  ];
  const code = codes.find(([text]) => text.test(String(error)))?.[1];
  return code === undefined ? error : Object.assign(error as Error, { code });
}

export const cursor: Make = (dice, world) => {
  const some = series(dice, world, 200);
  const size = 1 + dice.below(80);
  const leave = dice.oneIn(3) ? 1 + dice.below(100) : Infinity;
  return {
    says: `cursor by ${size} of ${some.says}${leave < Infinity ? `, left after ${leave}` : ""}`,
    streams: true,
    async run(caller, options) {
      const seen: unknown[] = [];
      for await (const batch of caller.cursor(some.query, size, options)) {
        assert(batch.length <= size, `a batch of ${batch.length}`);
        seen.push(...batch);
        if (seen.length >= leave) break;
      }
      if (leave === Infinity) checkAll(seen, some);
      else checkSome(seen, some, leave);
    },
  };
};

export const cap: Make = (dice, world) => {
  const first = (world.number += 1_000_000);
  const rows = 20 + dice.below(2_000);
  const most = 1 + dice.below(19);
  const truncates = dice.oneIn(2);
  const query = world.sql`select n from generate_series(${first}::int4, ${first + rows}::int4) n`;
  return {
    says: `${rows} rows with maxRows ${most}${truncates ? ", truncated" : ""}`,
    leaves: true,
    ...(truncates ? {} : { fails: "RESPONSE_TOO_LARGE" }),
    async run(caller, options) {
      const onLimit = truncates ? "truncate" : "error";
      const result = await caller.query<{ n: number }>(query, { ...options, maxRows: most, onLimit });
      assert.deepEqual(
        result.rows.map(({ n }) => n),
        range(first, first + most - 1),
      );
      assert(result.truncated, "truncated");
    },
  };
};
