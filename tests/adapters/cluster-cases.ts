// What `pgz-edge/cluster` does on each runtime, over a primary and a standby: reads there, positions, and what the next
// cluster remembers. tests/cluster has the rest, on Node.
import { assert } from "../integration/assert.ts";

export interface Setting {
  readonly pgz: typeof import("../../js/index.ts");
  readonly createCluster: (typeof import("../../js/cluster.ts"))["createCluster"];
  /** The URLs of the primary and of its standby. */
  readonly urls: readonly string[];
  /** The name of a table for this runtime alone. */
  readonly table: string;
}

type Case = (setting: Setting) => Promise<void>;

const options = { sslmode: "disable", wait: 5_000, max: 2 } as const;
const isStandby = "select pg_is_in_recovery() as standby";

export const cases: Record<string, Case> = {
  async "reads after a write"({ createCluster, urls, table, pgz: { sql } }) {
    await using cluster = createCluster(urls, options);
    const name = sql.identifier(table);
    const { position: made } = await cluster.exec(sql`create table ${name} (id int, note text)`, { position: true });
    const count = sql<{ n: number }>`select count(*)::int4 as n, pg_is_in_recovery() as standby from ${name}`;
    assert.deepEqual((await cluster.reads.after(made).query(count)).rows[0]!.n, 0);
    const positions = [
      (await cluster.exec(sql`insert into ${name} values (${1}, 'exec')`, { position: true })).position,
      (await cluster.batch([sql`insert into ${name} values (${2}, 'batch')`], { position: true })).position,
      (await cluster.copyFromRows(name, ["id", "note"], [[3, "copy"]], { position: true })).position,
      (await cluster.transaction((tx) => tx.exec(sql`insert into ${name} values (${4}, 'tx')`), { position: true }))
        .position,
    ];
    for (const [at, position] of positions.entries()) {
      const { rows } = await cluster.reads.after(position).query(count);
      assert(rows[0]!.n > at, `${rows[0]!.n} rows after write ${at + 1}`);
    }
    await cluster.exec(sql`drop table ${name}`);
  },

  async "every way of reading on the standby"({ createCluster, urls }) {
    await using cluster = createCluster(urls, { ...options, maxLag: Infinity });
    await cluster.probe();
    const behind = cluster.reads.after(await cluster.position());
    for (const reads of [cluster.reads, behind]) {
      await assert.rows(reads.query(isStandby), [{ standby: true }]);
      assert.deepEqual(
        await new Response(await reads.stream(isStandby, { format: "ndjson" })).text(),
        '{"standby":true}\n',
      );
      for await (const row of reads.rows(isStandby)) assert.deepEqual(row, { standby: true });
      const inTransaction = await reads.transaction(async (tx) => (await tx.query(isStandby)).rows);
      assert.deepEqual(inTransaction, [{ standby: true }]);
      const repeatable = { isolation: "repeatable read" } as const;
      assert.deepEqual(await reads.transaction(async (tx) => (await tx.query(isStandby)).rows, repeatable), [
        { standby: true },
      ]);
    }
  },

  async "a cluster of the same servers knows them already"({ createCluster, urls }) {
    const lasting = { ...options, maxLag: Infinity, probeInterval: 60_000 };
    {
      await using first = createCluster(urls, lasting);
      await first.probe();
    }
    await using second = createCluster(urls, lasting);
    assert.deepEqual(
      second.stats().servers.map(({ role }) => role),
      ["primary", "standby"],
    );
    await assert.rows(second.reads.query(isStandby), [{ standby: true }]);
    // No server has been asked: the standby's pool has had one query, the primary's none.
    assert.deepEqual(
      second.stats().servers.map(({ pool }) => pool.queries),
      [0, 1],
    );
  },
};

export async function run(work: Case, setting: Setting): Promise<void> {
  await work(setting);
}
