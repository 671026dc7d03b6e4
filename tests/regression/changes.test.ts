// PostgreSQL's own regression tests run on a server, and a replica is built only from the NDJSON of their changes. In
// the end each table of the replica has the same rows as the server's, which `stream()` reads in binary. So values
// decoded from the log equal values read from the table.
//
// A rewrite of a table by DDL is not in the log, so a table whose columns have changed is left out of the comparison,
// and the number of such tables is printed. All tables have REPLICA IDENTITY FULL, because most of those tests have no
// keys.
import { execFile } from "node:child_process";
import { chmodSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { scratch } from "../servers/home.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { newCluster, prepare, run, superuser, withClient } from "../servers/postgres.mjs";
import { changes, driver } from "../replication/replication.ts";
import { HOURS } from "../support/release.ts";
import { scheduleOf, unpackRegressionTests } from "./source.mjs";

/** Tests of the server itself or of its planner's statistics, and tests that drop event triggers. */
const LEFT_OUT = /^(event_trigger|stats|stats_ext|tablespace|publication|subscription|vacuum.*|misc|misc_functions)$/;

const FULL = `
  create function full_identity() returns event_trigger language plpgsql as $$
  declare made record;
  begin
    for made in select * from pg_event_trigger_ddl_commands() where object_type = 'table' loop
      begin
        execute format('alter table %s replica identity full', made.object_identity);
      exception when others then null;
      end;
    end loop;
  end $$;
  create event trigger full_identity on ddl_command_end
    when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO') execute function full_identity();
  create publication everything for all tables`;

/**
 * Its composite type has lost one attribute and gained another. Values are read with the current type
 * (docs/changes.md).
 */
const OF_A_CHANGED_TYPE = new Set(["public.test_tbl3"]);

interface Row {
  [column: string]: unknown;
}

interface Line {
  kind: string;
  schema: string;
  table: string;
  oid: number;
  columns: { name: string; typeOid: number; typeModifier: number }[];
  tables: { schema: string; table: string }[];
  old?: Row;
  new?: Row;
}

/** Builds a copy of all tables from the lines. */
class Replica {
  /** By the table's OID: the number of occurrences of each row. */
  readonly tables = new Map<number, Map<string, number>>();
  /** By the table's OID: its columns. */
  readonly columns = new Map<number, string>();
  readonly #oids = new Map<string, number>();
  /** Tables whose columns have changed. */
  readonly changed = new Set<number>();
  lines = 0;
  isOver = false;

  apply(line: Line): void {
    this.lines++;
    const { kind, schema, table, old, new: row } = line;
    const name = `${schema}.${table}`;
    if (kind === "schema") return this.#learn(name, line);
    if (kind === "truncate") for (const each of line.tables) this.#of(`${each.schema}.${each.table}`).clear();
    if (old) this.#count(name, old, -1);
    // An unchanged TOASTed value is in the old row.
    if (row) this.#count(name, { ...old, ...row }, 1);
    if (name === "public.the_end") this.isOver = true;
  }

  #learn(name: string, { oid, columns }: Line): void {
    this.#oids.set(name, oid);
    const now = JSON.stringify(columns.map((column) => [column.name, column.typeOid, column.typeModifier]));
    if ((this.columns.get(oid) ?? now) !== now) this.changed.add(oid);
    this.columns.set(oid, now);
    if (!this.tables.has(oid)) this.tables.set(oid, new Map());
  }

  #of(name: string): Map<string, number> {
    return this.tables.get(this.#oids.get(name)!)!;
  }

  #count(name: string, row: Row, by: number): void {
    const rows = this.#of(name);
    const text = JSON.stringify(row);
    const count = (rows.get(text) ?? 0) + by;
    if (count) rows.set(text, count);
    else rows.delete(text);
  }
}

const FORM = { int8: "string", numeric: "string" } as const;

