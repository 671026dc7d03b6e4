// Values of each type in changes: byte for byte what `stream()` gives for the same rows, and as objects what `query()`
// gives. Queries receive them in binary, and the log has them as text.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { changes, driver, plain } from "./replication.ts";

const folder = fileURLToPath(new URL("../oracle", import.meta.url));
const NAME = `types_of_changes_${process.pid}`;

/** Returns a field without the escapes that `tests/oracle/generate` writes. */
const written = (field: string) => field.replaceAll("␉", "\t").replaceAll("␊", "\n").replaceAll("␍", "\r");

/** The values of each type, as the server writes them. */
const values = new Map(
  readdirSync(folder)
    .filter((name) => name.endsWith(".tsv.gz"))
    .map((name) => {
      const lines = gunzipSync(readFileSync(`${folder}/${name}`))
        .toString()
        .trimEnd()
        .split("\n");
      const ofType = lines.map((line) => line.split("\t")).filter(([type], _, [first]) => type === first![0]);
      const texts = ofType.map((fields) => written(fields[4]!));
      return [name.slice(0, -".tsv.gz".length), [...new Set(texts)].slice(0, 500)] as const;
    }),
);

const servers = testServers().servers.filter(({ own }) => own);
const pools = new Map<string, InstanceType<typeof driver.Pool>>();
beforeAll(async () => {
  for (const { name, superuserUrl } of servers) {
    const pool = driver.createPool(plain(superuserUrl!), { max: 2, startup: { TimeZone: "UTC" } });
    pools.set(name, pool);
    await pool.simple(`create schema ${NAME}`);
  }
});
afterAll(async () => {
  for (const pool of pools.values()) {
    await pool.simple(`drop schema ${NAME} cascade`);
    await pool.close();
  }
});

test.each(servers.map(({ name }) => name))("%s", async (server) => {
  const pool = pools.get(server)!;
  await pool.simple(
    [...values.keys()]
      .map((type) => `create table ${NAME}."${type}" (id serial primary key, v "${type}", list "${type}"[])`)
      .join(";"),
  );
  const slot = `${NAME}_${server}`;
  await pool.simple(`create publication ${slot} for tables in schema ${NAME}`);
  await pool.query(`select from pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
  try {
    for (const [type, all] of values) {
      // PostgreSQL 17 introduced the last of these types.
      const texts = all.filter((text) => server !== "15" || type !== "interval" || !text.includes("infinity"));
      await pool.query(
        `insert into ${NAME}."${type}" (v, list)
          select t::"${type}", array[t::"${type}", null] from unnest($1::text[]) t`,
        [texts],
      );
    }
    await pool.simple(`create table ${NAME}.end (n int4); insert into ${NAME}.end values (1)`);
    const told = await read(pool, slot);
    let compared = 0;
    for (const type of values.keys()) {
      const rows = await pool.stream(`select * from ${NAME}."${type}" order by id`);
      const lines = (await new Response(rows).text()).trimEnd().split("\n");
      const [found, at] = [told.get(type) ?? [], lines.findIndex((line, at) => line !== told.get(type)?.[at])];
      expect([type, found.length, found[at]]).toEqual([type, lines.length, lines[at]]);
      compared += lines.length;
    }
    for (const options of OPTIONS) {
      await pool.query(`select from pg_copy_logical_replication_slot('${slot}', '${slot}_copy')`);
      const objects = await readObjects(pool, slot, options);
      for (const type of values.keys()) {
        const { rows } = await pool.query(`select * from ${NAME}."${type}" order by id`, [], options);
        expect(objects.get(type), `${type} with ${JSON.stringify(options)}`).toStrictEqual(rows);
      }
      await dropSlot(pool, `${slot}_copy`);
    }
    console.log(`[changes] ${server}: ${compared} rows of ${values.size} types`);
    expect(compared).toBeGreaterThan(5_000);
  } finally {
    await pool.simple(`drop publication ${slot}; select pg_drop_replication_slot('${slot}')`);
  }
});

/** Options that decide what values become. */
const OPTIONS = [
  {},
  { int8: "bigint", numeric: "number", dates: "date" },
  { int8: "number", numeric: "string", bytea: "uint8array" },
] as const;

/** Returns each new row by table, up to the row of the table `end`. */
async function readObjects(pool: InstanceType<typeof driver.Pool>, slot: string, options: (typeof OPTIONS)[number]) {
  const rows = new Map<string, object[]>();
  for await (const change of changes(pool, { slot: `${slot}_copy`, publication: slot, ...options })) {
    if (change.kind !== "insert") continue;
    if (change.table === "end") break;
    if (!rows.has(change.table)) rows.set(change.table, []);
    rows.get(change.table)!.push(change.new);
  }
  return rows;
}

/** Retries until the server has noticed that its reader is gone. */
async function dropSlot(pool: InstanceType<typeof driver.Pool>, slot: string): Promise<void> {
  await expect
    .poll(() => pool.query(`select from pg_drop_replication_slot('${slot}')`).then(() => "dropped", String))
    .toBe("dropped");
}

/** Returns the text of each new row by table, up to the row of the table `end`. */
async function read(pool: InstanceType<typeof driver.Pool>, slot: string): Promise<Map<string, string[]>> {
  const rows = new Map<string, string[]>();
  const decoder = new TextDecoder();
  for await (const lines of changes(pool, { slot, publication: slot }).stream()) {
    for (const line of decoder.decode(lines).trimEnd().split("\n")) {
      const [, table, row] = /^\{"kind":"insert",.*?"table":"(\w+)","new":(.*)\}$/s.exec(line) ?? [];
      if (table === undefined) continue;
      if (!rows.has(table)) rows.set(table, []);
      rows.get(table)!.push(row!);
    }
    if (rows.has("end")) break;
  }
  return rows;
}
