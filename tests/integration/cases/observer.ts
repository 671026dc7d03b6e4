// What an observer sees, and what stats() and parameterStatus() return.
import type { Observer, PgzError } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { asleep, newMark, pidOf, terminate, text } from "./helpers.ts";

type Seen = [name: keyof Observer, event: Record<string, unknown>];

/** Returns an observer that records every event. */
function recorder(): { seen: Seen[]; observer: Observer; of(name: keyof Observer): Record<string, unknown>[] } {
  const seen: Seen[] = [];
  const note = (name: keyof Observer) => (event: object) => void seen.push([name, event as Record<string, unknown>]);
  const observer: Observer = {
    onConnect: note("onConnect"),
    onQueryStart: note("onQueryStart"),
    onQueryEnd: note("onQueryEnd"),
    onSlowQuery: note("onSlowQuery"),
    onNotice: note("onNotice"),
    onParameterChange: note("onParameterChange"),
  };
  return { seen, observer, of: (name) => seen.filter(([known]) => known === name).map(([, event]) => event) };
}

/** Checks that each start has one end, and that both describe the same call. */
function paired(t: Context, { of }: ReturnType<typeof recorder>): Record<string, unknown>[] {
  const [starts, ends] = [of("onQueryStart"), of("onQueryEnd")].map((events) => picked(events, "id").flat().sort());
  t.assert.deepEqual(ends, starts);
  return of("onQueryEnd");
}

/** Returns these members of each event. */
const picked = (events: Record<string, unknown>[], ...names: string[]) =>
  events.map((event) => names.map((name) => event[name]));

