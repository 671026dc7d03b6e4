// Each library in the form that shapes.mjs expects, made from the library's module: `{ sql, open }`. `shapesOf` says
// which shapes it supports. This file imports nothing, because bundlers and runtimes name the modules differently.
//
// Rows are plain objects. Each library has the options that make it fastest: postgres.js does not query array types at
// login, pg pipelines, ours sends the first statement with the login although the link is not TLS.
const everywhere = ["connect_new", "connect_known", "new_5", "known_5", "transaction_3", "scope"];
const batches = ["batch_new_5", "batch_known_5"];

/** Among the libraries of JavaScript only ours has a batch. */
export const shapesOf = (library) => (library === "pgz-edge" ? [...everywhere, ...batches] : everywhere);

/** Returns a library by its name and its module. */
export const drivers = {
  "pgz-edge": pgzEdge,
  "postgres.js": ({ default: postgres }) =>
    tagged((url) => postgres(url, { max: 1, fetch_types: false, onnotice: () => {} }), "end"),
  pg: (module) => pgOf(module, {}),
  "pg pipeline": (module) => pgOf(module, { pipeline: true }),
  "bun.sql": () => tagged((url) => new globalThis.Bun.SQL(url, { max: 1 }), "close"),
};

const plain = (rows) => rows.map((row) => ({ ...row }));

function pgzEdge({ createClient, sql }) {
  const rowsOf = (calls) => async (query) => (await calls.query(query)).rows;
  return {
    sql,
    async open(url) {
      const client = createClient(url, { earlyQuery: true });
      return {
        query: rowsOf(client),
        batch: async (queries) => (await client.batch(queries)).flatMap(({ rows }) => rows),
        transaction: (work) =>
          client.transaction((tx) => work(rowsOf(tx), async (query) => (await tx.last(query)).rows)),
        scope: async (tenant, query) => (await client.scope({ settings: { "app.tenant": tenant } }).query(query)).rows,
        close: () => client.close(),
      };
    },
  };
}

/** A library whose tag sends the query, and whose pool begins transactions: postgres.js, and Bun.sql after it. */
const tagged = (poolOf, close) => ({
  sql: lateTag,
  async open(url) {
    const pool = poolOf(url);
    return {
      query: async (statement) => plain(await statement(pool)),
      transaction: (work) => pool.begin((tx) => work(...twice(async (statement) => plain(await statement(tx))))),
      scope: (tenant, statement) => inBegin(pool, tenant, statement),
      close: () => pool[close](),
    };
  },
});

/** For the peers COMMIT is a separate call, so their last query is like the others. */
const twice = (query) => [query, query];

/** Runs a scope as a transaction, as both libraries need. Queries given as an array are pipelined in it. */
async function inBegin(pool, tenant, statement) {
  const [, rows] = await pool.begin((tx) => [
    tx`select set_config('app.tenant', ${String(tenant)}, true)`,
    statement(tx),
  ]);
  return plain(rows);
}

/** For libraries whose tag sends the query: the statement waits for its connection. */
function lateTag(strings, ...values) {
  return (sql) => sql(strings, ...values);
}

/** Each statement has a name, as pg's documentation advises: without it pg sends the text each time. */
function pgOf({ default: { Client } }, options) {
  return {
    sql(strings, ...values) {
      const text = strings.reduce((before, part, index) => `${before}$${index}${part}`);
      return { name: text, text, values };
    },
    async open(url) {
      const client = new Client({ connectionString: url, ...options });
      await client.connect();
      const query = async (statement) => plain((await client.query(statement)).rows);
      return {
        query,
        async transaction(work) {
          await client.query("BEGIN");
          const result = await work(...twice(query));
          await client.query("COMMIT");
          return result;
        },
        /**
         * Concurrent calls: one flight each, or one for all where pg pipelines. If a query fails, COMMIT rolls back.
         */
        async scope(tenant, statement) {
          const set = { text: "select set_config('app.tenant', $1, true)", values: [String(tenant)] };
          const calls = ["BEGIN", { name: set.text, ...set }, statement, "COMMIT"].map((one) => client.query(one));
          return plain((await Promise.all(calls))[2].rows);
        },
        close: () => client.end(),
      };
    },
  };
}
