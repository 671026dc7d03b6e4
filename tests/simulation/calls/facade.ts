// The facade of pg: its clients and pools, over the session's sockets.
//
// Knows pg's API, and the meaning of its errors without a code. It makes its own connections, so it needs the session's
// options.
import pg from "../../../js/adapters/pg.ts";
import type { PoolClient } from "../../../js/adapters/pg.ts";
import { assert } from "../../integration/assert.ts";
import { pause, range, type Disturbed } from "../../random/plan.ts";
import { codeOf, endOf, inTime, optionsOf, refused, type CallWorld, type Make } from "./call.ts";

/** Texts of pg's own errors, which have no code, and the driver's code for the same. */
const CODES: readonly (readonly [RegExp, string])[] = [
  [/^Connection terminated due to connection timeout|^timeout expired|^timeout exceeded when/, "CONNECT_TIMEOUT"],
  [/^Connection terminated|has been ended by the other party|is not queryable|has encountered a/, "CONNECTION_LOST"],
  [/^Query read timeout/, "QUERY_TIMEOUT"],
];

function withCode(error: unknown): unknown {
  if (codeOf(error) !== "" || !(error instanceof Error)) return error;
  const code = CODES.find(([pattern]) => pattern.test(error.message))?.[1];
  return code === undefined ? error : Object.assign(error, { code });
}

/** `timeout` applies to each query, and is at least as long as the session's links may be silent. */
function configOf(world: CallWorld, { timeout }: Disturbed) {
  const { host, user, password, database, timeout: longest, ...rest } = optionsOf(world);
  const { connect, allowCleartextPassword } = rest;
  return {
    host: host as string,
    user,
    password: password as string,
    database,
    query_timeout: timeout ?? longest,
    connectionTimeoutMillis: 3_000,
    pgz: { connect, allowCleartextPassword, sslmode: "disable" as const },
  };
}

/** A pool for one call. It ends in time, whatever its connections do. */
async function overPool(
  world: CallWorld,
  options: Disturbed,
  max: number,
  work: (pool: InstanceType<typeof pg.Pool>) => Promise<void>,
): Promise<void> {
  const pool = new pg.Pool({ ...configOf(world, options), max, idleTimeoutMillis: 50 });
  pool.on("error", () => {});
  // The listener is not added at the checkout, because the end of a connection in the turn of its login would have
  // none.
  pool.on("connect", (client: PoolClient) => client.on("error", () => {}));
  try {
    await work(pool);
  } catch (error) {
    throw withCode(error);
  } finally {
    await inTime(pool.end(), 80_000, "end() of a pool of pg's");
  }
}

const selects: Make = (dice, world) => {
  const count = 1 + dice.below(5);
  const first = (world.number += 1_000);
  const isNamed = dice.oneIn(2);
  return {
    says: `pg: ${count} ${isNamed ? "named " : ""}queries of a pool`,
    ...(isNamed ? { isDirect: true } : {}),
    kind: "client",
    connections: 2,
    run: (_, options) =>
      overPool(world, options, 2, async (pool) => {
        const text = "select $1::int4 as n, $2::text as t";
        const query = isNamed ? { text, name: "one" } : { text };
        const ends = await Promise.all(
          range(first, first + count - 1).map((n) =>
            endOf(
              pool.query<{ n: number; t: string }>(query, [n, "x"]).then(({ rows, rowCount }) => {
                assert.deepEqual([rows, rowCount], [[{ n, t: "x" }], 1]);
              }),
            ),
          ),
        );
        const error = ends.find((end) => end !== undefined);
        if (error !== undefined) throw error;
      }),
  };
};

const inserts: Make = (dice, world) => {
  const numbers = world.ledger.take(1 + dice.below(3));
  return {
    says: `pg: insert ${numbers.join()} returning`,
    kind: "client",
    groups: [numbers],
    connections: 1,
    run: (_, options) =>
      overPool(world, options, 1, async (pool) => {
        const text = `insert into ${world.schema}.ledger select unnest($1::int4[]) returning n`;
        const { rows } = await pool.query<{ n: number }>(text, [numbers]);
        assert.deepEqual(
          rows.map(({ n }) => n),
          numbers,
        );
      }),
  };
};

