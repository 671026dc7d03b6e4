// Round trips, counted by a byte proxy in front of a real server: which messages leave together, and how often a call
// waits for a response.
//
// Cases as in tests/integration (same context); they are here because they need the fault host. A flight
// is a change of direction to client-to-server, counted from TCP open, so no case depends on time.
import type { Client, Options, Query, Transaction } from "../../js/index.ts";
import type { Cases } from "../integration/context.ts";
import type { Flight, Proxy, ProxyReport } from "./control.ts";
import { lines, newDatabase, through } from "./proxied.ts";

const loggedIn = ({ flights }: ProxyReport): Flight[] =>
  flights.filter(({ messages }) =>
    messages.some((name) => !/^(StartupMessage|PasswordMessage|SSLRequest)$/.test(name)),
  );
/** The flight of a statement that has not been described: the statement, its description, the check, its run. */
const FIRST_RUN = "Close Parse Describe Parse Bind Execute Bind Execute Sync";
/** The third first run on a connection, where the check is prepared since the second. */
const LATER_FIRST_RUN = "Close Parse Describe Bind Execute Bind Execute Sync";
const names = (flight: Flight | undefined) => flight?.messages.join(" ");

/** Before PostgreSQL 16 a statement whose rows are read is described first. */
const WITH_FIRST_RUNS = { since: 16 };

/** Closes the client. Returns the flights of its connection after the login, Terminate too. */
async function flightsOf(client: Client, proxy: Pick<Proxy, "close">): Promise<Flight[]> {
  await client.close();
  const [connection] = await proxy.close();
  return loggedIn(connection!);
}

