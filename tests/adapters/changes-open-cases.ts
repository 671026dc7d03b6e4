// Transactions that have not ended: parts of large ones, and prepared ones.
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { assertAcknowledged, newRows, started, upTo, type AnyChange, type Case } from "./changes-world.ts";

export const openCases: Record<string, Case> = {
  // PostgreSQL 18 then sends StreamAbort for the subtransactions, with and without `streaming`.
  async "a large transaction that was rolled back before it is decoded does not end the stream"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    for (const streaming of [false, true]) {
      await pool.simple(`select pg_create_logical_replication_slot('${name}', 'pgoutput')`);
      await pool.simple(`begin; savepoint a; insert into ${name} select i, repeat('x', 1000) from generate_series(1, 10) i;
        release a; insert into ${name} select i, repeat('x', 1000) from generate_series(100, 80000) i; rollback;
        insert into ${name} values (0, 'kept')`);
      const seen = await upTo("commit", world.changes(pool, { ...world.options, streaming }));
      assert.deepEqual(newRows(seen).at(-1), { id: 0, body: "kept" });
      // PostgreSQL 15 does not know yet that it was rolled back, and sends its parts.
      const begun = new Set(seen.flatMap((change) => (change.kind === "stream" ? [change.xid] : [])));
      for (const change of seen) assert(change.kind !== "abort" || begun.has(change.xid), "an abort has a beginning");
      await world.free();
      await pool.simple(`select pg_drop_replication_slot('${name}'); delete from ${name}`);
    }
  },

  async "with streaming, parts of a transaction arrive before its end, and a rollback is reported"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await using db = world.pgz.createPool(world.url, { options: smallMemory });
    const insert = (from: number) => rows(name, from, 2_000);
    const seen = new Set<unknown>();
    const working = started(
      world.streaming().then(async () => {
        await assert.code(
          pool.transaction(async (tx) => {
            await tx.exec(insert(10_000));
            throw new world.pgz.PgzError("ROLLED_BACK", "as planned");
          }),
          "ROLLED_BACK",
        );
        await pool.transaction(async (tx) => {
          await tx.exec(insert(20_000));
          await until(() => seen.has(20_000), "a part has come before the end");
          const inner = tx.transaction(async (nested) => {
            await nested.exec(insert(30_000));
            // PostgreSQL 18 sends nothing of a subtransaction that it finds rolled back.
            await until(() => seen.has(30_000), "a part of the subtransaction has come before its end");
            throw new world.pgz.PgzError("ROLLED_BACK", "as planned");
          });
          await assert.code(inner, "ROLLED_BACK");
          await tx.exec(insert(40_000));
        });
      }),
    );
    const parts: AnyChange[] = [];
    for await (const change of world.changes(db, { ...world.options, streaming: true })) {
      if (change.kind === "insert") seen.add(change.new["id"]);
      parts.push(change);
      if (change.kind === "commit") break;
    }
    await working;
    const commit = parts.at(-1)!;
    assert(parts.filter(({ kind }) => kind === "stream").length > 2, "it came in parts");
    assert(
      parts.some((change) => change.kind === "abort" && change.xid === commit.xid && change.subxid !== undefined),
      "its subtransaction was rolled back",
    );
    // Nothing was acknowledged, so everything arrives again.
    await world.free();
    for await (const whole of world.changes(db, { ...world.options, streaming: true }).transactions()) {
      const ids = newRows(whole.changes).map(({ id }) => id as number);
      assert.deepEqual(
        [ids.length, ids[0], ids[1_999], ids[2_000], ids.at(-1)],
        [4_000, 20_000, 21_999, 40_000, 41_999],
      );
      assert.equal(whole.xid, commit.xid);
      break;
    }
  },

  async "with twoPhase, a transaction arrives when it is prepared, and its end is reported"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key");
    const options = { ...world.options, twoPhase: true };
    const working = started(
      world.streaming().then(async () => {
        for (const [id, end] of [
          [1, "commit"],
          [2, "rollback"],
        ] as const) {
          await pool.simple(`begin; insert into ${name} values (${id}); prepare transaction '${name} ${id}'`);
          await pool.simple(`${end} prepared '${name} ${id}'`);
        }
      }),
    );
    const seen: AnyChange[] = [];
    for await (const change of world.changes(pool, options)) {
      seen.push(change);
      if (change.kind === "rollbackPrepared") break;
      if (change.kind === "commitPrepared") await change.acknowledge();
    }
    await working;
    const told = seen.map((change) =>
      "gid" in change ? `${change.kind} ${change.gid.slice(name.length)}` : change.kind,
    );
    assert.deepEqual(told, [
      "beginPrepare  1",
      "schema",
      "insert",
      "prepare  1",
      "commitPrepared  1",
      "beginPrepare  2",
      "insert",
      "prepare  2",
      "rollbackPrepared  2",
    ]);
    const committed = seen.find(({ kind }) => kind === "commitPrepared")!;
    const [, prepared] = seen.filter(({ kind }) => kind === "prepare");
    await world.free();
    assertAcknowledged(await world.flushed(), { from: committed.position, next: prepared!.position });
    await assert.code(world.changes(pool, options).transactions().next(), "INVALID_OPTION");
  },

  async "with streaming, what was yielded and not acknowledged comes once when the link breaks"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await using db = world.pgz.createPool(world.url, { options: smallMemory });
    const copy = new Copy();
    const working = started(world.streaming().then(() => pool.simple(rows(name, 1, 2_000))));
    for await (const change of world.changes(db, { ...world.options, streaming: true })) {
      copy.take(change);
      if (change.kind !== "commit") continue;
      if (copy.ended.length === 2) break;
      await working;
      await world.cut();
      await pool.simple(rows(name, 3_001, 1));
    }
    assert.deepEqual(copy.ended, ["commit", "commit"]);
    assert.deepEqual(copy.undone, []);
    assert.equal(copy.stored.length, 2_001);
  },

  async "with streaming, parts without an end are taken back when the link breaks"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await using db = world.pgz.createPool(world.url, { options: smallMemory });
    const copy = new Copy();
    const insert = (from: number, isUndone: boolean, end: Promise<void>) =>
      pool.transaction(async (tx) => {
        await tx.exec(rows(name, from, 2_000));
        await end;
        if (isUndone) throw new Error("as planned");
      });
    let end = () => {};
    const ends = new Promise<void>((resolve) => (end = resolve));
    const working = started(
      world.streaming().then(async () => {
        const undone = started(insert(1, true, ends));
        const afterwards = ends.then(() => undone.catch(() => {}));
        const stored = started(insert(10_001, false, afterwards));
        await until(() => copy.openIds.has(1) && copy.openIds.has(10_001), "parts of both have come");
        await world.cut();
        end();
        await assert.rejects(undone, {});
        await stored;
      }),
    );
    for await (const change of world.changes(db, { ...world.options, streaming: true })) {
      copy.take(change);
      if (change.kind === "commit") break;
    }
    await working;
    assert.deepEqual([copy.stored.length, copy.stored[0], copy.openIds.size], [2_000, 10_001, 0]);
  },

  async "with twoPhase, what was prepared and not acknowledged comes once when the link breaks"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await using db = world.pgz.createPool(world.url, { options: smallMemory });
    for (const streaming of [true, false]) {
      const copy = new Copy();
      const from = streaming ? 1 : 10_001;
      const prepare = `begin; ${rows(name, from, 3_000)}; prepare transaction '${name}'`;
      const working = started(world.streaming().then(() => pool.simple(prepare)));
      for await (const change of world.changes(db, { ...world.options, streaming, twoPhase: true })) {
        copy.take(change);
        if (change.kind === "commitPrepared") await change.acknowledge();
        if (change.kind === "commitPrepared") break;
        if (change.kind !== "prepare") continue;
        await working;
        await world.cut();
        await pool.simple(`commit prepared '${name}'`);
      }
      assert.deepEqual(copy.ended, ["prepare", "commitPrepared"]);
      assert.deepEqual(copy.undone, []);
      assert.equal(copy.stored.length, 3_000);
      await world.free();
    }
  },

  async "transactions() refuses a slot that was changed to two-phase commit"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await pool.query(world.pgz.sql`select from pg_create_logical_replication_slot(${name}, 'pgoutput', false, true)`);
    const working = started(
      world.streaming().then(async () => {
        await pool.simple(`begin; insert into ${name} values (1); prepare transaction '${name}'`);
        await pool.simple(`commit prepared '${name}'`);
        await world.insert(2);
      }),
    );
    const next = world.changes(pool, world.options).transactions().next();
    await assert.code(next, "INVALID_OPTION");
    await working;
  },
};