const transaction: Make = (dice, world) => {
  const numbers = world.ledger.take(2);
  const end = dice.pick(["commit", "rollback", "released", "error"] as const);
  return {
    says: `pg: transaction that ends by ${end}`,
    kind: "transaction",
    groups: [numbers],
    settles: true,
    connections: 1,
    run: (_, options) =>
      overPool(world, options, 1, async (pool) => {
        const { ledger, schema } = world;
        const client = await pool.connect();
        let isCommitting = false;
        try {
          await client.query("begin");
          for (const n of numbers) await client.query(`insert into ${schema}.ledger values ($1)`, [n]);
          if (end === "error") await refused(client.query("select 1 / 0"), "a division", "22012");
          isCommitting = end === "commit";
          if (end !== "released") await client.query(end === "commit" ? "commit" : "rollback");
          ledger.settle(numbers, end === "commit" ? "stored" : "absent");
        } catch (error) {
          if (!isCommitting) ledger.settle(numbers, "absent");
          throw error;
        } finally {
          client.release();
        }
        // The next borrower is not in a transaction.
        const { rows } = await pool.query<{ n: string }>(`select count(*) as n from ${schema}.ledger where n = $1`, [
          numbers[0],
        ]);
        assert.equal(Number(rows[0]!.n), end === "commit" ? 1 : 0);
      }),
  };
};

const fails: Make = (dice, world) => {
  const [code, text] = dice.pick([
    ["22012", "select 1 / 0"],
    ["42P01", "select * from no_such_table"],
    ["42601", "selec 1"],
  ] as const);
  return {
    says: `pg: ${code} of a query, and the next one`,
    kind: "client",
    connections: 1,
    run: (_, options) =>
      overPool(world, options, 1, async (pool) => {
        const error = await refused(pool.query(text), text, code);
        assert(error instanceof pg.DatabaseError, "a DatabaseError");
        assert.deepEqual((await pool.query("select 1 as n")).rows, [{ n: 1 }]);
      }),
  };
};

/** A client that is ended during its queries: each callback is called. */
const endsUnder: Make = (dice, world) => {
  const count = 1 + dice.below(4);
  const waits = dice.below(20);
  return {
    says: `pg: a client that is ended after ${waits} ms under ${count} queries`,
    kind: "client",
    connections: 1,
    async run(_, options) {
      const client = new pg.Client(configOf(world, options));
      client.on("error", () => {});
      const connected = endOf(client.connect());
      const ends = range(1, count).map((n) => endOf(client.query("select $1::int4 as n, pg_sleep(0.005)", [n])));
      if (waits) await pause(waits);
      await inTime(client.end(), 80_000, "end() of a client of pg's");
      const errors = await inTime(Promise.all([connected, ...ends]), 80_000, "queries under end()");
      for (const error of errors.map(withCode))
        if (error !== undefined && !/^(CONNECTION_LOST|CONNECT_TIMEOUT)$/.test(codeOf(error))) throw error;
    },
  };
};

const notified: Make = (dice, world) => {
  const channel = `pg_${++world.number}`;
  const count = 1 + dice.below(4);
  return {
    says: `pg: a client that listens hears ${count}`,
    kind: "client",
    isDirect: true,
    connections: 1,
    async run(_, options) {
      const client = new pg.Client(configOf(world, options));
      const heard: number[] = [];
      let isLost = false;
      client.on("error", () => (isLost = true));
      client.on("notification", ({ payload }: { payload: string }) => void heard.push(Number(payload)));
      try {
        await client.connect();
        await client.query(`listen ${channel}`);
        for (const n of range(1, count)) await client.query("select pg_notify($1, $2)", [channel, String(n)]);
        // Notifications arrive before ReadyForQuery.
        if (!isLost) assert.deepEqual(heard, range(1, count), "notifications");
      } catch (error) {
        throw withCode(error);
      } finally {
        await inTime(client.end(), 80_000, "end() of a client of pg's");
      }
    },
  };
};

/** Calls for any caller, which they do not use. They need `options` of their world. */
export const facade: readonly Make[] = [
  selects,
  selects,
  inserts,
  transaction,
  transaction,
  fails,
  endsUnder,
  notified,
];
