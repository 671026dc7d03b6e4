// Round trips, counted by a byte proxy in front of a real server: which messages leave together, and how often a call
// waits for a response.
//
// Cases as in tests/integration (same context); they are here because they need the fault host. A flight
// is a change of direction to client-to-server, counted from TCP open, so no case depends on time.
import type { Transaction } from "../../js/index.ts";
import type { Case } from "../integration/context.ts";
import type { Flight, ProxyReport } from "./control.ts";
import { lines, through, withNewDatabase } from "./proxied.ts";

const loggedIn = ({ flights }: ProxyReport): Flight[] =>
  flights.filter(({ messages }) =>
    messages.some((name) => !/^(StartupMessage|PasswordMessage|SSLRequest)$/.test(name)),
  );
/** The flight of a statement that has not been described: the statement, the check, its description, its run. */
const FIRST_RUN = "Close Parse Parse Bind Execute Describe Bind Execute Sync";
/** The third first run on a connection, where the check is prepared since the second. */
const LATER_FIRST_RUN = "Close Parse Bind Execute Describe Bind Execute Sync";
const names = (flight: Flight | undefined) => flight?.messages.join(" ");

export const flightCases: Case[] = [
  {
    name: "first row after TCP open: 4 flights; 3 for a new server and 2 for a known one with an early query",
    differs: ["sockets"],
    only: "plain",
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const { createClient, sql } = t.pgz;
      const once = async (n: number, more: Partial<typeof options> & { earlyQuery: boolean; requireAuth?: string }) => {
        const client = createClient({ ...options, ...more });
        const { rows } =
          n === 1
            ? await client.query(sql`select 1 as n, ${"x"}::text as t`)
            : await client.query(sql`select 2 as n, ${"x"}::text as t`);
        t.assert.deepEqual(rows, [{ n, t: "x" }]);
        await client.close();
      };
      await withNewDatabase(t, {}, async (first) => {
        await once(1, { ...first, earlyQuery: false });
        await once(1, { ...first, earlyQuery: false });
        await once(1, { ...first, earlyQuery: true });
        await once(2, { ...first, earlyQuery: true });
      });
      // Another database counts as another server, because its login may be another one.
      for (const more of [{}, { requireAuth: "scram-sha-256" }])
        await withNewDatabase(t, { earlyQuery: true, ...more }, (other) => once(1, other));
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
  {
    name: "a server that asks for another authentication than predicted is asked again without prediction, and remembered",
    only: "plain",
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const password = (encryption: string) =>
        t.side(`set password_encryption = '${encryption}'; alter role app_turns password 'app_turns-secret'`);
      const login = async (more: { earlyQuery?: boolean; password?: string; requireAuth?: string } = {}) => {
        const client = t.pgz.createClient({ ...options, user: "app_turns", password: "app_turns-secret", ...more });
        try {
          const { rows } = await client.query<{ user: string }>("select current_user::text as user");
          return rows[0]?.user;
        } finally {
          await client.close();
        }
      };
      try {
        t.assert.equal(await login(), "app_turns");
        await password("md5");
        t.assert.equal(await login({ earlyQuery: true }), "app_turns");
        t.assert.equal(await login(), "app_turns");
        await t.assert.rejects(login({ requireAuth: "scram-sha-256" }), { code: "AUTH_METHOD_REFUSED" });
        await password("scram-sha-256");
        t.assert.equal(await login(), "app_turns");
        await t.assert.rejects(login({ password: "wrong" }), { code: "28P01" });
        t.assert.equal(await login(), "app_turns");
      } finally {
        await password("scram-sha-256");
      }
      const first = (await proxy.close()).map(({ flights }) => names(flights[0]));
      const [asked, guessed] = ["StartupMessage", "StartupMessage PasswordMessage"];
      t.assert.deepEqual(first, [asked, guessed, asked, asked, asked, asked, guessed, guessed]);
    },
  },
  {
    name: "each statement takes one flight, known or not, ending in Sync and without Flush",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      const client = await connect(options);
      for (const n of [1, 2, 3, 4]) await client.query(sql`select ${n}::int4 as n`);
      for (const n of [1, 2]) await lines(await client.stream(sql`select ${n}::int8 as n, 'x' as t`));
      await client.query(sql`select ${1}::int4 as n`);
      await t.assert.rejects(client.query(sql`select 1 / ${0}::int4 as n`), { code: "22012" });
      await client.query(sql`select ${1}::int4 as n`);
      await client.close();
      const [connection] = await proxy.close();
      t.assert.equal(connection !== undefined, true);
      const flights = loggedIn(connection as ProxyReport);
      t.assert.equal(names(flights.pop()), "Terminate");
      const firstRow = connection?.flightsToFirstRow ?? 0;
      t.assert.deepEqual(
        connection?.flightsToRows.map((n) => n - firstRow),
        [0, 1, 2, 3, 4, 5, 6, 9],
      );
      for (const { messages } of flights) {
        t.assert.equal(messages.at(-1), "Sync", messages.join(" "));
        t.assert.equal(messages.filter((name) => name === "Sync").length, 1, messages.join(" "));
        t.assert.equal(messages.includes("Flush"), false, messages.join(" "));
        t.assert.equal(messages.includes("Query"), false, messages.join(" "));
      }
    },
  },
  {
    name: "calls made together leave together, each with a Sync of its own, and are answered in order",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
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
      const client = await connect(options);
      await client.query(sql`select ${0}::int4 as n`);
      const { flights } = client.stats();
      await together(client);
      t.assert.equal(client.stats().flights, flights + 1);
      await client.transaction(async (tx) => {
        await tx.exec(sql`select ${0}::int4 as n`);
        await together(tx);
      });
      await client.close();
      const one = await connect({ ...options, pipelining: 1 });
      await together(one);
      await one.close();
      const many = await connect({ ...options, pipelining: 3 });
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
  {
    name: "five unknown statements leave together in one write, even with the login",
    differs: ["sockets"],
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, createClient, sql } = t.pgz;
      const five = (client: Pick<Transaction, "query">, name: string) =>
        Promise.all(
          [1, 2, 3, 4, 5].map((n) => client.query(sql.unsafe(`select ${n} as n, '${name}' as t, array[now()] as a`))),
        );
      const client = await connect(options);
      const { writes } = client.stats();
      const results = await five(client, "connected");
      t.assert.deepEqual(
        results.map(({ rows }) => (rows[0] as { n: number }).n),
        [1, 2, 3, 4, 5],
      );
      t.assert.equal(client.stats().writes - writes, 1);
      await client.close();
      const cold = createClient({ ...options, earlyQuery: true });
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
  {
    name: "each shape of the latency benchmark takes exactly its number of flights",
    differs: ["sockets"],
    only: "plain",
    ownServer: true,
    async run(t) {
      const { proxy, options } = await through(t);
      const { createClient, sql } = t.pgz;
      const five = (rank: string) =>
        [1, 2, 3, 4, 5].map((n) => sql.unsafe(`select ${n} as n, '${rank}' as t /* counted */`));
      const together = (client: Pick<Transaction, "query">) =>
        Promise.all(five("together").map((query) => client.query<{ n: number }>(query)));
      const numbers = (results: { rows: object[] }[]) => results.flatMap(({ rows }) => rows as { n: number }[]);
      const connection = async () => (await proxy.report()).at(-1) as ProxyReport;
      const flights: Record<string, number> = {};
      /** Returns how many flights `work` adds on the newest connection. */
      const count = async (name: string, wanted: number[], work: () => Promise<{ rows: object[] }[]>) => {
        const before = (await connection()).flights.length;
        const rows = numbers(await work());
        t.assert.deepEqual(
          rows.map(({ n }) => n),
          wanted,
          name,
        );
        flights[name] = (await connection()).flights.length - before;
      };
      await withNewDatabase(t, { ...options, earlyQuery: true }, async (known) => {
        const open = () => createClient(known);
        for (const name of ["connect_new", "connect again", "connect_known"]) {
          const client = open();
          t.assert.deepEqual((await client.query(sql`select ${1}::int4 as n`)).rows, [{ n: 1 }]);
          flights[name] = (await connection()).flights.length;
          await client.close();
        }
        const client = open();
        await client.query(sql`select ${1}::int4 as n`);
        await count("new_5", [1, 2, 3, 4, 5], () => together(client));
        await together(client);
        await count("known_5", [1, 2, 3, 4, 5], () => together(client));
        await count("batch_new_5", [1, 2, 3, 4, 5], () => client.batch(five("batch")));
        await client.batch(five("batch"));
        await count("batch_known_5", [1, 2, 3, 4, 5], () => client.batch(five("batch")));
        const [first, second, third] = five("together");
        await count("transaction_3", [1, 2, 3], () =>
          client.transaction(async (tx) => [
            await tx.query<object>(first!),
            await tx.query<object>(second!),
            await tx.last<object>(third!),
          ]),
        );
        await count("transaction_3 without tx.last", [1, 2, 3], () =>
          client.transaction(async (tx) => [
            await tx.query<object>(first!),
            await tx.query<object>(second!),
            await tx.query<object>(third!),
          ]),
        );
        const scope = client.scope({ settings: { "app.tenant": 1, search_path: "pg_catalog" } });
        const tenant = sql`select current_setting('app.tenant')::int4 as n`;
        await count("scope, new", [1], async () => [await scope.query<object>(tenant)]);
        await scope.query(tenant);
        await count("scope", [1], async () => [await scope.query<object>(tenant)]);
        await count("scope, five", [1, 2, 3, 4, 5], () => together(scope));
        await count("scope, batch", [1, 2, 3, 4, 5], () => scope.batch(five("scoped")));
        await count("scope, transaction_3", [1, 2, 3], () =>
          scope.transaction(async (tx) => [
            await tx.query<object>(first!),
            await tx.query<object>(second!),
            await tx.last<object>(third!),
          ]),
        );
        await client.close();
      });
      await proxy.close();
      t.assert.deepEqual(flights, {
        connect_new: 3,
        "connect again": 2,
        connect_known: 2,
        new_5: 1,
        known_5: 1,
        batch_new_5: 1,
        batch_known_5: 1,
        transaction_3: 3, // BEGIN leaves with the first statement, COMMIT with the last
        "transaction_3 without tx.last": 4,
        "scope, new": 1,
        scope: 1,
        "scope, five": 1,
        "scope, batch": 1,
        "scope, transaction_3": 3,
      });
    },
  },
  {
    name: "the third run of a shape on a connection sends no Parse, and returns the same bytes",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      const client = await connect(options);
      const texts: string[] = [];
      for (let i = 0; i < 4; i++) {
        const query = sql`select ${7}::int4 as i, ${1.5}::numeric as n, ${"é"}::text as t,
      now()::date - now()::date as d, array[1, null, 3] as a`;
        texts.push((await lines(await client.stream(query))).text);
      }
      await client.close();
      t.assert.equal(new Set(texts).size, 1, texts.join(""));
      t.assert.equal(texts[0], '{"i":7,"n":1.5,"t":"é","d":0,"a":[1,null,3]}\n');
      const flights = loggedIn((await proxy.close())[0] as ProxyReport);
      const [first, second, third, fourth, end] = flights;
      t.assert.equal(names(first), FIRST_RUN);
      t.assert.equal(names(second), "Parse Bind Describe Execute Sync");
      t.assert.equal(names(third), "Bind Describe Execute Sync");
      t.assert.equal(names(fourth), "Bind Describe Execute Sync");
      t.assert.equal(names(end), "Terminate");
      const named = /^Parse (\S+)$/.exec(second?.statements[0] ?? "")?.[1] ?? "";
      t.assert.match(named, /^\S{6,}$/);
      for (const flight of [second, third, fourth])
        t.assert.equal(flight?.statements.includes(`Bind ${named}`), true, flight?.statements.join());
      t.assert.equal(second?.statements[0], `Parse ${named}`);
    },
  },
  {
    name: "a cursor takes one flight per batch and one for its end, without Flush",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect } = t.pgz;
      const client = await connect(options);
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
      await client.close();
      const flights = loggedIn((await proxy.close())[0] as ProxyReport);
      const statement = ["Parse Describe Sync", "Parse Bind Describe Execute Sync"];
      t.assert.deepEqual(flights.map(names), [
        "Parse Describe Sync",
        "Parse Bind Execute Parse Bind Describe Execute Sync",
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
  },
  {
    name: "a transaction of known statements takes one flight each, with BEGIN in the first, and one for COMMIT",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect } = t.pgz;
      const client = await connect(options);
      await client.query("select 1 as a");
      await client.transaction(
        async (tx) => {
          await tx.query("select 1 as a");
          await tx.query("select 1 as a");
        },
        { isolation: "repeatable read" },
      );
      await t.assert.rejects(
        client.transaction((tx) => tx.query("select 1 / 0 as a")),
        { code: "22012" },
      );
      await client.transaction(() => {});
      await client.transaction((tx) => tx.last("select 1 as a"));
      await client.close();
      const flights = loggedIn((await proxy.close())[0] as ProxyReport);
      t.assert.deepEqual(flights.map(names), [
        FIRST_RUN,
        "Parse Bind Execute Parse Bind Describe Execute Sync",
        "Bind Describe Execute Sync",
        "Query",
        "Close Parse Bind Execute Parse Parse Bind Execute Describe Bind Execute Sync",
        "Query",
        // A call after a failed BEGIN would run outside a transaction, so COMMIT waits.
        "Parse Bind Execute Bind Describe Execute Sync",
        "Parse Bind Describe Execute Sync",
        "Terminate",
      ]);
      t.assert.equal(flights[1]?.messages.includes("Flush"), false);
    },
  },
  {
    name: "the shape that exceeds statementCacheSize sends Close for the least recently used one",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      const size = 3;
      // A first run names and closes its statement in one flight, and this case is not about first runs.
      const client = await connect({ ...options, statementCacheSize: size, firstRun: "describe" });
      const run = async (shape: number, times: number) => {
        for (let i = 0; i < times; i++)
          t.assert.deepEqual((await client.query(sql.unsafe(`select ${shape} as n`))).rows, [{ n: shape }]);
      };
      for (let shape = 1; shape <= size; shape++) await run(shape, 3);
      await run(1, 1); // statement 2 is now the least recently used
      await run(size + 1, 3);
      await run(1, 1);
      await run(2, 2);
      await client.close();
      const statements = loggedIn((await proxy.close())[0] as ProxyReport).flatMap((flight) => flight.statements);
      const parsed = statements.filter((each) => /^Parse ./.test(each)).map((each) => each.slice("Parse ".length));
      const closed = statements
        .filter((each) => each.startsWith("Close "))
        .map((each) => each.slice("Close S ".length));
      // They were named in the order 1, 2, 3, 4, and 2 made room for 4. When 2 is named again, 3 is the oldest.
      t.assert.equal(parsed.length >= size + 1, true, statements.join(", "));
      t.assert.equal(closed[0], parsed[1], `closed ${closed.join()} of ${parsed.join()}`);
      t.assert.equal(closed.length <= 2, true, closed.join());
      const parseOfNew = statements.indexOf(`Parse ${parsed[size]}`);
      const close = statements.indexOf(`Close S ${parsed[1]}`);
      // Close is sent before the flight that names the new statement, or before the next flight.
      t.assert.equal(close >= 0 && close <= parseOfNew + 3, true, statements.join(", "));
    },
  },
  {
    name: "a batch parses each statement only once, in one write and one flight, with one Sync or one per item",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      const client = await connect(options);
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
      await client.close();
      t.assert.deepEqual(writes, [2, 1, 1]);
      const flights = loggedIn((await proxy.close())[0]!);
      const count = (flight: Flight | undefined, name: string) =>
        flight?.messages.filter((message) => message === name).length;
      t.assert.equal(flights.length, 5);
      const [learning, first, second, isolated] = flights;
      t.assert.deepEqual(
        flights.slice(0, 4).map((flight) => count(flight, "Parse")),
        [2, 0, 0, 0],
      );
      t.assert.deepEqual(
        [first, second, isolated].map((flight) => count(flight, "Execute")),
        [300, 300, 300],
      );
      t.assert.deepEqual(
        [learning, first, second, isolated].map((flight) => count(flight, "Sync")),
        [2, 1, 1, 300],
      );
      t.assert.deepEqual(
        [first, second].map((flight) => count(flight, "Describe")),
        [2, 2],
      );
      t.assert.equal(
        flights.some(({ messages }) => messages.includes("Flush")),
        false,
      );
      t.assert.equal(first?.messages.at(-1), "Sync");
    },
  },
  {
    name: "a batch parses a shape once that another connection has described, and BEGIN leaves with the first item",
    only: "plain",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      // The texts are this case's own, because a proxy may get the port of an earlier proxy.
      const queries = Array.from({ length: 10 }, (_, n) => sql`select ${n}::int4 as n /* learned elsewhere */`);
      for (let time = 0; time < 2; time++) {
        const client = await connect(options);
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
  },
];
