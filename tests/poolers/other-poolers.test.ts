// The tenants of tenants.test.ts behind PgBouncer 1.24, which tracks prepared statements: all clients that prepare the
// same text share one statement of the server, whatever name they give it. docs/poolers.md says what follows from that.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client, Options } from "../../js/index.ts";
import { logFile, type ServerDescriptor } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { direct, driver, plain, seed, TENANTS, withTenants } from "./pooled.ts";
import { connectRecognised, runLane, stepsOf, sum, type Load } from "./workload.ts";

type Pooler = Awaited<ReturnType<typeof startPgBouncer>>;
let four: Pooler;
let one: Pooler;

beforeAll(async () => {
  const start = (name: string, poolSize: number) =>
    startPgBouncer({ server: direct as ServerDescriptor, log: logFile(name), poolSize, newer: true });
  four = await start("pgbouncer-newer", 4);
  one = await start("pgbouncer-newer-one", 1);
});
afterAll(() => Promise.all([four?.stop(), one?.stop()]));

/** Named statements are shared by text, so the same text cannot have other types in another schema. */
const modes: { name: string; options: Options; without?: RegExp }[] = [
  { name: "default options", options: {} },
  { name: 'prepare: "named", without scopes', options: { prepare: "named" }, without: /scope/ },
];

test.each(modes)(`${TENANTS} tenants with 50 statements each, $name`, async ({ options, without }) => {
  const load: Load = {
    prefix: `newer_${options.prepare ?? "auto"}`,
    seed,
    repeat: 3,
    jobs: 1,
    ...(without && { without }),
  };
  console.log(`PGZ_SEED=${seed}`);
  const connect = () =>
    connectRecognised((observer) =>
      driver.connect(plain(four.descriptor), { ...options, applicationName: load.prefix, observer }),
    );
  const lanes = Array.from({ length: TENANTS }, (_, number) => number);
  const outcome = await withTenants(load, 1, async () =>
    sum(await Promise.all(lanes.map((number) => runLane(driver, connect, load, number, 0)))),
  );
  expect(outcome, `PGZ_SEED=${seed}`).toEqual({ done: TENANTS * stepsOf(load), wrong: [], failed: [] });
});

/** The same text in two schemas, where it returns an int4 and a text. */
async function schemas(options: Options, work: (client: Client) => Promise<void>): Promise<void> {
  const admin = await driver.connect(plain(direct));
  const client = await driver.connect(plain(one.descriptor), options);
  try {
    await admin.simple(`
      create schema newer_a; create table newer_a.things as select 1 as thing;
      create schema newer_b; create table newer_b.things as select 'b'::text as thing;`);
    await work(client);
  } finally {
    await client.close();
    await admin.simple("drop schema if exists newer_a, newer_b cascade");
    await admin.close();
  }
}

const things = (client: Client, schema: string) =>
  client.scope({ settings: { search_path: schema } }).query("select thing from things");

test("without names, scopes of schemas with other result types for one statement get the right types", () =>
  schemas({}, async (client) => {
    for (const run of ["first", "second", "third"]) {
      expect((await things(client, "newer_a")).rows, run).toEqual([{ thing: 1 }]);
      expect((await things(client, "newer_b")).rows, run).toEqual([{ thing: "b" }]);
    }
  }));

test('with prepare: "named" they are an error, never another row', () =>
  schemas({ prepare: "named" }, async (client) => {
    const seen = new Set<string>();
    for (let run = 0; run < 4; run++)
      for (const [schema, thing] of [
        ["newer_a", 1],
        ["newer_b", "b"],
      ] as const) {
        const rows = await things(client, schema).then(
          (result) => result.rows,
          ({ code }: { code: string }) => code,
        );
        if (typeof rows === "string") seen.add(rows);
        else expect(rows).toEqual([{ thing }]);
      }
    expect([...seen]).toEqual(["0A000"]);
  }));

/**
 * PgBouncer answers Close itself, even in the middle of a CommandComplete that arrives in two pieces: after results
 * that end near the end of its buffer of 4,096 bytes. With a Close after each first run, some of these results were
 * lost.
 */
test("the results of first runs arrive in order", async () => {
  const { sql, connect } = driver;
  const lane = async (number: number) => {
    const client = await connect(plain(four.descriptor));
    for (let run = 0; run < 1_000; run++) {
      const length = 4096 * (1 + (run % 2)) - (run % 400);
      const { rows } = await client.query(
        sql`select ${sql.unsafe(`/* ${number} ${run} */`)} repeat('x', ${length}) as x`,
      );
      expect(rows).toEqual([{ x: "x".repeat(length) }]);
    }
    await client.close();
  };
  await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(lane));
});

/** PgBouncer refuses BEGIN. An atomic batch needs none, because all of it is in front of one Sync. */
test("with pool_mode = statement, batches and single statements run", async () => {
  const settings = "pool_mode = statement";
  const server = direct as ServerDescriptor;
  const statement = await startPgBouncer({ server, log: logFile("pgbouncer-statement"), settings, newer: true });
  const client = await driver.connect(plain(statement.descriptor));
  try {
    const { sql } = driver;
    const batch = (mark: string) =>
      client.batch([sql`select ${sql.unsafe(`/* ${mark} */`)} ${1}::int4 as n`, sql`select ${"two"}::text as m`]);
    expect((await client.query(sql`select ${7}::int4 as n`)).rows).toEqual([{ n: 7 }]);
    for (const mark of ["first", "second"])
      expect((await batch(mark)).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ m: "two" }]]);
    expect((await client.query(sql`select ${8}::int8 as n`)).rows).toEqual([{ n: "8" }]);
  } finally {
    await client.close();
    await statement.stop();
  }
});

/**
 * A literal keeps the meaning that it had when its statement was parsed, and PgBouncer shares one statement per text
 * between all clients. `meanings` returns what a client reads after another client, in another time zone, has run the
 * same text. Neither client knows the statement before.
 */
async function meanings(options: Options, { attempt = 0, pause = 0 } = {}): Promise<{ utc: string; age: number }> {
  const q = `/* ${attempt} ${JSON.stringify(options)} */`;
  const text = `select ('2026-01-01'::timestamptz at time zone 'UTC')::text as utc,
    extract(epoch from clock_timestamp() - 'now'::timestamptz)::int4 as age ${q}`;
  const run = async (TimeZone: string) => {
    const client = await driver.connect({ ...plain(one.descriptor), startup: { TimeZone } }, options);
    try {
      return (await client.query<{ utc: string; age: number }>(text)).rows[0]!;
    } finally {
      await client.close();
    }
  };
  await run("UTC");
  await new Promise((resolve) => setTimeout(resolve, pause));
  return run("Asia/Tokyo");
}

test("a literal in a first run does not have the meaning it had for another client", async () => {
  expect(await meanings({}, { pause: 1_600 })).toEqual({ utc: "2025-12-31 15:00:00", age: 0 });
});

test('with prepare: "named" it is, which is why "auto" names nothing', async () => {
  // When another session creates a schema meanwhile, PostgreSQL analyzes each statement of the database anew. The other
  // test files create schemas, so this test does not pause.
  const shared = { utc: "2026-01-01 00:00:00" };
  for (let attempt = 1; ; attempt++) {
    const found = await meanings({ prepare: "named", firstRun: "describe" }, { attempt });
    if (found.utc !== shared.utc && attempt < 3) continue;
    return expect(found).toMatchObject(shared);
  }
});

test("PgBouncer 1.24 speaks protocol 3.2", async () => {
  const client = await driver.connect(plain(one.descriptor), { maxProtocolVersion: "3.2" });
  expect((await client.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
  await client.close();
});
