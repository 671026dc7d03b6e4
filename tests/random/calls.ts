// The calls of a random session: each is made from the dice before anything runs, knows its right answer, and says
// itself in a line of the script.
//
// Knows every call of a client and what it must give. Must not know what disturbs it (session.ts).
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import type { Dice } from "./dice.ts";
import type { Ledger } from "./ledger.ts";
import { text, values } from "./values.ts";

/** What runs statements. */
export type Caller = pgz.Client | pgz.Pool | pgz.Transaction | pgz.Scope;

/** What a call is made with when it is disturbed. */
export interface Disturbed {
  signal?: AbortSignal;
  timeout?: number;
}

/** What a session's calls share. */
export interface World {
  readonly schema: string;
  readonly ledger: Ledger;
  readonly sql: typeof pgz.sql;
  /** The runtime can compress. */
  readonly gzip: boolean;
  /** `respond` has a body of the runtime's own, whose errors have no code, and which tells late that it was left. */
  readonly hasOwnBody: boolean;
  /** Columns of the table that DDL changes, as they are when the call that is made next runs. */
  columns: readonly string[];
  /** Never comes again. */
  number: number;
}

export interface Plan {
  readonly says: string;
  /** Throws an AssertionError where the answer is wrong. */
  run(caller: Caller, options: Disturbed): Promise<void>;
  /** The code of the error that it ends with when nothing disturbs it. */
  readonly fails?: string;
  /** Numbers for the ledger; those of a group are stored together or not at all. */
  readonly groups?: readonly (readonly number[])[];
  /** It settles its numbers by itself when it resolves. */
  readonly settles?: boolean;
  /** `client`: not inside a transaction. `transaction`: one itself. `quiet`: nothing may disturb it. */
  readonly kind?: "client" | "transaction" | "quiet";
  /** Its consumer has to finish it before another call can be made. */
  readonly streams?: boolean;
  /** It makes more calls when the first one is over. */
  readonly hasSeveralTurns?: boolean;
  /** Leaves its rows early, which cancels it and so fails a transaction. */
  readonly leaves?: boolean;
}

type Make = (dice: Dice, world: World) => Plan;

const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const lines = (ndjson: string) =>
  ndjson
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);

/** Reads to the end, or leaves when so many rows have come. */
async function readLines(stream: ReadableStream<Uint8Array>, leave = Infinity): Promise<Record<string, unknown>[]> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return lines(seen);
    seen += decoder.decode(value, { stream: true });
    const whole = seen.slice(0, seen.lastIndexOf("\n") + 1);
    if (lines(whole).length >= leave) {
      await reader.cancel();
      return lines(whole);
    }
  }
}

const numbersFrom = (first: number) => (row: unknown, at: number) =>
  assert.equal((row as { n: number }).n, first + at, "a row of another query");

/** Rows `first` to `last`, of a kilobyte each where they are `wide`. */
interface Series {
  query: pgz.Query;
  plain: string;
  first: number;
  count: number;
  says: string;
}

function series(dice: Dice, world: World, most: number): Series {
  const first = (world.number += 1_000_000);
  const count = dice.oneIn(6) ? 0 : 1 + dice.below(most);
  const pad = dice.pick([0, 3, 900]);
  const last = first + count - 1;
  const sql = world.sql;
  return {
    first,
    count,
    query: sql`select n, repeat('x', ${pad}::int4) as pad from generate_series(${first}::int4, ${last}::int4) n`,
    plain: `select n, repeat('x', ${pad}) as pad from generate_series(${first}, ${last}) n`,
    says: `${count} rows of ${pad} bytes`,
  };
}

function checkAll(rows: readonly unknown[], { first, count }: Series): void {
  assert.equal(rows.length, count, "rows");
  rows.forEach(numbersFrom(first));
}

/** The rows that came before the loop was left. */
function checkSome(rows: readonly unknown[], { first, count }: Series, leave: number): void {
  assert(rows.length >= Math.min(leave, count) && rows.length <= count, `${rows.length} rows of ${count}`);
  rows.forEach(numbersFrom(first));
}

