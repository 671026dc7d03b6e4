// `pgz-edge/changes` over real servers: what is yielded, what is acknowledged, and that nothing is lost or doubled.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { changes, driver, flushed, startLogical, streaming, type AnyChange, type LogicalServer } from "./logical.ts";

const { sql } = driver;

describe.each([18, 15])("PostgreSQL %i", { timeout: 120_000 }, (major) => {
  let server: LogicalServer;
  let names = 0;

  beforeAll(async () => {
    server = await startLogical(major, { wal_sender_timeout: "2s" });
  }, 120_000);
  afterAll(() => server.stop());

  /** A table with a publication and a slot of its own. */
  async function prepared(columns: string) {
    const name = `t${++names}`;
    await server.pool.simple(`create table ${name} (${columns}); create publication ${name} for table ${name}`);
    return name;
  }

  /** Reads a new slot's changes while `work` runs, up to and with the last of `commits`. */
  async function yielded(name: string, commits: number, work: () => Promise<unknown>, options = {}) {
    const seen: AnyChange[] = [];
    const given = { slot: name, publication: name, createSlot: "permanent", ...options } as const;
    const working = streaming(server.pool, name).then(work);
    working.catch(() => {});
    for await (const change of changes(server.pool, given)) {
      seen.push(change);
      if (change.kind === "commit" && --commits === 0) break;
    }
    await working;
    return seen;
  }

  test("a transaction is what has happened, in its order, with the values of rows()", async () => {
    const { pool } = server;
    await pool.simple("create type mood as enum ('calm', 'glad'); create domain age as int4");
    await pool.simple("create type pair as (a int4, b text)");
    const name = await prepared(
      "id int8 primary key, n numeric, at timestamptz, raw bytea, moods mood[], how age, p pair, f float8, doc jsonb",
    );
    const values = `1, 1.50, '2026-11-27 03:00:00.5+01', '\\x00ff', '{calm,glad}', 5, '(1,x)', 'NaN', '{"a": [1]}'`;
    let rows: unknown[] = [];
    const seen = await yielded(
      name,
      1,
      async () => {
        await pool.simple(`begin; insert into ${name} values (${values}); insert into ${name} values (2);
          update ${name} set how = 6 where id = 1; delete from ${name} where id = 2;
          select pg_logical_emit_message(true, 'app', 'hi'); commit`);
        ({ rows } = await pool.query(`select * from ${name}`));
      },
      { messages: true },
    );
    const kinds = seen.map(({ kind }) => kind);
    expect(kinds).toEqual(["begin", "schema", "insert", "insert", "update", "delete", "message", "commit"]);
    const [begin, schema, first, , update, remove, message, commit] = seen as never[] as Record<string, unknown>[];
    expect(schema).toMatchObject({ schema: "public", table: name, replicaIdentity: "default" });
    expect(schema!["columns"]).toContainEqual({ name: "id", typeOid: 20, typeModifier: -1, key: true });
    expect(first!["new"]).toEqual({ ...(rows[0] as object), how: 5 });
    expect(update!["new"]).toEqual(rows[0]);
    expect(update).not.toHaveProperty("old");
    expect(remove!["old"]).toEqual({ id: "2" });
    expect(message).toMatchObject({ prefix: "app", content: "hi", transactional: true });
    expect(commit!["committedAt"]).toBe(begin!["committedAt"]);
    expect(new Set(seen.map(({ xid }) => xid)).size).toBe(1);
    for (const { position } of seen) expect(position).toMatch(/^[0-9A-F]+\/[0-9A-F]{4,}$/);
  });

  test("the replica identity says what is known of old rows, and what is TOASTed and unchanged is named", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key, body text");
    await pool.simple(`alter table ${name} alter body set storage external`);
    const seen = await yielded(name, 4, async () => {
      await pool.exec(`insert into ${name} values (1, repeat('x', 5000))`);
      await pool.exec(`update ${name} set id = 2`);
      await pool.exec(`alter table ${name} replica identity full`);
      await pool.exec(`update ${name} set id = 3`);
      await pool.exec(`truncate ${name} restart identity cascade`);
    });
    const updates = seen.filter(({ kind }) => kind === "update");
    expect(updates[0]).toMatchObject({ old: { id: 1 }, new: { id: 2 }, unchanged: ["body"] });
    expect(updates[1]).toMatchObject({ old: { id: 2, body: "x".repeat(5000) }, new: { id: 3 } });
    const truncate = seen.find(({ kind }) => kind === "truncate");
    expect(truncate).toMatchObject({
      tables: [{ schema: "public", table: name }],
      cascade: true,
      restartIdentity: true,
    });
  });

  test("a table that changes between its changes is told of as it is now", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key, created_at text");
    const seen = await yielded(
      name,
      4,
      async () => {
        await pool.exec(`insert into ${name} values (1, 'x')`);
        await pool.exec(`alter table ${name} add more int8 default 7`);
        await pool.exec(`insert into ${name} values (2, 'y')`);
        await pool.simple(`alter table ${name} rename created_at to made; alter table ${name} drop more;
          alter table ${name} alter id type text`);
        await pool.exec(`insert into ${name} values ('3', 'z')`);
        await pool.simple(`drop table ${name}; create table ${name} (other_name int4 primary key);
          alter publication ${name} add table ${name}; insert into ${name} values (9)`);
      },
      { columnNames: "camelCase" },
    );
    const rows = seen.flatMap((change) => (change.kind === "insert" ? [change.new] : []));
    expect(rows).toEqual([
      { id: 1, createdAt: "x" },
      { id: 2, createdAt: "y", more: "7" },
      { id: "3", made: "z" },
      { otherName: 9 },
    ]);
    expect(seen.filter(({ kind }) => kind === "schema")).toHaveLength(4);
  });

  test("the slot stays where it was acknowledged, and the next reader begins behind it", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key");
    const insert = (id: number) => pool.exec(sql`insert into ${sql.identifier(name)} values (${id})`);
    const working = streaming(pool, name).then(async () => {
      for (const id of [1, 2, 3]) await insert(id);
    });
    let acknowledged = "";
    let commits = 0;
    const options = { slot: name, publication: name };
    for await (const change of changes(pool, { ...options, createSlot: "permanent" })) {
      if (change.kind !== "commit") continue;
      if (++commits === 2) await change.acknowledge();
      if (commits === 2) acknowledged = change.position;
      if (commits === 3) break;
    }
    await working;
    expect(await flushed(pool, name)).toBe(acknowledged);
    const again: unknown[] = [];
    for await (const change of changes(pool, options)) {
      if (change.kind === "insert") again.push(change.new);
      if (change.kind === "commit") break;
    }
    expect(again).toEqual([{ id: 3 }]);
  });

  test("with connections that are lost at any time nothing is lost, and nothing whole comes twice", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key");
    const most = 300;
    const working = streaming(pool, name).then(async () => {
      for (let id = 1; id <= most; id++) {
        await pool.exec(sql`insert into ${sql.identifier(name)} values (${id})`);
        if (id % 30 === 0)
          await pool.query(sql`select pg_terminate_backend(active_pid) from pg_replication_slots
            where slot_name = ${name} and active`);
      }
    });
    working.catch(() => {});
    const whole: number[] = [];
    let begun: number[] = [];
    for await (const change of changes(pool, { slot: name, publication: name, createSlot: "permanent" })) {
      if (change.kind === "begin") begun = [];
      if (change.kind === "insert") begun.push(change.new["id"] as number);
      if (change.kind !== "commit") continue;
      whole.push(...begun);
      // Now and then what was yielded is not acknowledged when its connection is lost.
      if (whole.length % 7 === 0) await change.acknowledge();
      if (whole.length === most) break;
    }
    await working;
    expect(whole).toEqual(Array.from({ length: most }, (_, at) => at + 1));
  });

  test("a consumer that stops is not dropped, and what it need not see the server need not keep", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key");
    const seen: unknown[] = [];
    await pool.simple("create table if not exists elsewhere (n int4)");
    const working = streaming(pool, name).then(() => pool.exec(`insert into ${name} values (1)`));
    const options = { slot: name, publication: name, createSlot: "permanent", statusInterval: 100 } as const;
    for await (const change of changes(pool, options)) {
      if (change.kind !== "commit") continue;
      await working;
      // Longer than the server waits for a status.
      if (seen.push(change.position) === 1) {
        await pool.query("select pg_sleep(3)");
        const before = await flushed(pool, name);
        await change.acknowledge();
        await until(async () => (await flushed(pool, name)) !== before, "the acknowledgement has come");
        const { rows } = await pool.query("select pg_current_wal_lsn()::text as at");
        const far = rows[0]!["at"] as string;
        const others = (async () => {
          await pool.exec("insert into elsewhere select generate_series(1, 10000)");
          await until(async () => {
            const asked = sql`select confirmed_flush_lsn > ${far}::pg_lsn as passed from pg_replication_slots
              where slot_name = ${name}`;
            return (await pool.query(asked)).rows[0]!["passed"] === true;
          }, "the slot has gone on");
          await pool.exec(`insert into ${name} values (2)`);
        })();
        others.catch(() => {});
        continue;
      }
      break;
    }
    expect(seen).toHaveLength(2);
  });

  test("as NDJSON a reader of twenty lines makes a replica of it", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key, name text, amount int8");
    const working = streaming(pool, name).then(async () => {
      await pool.exec(`insert into ${name} select i, 'user ' || i, i * 1000000000000 from generate_series(1, 500) i`);
      await pool.exec(`update ${name} set name = null, id = id + 1000 where id % 3 = 0`);
      await pool.exec(`delete from ${name} where id % 5 = 0`);
      await pool.exec(`insert into ${name} values (0, 'last', null)`);
    });
    working.catch(() => {});
    const replica = new Map<number, unknown>();
    const response = changes(pool, {
      slot: name,
      publication: name,
      createSlot: "permanent",
      acknowledge: "commit",
    }).respond();
    expect(response.headers.get("content-type")).toBe("application/x-ndjson; charset=utf-8");
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    for (let isOver = false; !isOver;) {
      const { value } = await reader.read();
      for (const line of decoder.decode(value).split("\n").filter(Boolean)) {
        const change = JSON.parse(line) as { kind: string; old?: { id: number }; new?: { id: number; name: string } };
        if (change.kind === "delete" || change.kind === "update") replica.delete((change.old ?? change.new)!.id);
        if (change.new) replica.set(change.new.id, change.new);
        isOver ||= change.new?.name === "last";
      }
    }
    await working;
    await reader.cancel();
    const { rows } = await pool.query(`select * from ${name} order by id`, [], { int8: "number" });
    expect([...replica.values()].sort((a, b) => (a as { id: number }).id - (b as { id: number }).id)).toEqual(rows);
    // What the reader has taken is acknowledged, but for the last bytes.
    const { rows: slots } = await pool.query(
      sql`select confirmed_flush_lsn > restart_lsn as went_on from pg_replication_slots where slot_name = ${name}`,
    );
    expect(slots).toEqual([{ went_on: true }]);
  });

  test("what is wrong is told at once", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key");
    const first = (options: object) =>
      changes(pool, { slot: name, publication: name, ...options })
        [Symbol.asyncIterator]()
        .next();
    await expect(first({})).rejects.toMatchObject({ code: "42704", message: expect.stringContaining(name) as string });
    const wrong = [
      [{ slot: "No Slot" }, "INVALID_OPTION"],
      [{ publication: [] }, "INVALID_OPTION"],
      [{ from: "12" }, "INVALID_OPTION"],
      [{ slots: "x" }, "UNKNOWN_OPTION"],
    ] as const;
    for (const [options, code] of wrong)
      expect(() => changes(pool, { slot: name, publication: name, ...options } as never)).toThrow(
        expect.objectContaining({ code }) as Error,
      );
    expect(() => changes("postgres://x" as never, { slot: name, publication: name })).toThrow(/a client or a pool/);
    const twice = changes(pool, { slot: name, publication: name, createSlot: "temporary" });
    const iterator = twice[Symbol.asyncIterator]();
    const next = iterator.next();
    expect(() => twice.stream()).toThrow(expect.objectContaining({ code: "STREAM_OPEN" }) as Error);
    await streaming(pool, name);
    await pool.query(sql`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = ${name}`);
    // Its slot has gone with its connection.
    await expect(next).rejects.toMatchObject({ code: "57P01" });
  });

  test("a signal, and leaving, end it within a second", async () => {
    const { pool } = server;
    const name = await prepared("id int4 primary key");
    const controller = new AbortController();
    const options = { slot: name, publication: name, createSlot: "permanent", signal: controller.signal } as const;
    const next = changes(pool, options)[Symbol.asyncIterator]().next();
    await streaming(pool, name);
    controller.abort(new Error("enough"));
    await expect(next).rejects.toMatchObject({ code: "ABORTED", cause: { message: "enough" } });
    const isFree = async () => {
      const asked = sql`select active from pg_replication_slots where slot_name = ${name}`;
      return (await pool.query(asked)).rows[0]!["active"] === false;
    };
    await until(isFree, "the slot is free");
    const stream = changes(pool, { slot: name, publication: name }).stream();
    const reader = stream.getReader();
    const read = reader.read();
    await streaming(pool, name);
    await reader.cancel();
    expect(await read).toEqual({ done: true, value: undefined });
    await until(isFree, "the slot is free again");
  });
});
