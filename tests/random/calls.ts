// The calls of a random session. Each is made from the dice before anything runs, knows its right result, and describes
// itself in a line of the script.
//
// Knows every call of a client and its right result. Must not know what disturbs it (session.ts).
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import type { Dice } from "./dice.ts";
import {
  checkAll,
  checkSome,
  decode,
  pause,
  range,
  readLines,
  series,
  type Make,
  type Plan,
  type World,
} from "./plan.ts";
import { one, ofOwnTypes, ofRecord, ofValues, manyRows, loop, stream, cursor, cap } from "./reading-calls.ts";
import { text } from "./values.ts";

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

/** Statements of a batch: one insert each, with a query or a failure in between. */
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

/** Yields COPY data in pieces, with a pause now and then. If it `fails`, it throws after the last piece. */
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

/** Reads all columns of the table that DDL changes, and checks that they are current. */
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
  ...[
    one,
    one,
    one,
    ofValues,
    ofValues,
    ofRecord,
    ofValues,
    manyRows,
    loop,
    loop,
    stream,
    stream,
    cursor,
    cap,
    failure,
  ],
  ...[failure, insert, insert, insert, sleep, sleep, atomicBatch, isolatedBatch, prepared, describe, simple],
  ...[copyFrom, copyFrom, copyTo, shape, shape, ddl, forgetAll, scoped, unscoped, notify],
];

const makesWithOwnTypes: readonly Make[] = [...makes, ofOwnTypes, ofOwnTypes, ofOwnTypes];

/** Draws a call that `fits`. What a rejected call would have changed is undone. */
export function callWhich(fits: (plan: Plan) => boolean, dice: Dice, world: World): Plan {
  for (;;) {
    const { columns } = world;
    const plan = dice.pick(world.hasOwnTypes ? makesWithOwnTypes : makes)(dice, world);
    if (fits(plan)) return plan;
    world.columns = columns;
  }
}
