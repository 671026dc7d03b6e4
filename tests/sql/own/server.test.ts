// Runs every statement of the driver's own on each server, among the traps of a stranger (traps.ts): none fires, and
// the server's own tree of each statement has nothing that is outside pg_catalog.
//
// The tree shows what lint.ts cannot know, what a name means; lint.ts shows what a tree cannot, how a name was written.
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testServers } from "../../integration/servers.ts";
import { lookingUp, type OwnStatement } from "./list.ts";
import { namedByOwn, run, SHOWING_TREES } from "./named.ts";
import { FIRED, setTemporaryTraps, setTraps, type Named } from "./traps.ts";
import { unqualified } from "./unqualified.ts";

const servers = testServers().servers.filter(({ own }) => own);

/** With the second path the traps come before pg_catalog, so that they win where the types match exactly, too. */
const PATHS = ["traps", "traps, pg_catalog"];

describe.each(servers)("$name", ({ superuserUrl, major }) => {
  const statements = lookingUp(major);
  const database = `own_${Math.random().toString(36).slice(2)}`;
  const clients: Client[] = [];

  async function connect(path: string): Promise<Client> {
    const url = new URL(superuserUrl);
    url.pathname = database;
    const options = `-c search_path=${path.replaceAll(" ", "\\ ")} ${SHOWING_TREES}`;
    const client = new Client({ connectionString: url.href, options });
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
    all = await namedByOwn(plain, major);
    await setTraps(plain, all);
  });
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
    const unseen: string[] = [];
    let count = 0;
    for (const statement of statements)
      for (const text of unqualified(statement.text)) {
        count++;
        if ((await faultsOf(client, { ...statement, text })).length === 0) unseen.push(text);
      }
    expect(count).toBeGreaterThan(400);
    // PL/pgSQL parses an expression when it runs. lint.ts reports those of a handler or a branch that is not taken.
    expect(unseen.filter((text) => !text.startsWith("do "))).toEqual([]);
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