export const observer: Cases = {
  async "an observer sees the connect and the start and end of each call, and no values"(t) {
    const watched = recorder();
    const { sql } = t.pgz;
    const client = await t.client({ observer: watched.observer });
    await client.query(sql`select n from generate_series(1, ${3}::int4) n`);
    await client.exec(sql`select ${"secret value"}::text as t`);
    await text(await client.stream("select 1 as a"));
    await t.assert.code(client.query("select 1/0"), "22012");
    await t.assert.code(client.query("select pg_sleep(30)", { timeout: 100 }), "QUERY_TIMEOUT");
    await t.assert.code(client.query("select generate_series(1, 9)", { maxRows: 2 }), "RESPONSE_TOO_LARGE");
    await t.assert.code(client.query("select 2", { signal: AbortSignal.abort() }), "ABORTED");
    const left = (await client.stream("select generate_series(1, 1000000) as n")).getReader();
    await left.read();
    await left.cancel();
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    const ends = paired(t, watched);
    const brief = ends.map(({ rows, command, error }) => [rows, command, (error as PgzError | undefined)?.code]);
    t.assert.deepEqual(brief, [
      [3, "SELECT", undefined],
      [1, "SELECT", undefined],
      [1, "SELECT", undefined],
      [null, "", "22012"],
      [null, "", "QUERY_TIMEOUT"],
      [null, "", "RESPONSE_TOO_LARGE"],
      [null, "", "ABORTED"],
      [null, "", "ABORTED"],
      [1, "SELECT", undefined],
    ]);
    t.assert.equal(ends[0]?.["text"], "select n from generate_series(1, $1::int4) n");
    t.assert.equal(ends[2]?.["bytes"], '{"a":1}\n'.length);
    t.assert(
      ends.every(
        ({ durationMs, waitMs, startedAt }) =>
          (durationMs as number) >= 0 && (waitMs as number) >= 0 && (startedAt as number) > 1e12,
      ),
    );
    t.assert.equal(JSON.stringify(watched.seen).includes("secret value"), false);
    const [connect, ...others] = watched.of("onConnect");
    const { host, port, database, user } = t.options;
    t.assert.deepEqual(others, []);
    const where = picked([connect!], "host", "port", "database", "user", "error");
    t.assert.deepEqual(where, [[host, port, database, user, undefined]]);
    t.assert((connect?.["processId"] as number) > 0);
  },
  async "an observer does not see the driver's own queries"(t) {
    const watched = recorder();
    const client = await t.client({ observer: watched.observer });
    await client.simple("create type pg_temp.watched_mood as enum ('sad', 'glad')");
    // A text of its own, because the same text was described for another session's type.
    const mark = `/* ${newMark()} */`;
    await client.describe(`select 'sad'::pg_temp.watched_mood as m ${mark}`);
    await t.assert.rows(client.query(`select 'glad'::pg_temp.watched_mood as m ${mark}`), [{ m: "glad" }]);
    t.assert.deepEqual(picked(paired(t, watched), "rows", "bytes", "command"), [
      [null, 0, "CREATE TYPE"],
      [null, 0, ""],
      [1, 32, "SELECT"],
    ]);
    t.assert.equal(watched.of("onQueryStart").length, 3);
  },
  "an observer sees a failed connect, and the call that needed it": {
    ownServer: true,
    async run(t) {
      const watched = recorder();
      const client = t.pgz.createClient({ ...t.options, database: "no_such_database", observer: watched.observer });
      await t.assert.code(client.query("select 1"), "3D000");
      t.assert.equal(client.stats().state, "new");
      await client.close();
      t.assert.deepEqual(
        watched.seen.map(([name, { error }]) => [name, (error as PgzError | undefined)?.code]),
        [
          ["onQueryStart", undefined],
          ["onConnect", "3D000"],
          ["onQueryEnd", "3D000"],
        ],
      );
    },
  },
  "an observer sees the end of a stream left unread and of a lost connection": {
    differs: ["streams", "sockets"],
    ownServer: true,
    async run(t) {
      const watched = recorder();
      const { observer } = watched;
      const unread = await t.client({ observer });
      await (await unread.stream("select generate_series(1, 1000000) as n")).cancel();
      await unread.close();
      const client = await t.client({ observer });
      const mark = newMark();
      const pid = await pidOf(client);
      const sleeping = t.assert.rejects(client.query(`select pg_sleep(30) /* ${mark} */`));
      await asleep(t, mark);
      await terminate(t, pid);
      await sleeping;
      const codes = paired(t, watched).map(({ error }) => (error as PgzError | undefined)?.code);
      t.assert.deepEqual(codes, ["ABORTED", undefined, "57P01"]);
    },
  },
  "a slow call is reported once, while it runs": {
    differs: ["timers"],
    async run(t) {
      const watched = recorder();
      const client = await t.client({ observer: watched.observer, slowQueryThreshold: 100 });
      await client.query("select 1", { slowQueryThreshold: 0 });
      await client.query("select pg_sleep(0.6)");
      await client.query("select pg_sleep(0.2)", { slowQueryThreshold: 0 });
      t.assert.deepEqual(picked(watched.of("onSlowQuery"), "text"), [["select pg_sleep(0.6)"]]);
      const names = watched.seen.map(([name]) => name).filter((name) => /^onQuery|^onSlow/.test(name));
      t.assert.deepEqual(names.slice(2, 5), ["onQueryStart", "onSlowQuery", "onQueryEnd"]);
      t.assert.equal(paired(t, watched).length, 3);
    },
  },
  async "notices arrive with their fields, at the observer of the client or of the call"(t) {
    const watched = recorder();
    const own = recorder();
    const raise =
      "do $$ begin raise notice 'one' using hint = 'a hint', errcode = '01234'; raise warning 'two'; end $$";
    const client = await t.client({ observer: watched.observer });
    await client.exec(raise);
    await client.exec(raise, { observer: own.observer });
    // On this connection no observer has listened before.
    const late = recorder();
    const silent = await t.client();
    await silent.exec(raise);
    await silent.exec(raise, { observer: late.observer });
    for (const { of } of [watched, own, late]) {
      const [end] = of("onQueryEnd");
      t.assert.deepEqual(picked(of("onNotice"), "severity", "message", "hint", "code", "queryId"), [
        ["NOTICE", "one", "a hint", "01234", end?.["id"]],
        ["WARNING", "two", undefined, "01000", end?.["id"]],
      ]);
    }
    t.assert.equal(own.of("onConnect").length, 0);
  },
  "the notice about MD5 reaches the observer of the client": {
    ownServer: true,
    only: "plain",
    async run(t) {
      const watched = recorder();
      await t.client({ user: "app_md5", password: "app_md5-secret", observer: watched.observer });

      const [notice, ...others] = watched.of("onNotice");
      t.assert.deepEqual(picked([notice!], "severity", "code", "queryId"), [["WARNING", "01P01", undefined]]);
      // PostgreSQL 18 can warn about MD5 too.
      t.assert(
        others.every(({ code }) => code === "01000" || code === "01P01"),
        JSON.stringify(others),
      );
    },
  },
  async "a changed setting is reported, and parameterStatus has it"(t) {
    const watched = recorder();
    const client = await t.client({ observer: watched.observer });
    t.assert.equal(client.parameterStatus("client_encoding"), "UTF8");
    t.assert.equal(client.parameterStatus("no_such_setting"), undefined);
    await client.exec("set application_name to 'watched'");
    t.assert.equal(client.parameterStatus("application_name"), "watched");
    t.assert.deepEqual(watched.of("onParameterChange"), [{ name: "application_name", value: "watched" }]);
  },
  "an observer that throws or rejects breaks nothing": {
    differs: ["engine"],
    async run(t) {
      const bad = () => {
        throw new Error("a bad observer");
      };
      const observer: Observer = {
        onConnect: bad,
        onQueryStart: bad,
        onQueryEnd: async () => bad(),
        onSlowQuery: bad,
        onNotice: bad,
        onParameterChange: bad,
      };
      const client = await t.client({ observer, slowQueryThreshold: 1 });
      await client.exec("do $$ begin raise notice 'one'; end $$");
      await client.exec("set application_name to 'x'");
      await client.query("select pg_sleep(0.05)");
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    },
  },
  async "stats() counts calls, rows, bytes, errors and cancels, and has the state"(t) {
    // Objects are built from other bytes when they arrive as text, as in a first run.
    const lazy = t.pgz.createClient({ ...t.options, firstRun: "describe" });
    t.assert.equal(lazy.stats().state, "new");
    const opening = lazy.query("select 1 as a");
    t.assert.equal(lazy.stats().queries, 1);
    await opening;
    t.assert.equal(lazy.stats().state, "idle");
    await t.assert.code(lazy.query("select 1/0"), "22012");
    await t.assert.code(lazy.query("select pg_sleep(30)", { timeout: 1_000 }), "QUERY_TIMEOUT");
    await text(await lazy.stream("select generate_series(1, 3) as n"));
    await lazy.exec("begin");
    const running = lazy.query("select 1 as b");
    t.assert.equal(lazy.stats().state, "busy");
    await running;
    const { queries, errors, rows, bytes, cancels, transactionStatus, receivedBytes } = lazy.stats();
    t.assert.deepEqual(
      { queries, errors, rows, bytes, cancels, transactionStatus },
      { queries: 6, errors: 2, rows: 5, bytes: 80, cancels: 1, transactionStatus: "T" },
    );
    t.assert(receivedBytes > 0);
    await lazy.close();
    t.assert.equal(lazy.stats().state, "closed");
  },
  async "sqlComment is appended to unnamed statements, a new one for each call, and to no others"(t) {
    const { sql } = t.pgz;
    let count = 0;
    const options = { sqlComment: () => ({ call: String(++count) }) };
    const asked = "select query from pg_stat_activity where pid = pg_backend_pid()";
    const client = await t.client({ ...options, prepare: "unnamed" });
    const texts: string[] = [];
    for (let run = 0; run < 3; run++)
      texts.push((await client.query<{ query: string }>(`${asked} -- run`)).rows[0]!.query);
    const [first] = await client.batch<{ query: string }>([asked, "select 2"]);
    texts.push(first!.rows[0]!.query);
    for (const text of texts.slice(0, 3)) t.assert.match(text, /-- run\n\/\*call='\d+'\*\/$/);
    t.assert.match(texts[3]!, /\n\/\*call='\d+'\*\/$/);
    t.assert.equal(new Set(texts).size, 4);
    const { rows } = await client.query(sql`select ${7}::int4 as n, ${"x"}::text as t`);
    t.assert.deepEqual(rows, [{ n: 7, t: "x" }]);
    const named = await t.client(options);
    for (let run = 0; run < 3; run++) await named.query("select 'named' as n");
    const prepared = await named.query<{ statement: string }>("select statement from pg_prepared_statements");
    const statements = prepared.rows.map(({ statement }) => statement).filter((text) => text.includes("named"));
    t.assert(statements.includes("select 'named' as n"), "it is prepared");
    t.assert(!statements.some((text) => text.includes("call=")), "without a comment");
    const sqlComment = () => {
      throw new Error("no context");
    };
    await t.assert.rows((await t.client({ sqlComment })).query("select 1 as a -- one"), [{ a: 1 }]);
  },
};
