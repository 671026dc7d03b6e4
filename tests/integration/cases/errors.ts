// What an error says about the call that it ended: the caller's own line, the SQL and the position in it, and no
// secrets.
import type { Client, PgzError, Pool, PostgresError } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";

/** Returns the error that the work throws. No other frame of the stack is in between. */
async function caught(work: () => Promise<unknown>): Promise<PgzError> {
  try {
    await work();
  } catch (error) {
    return error as PgzError;
  }
  throw new Error("expected an error");
}

const WRONG = "select no_such_column from pg_class";

/** Every kind of call, with SQL that fails. Each runs in a function of its own name. */
const calls: Record<string, (client: Client) => Promise<unknown>> = {
  query: (client) => client.query(WRONG),
  template: (client) => client.query`select no_such_column from pg_class`,
  exec: (client) => client.exec(WRONG),
  json: (client) => client.json(WRONG),
  simple: (client) => client.simple(`select 1; ${WRONG}`),
  describe: (client) => client.describe(WRONG),
  prepare: (client) => client.prepare(WRONG),
  stream: (client) => client.stream(WRONG),
  respond: (client) => client.respond(WRONG),
  batch: (client) => client.batch(["select 1", WRONG]),
  copyTo: (client) => client.copyTo(`copy (${WRONG}) to stdout`),
  rows: async (client) => {
    for await (const _ of client.rows(WRONG));
  },
  batches: async (client) => {
    for await (const _ of client.rows(WRONG).batches(10));
  },
  cursor: async (client) => {
    for await (const _ of client.cursor(WRONG, 10));
  },
  item: async (client) => {
    const [, item] = await client.batch(["select 1", WRONG], { atomic: false });
    throw (item as PromiseRejectedResult).reason;
  },
  transaction: (client) =>
    client.transaction(async function callback(tx) {
      await tx.query(WRONG);
    }),
  scope: (client) => client.scope({ settings: { "app.tenant": 7 } }).query(WRONG),
};

async function callsOf(t: Context, client: Client): Promise<void> {
  for (const [name, call] of Object.entries(calls)) {
    const error = await caught(async function whereItIsCalled() {
      await call(client);
    });
    t.assert(error instanceof t.pgz.PostgresError, `${name}: ${error.stack}`);
    const line = name === "transaction" ? /callback/ : /whereItIsCalled/;
    t.assert.match(error.stack ?? "", line, name);
    t.assert.match(error.query ?? "", /select no_such_column/, name);
    t.assert.match(error.excerpt ?? "", /^LINE 1: .*no_such_column from pg_class.*\n *\^$/, name);
    const [first, mark] = error.excerpt!.split("\n") as [string, string];
    t.assert.equal(first.indexOf("no_such_column"), mark.indexOf("^"), name);
    t.assert((error.stack ?? "").includes(error.excerpt!), `${name}: the stack shows the place`);
  }
}