const one: Make = (dice, world) => {
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

const ofValues: Make = (dice, world) => {
  const all = values(dice, `${world.schema}.mood`);
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

const manyRows: Make = (dice, world) => {
  const some = series(dice, world, 400);
  return {
    says: `query of ${some.says}`,
    run: async (caller, options) => checkAll((await caller.query(some.query, options)).rows, some),
  };
};

const loop: Make = (dice, world) => {
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

const stream: Make = (dice, world) => {
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
      if (gzip && leave < Infinity) {
        await leaveCompressed(raw, leave % 2);
        return world.hasOwnBody ? pause(30) : undefined;
      }
      const bytes = gzip
        ? raw.pipeThrough(new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>)
        : raw;
      const isOwn = world.hasOwnBody && call === "respond";
      const seen = await readLines(bytes, leave).catch((error: unknown) => {
        throw isOwn ? withCode(error) : error;
      });
      if (leave === Infinity) return checkAll(seen, some);
      checkSome(seen, some, leave);
      if (isOwn) await pause(30);
    },
  };
};

/** Nobody can tell how many rows are in so many chunks. */
async function leaveCompressed(bytes: ReadableStream<Uint8Array>, chunks: number): Promise<void> {
  const reader = bytes.getReader();
  for (let at = 0; at < chunks; at++) await reader.read();
  await reader.cancel();
}

/** By what the runtime has made of the error that ended its body. */
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

const cursor: Make = (dice, world) => {
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

const cap: Make = (dice, world) => {
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

const ERRORS: readonly (readonly [code: string, text: string, values?: readonly unknown[]])[] = [
  ["22012", "select 1 / 0 as n"],
  ["22012", "select 10 / (50 - n) as n from generate_series(1, 60) n"],
  ["22012", "select 10 / $1::int4 as n", [0]],
  ["42601", "selec 1"],
  ["42703", "select nothing"],
  ["42P01", "select * from no_such_table"],
  ["22P02", "select $1::text::int4 as n", ["x"]],
  ["INVALID_PARAMETER", "select $1::int4 as n", ["x"]],
  ["INVALID_QUERY", "select $1::int4 as n", []],
];

const failure: Make = (dice) => {
  const [code, text, given = []] = dice.pick(ERRORS);
  const call = dice.pick(["query", "exec", "json", "stream", "rows"] as const);
  return {
    says: `${call} that fails with ${code}: ${text}`,
    fails: code,
    streams: call === "stream" || call === "rows",
    async run(caller, options) {
      const query = { text, values: given };
      if (call === "stream") await readLines(await caller.stream(query, options));
      else if (call === "rows") for await (const row of caller.rows(query, options)) void row;
      else await caller[call](query, options);
    },
  };
};

const insert: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(3));
  const pause = dice.oneIn(3) ? dice.below(6) / 1000 : 0;
  const returning = dice.oneIn(2);
  const table = world.sql.identifier(world.schema, "ledger");
  return {
    says: `insert ${numbers.join()}${pause ? ` in ${pause * 1000} ms` : ""}${returning ? " returning" : ""}`,
    groups: [numbers],
    async run(caller, options) {
      const { sql } = world;
      const from = pause
        ? sql`insert into ${table} select unnest(${numbers}::int4[]) from pg_sleep(${pause}::float8)`
        : sql`insert into ${table} select unnest(${numbers}::int4[])`;
      if (!returning) assert.equal((await caller.exec(from, options)).rowCount, numbers.length);
      else {
        const { rows } = await caller.query<{ n: number }>(sql`${from} returning n`, options);
        assert.deepEqual(
          rows.map(({ n }) => n),
          numbers,
        );
      }
    },
  };
};

const sleep: Make = (dice, world) => {
  const number = ++world.number;
  const ms = dice.below(12);
  return {
    says: `sleep of ${ms} ms, ${number}`,
    async run(caller, options) {
      const query = world.sql`select ${number}::int4 as n, pg_sleep(${ms / 1000}::float8) as slept`;
      assert.deepEqual((await caller.query(query, options)).rows, [{ n: number, slept: "" }]);
    },
  };
};

/** Statements of a batch: an insert each, with a query or a failure between. */
function items(dice: Dice, { ledger, schema, sql }: World) {
  const table = sql.identifier(schema, "ledger");
  const numbers = ledger.take(dice.oneIn(10) ? 60 : 1 + dice.below(6));
  const failing = dice.oneIn(3) ? dice.below(numbers.length) : -1;
  const queries = numbers.flatMap((number, at) => [
    sql`insert into ${table} values (${number}::int4) returning n`,
    ...(at === failing ? ["select 1 / 0"] : []),
  ]);
  return { numbers, failing, queries };
}

const atomicBatch: Make = (dice, world) => {
  const { numbers, failing, queries } = items(dice, world);
  const results = dice.pick(["rows", "count", "ndjson"] as const);
  return {
    says: `batch of ${queries.length} as ${results}${failing < 0 ? "" : `, ${failing + 1} fails`}`,
    groups: [numbers],
    ...(failing < 0 ? {} : { fails: "22012" }),
    async run(caller, options) {
      const settled = await caller.batch(queries, { ...options, results });
      assert.equal(settled.length, queries.length);
      settled.forEach((item, at) => {
        const result = item as { rowCount: number; rows?: unknown; bytes?: Uint8Array };
        assert.equal(result.rowCount, 1);
        if (results === "rows") assert.deepEqual(result.rows, [{ n: numbers[at] }]);
        if (results === "ndjson") assert.equal(decode(result.bytes!), `{"n":${numbers[at]}}\n`);
      });
    },
  };
};

const isolatedBatch: Make = (dice, world) => {
  const { numbers, failing, queries } = items(dice, world);
  return {
    says: `batch of ${queries.length}, not atomic${failing < 0 ? "" : `, ${failing + 1} fails alone`}`,
    kind: "client",
    groups: numbers.map((number) => [number]),
    settles: true,
    async run(caller, options) {
      const settled = await caller.batch<{ n: number }>(queries, { ...options, atomic: false });
      assert.equal(settled.length, queries.length);
      const refused = settled.findIndex(({ status }) => status === "rejected");
      const own = settled.filter((_, at) => at !== (failing < 0 ? -1 : failing + 1));
      own.forEach((item, at) => {
        const number = numbers[at]!;
        if (item.status === "rejected") throw item.reason;
        assert.deepEqual(item.value.rows, [{ n: number }]);
        world.ledger.settle([number], "stored");
      });
      assert.equal(refused, failing < 0 ? -1 : failing + 1, "the item that fails");
    },
  };
};

const prepared: Make = (dice, world) => {
  const numbers = range(++world.number, (world.number += dice.below(4)));
  const text = `select $1::int4 as n, $2::text as t, ${dice.below(5)} as which`;
  const mark = text.slice(-10);
  return {
    says: `prepared, run ${numbers.length} times`,
    hasSeveralTurns: true,
    async run(caller, options) {
      const statement = await caller.prepare<{ n: number; t: string }>(text, options);
      try {
        const results = await Promise.all(numbers.map((number) => statement.query([number, mark], options)));
        results.forEach(({ rows }, at) => {
          assert.deepEqual([rows.length, rows[0]?.n, rows[0]?.t], [1, numbers[at], mark]);
        });
      } finally {
        statement.close();
      }
    },
  };
};

const describe: Make = (_, { schema, sql }) => ({
  says: "describe",
  async run(caller, options) {
    const query = sql`select n, ${"x"}::text as t from ${sql.identifier(schema, "ledger")}`;
    const { parameterTypes, fields } = await caller.describe(query, options);
    assert.deepEqual([parameterTypes, fields.map(({ name }) => name)], [[25], ["n", "t"]]);
  },
});

const simple: Make = (dice, world) => {
  const numbers = world.ledger.take(2);
  const fails = dice.oneIn(3);
  const texts = numbers.map((number) => `insert into ${world.schema}.ledger values (${number}) returning n`);
  return {
    says: `simple with ${numbers.join()}${fails ? " and an error" : ""}`,
    groups: [numbers],
    ...(fails ? { fails: "22012" } : {}),
    async run(caller, options) {
      const text = [...texts, ...(fails ? ["select 1 / 0"] : []), "select 1 as one"].join("; ");
      const results = await caller.simple(text, options);
      assert.deepEqual(
        results.map(({ rows }) => rows),
        [...numbers.map((n) => [{ n }]), [{ one: 1 }]],
      );
    },
  };
};

/** Data of COPY in pieces, with a pause now and then; it throws behind the last one where it `fails`. */
async function* pieces(data: readonly string[], pauses: boolean, fails: boolean): AsyncGenerator<string> {
  for (const piece of data) {
    if (pauses) await pause(1);
    yield piece;
  }
  if (fails) throw new Error("the source ends");
}

const copyFrom: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(30));
  const ends = dice.pick(["", "", "source", "server"] as const);
  const pauses = dice.oneIn(3) && numbers.length < 10;
  const byRows = dice.oneIn(2) && ends === "";
  const fails = { "": undefined, source: "COPY_SOURCE_FAILED", server: "22P02" }[ends];
  return {
    says: `copyFrom${byRows ? "Rows" : ""} of ${numbers.length}${pauses ? ", slowly" : ""}${ends ? `, ended by its ${ends}` : ""}`,
    groups: [numbers],
    ...(fails === undefined ? {} : { fails }),
    async run(caller, options) {
      const table = world.sql.identifier(world.schema, "ledger");
      const rows = numbers.map((n, at) => (at % 2 ? [n] : { n }));
      const data = [...numbers.map((n) => `${n}\n`), ...(ends === "server" ? ["x\n"] : [])];
      const { rowCount } = byRows
        ? await caller.copyFromRows(table, ["n"], rows, options)
        : await caller.copyFrom(
            `copy ${world.schema}.ledger (n) from stdin`,
            pieces(data, pauses, ends === "source"),
            options,
          );
      assert.equal(rowCount, numbers.length);
    },
  };
};

