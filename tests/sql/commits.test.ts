// Commands that commit a part of their work by themselves. PostgreSQL refuses each in a transaction, and the driver
// must not say of a conflict in one that nothing was stored (`mayCommitApart` in js/util/statement-words.ts).
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../js/index.ts";
import { mayCommitApart } from "../../js/util/statement-words.ts";
import { runtime, testServers } from "../integration/servers.ts";

const { connect } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");

/** By the first major that has it. */
const COMMANDS: Readonly<Record<string, number>> = {
  vacuum: 15,
  "vacuum (analyze) commits_parts": 15,
  cluster: 15,
  "reindex database": 16, // its name may be left out from 16 on
  "reindex schema public": 15,
  "reindex table concurrently commits_parts": 15,
  "create index concurrently commits_i on commits (n)": 15,
  "drop index concurrently commits_pkey": 15,
  "alter table commits_parts detach partition commits_part concurrently": 15,
  repack: 19,
};

const { servers } = testServers();

describe.each(servers.filter(({ own }) => own))("$name", ({ host, port, database, user, password }) => {
  let client: Client;
  let major = 0;
  beforeAll(async () => {
    client = await connect({ host, port, database, user, password, sslmode: "disable" });
    const { rows } = await client.query<{ v: string }>("select current_setting('server_version_num') as v");
    major = Math.floor(Number(rows[0]!.v) / 10_000);
    await client.simple(`drop table if exists commits, commits_parts;
      create table commits (n int4 primary key);
      create table commits_parts (n int4 primary key) partition by range (n);
      create table commits_part partition of commits_parts for values from (1) to (2)`);
  });
  afterAll(async () => {
    await client.exec("drop table commits, commits_parts");
    await client.close();
  });

  test.each(Object.entries(COMMANDS))("%s", async (text, since) => {
    expect(mayCommitApart([text])).toBe(true);
    expect(mayCommitApart([text], true)).toBe(false);
    await client.exec("begin");
    // active_sql_transaction; before its major a command is a syntax error
    await expect(client.exec(text)).rejects.toMatchObject({ code: major < since ? "42601" : "25001" });
    await client.exec("rollback");
  });
});
