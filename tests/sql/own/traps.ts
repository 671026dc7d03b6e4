// A stranger's schema: for each function, operator, type and relation that our statements name, others of the same name
// that search_path leads to. A statement that runs one of them fails with SQLSTATE `TRAP1`.
//
// Knows the catalog. Must not know our statements: it gets the objects that the server found in them.
import type { Client } from "pg";

/** The objects of the server that statements name, by OID. */
export interface Named {
  readonly functions: ReadonlySet<number>;
  readonly operators: ReadonlySet<number>;
  readonly types: ReadonlySet<number>;
  readonly relations: ReadonlySet<number>;
}

export const FIRED = "TRAP1";

/** Only polymorphic types that PL/pgSQL takes. A pair of them is a trap for any two values. */
const POLYMORPHIC = ["anyelement", "anyarray"];

interface Signature {
  readonly name: string;
  /** The types of its arguments. */
  readonly args: string;
  /** Number of its last arguments that have defaults. */
  readonly defaults: number;
  readonly source: string;
  readonly isPair: boolean;
}

/** Makes schema `traps`. Its functions belong to the caller. */
export async function setTraps(client: Client, { functions, operators }: Named): Promise<void> {
  const run = (text: string) => client.query(text);
  await run(`set debug_print_parse = off; set search_path = pg_catalog, pg_temp; set check_function_bodies = off;
    create schema traps;
    create table traps.orders (id int primary key deferrable initially deferred, note text default 'x' check (note <> ''));
    create type traps.mood as enum ('a')`);
  const { rows: signatures } = await client.query<Signature>(
    `select distinct proname as name, oidvectortypes(proargtypes) as args, prosrc as source,
       pronargdefaults as defaults, pronargs = 2 and oid = any ($1) as "isPair"
     from pg_proc where pronamespace = 'pg_catalog'::regnamespace
       and proname in (select proname from pg_proc where oid = any ($1))`,
    [[...functions]],
  );
  const { rows: symbols } = await client.query<{ name: string; result: string }>(
    "select oprname as name, max(oprresult::regtype::text) as result from pg_operator where oid = any ($1) group by 1",
    [[...operators]],
  );
  const all = [...(await argumentTypes(client, functions, operators)), ...POLYMORPHIC];
  const made: string[] = [];
  const trap = (signature: string, result: string) =>
    made.push(
      `create or replace function traps.${signature} returns ${result} language plpgsql as ` +
        `$$begin raise exception 'a trap fired in %', current_database() using errcode = '${FIRED}'; end$$`,
    );
  const pairs = all.flatMap((a) =>
    all.filter((b) => POLYMORPHIC.includes(a) === POLYMORPHIC.includes(b)).map((b) => [a, b] as const),
  );
  for (const { name, args, source, defaults } of signatures) {
    // `count(*)` and `count("any")` are aggregates.
    if (name === "count") continue;
    if (args.endsWith('"any"') && source !== "aggregate_dummy") made.push(anyArguments(name, args, source));
    // A call may leave out arguments that have defaults.
    else if (!/any|internal|cstring|record/.test(args))
      for (let given = args.split(", "), left = defaults; left >= 0; left--, given = given.slice(0, -1))
        trap(`"${name}"(${given.join(", ")})`, "text");
  }
  for (const name of new Set(signatures.map((each) => each.name)))
    for (const type of all) trap(`"${name}"(${type})`, "text");
  for (const { name } of signatures.filter(({ isPair }) => isPair))
    for (const [a, b] of pairs) trap(`"${name}"(${a}, ${b})`, "text");
  for (const result of new Set(symbols.map((symbol) => symbol.result)))
    for (const [a, b] of pairs) trap(`"to ${result}"(${a}, ${b})`, result);
  for (const { name, result } of symbols)
    for (const [a, b] of pairs)
      made.push(`create operator traps.${name} (leftarg = ${a}, rightarg = ${b}, function = traps."to ${result}")`);
  trap(`"count of all"(bigint)`, "bigint");
  made.push(`create aggregate traps.count(*) (sfunc = traps."count of all", stype = bigint, initcond = 0)`);
  await run(made.join(";\n"));
  await run("reset search_path; reset debug_print_parse");
}

/** Makes what only one session sees: relations and types in pg_temp, which are found before all others. */
export async function setTemporaryTraps(client: Client, { types, relations }: Named): Promise<void> {
  await client.query(
    "create function pg_temp.fires(a anyelement) returns bool language plpgsql as " +
      `$$begin raise exception 'a trap fired in %', current_database() using errcode = '${FIRED}'; end$$`,
  );
  const { rows } = await client.query<{ name: string }>(
    "select distinct relname as name from pg_catalog.pg_class where oid operator(pg_catalog.=) any ($1)",
    [[...relations]],
  );
  const names = await namesOf(client, [...types]);
  const made = [
    ...names.map(
      (name) => `create domain pg_temp."${name}" as pg_catalog."${name}" check (pg_temp.fires(value) is not null)`,
    ),
    ...rows.map(({ name }) => `create table pg_temp."${name}" (none pg_catalog.int4)`),
  ];
  await client.query(made.join(";\n"));
}

/** Only internal functions take any number of any arguments. Such a one does not fire, but the tree shows it. */
function anyArguments(name: string, args: string, source: string): string {
  const signature = args.replace(/"any"$/, 'variadic "any"');
  return `create function traps."${name}"(${signature}) returns text language internal as '${source}'`;
}

/** The types of the arguments of these functions and operators, without pseudo-types. */
async function argumentTypes(
  client: Client,
  functions: ReadonlySet<number>,
  operators: ReadonlySet<number>,
): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select oid::regtype::text as name from pg_type where typtype = 'b' and oid in (
       select unnest(proargtypes) from pg_proc where oid = any ($1)
       union select unnest(array[oprleft, oprright]) from pg_operator where oid = any ($2)) order by 1`,
    [[...functions], [...operators]],
  );
  return rows.map(({ name }) => name);
}

async function namesOf(client: Client, types: readonly number[]): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select typname as name from pg_catalog.pg_type
     where oid operator(pg_catalog.=) any ($1) and typtype operator(pg_catalog.=) 'b'
       and typcategory operator(pg_catalog.<>) 'A'`,
    [types],
  );
  return rows.map(({ name }) => name);
}