const copyTo: Make = (dice, world) => {
  const some = series(dice, world, 300);
  const byRows = dice.oneIn(2);
  const leave = dice.oneIn(3) ? 1 + dice.below(50) : Infinity;
  return {
    says: `copyTo${byRows ? "Rows" : ""} of ${some.says}${leave < Infinity ? `, left after ${leave}` : ""}`,
    streams: true,
    leaves: leave < Infinity,
    async run(caller, options) {
      let seen: unknown[] = [];
      if (byRows) {
        for await (const row of caller.copyToRows(some.plain, options)) if (seen.push(row) >= leave) break;
      } else {
        const text = `copy (select row_to_json(t) from (${some.plain}) t) to stdout`;
        seen = await readLines(await caller.copyTo(text, options), leave);
      }
      if (leave === Infinity) checkAll(seen, some);
      else checkSome(seen, some, leave);
    },
  };
};

/** All columns of the table that DDL changes, as they must be by then. */
const shape: Make = (dice, world) => {
  const { columns, schema } = world;
  const call = dice.pick(["query", "query", "batch"] as const);
  return {
    says: `${call} of all of ${columns.length} columns`,
    async run(caller, options) {
      const query = `select * from ${schema}.shape`;
      const { rows } =
        call === "query" ? await caller.query(query, options) : (await caller.batch([query], options))[0]!;
      assert.deepEqual(
        rows.map((row) => Object.keys(row)),
        [columns],
      );
    },
  };
};