export const errors: Cases = {
  async "the stack of a failed call names the caller and the position in the SQL"(t) {
    const client = await t.client();
    await callsOf(t, client);
  },
  async "a failed call of a pool or a lease names its caller"(t) {
    const pool: Pool = t.pgz.createPool(t.options);
    try {
      const all = await caught(async function ofAPool() {
        await Promise.all([pool.query("select 1"), pool.query(WRONG)]);
      });
      t.assert.match(all.stack ?? "", /ofAPool/);
      const lease = await pool.acquire();
      const one = await caught(async function ofALease() {
        await lease.query(WRONG);
      });
      await lease.release();
      t.assert.match(one.stack ?? "", /ofALease/);
      t.assert.equal(one.query, WRONG);
    } finally {
      await pool.close();
    }
  },
  async "the error about a value that does not fit points at its parameter in the SQL"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const row = { id: 1, größe: 70_000 };
    const insert = sql`insert into things ${sql.values(row)} -- $1`;
    await client.exec('create temporary table things (id int2, "größe" int2)');
    for (let run = 0; run < 2; run++) {
      const error = await caught(async function ofAValue() {
        await client.exec(insert);
      });
      t.assert.match(error.stack ?? "", /ofAValue/);
      t.assert.deepEqual([error.code, error.parameter], ["PARAMETER_OUT_OF_RANGE", 2]);
      const [line, mark] = error.excerpt!.split("\n") as [string, string];
      t.assert.equal(line.slice(mark.indexOf("^")), "$2) -- $1");
      t.assert(error.stack!.includes(error.excerpt!), "in the stack too");
    }
    const batched = await caught(() => client.batch(["select 1", sql`select ${[1]}::int4 as a`]));
    t.assert.equal(batched.parameter, 1);
    t.assert.match(batched.excerpt ?? "", /^LINE 1: select \$1::int4 as a\n {15}\^$/);
  },
  async "transactions that fail by one connect each name their own caller"(t) {
    const options = { ...t.options, database: "not_there" };
    // The callers of a pool learn of the failure in no fixed order, so ten pools are tried.
    const pools = Array.from({ length: 10 }, () => t.pgz.createPool(options));
    const client = t.pgz.createClient(options);
    for (const owner of [client, ...pools]) {
      // When the first statement leaves with the login, the callback's call is the one that fails. Bundlers number
      // equal names.
      async function firstCaller() {
        await owner.transaction(async function firstCaller(tx) {
          await tx.query("select 1");
        });
      }
      async function secondCaller() {
        await owner.transaction(async function secondCaller(tx) {
          await tx.query("select 1");
        });
      }
      const [first, second] = await Promise.all([caught(firstCaller), caught(secondCaller)]);
      t.assert.equal(first.code, "3D000");
      t.assert.match(first.stack ?? "", /firstCaller/);
      t.assert.match(second.stack ?? "", /secondCaller/);
    }
    await Promise.all([client, ...pools].map((owner) => owner.close()));
  },
  async "errors of prepared statements, COMMIT and COPY name the caller"(t) {
    const client = await t.client();
    const prepared = await client.prepare("select 1 / $1::int4");
    const divided = await caught(async function ofAPrepared() {
      await prepared.query([0]);
    });
    t.assert.match(divided.stack ?? "", /ofAPrepared/);
    t.assert.equal(divided.query, "select 1 / $1::int4");
    t.assert.equal(divided.excerpt, undefined);
    await client.exec("create temp table late (id int4 unique deferrable initially deferred)");
    const late = await caught(async function ofACommit() {
      await client.transaction((tx) => tx.exec("insert into late values (1), (1)"));
    });
    t.assert.equal(late.code, "23505");
    t.assert.match(late.stack ?? "", /ofACommit/);
    const copied = await caught(async function ofACopy() {
      await client.copyFrom("copy late from stdin", "x\n");
    });
    t.assert.match(copied.stack ?? "", /ofACopy/);
    t.assert.equal(copied.query, "copy late from stdin");
    const row = await caught(async function ofRows() {
      await client.copyFromRows("late", ["id"], [[1], ["x"]]);
    });
    t.assert.match(row.stack ?? "", /ofRows/);
    t.assert.match(row.message, /^Row 1, column "id" \(int4\) /);
    t.assert.equal(row.row, 1);
    const value = await caught(async function ofAValue() {
      await client.query(t.pgz.sql`select ${{}}::int4`);
    });
    t.assert.match(value.stack ?? "", /ofAValue/);
    t.assert.equal(value.query, "select $1::int4");
  },
  async "the error of a stream that fails later names the caller"(t) {
    const client = await t.client();
    const error = await caught(async function ofAStream() {
      const stream = await client.stream("select 1 / (50000 - n) from generate_series(1, 100000) as n");
      await new Response(stream).arrayBuffer();
    });
    // The reader of a Response may wrap the stream's error.
    const own = error instanceof t.pgz.PgzError ? error : undefined;
    if (own) t.assert.match(own.stack ?? "", /ofAStream/);
    const direct = await caught(async function ofAReader() {
      const reader = (await client.stream("select 1 / (50000 - n) from generate_series(1, 100000) as n")).getReader();
      for (;;) if ((await reader.read()).done) return;
    });
    t.assert.equal(direct.code, "22012");
    t.assert.match(direct.stack ?? "", /ofAReader/);
  },
  async "an error has the server's fields and none of the runtime's"(t) {
    const client = await t.client();
    const { column, line } = (await caught(() => client.query("select 1 / 0"))) as PostgresError;
    t.assert.deepEqual([column, typeof line], [undefined, "string"]);
    await client.exec("create temporary table strict (needed int not null)");
    const missing = (await caught(() => client.exec("insert into strict values (null)"))) as PostgresError;
    t.assert.equal(missing.column, "needed");
  },
  async "parameters are shown only with debug, and passwords never"(t) {
    const query = { text: "select 1 / $1::int4, $2::text", values: [0, "personal"] };
    const failed = (client: Client) => caught(() => client.query(query));
    const plain = await failed(await t.client());
    t.assert.equal(plain.parameters, undefined);
    t.assert(!JSON.stringify(plain).includes("select"), "JSON has no SQL");
    const client = await t.client({ debug: () => {} });
    t.assert.deepEqual((await failed(client)).parameters, query.values);
    // No code awaits the call, so only the record of the call itself can name it.
    const made = await new Promise<PgzError>(function executor(_, reject) {
      client.query(WRONG).catch(reject);
    }).catch((error: PgzError) => error);
    t.assert.match(made.stack ?? "", /executor/);
    for (const text of [
      "create role nobody_1 password 'secret-1' nonsense",
      "alter /* x */ user nobody_1 with encrypted password 'secret-1' nonsense",
      "create user mapping for nobody_1 server none options (secret 'secret-1')",
      "update no_such_table set password = 'secret-1'",
      "create subscription /* ' */ nobody_1 connection 'host=h pass=secret-1' nonsense",
      "create user mapping for nobody_1 server nobody_1 options (user 'u', pass 'secret-1')",
      "do $$ begin create user mapping for nobody_1 server nobody_1 options (pass 'secret-1'); end $$",
      "do 'begin alter role nobody_1 password ''secret-1''; end'",
      "do $a$ begin execute $b$ alter user nobody_1 password 'secret-1' $b$; end $a$",
    ]) {
      const error = await caught(() => client.query(text));
      t.assert(error instanceof t.pgz.PostgresError, text);
      t.assert.equal(error.query, "(hidden: it may hold a password)");
      t.assert.equal(error.excerpt, undefined);
      for (const name of Object.getOwnPropertyNames(error))
        t.assert(!String((error as unknown as Record<string, unknown>)[name]).includes("secret-1"), `${text}: ${name}`);
    }
  },
  async "debug reports each flight with its SQL and without values"(t) {
    const lines: string[] = [];
    const debug = (line: string) => void lines.push(line);
    await using client = t.pgz.createClient({ ...t.options, debug });
    await client.query("select 1 as a");
    lines.splice(0);
    for (let time = 0; time < 3; time++) await client.query("select $1::text as secret", ["hunter2"]);
    await caught(() => client.query("select nothing from nowhere"));
    const flights = lines.map((line) => line.replace(/^pgz-edge #\d+ /, "").replace(/ \(\d+ bytes[^)]*\)/, ""));
    t.assert.match(flights.at(-4)!, /^> Bind .*Execute Sync: select \$1::text as secret$/);
    t.assert.match(flights.at(-3)!, /^< BindComplete .*DataRow CommandComplete ReadyForQuery$/);
    t.assert.match(flights.at(-2)!, /^> .*Parse .*: select nothing from nowhere/);
    t.assert.match(flights.at(-1)!, /^< .*ErrorResponse 42P01 .*ReadyForQuery$/);
    t.assert.equal(flights.length % 2, 0);
    t.assert(!lines.join().includes("hunter2"), "no value");
    t.assert(!lines.join().includes(t.options.password), "no password");
  },
  async "console.log of our objects shows names and no secrets"(t) {
    const client = await t.client();
    const hook = Symbol.for("nodejs.util.inspect.custom");
    const shown = (value: unknown) =>
      (value as Record<symbol, (depth: number, options: object, inspect: (value: unknown) => string) => string>)[hook]!(
        2,
        {},
        (members) => JSON.stringify(members),
      );
    t.assert.match(shown(client), /^Client \{"state":"idle","host":/);
    for (const printed of [shown(client), JSON.stringify(client), String(client)])
      t.assert(!printed.includes(t.options.password), "no password");
    t.assert.match(shown(t.pgz.sql`select ${"secret"}`), /^Query \{"text":"select \$1","values":"1 value"\}$/);
    const prepared = await client.prepare("select $1::int4 as a");
    t.assert.match(shown(prepared), /^Prepared \{"text":"select \$1::int4 as a","parameterTypes":\[23\]/);
    await client.transaction((tx) => t.assert.match(shown(tx), /^Transaction \{"state":"open"/));
    const error = await caught(() => client.query("select 1 / $1::int4", [0]));
    t.assert.match(shown(error), /^PostgresError: division by zero\n[^]* \{"code":"22012".*"query":"select 1/);
    t.assert(!shown(error).includes("int.c"), "no lines of the server's source");
  },
};
