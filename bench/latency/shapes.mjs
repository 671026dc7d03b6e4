// The shapes of CASE=latency for every library and every runtime: this file also runs in workerd. A shape prepares,
// then runs the measured part between two marks; then its rows are compared.
//
// Preparation is not delayed. A mark is an HTTP request to the case, which then sets the delay and counts: a Worker has
// no other way to report its progress.

/** Six statements. Each library writes them with its own tag. */
const single = (sql, n) => sql`select ${n}::int4 as n, 'single' as t`;
const five = [
  (sql, n) => sql`select ${n}::int4 as n, 'first' as t`,
  (sql, n) => sql`select ${n}::int4 as n, 'second' as t`,
  (sql, n) => sql`select ${n}::int4 as n, 'third' as t`,
  (sql, n) => sql`select ${n}::int4 as n, 'fourth' as t`,
  (sql, n) => sql`select ${n}::int4 as n, 'fifth' as t`,
];
const tenant = 7;
const tenantRow = [{ n: 7, t: "7" }];
const ofTenant = (sql, n) => sql`select ${n}::int4 as n, current_setting('app.tenant') as t`;
const names = ["first", "second", "third", "fourth", "fifth"];
const firstRow = [{ n: 7, t: "single" }];
const rows = (count) => names.slice(0, count).map((t, n) => ({ n, t }));
/** A library may learn from a statement's first run, and name it at the second. */
const UNTIL_KNOWN = 3;

/**
 * Shape -> its work with a library's `{ sql, open }`. `open(url)` returns `{ query, batch, transaction, scope, close
 * }`, whose connection may begin with the first query. `transaction` calls its work with `(query, last)`, where `last`
 * may send COMMIT along. `scope` runs a query under a tenant's setting, which ends with the query.
 */
export const shapes = {
  async connect_new({ sql, open }, url, measured) {
    let connection;
    const result = await measured(firstRow, async () => {
      connection = await open(url);
      return connection.query(single(sql, 7));
    });
    await connection.close();
    return result;
  },

  async connect_known(library, url, measured) {
    const { sql, open } = library;
    await using(await open(url), async ({ query }) => {
      for (let time = 0; time < UNTIL_KNOWN; time++) await query(single(sql, 7));
    });
    return shapes.connect_new(library, url, measured);
  },

  new_5: onConnection(0, together),
  known_5: onConnection(UNTIL_KNOWN, together),
  batch_new_5: onConnection(0, batched),
  batch_known_5: onConnection(UNTIL_KNOWN, batched),

  transaction_3: onConnection(UNTIL_KNOWN, ({ sql }, { transaction }) => ({
    expected: rows(3),
    work: () =>
      transaction(async (query, last) => {
        const [first, second, third] = five.slice(0, 3).map((statement, n) => statement(sql, n));
        return [...(await query(first)), ...(await query(second)), ...(await last(third))];
      }),
  })),

  scope: onConnection(UNTIL_KNOWN, ({ sql }, { scope }) => ({
    expected: tenantRow,
    work: () => scope(tenant, ofTenant(sql, 7)),
  })),
};

/** Runs one shape. Returns the time by `performance`, and the rows. `mark` is the address of the case's marks. */
export async function trial(library, { shape, url, mark }) {
  return shapes[shape](library, url, async (expected, work) => {
    await say(mark, "begin");
    const start = performance.now();
    const found = await work();
    const wall_ms = performance.now() - start;
    await say(mark, "end");
    if (JSON.stringify(found) !== JSON.stringify(expected))
      throw new Error(`${JSON.stringify(found)} where ${JSON.stringify(expected)} was to come`);
    return { wall_ms };
  });
}

async function say(mark, what) {
  const response = await fetch(`${mark}/${what}`, { method: "POST" });
  if (!response.ok) throw new Error(`mark ${what}: ${await response.text()}`);
  await response.arrayBuffer();
}

/** A shape on an open connection that has run a statement, and then `before` runs of the shape itself. */
function onConnection(before, prepared) {
  return async (library, url, measured) =>
    using(await library.open(url), async (connection) => {
      await connection.query(single(library.sql, 7));
      const { expected, work } = prepared(library, connection);
      for (let time = 0; time < before; time++) await work();
      return measured(expected, work);
    });
}

function together({ sql }, { query }) {
  const work = async () => (await Promise.all(five.map((statement, n) => query(statement(sql, n))))).flat();
  return { expected: rows(5), work };
}

function batched({ sql }, { batch }) {
  return { expected: rows(5), work: () => batch(five.map((statement, n) => statement(sql, n))) };
}

async function using(connection, work) {
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}