export const flightCases: Cases = {
  "first row after TCP open: 4 flights; 3 for a new server and 2 for a known one with an early query": {
    ...WITH_FIRST_RUNS,
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const once = async (n: number, more: Options) => {
        await using client = t.pgz.createClient({ ...t.options, ...options, ...more });
        const query = n === 1 ? sql`select 1 as n, ${"x"}::text as t` : sql`select 2 as n, ${"x"}::text as t`;
        await t.assert.rows(client.query(query), [{ n, t: "x" }]);
      };
      const known = await newDatabase(t);
      await once(1, { ...known, earlyQuery: false });
      await once(1, { ...known, earlyQuery: false });
      await once(1, { ...known, earlyQuery: true });
      await once(2, { ...known, earlyQuery: true });
      // Another database counts as another server, because its login may be another one.
      for (const more of [{}, { requireAuth: "scram-sha-256" }])
        await once(1, { ...(await newDatabase(t)), earlyQuery: true, ...more });
      const connections = await proxy.close();
      t.assert.deepEqual(
        connections.map(({ flightsToFirstRow }) => flightsToFirstRow),
        [4, 3, 2, 2, 3, 2],
      );
      const first = connections.map(({ flights }) => names(flights[0]));
      const guessed = "StartupMessage PasswordMessage";
      t.assert.deepEqual(first, ["StartupMessage", guessed, guessed, guessed, "StartupMessage", guessed]);
      t.assert.equal(names(connections[2]?.flights[1]), "PasswordMessage Parse Bind Describe Execute Sync");
      t.assert.equal(names(connections[3]?.flights[1]), `PasswordMessage ${FIRST_RUN}`);
    },
  },
  "a server that asks for another authentication than predicted is asked again without prediction, and remembered": {
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const password = (encryption: string) =>
        t.side(`set password_encryption = '${encryption}'; alter role app_turns password 'app_turns-secret'`);
      const login = async (more: { earlyQuery?: boolean; password?: string; requireAuth?: string } = {}) => {
        const turns = { user: "app_turns", password: "app_turns-secret" };
        await using client = t.pgz.createClient({ ...t.options, ...options, ...turns, ...more });
        const { rows } = await client.query<{ user: string }>("select current_user::text as user");
        return rows[0]?.user;
      };
      t.after(() => password("scram-sha-256"));
      t.assert.equal(await login(), "app_turns");
      await password("md5");
      t.assert.equal(await login({ earlyQuery: true }), "app_turns");
      t.assert.equal(await login(), "app_turns");
      await t.assert.code(login({ requireAuth: "scram-sha-256" }), "AUTH_METHOD_REFUSED");
      await password("scram-sha-256");
      t.assert.equal(await login(), "app_turns");
      await t.assert.code(login({ password: "wrong" }), "28P01");
      t.assert.equal(await login(), "app_turns");
      const first = (await proxy.close()).map(({ flights }) => names(flights[0]));
      const [asked, guessed] = ["StartupMessage", "StartupMessage PasswordMessage"];
      t.assert.deepEqual(first, [asked, guessed, asked, asked, asked, asked, guessed, guessed]);
    },
  },
  "each statement takes one flight, known or not, ending in Sync and without Flush": {
    ...WITH_FIRST_RUNS,
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const client = await t.client(options);
      for (const n of [1, 2, 3, 4]) await client.query(sql`select ${n}::int4 as n`);
      for (const n of [1, 2]) await lines(await client.stream(sql`select ${n}::int8 as n, 'x' as t`));
      await client.query(sql`select ${1}::int4 as n`);
      await t.assert.code(client.query(sql`select 1 / ${0}::int4 as n`), "22012");
      await client.query(sql`select ${1}::int4 as n`);
      const flights = await flightsOf(client, proxy);
      t.assert.equal(names(flights.pop()), "Terminate");
      const { flightsToFirstRow, flightsToRows } = (await proxy.close())[0]!;
      t.assert.equal(flightsToRows.map((n) => n - flightsToFirstRow).join(), "0,1,2,3,4,5,6,9");
      for (const { messages } of flights) {
        t.assert.equal(messages.indexOf("Sync"), messages.length - 1, messages.join(" "));
        t.assert(!messages.includes("Flush") && !messages.includes("Query"), messages.join(" "));
      }
    },
  },
  "calls made together leave together, each with a Sync of its own, and are answered in order": {
    ...WITH_FIRST_RUNS,
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const five = [1, 2, 3, 4, 5];
      const together = async (client: Pick<Transaction, "query" | "exec" | "json">) => {
        const [first, none, json, ...rest] = await Promise.all([
          client.query(sql`select ${1}::int4 as n`),
          client.exec(sql`select ${2}::int4 as n`),
          client.json(sql`select ${3}::int4 as n`),
          client.query(sql`select ${4}::int4 as n`),
          client.query(sql`select ${5}::int4 as n`),
        ]);
        t.assert.deepEqual([first?.rows, ...rest.map(({ rows }) => rows)].flat(), [{ n: 1 }, { n: 4 }, { n: 5 }]);
        t.assert.equal(none?.rowCount, 1);
        t.assert.equal(new TextDecoder().decode(json), '[{"n":3}]');
      };
      const client = await t.client(options);
      await client.query(sql`select ${0}::int4 as n`);
      const { flights } = client.stats();
      await together(client);
      t.assert.equal(client.stats().flights, flights + 1);
      await client.transaction(async (tx) => {
        await tx.exec(sql`select ${0}::int4 as n`);
        await together(tx);
      });
      await client.close();
      const one = await t.client({ ...options, pipelining: 1 });
      await together(one);
      await one.close();
      const many = await t.client({ ...options, pipelining: 3 });
      await Promise.all(five.map((n) => many.query(sql`select ${n}::int4 as n`)));
      await many.close();
      const [sharing, alone, three] = (await proxy.close()).map((each) => loggedIn(each).map(names));
      const known = "Bind Describe Execute Sync";
      const all = (count: number) => Array(count).fill(known).join(" ");
      t.assert.deepEqual(sharing, [
        FIRST_RUN,
        `Parse ${all(5)}`,
        `Parse Bind Execute ${known}`,
        all(5),
        "Query",
        "Terminate",
      ]);
      t.assert.deepEqual(alone, [`Parse ${known}`, `Parse ${known}`, known, known, known, "Terminate"]);
      t.assert.equal(three?.[0], `Parse ${known} Parse ${all(2)}`);
      t.assert.equal(three?.at(-1), "Terminate");
    },
  },
  "five unknown statements leave together in one write, even with the login": {
    ...WITH_FIRST_RUNS,
    differs: ["sockets"],
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const five = (client: Pick<Transaction, "query">, name: string) =>
        Promise.all(
          [1, 2, 3, 4, 5].map((n) => client.query(sql.unsafe(`select ${n} as n, '${name}' as t, array[now()] as a`))),
        );
      const client = await t.client(options);
      const { writes } = client.stats();
      const results = await five(client, "connected");
      t.assert.equal(results.map(({ rows }) => (rows[0] as { n: number }).n).join(), "1,2,3,4,5");
      t.assert.equal(client.stats().writes - writes, 1);
      await client.close();
      const cold = t.pgz.createClient({ ...t.options, ...options, earlyQuery: true });
      await five(cold, "cold");
      await cold.close();
      const [connected, early] = await proxy.close();
      const together = [FIRST_RUN, FIRST_RUN, ...Array<string>(3).fill(LATER_FIRST_RUN)].join(" ");
      t.assert.deepEqual(loggedIn(connected as ProxyReport).map(names), [together, "Terminate"]);
      // It is not known yet whether a pooler answers.
      const unnamed = Array(5).fill(FIRST_RUN).join(" ");
      t.assert.deepEqual(loggedIn(early as ProxyReport).map(names), [`PasswordMessage ${unnamed}`, "Terminate"]);
      t.assert.equal(early?.flightsToFirstRow, 2);
    },
  },
  "each shape of the latency benchmark takes exactly its number of flights": {
    ...WITH_FIRST_RUNS,
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const five = (rank: string) =>
        [1, 2, 3, 4, 5].map((n) => sql.unsafe(`select ${n} as n, '${rank}' as t /* counted */`));
      const together = (client: Pick<Transaction, "query">) =>
        Promise.all(five("together").map((query) => client.query<{ n: number }>(query)));
      const [first, second, third] = five("together") as [Query, Query, Query];
      const three = (calls: Pick<Client, "transaction">, last: "last" | "query") =>
        calls.transaction(async (tx) => [await tx.query(first), await tx.query(second), await tx[last](third)]);
      const flights = async () => (await proxy.report()).at(-1)!.flights.length;
      const lazy = { ...t.options, ...options, ...(await newDatabase(t)), earlyQuery: true };
      for (const wanted of [3, 2, 2]) {
        await using client = t.pgz.createClient(lazy);
        await t.assert.rows(client.query(sql`select ${1}::int4 as n`), [{ n: 1 }]);
        t.assert.equal(await flights(), wanted, "to connect");
      }
      await using client = t.pgz.createClient(lazy);
      await client.query(sql`select ${1}::int4 as n`);
      const scope = client.scope({ settings: { "app.tenant": 1, search_path: "pg_catalog" } });
      const tenant = async () => [await scope.query(sql`select current_setting('app.tenant')::int4 as n`)];
      const shapes: [name: string, wanted: number, rows: number, work: () => Promise<{ rows: unknown[] }[]>][] = [
        ["new_5", 1, 5, () => together(client)],
        ["known_5, for the first time", 1, 5, () => together(client)],
        ["known_5", 1, 5, () => together(client)],
        ["batch_new_5", 2, 5, () => client.batch(five("batch"))],
        ["batch_known_5, for the first time", 1, 5, () => client.batch(five("batch"))],
        ["batch_known_5", 1, 5, () => client.batch(five("batch"))],
        ["transaction_3", 3, 3, () => three(client, "last")], // BEGIN leaves with the first statement, COMMIT with the last
        ["transaction_3 without tx.last", 4, 3, () => three(client, "query")],
        ["scope, new", 1, 1, tenant],
        ["scope, for the first time", 1, 1, tenant],
        ["scope", 1, 1, tenant],
        ["scope, five", 1, 5, () => together(scope)],
        ["scope, batch", 2, 5, () => scope.batch(five("scoped"))],
        ["scope, transaction_3", 3, 3, () => three(scope, "last")],
      ];
      for (const [name, wanted, rows, work] of shapes) {
        const before = await flights();
        const found = (await work()).flatMap((result) => result.rows as { n: number }[]);
        t.assert.equal(found.map(({ n }) => n).join(), [1, 2, 3, 4, 5].slice(0, rows).join(), name);
        t.assert.equal((await flights()) - before, wanted, name);
      }
    },
  },
  "the third run of a shape on a connection sends no Parse, and returns the same bytes": {
    ...WITH_FIRST_RUNS,
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const client = await t.client(options);
      const texts: string[] = [];
      for (let i = 0; i < 4; i++) {
        const query = sql`select ${7}::int4 as i, ${1.5}::numeric as n, ${"é"}::text as t,
      now()::date - now()::date as d, array[1, null, 3] as a`;
        texts.push((await lines(await client.stream(query))).text);
      }
      t.assert.deepEqual(texts, Array(4).fill('{"i":7,"n":1.5,"t":"é","d":0,"a":[1,null,3]}\n'));
      const flights = await flightsOf(client, proxy);
      const [, second, third, fourth] = flights;
      const known = "Bind Describe Execute Sync";
      t.assert.deepEqual(flights.map(names), [FIRST_RUN, `Parse ${known}`, known, known, "Terminate"]);
      const named = /^Parse (\S+)$/.exec(second?.statements[0] ?? "")?.[1] ?? "";
      t.assert.match(named, /^\S{6,}$/);
      for (const flight of [second, third, fourth])
        t.assert(flight?.statements.includes(`Bind ${named}`), flight?.statements.join());
      t.assert.equal(second?.statements[0], `Parse ${named}`);
    },
  },
  async "a cursor takes one flight per batch and one for its end, without Flush"(t) {
    const { proxy, options } = await through(t);
    const client = await t.client(options);
    const read = async (most: number) => {
      let count = 0;
      for await (const batch of client.cursor("select n from generate_series(1, 7) n", 3)) {
        count += batch.length;
        if (count >= most) break;
      }
      return count;
    };
    t.assert.equal(await read(9), 7);
    t.assert.equal(await read(3), 3);
    await client.exec("begin");
    t.assert.equal(await read(3), 3);
    await client.exec("rollback");
    const flights = await flightsOf(client, proxy);
    const statement = ["Parse Describe Sync", "Parse Bind Describe Execute Sync"];
    t.assert.deepEqual(flights.map(names), [
      "Parse Bind Execute Parse Describe Sync",
      "Parse Bind Describe Execute Sync",
      "Execute Sync",
      "Execute Sync",
      "Query",
      "Parse Bind Execute Parse Bind Describe Execute Sync",
      "Query",
      ...statement,
      "Bind Describe Execute Sync",
      "Close Sync",
      ...statement,
      "Terminate",
    ]);
  },
  "a transaction of known statements takes one flight each, with BEGIN in the first, and one for COMMIT": {
    ...WITH_FIRST_RUNS,
    async run(t) {
      const { proxy, options } = await through(t);
      const client = await t.client(options);
      await client.query("select 1 as a");
      await client.transaction(
        async (tx) => {
          await tx.query("select 1 as a");
          await tx.query("select 1 as a");
        },
        { isolation: "repeatable read" },
      );
      const failing = client.transaction((tx) => tx.query("select 1 / 0 as a"));
      await t.assert.code(failing, "22012");
      await client.transaction(() => {});
      await client.transaction((tx) => tx.last("select 1 as a"));
      const flights = await flightsOf(client, proxy);
      t.assert.deepEqual(flights.map(names), [
        FIRST_RUN,
        "Parse Bind Execute Parse Bind Describe Execute Sync",
        "Bind Describe Execute Sync",
        "Query",
        "Close Parse Bind Execute Parse Describe Parse Bind Execute Bind Execute Sync",
        "Query",
        // A call after a failed BEGIN would run outside a transaction, so COMMIT waits.
        "Parse Bind Execute Bind Describe Execute Sync",
        "Parse Bind Describe Execute Sync",
        "Terminate",
      ]);
      t.assert.equal(flights[1]?.messages.includes("Flush"), false);
    },
  },
  async "the shape that exceeds statementCacheSize sends Close for the least recently used one"(t) {
    const { proxy, options } = await through(t);
    const { sql } = t.pgz;
    const size = 3;
    // A first run names and closes its statement in one flight, and this case is not about first runs.
    const client = await t.client({ ...options, statementCacheSize: size, firstRun: "describe" });
    const run = async (shape: number, times: number) => {
      for (let i = 0; i < times; i++)
        await t.assert.rows(client.query(sql.unsafe(`select ${shape} as n`)), [{ n: shape }]);
    };
    for (let shape = 1; shape <= size; shape++) await run(shape, 3);
    await run(1, 1); // statement 2 is now the least recently used
    await run(size + 1, 3);
    await run(1, 1);
    await run(2, 2);
    const statements = (await flightsOf(client, proxy)).flatMap((flight) => flight.statements);
    const parsed = statements.filter((each) => /^Parse ./.test(each)).map((each) => each.slice("Parse ".length));
    const closed = statements.filter((each) => each.startsWith("Close ")).map((each) => each.slice("Close S ".length));
    // They were named in the order 1, 2, 3, 4, and 2 made room for 4. When 2 is named again, 3 is the oldest.
    t.assert(parsed.length >= size + 1, statements.join(", "));
    t.assert.equal(closed[0], parsed[1], `closed ${closed.join()} of ${parsed.join()}`);
    t.assert(closed.length <= 2, closed.join());
    const parseOfNew = statements.indexOf(`Parse ${parsed[size]}`);
    const close = statements.indexOf(`Close S ${parsed[1]}`);
    // Close is sent before the flight that names the new statement, or before the next flight.
    t.assert(close >= 0 && close <= parseOfNew + 3, statements.join(", "));
  },
  async "a batch parses each statement only once, in one write and one flight, with one Sync or one per item"(t) {
    const { proxy, options } = await through(t);
    const { sql } = t.pgz;
    const client = await t.client(options);
    const queries = Array.from({ length: 300 }, (_, n) =>
      n % 3 ? sql`select ${n}::int4 as n /* parsed once */` : sql`select ${String(n)}::text as t /* parsed once */`,
    );
    const writes: number[] = [];
    for (const atomic of [true, true, false] as const) {
      const before = client.stats().writes;
      const results = await client.batch(queries, { atomic } as { atomic: true });
      t.assert.equal(results.length, 300);
      writes.push(client.stats().writes - before);
    }
    t.assert.deepEqual(writes, [2, 1, 1]);
    const flights = await flightsOf(client, proxy);
    t.assert.equal(flights.length, 5);
    const counts = (name: string) =>
      flights.slice(0, 4).map(({ messages }) => messages.filter((message) => message === name).length);
    t.assert.deepEqual(counts("Parse"), [2, 0, 0, 0]);
    t.assert.deepEqual(counts("Execute").slice(1), [300, 300, 300]);
    t.assert.deepEqual(counts("Sync"), [2, 1, 1, 300]);
    t.assert.deepEqual(counts("Describe").slice(1, 3), [2, 2]);
    t.assert(!flights.some(({ messages }) => messages.includes("Flush")), "no Flush");
    t.assert.equal(flights[1]?.messages.at(-1), "Sync");
  },
  async "a batch parses a shape once that another connection has described, and BEGIN leaves with the first item"(t) {
    const { proxy, options } = await through(t);
    const { sql } = t.pgz;
    // The texts are this case's own, because a proxy may get the port of an earlier proxy.
    const queries = Array.from({ length: 10 }, (_, n) => sql`select ${n}::int4 as n /* learned elsewhere */`);
    for (let time = 0; time < 2; time++) {
      const client = await t.client(options);
      if (time) await client.transaction(async (tx) => void (await tx.batch(queries)));
      else await client.query(queries[0]!);
      await client.close();
    }
    const [, flights] = (await proxy.close()).map(loggedIn);
    t.assert.equal(
      names(flights?.[0]),
      `Parse Bind Execute Parse Bind Describe Execute ${"Bind Execute ".repeat(9)}Sync`,
    );
    t.assert.equal(names(flights?.[1]), "Query");
  },
};
