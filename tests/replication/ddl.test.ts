// Random sessions with DDL: a short program makes a copy of all tables from the NDJSON of their changes
// (ddl-replica.ts), and the copy equals the tables.
//
// `make test` plays a few programs, always the same, and a release many. `SEED=7` plays that one alone.
import pg from "pg";
import { describe, expect, test } from "vitest";
import { Dice } from "../random/dice.ts";
import { logFile } from "../servers/index.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { newCluster, prepare, run, superuser } from "../servers/postgres.mjs";
import { HOURS, isRelease } from "../support/release.ts";
import { until } from "../support/until.mjs";
import { Program, SCHEMA } from "./ddl-program.ts";
import { Replica, type Line } from "./ddl-replica.ts";
import { changes, driver } from "./replication.ts";

const STEPS = 80;
const { SEED } = process.env;
const seeds = SEED ? [Number(SEED)] : Array.from({ length: isRelease ? 150 : 6 }, (_, at) => at + 1);
const FORM = { int8: "string", numeric: "string" } as const;

type Db = InstanceType<typeof driver.Pool>;

describe.each([newestMajor(), 15])("PostgreSQL %d", (major) => {
  test("a copy made from NDJSON equals the tables", { timeout: HOURS }, async () => {
    const server = await run(await newCluster(major), { log: logFile(`changes-ddl-${major}`), extra: {}, prepare });
    const { port } = server.descriptor;
    const db = driver.createPool({
      host: "localhost",
      port,
      ...superuser,
      database: "app",
      sslmode: "disable",
      max: 2,
    });
    const client = new pg.Client({ host: "localhost", port, ...superuser, database: "app" });
    let reader: Reader | undefined;
    try {
      await client.connect();
      const generated = major >= 18 ? " with (publish_generated_columns = stored)" : "";
      await db.simple(`create table played (seed int4); create publication everything for all tables${generated}`);
      await db.query("select from pg_create_logical_replication_slot('copy', 'pgoutput')");
      reader = new Reader(db);
      const counts = { rows: 0, tables: 0, failed: 0, sent: 0 };
      for (const seed of seeds) {
        const program = new Program(client, new Dice(seed));
        await program.play(STEPS);
        try {
          await client.query(`insert into public.played values (${seed})`);
          await reader.reaches(seed);
          const found = await compare(db, reader.replica, major, seed);
          expect(found.different).toEqual([]);
          counts.rows += found.rows;
          counts.tables += found.tables;
        } catch (error) {
          console.log(`[changes] PostgreSQL ${major}, SEED=${seed}:\n${program.sent.join(";\n")}`);
          throw error;
        }
        counts.failed += program.failed;
        counts.sent += program.sent.length;
      }
      console.log(
        `[changes] PostgreSQL ${major}: ${seeds.length} programs with DDL, ${JSON.stringify(counts)}, ${JSON.stringify(reader.seen)}`,
      );
      if (!SEED)
        for (const each of ["delete", "old", "truncate", "unchanged"]) expect(reader.seen[each]).toBeGreaterThan(0);
    } finally {
      // A server that shuts down waits for the readers of its changes.
      await reader?.end();
      await client.end();
      await db.close();
      await server.stop();
    }
  });
});

/** Follows all tables. */
class Reader {
  readonly replica = new Replica();
  /** Counts the lines of each kind, and their optional members. */
  readonly seen: Record<string, number> = {};
  #played = 0;
  #error: unknown;
  readonly #stream: ReadableStreamDefaultReader<Uint8Array>;

  constructor(db: Db) {
    const options = { slot: "copy", publication: "everything", acknowledge: "commit", ...FORM } as const;
    this.#stream = changes(db, options).stream().getReader();
    this.#read().catch((error: unknown) => (this.#error = error));
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    for (let step; !(step = await this.#stream.read()).done;)
      for (const text of decoder.decode(step.value).trimEnd().split("\n")) {
        const line = JSON.parse(text) as Line;
        for (const each of [line.kind, line.old && "old", line.unchanged && "unchanged"])
          if (each !== undefined) this.seen[each] = (this.seen[each] ?? 0) + 1;
        this.replica.apply(line);
        if (line.table === "played" && line.schema === "public" && line.new) this.#played = line.new["seed"] as number;
      }
  }

  async reaches(seed: number): Promise<void> {
    await until(() => {
      if (this.#error !== undefined) throw this.#error as Error;
      return this.#played === seed;
    }, `the changes of program ${seed} have come`);
  }

  async end(): Promise<void> {
    await this.#stream.cancel();
  }
}

const TABLES = (generated: string) => `
  select c.oid::int8::int4 as oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name,
    (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
      where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated in (${generated})) as list
  from pg_class c join pg_namespace n on n.oid = relnamespace
  where relkind = 'r' and nspname = '${SCHEMA}' order by 2`;

/** The order of rows and columns does not count. */
const sorted = (rows: readonly object[]) =>
  rows.map((row) => JSON.stringify(Object.entries(row).sort(([one], [other]) => (one < other ? -1 : 1)))).sort();

async function compare(db: Db, replica: Replica, major: number, seed: number) {
  const { rows: tables } = await db.query<{ oid: number; name: string; list: string | null }>(
    TABLES(major >= 18 ? "'', 's'" : "''"),
  );
  const found = { rows: 0, tables: tables.length, different: [] as unknown[] };
  for (const { oid, name, list } of tables) {
    // The text differs each time: a known statement would belong to another program's table.
    const query = `select ${list ?? ""} from only ${name} -- ${seed}`;
    const text = await new Response(await db.stream(query, FORM)).text();
    const lines = text === "" ? [] : text.trimEnd().split("\n");
    const source = sorted(lines.map((line) => JSON.parse(line) as object));
    const copy = sorted(replica.copies.get(oid)?.rows ?? []);
    if (JSON.stringify(source) !== JSON.stringify(copy)) found.different.push({ name, source, copy });
    found.rows += source.length;
  }
  return found;
}