const ddl: Make = (dice, world) => {
  const { columns, schema } = world;
  const dropped = columns.length > 3 && dice.oneIn(2) ? columns[1 + dice.below(columns.length - 1)]! : undefined;
  const added = `c${++world.number}`;
  world.columns = dropped ? columns.filter((name) => name !== dropped) : [...columns, added];
  const change = dropped ? `drop column ${dropped}` : `add column ${added} ${dice.pick(["int4", "text"])}`;
  return {
    says: `alter table ${change}`,
    kind: "quiet",
    run: async (caller) => void (await caller.exec(`alter table ${schema}.shape ${change}`)),
  };
};

const forgetAll: Make = (dice) => {
  const text = dice.pick(["deallocate all", "discard plans", "select 1"]);
  return { says: text, kind: "quiet", run: async (caller) => void (await caller.exec(text)) };
};

const scoped: Make = (dice, world) => {
  const tenant = ++world.number;
  const settings = dice.oneIn(2) ? { "app.tenant": tenant } : { "app.tenant": tenant, TimeZone: "Asia/Tokyo" };
  const inside = dice.oneIn(2) ? insert(dice, world) : undefined;
  return {
    says: `in a scope: ${inside?.says ?? "its setting"}`,
    kind: "client",
    ...(inside?.groups ? { groups: inside.groups } : {}),
    async run(caller, options) {
      const scope = (caller as pgz.Client).scope({ settings });
      if (inside) return inside.run(scope, options);
      const query = world.sql`select current_setting('app.tenant') as tenant`;
      assert.deepEqual((await scope.query(query, options)).rows, [{ tenant: String(tenant) }]);
    },
  };
};

const unscoped: Make = () => ({
  says: "no setting of a scope",
  kind: "client",
  async run(caller, options) {
    const { rows } = await caller.query<{ tenant: string | null }>(
      "select nullif(current_setting('app.tenant', true), '') as tenant",
      options,
    );
    assert.deepEqual(rows, [{ tenant: null }]);
  },
});

const notify: Make = (dice) => {
  const payload = [...text(dice)].slice(0, 50).join("");
  return { says: "notify", run: async (caller, options) => void (await caller.notify("random", payload, options)) };
};

const makes: readonly Make[] = [
  ...[one, one, one, ofValues, ofValues, ofValues, manyRows, loop, loop, stream, stream, cursor, cap, failure],
  ...[failure, insert, insert, insert, sleep, sleep, atomicBatch, isolatedBatch, prepared, describe, simple],
  ...[copyFrom, copyFrom, copyTo, shape, shape, ddl, forgetAll, scoped, unscoped, notify],
];

/** A call that `fits`; what another one would have changed is undone. */
export function callWhich(fits: (plan: Plan) => boolean, dice: Dice, world: World): Plan {
  for (;;) {
    const { columns } = world;
    const plan = dice.pick(makes)(dice, world);
    if (fits(plan)) return plan;
    world.columns = columns;
  }
}
