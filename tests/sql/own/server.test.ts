// Runs every statement of the driver's own on each server, among the traps of a stranger (traps.ts): none fires, and the
// server's own tree of each statement has nothing that is outside pg_catalog.
//
// The tree shows what lint.ts cannot know, what a name means; lint.ts shows what a tree cannot, how a name was written.
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { everyNode, items, readTree, type Node, type Value } from "../../../js/cli/types/tree.ts";
import { testServers } from "../../integration/servers.ts";
import { ownStatements, type OwnStatement } from "./list.ts";
import { FIRED, setTemporaryTraps, setTraps, type Named } from "./traps.ts";
import { unqualified } from "./unqualified.ts";

const { servers } = testServers();

/** With the second path the traps come before pg_catalog, so that they win where the types match exactly, too. */
const PATHS = ["traps", "traps, pg_catalog"];

interface Outcome {
  /** The SQLSTATE, if the statement failed. */
  readonly code: string | undefined;
  readonly named: Named;
}

describe.each(servers.filter(({ own }) => own))("$name", ({ superuserUrl, major }) => {
  const statements = ownStatements.filter(({ kind, since = 0 }) => kind === "names" && since <= major);
  const database = `own_${Math.random().toString(36).slice(2)}`;
  const clients: Client[] = [];

  async function connect(path: string): Promise<Client> {
    const url = new URL(superuserUrl!);
    url.pathname = database;
    // RESET ALL of our own statement returns to these.
    const settings = { search_path: path.replaceAll(" ", "\\ "), debug_print_parse: "on", debug_pretty_print: "off" };
    const options = Object.entries({ ...settings, client_min_messages: "log" }).map(([name, to]) => `-c ${name}=${to}`);
    const client = new Client({ connectionString: url.href, options: options.join(" ") });
    await client.connect();
    clients.push(client);
    return client;
  }

  let plain: Client;
  let all: Named;

  beforeAll(async () => {
    const admin = new Client({ connectionString: superuserUrl });
    await admin.connect();
    await admin.query(`create database ${database}`);
    await admin.end();
    plain = await connect("pg_catalog");
    // The first function of Citus that a scope needs there.
    await plain.query(`create function pg_catalog.create_intermediate_result(text, text) returns int
      language sql as 'select 1'`);
    const outcomes = [];
    for (const statement of statements) outcomes.push(await run(plain, statement));
    all = together(outcomes.map(({ named }) => named));
    await setTraps(plain, all);
  }, 60_000);
  afterAll(() => Promise.all(clients.map((client) => client.end())));

  test.each(PATHS)("no statement runs or names anything of a stranger, with search_path %s", async (path) => {
    const client = await connect(path);
    await setTemporaryTraps(client, all);
    const faults: string[] = [];
    for (const statement of statements) faults.push(...(await faultsOf(client, statement)));
    expect(faults).toEqual([]);
  });

  test("a trap or a tree shows each qualification that is taken away", async () => {
    const client = await connect("traps, pg_catalog");
    await setTemporaryTraps(client, all);
    const missed: string[] = [];
    let count = 0;
    for (const statement of statements)
      for (const text of unqualified(statement.text)) {
        count++;
        if ((await faultsOf(client, { ...statement, text })).length === 0) missed.push(text);
      }
    expect(count).toBeGreaterThan(400);
    // PL/pgSQL parses an expression when it runs. lint.ts misses those of a handler or a branch that is not taken.
    expect(missed.filter((text) => !text.startsWith("do "))).toEqual([]);
  });

  /** Returns what the statement has of a stranger, and whether it ended in another way than it is meant to. */
  async function faultsOf(client: Client, statement: OwnStatement): Promise<string[]> {
    const { code, named } = await run(client, statement);
    const of = `${statement.owner}: ${statement.text.slice(0, 80)}`;
    const strange = (await strangersIn(plain, named)).map((name) => `${of} has ${name}`);
    if (code === FIRED) return [`${of} runs a trap`, ...strange];
    return code === statement.fails ? strange : [`${of} ends with ${code ?? "rows"}`, ...strange];
  }
});

/** Runs the statement in a transaction that is rolled back, and reads the trees that the server shows. */
async function run(client: Client, { text, values }: OwnStatement): Promise<Outcome> {
  const trees: Value[] = [];
  const heard = ({ message, detail }: { message?: string | undefined; detail?: string | undefined }) => {
    if (message === "parse tree:") trees.push(readTree(detail ?? ""));
  };
  await client.query("begin");
  client.on("notice", heard);
  let code: string | undefined;
  try {
    // Without a list of values pg sends the text by the simple protocol.
    await client.query(values ? ({ text, values: [...values], queryMode: "extended" } as never) : text);
  } catch (error) {
    ({ code } = error as { code?: string });
  } finally {
    client.off("notice", heard);
    await client.query("rollback");
  }
  return { code, named: together(trees.map(namedIn)) };
}

function together(all: readonly Named[]): Named {
  const union = (of: keyof Named) => new Set(all.flatMap((each) => [...each[of]]));
  return {
    functions: union("functions"),
    operators: union("operators"),
    types: union("types"),
    relations: union("relations"),
  };
}

/** Fields of nodes that hold OIDs, by what the OIDs are of. */
const FIELDS: Readonly<Record<keyof Named, readonly string[]>> = {
  functions: ["funcid", "aggfnoid", "winfnoid"],
  operators: ["opno", "eqop", "sortop"],
  types: [
    ...["consttype", "vartype", "paramtype", "resulttype", "funcresulttype", "opresulttype", "aggtype", "wintype"],
    ...["array_typeid", "element_typeid", "casetype", "coalescetype", "minmaxtype", "refcontainertype", "refelemtype"],
  ],
  relations: ["relid"],
};

function namedIn(tree: Value): Named {
  const found = {
    functions: new Set<number>(),
    operators: new Set<number>(),
    types: new Set<number>(),
    relations: new Set<number>(),
  };
  for (const node of everyNode(tree))
    for (const of of Object.keys(FIELDS) as (keyof Named)[])
      for (const field of FIELDS[of]) for (const oid of oidsOf(node, field)) found[of].add(oid);
  return found;
}

function oidsOf(node: Node, field: string): number[] {
  const value = node[field];
  return (typeof value === "string" ? [value] : items(value)).map(Number).filter((oid) => oid > 0);
}

/** Returns the objects among these that are not in pg_catalog. */
async function strangersIn(client: Client, { functions, operators, types, relations }: Named): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from (
       select pronamespace as schema, oid::regprocedure::text as name from pg_proc where oid = any ($1)
       union all select oprnamespace, oid::regoperator::text from pg_operator where oid = any ($2)
       union all select typnamespace, oid::regtype::text from pg_type where oid = any ($3)
       union all select relnamespace, oid::regclass::text from pg_class where oid = any ($4)) as named
     where schema <> 'pg_catalog'::regnamespace`,
    [functions, operators, types, relations].map((oids) => [...oids]),
  );
  return rows.map(({ name }) => name);
}