/** The server decodes so many changes before it sends a part. */
const smallMemory = "-c logical_decoding_work_mem=64kB";

const rows = (name: string, from: number, count: number): string =>
  `insert into ${name} select i, repeat('x', 100) from generate_series(${from}, ${from + count - 1}) i`;

/** Rows of a table as a consumer keeps them that follows docs/changes.md. */
class Copy {
  /** The ids of committed transactions. */
  stored: unknown[] = [];
  /** The kinds of the changes that ended a transaction, and the transactions with rows that were rolled back. */
  readonly ended: string[] = [];
  readonly undone: unknown[] = [];
  /** Transactions of which a row has come. Others of the database, which wrote elsewhere, may end here too. */
  readonly #withRows = new Set<number | undefined>();
  readonly #open = new Map<number | undefined, { id: unknown; subxid: number | undefined }[]>();

  /** The ids of transactions without an end. */
  get openIds(): Set<unknown> {
    return new Set([...this.#open.values()].flatMap((open) => open.map(({ id }) => id)));
  }

  take(change: AnyChange): void {
    const { kind, xid, subxid } = change;
    const open = this.#open.get(xid) ?? [];
    if (kind === "begin" || kind === "beginPrepare" || (kind === "stream" && change.first)) this.#open.set(xid, []);
    if (kind === "insert") {
      open.push({ id: change.new["id"], subxid });
      this.#open.set(xid, open);
      this.#withRows.add(xid);
    }
    if (kind === "abort") {
      if (this.#withRows.has(xid)) this.undone.push(xid);
      this.#open.set(xid, subxid === undefined ? [] : open.filter((row) => row.subxid !== subxid));
    }
    if (kind === "commit" || kind === "commitPrepared") {
      this.stored.push(...open.map(({ id }) => id));
      this.#open.delete(xid);
    }
    if ("acknowledge" in change) this.ended.push(kind);
  }
}
