// How each driver is asked for what features.mjs looks at, in the way that its own documents show.
//
// `open(url, load, options)` gives a client on one connection: `{ query, close, … }`. What a driver has no call for is
// missing there, and counts as "none". Options are those of a row, such as `unprepared`. Knows the drivers' APIs; must
// not know what is asked, nor what the answer should be. Runs in Node, and for Bun.sql in Bun.
import { Readable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";

/** A tag's call out of a text whose parameters stand in their order: `$1`, `$2` … */
function tagged(sql, text, values = []) {
  const strings = text.split(/\$\d+/);
  return sql(Object.defineProperty(strings, "raw", { value: [...strings] }), ...values);
}

const plain = (rows) => rows.map((row) => ({ ...row }));

/** The error that makes a server refuse as it does a conflict of serializable transactions. */
export const CONFLICT = "do $$ begin raise exception 'again' using errcode = '40001'; end $$";

export const adapters = {
  "pgz-edge": {
    async open(url, load, { unprepared = false, tls = false } = {}) {
      const { createClient } = await import("pgz-edge");
      const client = createClient(url, {
        sslmode: tls ? "require" : "disable",
        ...(unprepared && { prepare: "unnamed" }),
      });
      return {
        query: async (text, values = []) => (await client.query(text, values)).rows,
        close: () => client.close(),
        stream: (text) => client.rows(text),
        ndjson: async (text) => new Response(await client.stream(text)).text(),
        csv: async (text) => new Response(await client.stream(text, { format: "csv" })).text(),
        cancellable(text) {
          const aborts = new AbortController();
          return { result: client.query(text, { signal: aborts.signal }), cancel: () => aborts.abort() };
        },
        limited: (text, timeout) => client.query(text, { timeout }),
        capped: (text, maxRows) => client.query(text, { maxRows }),
        transaction: (work) => client.transaction((tx) => work((text, values) => tx.query(text, values))),
        retried: (work) => client.transaction((tx) => work((text) => tx.query(text)), { retry: true }),
        tenant: async (text) => (await client.scope({ settings: { "app.tenant": "7" } }).query(text)).rows,
        copyIn: (text, pieces) => client.copyFrom(text, Readable.toWeb(Readable.from(pieces))),
        copyOut: (text) => client.copyTo(text),
      };
    },
    async listen(url, load, channel, heard) {
      const { createClient } = await import("pgz-edge");
      const client = createClient(url, { sslmode: "disable" });
      const listener = await client.listen(channel);
      void (async () => {
        for await (const { payload } of listener) heard(payload);
      })();
      return () => listener.close();
    },
  },

  pg: {
    async open(url, load, { pipeline, named, ssl, enableChannelBinding } = {}) {
      const { default: pg } = await load("pg");
      return openPg(pg, load, { connectionString: url, pipeline, ssl, enableChannelBinding }, named);
    },
    async listen(url, load, channel, heard) {
      const { default: pg } = await load("pg");
      return listenPg(new pg.Client({ connectionString: url }), channel, heard);
    },
  },

  "postgres.js": {
    async open(url, load, { unprepared = false, tls = false } = {}) {
      const { default: postgres } = await load("postgres");
      const sql = postgres(url, {
        max: 1,
        onnotice: () => {},
        ...(unprepared && { prepare: false }),
        ...(tls && { ssl: "require" }),
      });
      return {
        ...tags(sql),
        close: () => sql.end({ timeout: 1 }),
        async *stream(text) {
          for await (const rows of sql.unsafe(text).cursor(100)) yield* rows;
        },
        copyIn: async (text, pieces) => pipeline(Readable.from(pieces), await sql.unsafe(text).writable()),
        async *copyOut(text) {
          yield* await sql.unsafe(text).readable();
        },
      };
    },
    async listen(url, load, channel, heard) {
      const { default: postgres } = await load("postgres");
      const sql = postgres(url, { max: 1 });
      await sql.listen(channel, heard);
      return () => sql.end({ timeout: 1 });
    },
  },

  "Bun.sql": {
    async open(url, load, { unprepared = false, tls = false } = {}) {
      const sql = new globalThis.Bun.SQL(url, {
        max: 1,
        tls: tls ? { rejectUnauthorized: false } : false,
        ...(tls && { channelBinding: "require" }),
        ...(unprepared && { prepare: false }),
      });
      return {
        ...tags(sql),
        close: () => sql.close({ timeout: 1 }),
        copyIn: (text, pieces) => Readable.toWeb(Readable.from(pieces)).pipeTo(sql.unsafe(text).writable()),
        copyOut: (text) => sql.unsafe(text).readable(),
      };
    },
    async listen(url, load, channel, heard) {
      const sql = new globalThis.Bun.SQL(url, { max: 1, tls: false });
      await sql.listen(channel, heard);
      return () => sql.close({ timeout: 1 });
    },
  },

  neon: {
    async open(url, load, { socketProxy }) {
      const module = await neon(load, await socketProxy(url));
      return openPg(module, load, { connectionString: url });
    },
    async listen(url, load, channel, heard, { socketProxy }) {
      const { Client } = await neon(load, await socketProxy(url));
      return listenPg(new Client({ connectionString: url }), channel, heard);
    },
  },

  "sql-pg": {
    async open(url, load, { unprepared = false, tls = false, multiplex = false } = {}) {
      const { Effect, Stream } = await load("effect");
      const { run, sql, close } = await openEffect(url, load, {
        ...(unprepared && { prepare: false }),
        ...(tls && { ssl: { rejectUnauthorized: false } }),
        multiplex,
      });
      const setting = sql.unsafe("select set_config('app.tenant', $1, true)", ["7"]);
      return {
        query: async (text, values) => plain(await run(sql.unsafe(text, values))),
        close,
        stream: (text) => Stream.toAsyncIterable(sql.unsafe(text).stream),
        cancellable(text) {
          const aborts = new AbortController();
          return {
            result: Effect.runPromise(sql.unsafe(text), { signal: aborts.signal }),
            cancel: () => aborts.abort(),
          };
        },
        limited: (text, timeout) => run(Effect.timeout(sql.unsafe(text), timeout)),
        async transaction(work) {
          // The statements have to be effects of the same fiber, or they are not in the transaction.
          const statements = [];
          const end = await work((text, values) => void statements.push(sql.unsafe(text, values))).then(
            () => Effect.void,
            (error) => Effect.fail(error),
          );
          await run(sql.withTransaction(Effect.andThen(Effect.all(statements), end)));
        },
        retried: (work) =>
          run(
            Effect.retry(
              sql.withTransaction(
                Effect.suspend(() => {
                  let statement;
                  void work((text) => void (statement = text));
                  return sql.unsafe(statement);
                }),
              ),
              { times: 3 },
            ),
          ),
        tenant: async (text) => plain(await run(sql.withTransaction(Effect.andThen(setting, sql.unsafe(text))))),
      };
    },
    async listen(url, load, channel, heard) {
      const { Queue } = await load("effect");
      const { run, sql, scoped, close } = await openEffect(url, load, {});
      const queue = await scoped(sql.listen(channel));
      void (async () => {
        for (;;) heard((await run(Queue.take(queue))).payload);
      })().catch(() => {});
      return close;
    },
  },

  postgrejs: {
    async open(url, load, { tls = false } = {}) {
      const { Connection } = await load("postgrejs");
      const { hostname: host, port, username: user, password, pathname } = new URL(url);
      const address = { host, port: Number(port), user, password, database: pathname.slice(1) };
      const connection = new Connection({
        ...address,
        ...(tls && { requireSSL: true, ssl: { rejectUnauthorized: false } }),
      });
      await connection.connect();
      return {
        query: async (text, params) => (await connection.query(text, { params, objectRows: true })).rows,
        close: () => connection.close(0),
        async *stream(text) {
          const { cursor } = await connection.query(text, { cursor: true, objectRows: true, fetchCount: 100 });
          try {
            for (let row = await cursor.next(); row; row = await cursor.next()) yield row;
          } finally {
            await cursor.close();
          }
        },
        async tenant(text) {
          await connection.startTransaction();
          await connection.query("select set_config('app.tenant', $1, true)", { params: ["7"] });
          const { rows } = await connection.query(text, { objectRows: true });
          await connection.commit();
          return rows;
        },
      };
    },
    async listen(url, load, channel, heard) {
      const { Pool } = await load("postgrejs");
      const pool = new Pool(url);
      await pool.listen(channel, ({ payload }) => heard(payload));
      return () => pool.close(0);
    },
  },

  minipg: {
    async open(url, load, { unprepared = false, tls = false } = {}) {
      const { connect } = await load("minipg/node");
      const connection = await connect({
        url,
        ssl: tls ? "require" : "disable",
        ...(unprepared && { prepare: false }),
      });
      const inObjects = { mode: "object" };
      const query = async (text, values = []) => (await connection.query(text, values, inObjects)).rows;
      return {
        query,
        close: () => connection.end(),
        stream: (text) => connection.stream(text, [], inObjects),
        cancellable(text) {
          const aborts = new AbortController();
          return { result: connection.query(text, [], { signal: aborts.signal }), cancel: () => aborts.abort() };
        },
        limited: (text, timeout) => connection.query(text, [], { timeout }),
        transaction: (work) => connection.begin(() => work(query)),
        async tenant(text) {
          const both = () => Promise.all([query("select set_config('app.tenant', $1, true)", ["7"]), query(text)]);
          return (await connection.begin(both))[1];
        },
        copyIn: (text, pieces) => connection.copyFrom(text, pieces),
      };
    },
  },
};

/** What postgres.js and Bun.sql, which took its form, have in common. */
function tags(sql) {
  return {
    query: async (text, values) => plain(await tagged(sql, text, values)),
    cancellable(text) {
      const query = sql.unsafe(text);
      return { result: query.execute(), cancel: () => query.cancel() };
    },
    transaction: (work) => sql.begin((tx) => work((text, values) => tagged(tx, text, values))),
    async tenant(text) {
      const [, rows] = await sql.begin((tx) => [tx`select set_config('app.tenant', ${"7"}, true)`, tagged(tx, text)]);
      return plain(rows);
    },
  };
}

/** pg, and what is made of it. */
async function openPg(pg, load, options, named = false) {
  const client = new pg.Client(options);
  client.on("error", () => {});
  await client.connect();
  const { default: QueryStream } = await load("pg-query-stream");
  const { from, to } = (await load("pg-copy-streams")).default;
  return {
    query: async (text, values) => plain((await client.query({ text, values, ...(named && { name: text }) })).rows),
    close: () => client.end(),
    stream: (text) => client.query(new QueryStream(text)),
    cancellable(text) {
      const other = new pg.Client(options);
      other.on("error", () => {});
      // neon has no Query to name it by.
      if (!pg.Query) return { result: client.query(text), cancel: () => other.cancel(client, client.activeQuery) };
      let query;
      const result = new Promise((resolve, reject) => {
        query = new pg.Query(text, (error, rows) => (error ? reject(error) : resolve(rows)));
        client.query(query);
      });
      return { result, cancel: () => other.cancel(client, query) };
    },
    limited: (text, timeout) => client.query({ text, query_timeout: timeout }),
    async tenant(text) {
      const set = { text: "select set_config('app.tenant', $1, true)", values: ["7"] };
      const results = await Promise.all(["begin", set, text, "commit"].map((one) => client.query(one)));
      return results[2].rows;
    },
    async copyIn(text, pieces) {
      const stream = client.query(from(text));
      Readable.from(pieces).pipe(stream);
      await finished(stream);
    },
    copyOut: (text) => client.query(to(text)),
  };
}

async function listenPg(client, channel, heard) {
  client.on("error", () => {});
  await client.connect();
  client.on("notification", ({ payload }) => heard(payload));
  await client.query(`listen "${channel}"`);
  return () => client.end();
}

async function neon(load, address) {
  const module = await load("@neondatabase/serverless");
  const { default: WebSocket } = await import("ws");
  Object.assign(module.neonConfig, {
    webSocketConstructor: WebSocket,
    wsProxy: (host, port) => `${address}/?address=${host}:${port}`,
    useSecureWebSocket: false,
    pipelineTLS: false,
    pipelineConnect: false, // it would send the password in clear
  });
  return module;
}

async function openEffect(url, load, options) {
  const { Effect, Exit, Redacted, Scope } = await load("effect");
  const { PgClient } = await load("@effect/sql-pg");
  const { layer } = await load("effect/reactivity/Reactivity");
  const scope = Effect.runSync(Scope.make());
  const scoped = (effect) => Effect.runPromise(effect.pipe(Scope.provide(scope), Effect.provide(layer)));
  const sql = await scoped(PgClient.makeClient({ url: Redacted.make(url), ...options }));
  const run = (effect) => Effect.runPromise(effect);
  return { run, sql, scoped, close: () => run(Scope.close(scope, Exit.void)) };
}