test.each([newestMajor(), 15])("PostgreSQL %d", { timeout: HOURS }, async (major) => {
  const folder = scratch(`regress-${major}`);
  await unpackRegressionTests(folder);
  chmodSync(folder, 0o755);
  const cluster = await newCluster(major);
  const server = await run(cluster, { log: logFile(`regression-${major}`), extra: { max_connections: "50" }, prepare });
  try {
    const { host, port } = server.descriptor;
    await withClient({ ended: false }, port, "postgres", (client) => client.query("create database regression"));
    const db = driver.createPool({ host, port, ...superuser, database: "regression", sslmode: "disable", max: 4 });
    await db.simple(FULL);
    await db.query("select from pg_create_logical_replication_slot('replica', 'pgoutput')");
    const replica = new Replica();
    const reading = read(db, replica);
    const ran = scheduleOf(folder).filter((name) => !LEFT_OUT.test(name));
    for (const name of ran) await psql(folder, name, port);
    await db.simple(
      "drop event trigger if exists full_identity; create table the_end (n int4); insert into the_end values (1)",
    );
    await reading;
    const found = await compare(db, replica);
    console.log(
      `[regression] ${major}: ${ran.length} files, ${replica.lines} lines; ` +
        `${found.equal} tables with ${found.rows} rows are equal, ${found.leftOut} left out because their columns have changed`,
    );
    expect(found.different).toEqual([]);
    expect(found.equal).toBeGreaterThan(400);
    await db.close();
  } finally {
    await server.stop();
  }
});

async function read(db: InstanceType<typeof driver.Pool>, replica: Replica): Promise<void> {
  const feed = changes(db, { slot: "replica", publication: "everything", acknowledge: "commit", ...FORM });
  const decoder = new TextDecoder();
  for await (const lines of feed.stream()) {
    for (const line of decoder.decode(lines).trimEnd().split("\n")) replica.apply(JSON.parse(line) as Line);
    if (replica.isOver) return;
  }
}

/** The outcome of a file's statements does not matter: many of them fail on purpose. */
function psql(folder: string, name: string, port: number): Promise<void> {
  const env = {
    ...process.env,
    PGHOST: "localhost",
    PGPORT: String(port),
    PGUSER: superuser.user,
    PGPASSWORD: superuser.password,
    PGDATABASE: "regression",
    PGOPTIONS: "-c statement_timeout=30s -c intervalstyle=postgres_verbose",
    PGTZ: "PST8PDT",
    PGDATESTYLE: "Postgres, MDY",
    PG_ABS_SRCDIR: folder,
    PG_ABS_BUILDDIR: folder,
    PG_LIBDIR: folder,
    PG_DLSUFFIX: ".so",
  };
  const words = ["-X", "-q", "-o", "/dev/null", "-f", path.join(folder, "sql", `${name}.sql`)];
  return new Promise((resolve, reject) => {
    execFile("psql", words, { env, maxBuffer: 1 << 28 }, (error) => {
      // Exit status 3: an error with ON_ERROR_STOP, which some files set.
      if (error && (error.killed || (error as { code?: unknown }).code === "ENOENT")) reject(error);
      else resolve();
    });
  });
}

const TABLES = `
  select c.oid::int8::text as oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name,
    (select json_agg(json_build_array(attname, atttypid::int8, atttypmod) order by attnum)::text from pg_attribute
      where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns,
    (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
      where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') as list
  from pg_class c join pg_namespace n on n.oid = relnamespace
  where relkind = 'r' and relpersistence = 'p' and nspname !~ '^pg_' and nspname <> 'information_schema'
  order by 2`;

async function compare(db: InstanceType<typeof driver.Pool>, replica: Replica) {
  const { rows: tables } = await db.query<{ oid: string; name: string; columns: string | null; list: string }>(TABLES);
  const found = { equal: 0, rows: 0, leftOut: 0, different: [] as unknown[] };
  for (const { oid, name, columns, list } of tables) {
    const known = replica.columns.get(Number(oid));
    const isChanged = known !== undefined && JSON.stringify(JSON.parse(columns ?? "[]")) !== known;
    if (replica.changed.has(Number(oid)) || isChanged || OF_A_CHANGED_TYPE.has(name)) {
      found.leftOut++;
      continue;
    }
    const own = new Map<string, number>();
    const text = await new Response(await db.stream(`select ${list ?? ""} from only ${name}`, FORM)).text();
    const lines = text === "" ? [] : text.trimEnd().split("\n");
    for (const line of lines) {
      const row = JSON.stringify(JSON.parse(line));
      own.set(row, (own.get(row) ?? 0) + 1);
    }
    const theirs = replica.tables.get(Number(oid)) ?? new Map<string, number>();
    const sorted = (rows: Map<string, number>) => [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
    const [mine, copied] = [sorted(own), sorted(theirs)];
    const at = mine.findIndex((row, at) => JSON.stringify(row) !== JSON.stringify(copied[at]));
    if (at < 0 && mine.length === copied.length) {
      found.equal++;
      found.rows += lines.length;
    } else
      found.different.push({
        name,
        rows: [mine.length, copied.length],
        table: mine[at],
        replica: copied[Math.max(at, 0)],
      });
  }
  return found;
}
