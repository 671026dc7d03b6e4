// `pgz-edge/changes` over a real server: what it yields and acknowledges, and that no change is lost or doubled.
import type * as driver from "../../js/index.ts";
import type * as ofChanges from "../../js/changes.ts";
import { assert } from "../integration/assert.ts";
import type { Difference } from "../integration/context.ts";
import { until } from "../support/until.mjs";
import { openCases } from "./changes-open-cases.ts";
import { snapshotCases } from "./changes-snapshot-cases.ts";
import { tablesCases } from "./changes-tables-cases.ts";
import { assertAcknowledged, first, newRows, started, upTo, type AnyChange, type Case } from "./changes-world.ts";

export { run, type Case, type Setting } from "./changes-world.ts";

/** The cases that depend on a runtime. The others are about slots, publications and the order of changes. */
export const differ: Record<string, Difference> = {
  "a transaction's changes arrive in order, with the values of rows()": "engine", // the second wasm
  "a snapshot has each row as of the slot's beginning, and its changes follow": "engine",
  "when connections are lost at any time, nothing is lost, and no whole transaction arrives twice": "sockets",
  "with streaming, parts without an end are taken back when the link breaks": "sockets",
  "a snapshot that breaks off leaves no slot, and an existing slot is refused": "sockets",
  "a consumer that stops reading is not dropped": "timers",
  "a reader of a few lines can build a replica from the NDJSON": "streams",
  "a signal ends the stream while its slot waits for an open transaction": "timers",
  "a signal, or leaving the loop, ends the stream within a second": "streams",
};

export const cases: Record<string, Case> = {
  ...snapshotCases,
  ...openCases,
  ...tablesCases,

  async "a transaction's changes arrive in order, with the values of rows()"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await pool.simple(`create schema ${types}; create type ${types}.temper as enum ('calm', 'glad');
      create domain ${types}.age as int4; create type ${types}.pair as (a int4, b text)`);
    await world.table(`id int8 primary key, n numeric, at timestamptz, raw bytea, moods ${types}.temper[],
      how ${types}.age, p ${types}.pair, f float8, doc jsonb`);
    const values = `1, 1.50, '2026-11-27 03:00:00.5+01', '\\x00ff', '{calm,glad}', 5, '(1,x)', 'NaN', '{"a": [1]}'`;
    let rows: unknown[] = [];
    const work = async () => {
      await pool.simple(`begin; insert into ${name} values (${values}); insert into ${name} values (2);
        update ${name} set how = 6 where id = 1; delete from ${name} where id = 2;
        select pg_logical_emit_message(true, 'app', 'hi'); commit`);
      ({ rows } = await pool.query(`select * from ${name}`));
    };
    const seen = await world.read(1, work, { messages: true });
    const kinds = seen.map(({ kind }) => kind);
    assert.deepEqual(kinds, ["begin", "schema", "insert", "insert", "update", "delete", "message", "commit"]);
    const [begin, schema, first, , update, remove, message, commit] = seen as never[] as Record<string, unknown>[];
    assert.deepEqual([schema!["schema"], schema!["table"], schema!["replicaIdentity"]], ["public", name, "default"]);
    const [id] = schema!["columns"] as unknown[];
    assert.deepEqual(id, { name: "id", typeOid: 20, typeModifier: -1, key: true });
    assert.deepEqual(first!["new"], { ...(rows[0] as object), how: 5 });
    assert.deepEqual(update!["new"], rows[0]);
    assert(!("old" in update!), "the key has not changed");
    assert.deepEqual(remove!["old"], { id: "2" });
    assert.deepEqual([message!["prefix"], message!["content"], message!["transactional"]], ["app", "hi", true]);
    assert.equal(commit!["committedAt"], begin!["committedAt"]);
    assert.equal(new Set(seen.map(({ xid }) => xid)).size, 1);
    for (const { position } of seen) assert.match(position, /^[0-9A-F]+\/[0-9A-F]{4,}$/);
  },

  async "the replica identity decides which old values are known, and unchanged TOASTed values are named"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await pool.simple(`alter table ${name} alter body set storage external`);
    const seen = await world.read(4, async () => {
      await pool.exec(`insert into ${name} values (1, repeat('x', 5000))`);
      await pool.exec(`update ${name} set id = 2`);
      await pool.exec(`alter table ${name} replica identity full`);
      await pool.exec(`update ${name} set id = 3`);
      await pool.exec(`truncate ${name} restart identity cascade`);
    });
    const updates = seen.flatMap((change) => (change.kind === "update" ? [change] : []));
    assert.deepEqual(
      updates.map(({ old, unchanged }) => [old, unchanged]),
      [
        [{ id: 1 }, ["body"]],
        [{ id: 2, body: "x".repeat(5000) }, ["body"]],
      ],
    );
    assert.deepEqual(updates[0]!.new, { id: 2 });
    assert.equal(updates[1]!.new["id"], 3);
    const truncate = seen.find(({ kind }) => kind === "truncate") as ofChanges.Truncate;
    const { tables, cascade, restartIdentity } = truncate;
    assert.deepEqual([tables, cascade, restartIdentity], [[{ schema: "public", table: name }], true, true]);
  },

  async "a table altered between its changes is described as it is now"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, created_at text");
    const work = async () => {
      await pool.exec(`insert into ${name} values (1, 'x')`);
      await pool.exec(`alter table ${name} add more int8 default 7`);
      await pool.exec(`insert into ${name} values (2, 'y')`);
      await pool.simple(`alter table ${name} rename created_at to made; alter table ${name} drop more;
        alter table ${name} alter id type text`);
      await pool.exec(`insert into ${name} values ('3', 'z')`);
      await pool.simple(`drop table ${name}; create table ${name} (other_name int4 primary key);
        alter publication ${name} add table ${name}; insert into ${name} values (9)`);
    };
    const seen = await world.read(4, work, { columnNames: "camelCase" });
    assert.deepEqual(newRows(seen), [
      { id: 1, createdAt: "x" },
      { id: 2, createdAt: "y", more: "7" },
      { id: "3", made: "z" },
      { otherName: 9 },
    ]);
    assert.equal(seen.filter(({ kind }) => kind === "schema").length, 4);
  },

  async "the slot stays where it was acknowledged, and the next reader begins after it"(world) {
    await world.table("id int4 primary key");
    const working = started(
      world.streaming().then(async () => {
        for (const id of [1, 2, 3]) await world.insert(id);
      }),
    );
    const commits: string[] = [];
    for await (const change of world.changes(world.pool, world.options)) {
      if (change.kind !== "commit") continue;
      commits.push(change.position);
      if (commits.length === 2) await change.acknowledge();
      if (commits.length === 3) break;
    }
    await working;
    await world.free();
    assertAcknowledged(await world.flushed(), { from: commits[1]!, next: commits[2]! });
    const again = await upTo("commit", world.changes(world.pool, world.options));
    assert.deepEqual(newRows(again), [{ id: 3 }]);
    await world.free();
    const from = again.at(-1)!.position;
    const next = started(world.streaming().then(() => world.insert(4)));
    const behind = await upTo("commit", world.changes(world.pool, { ...world.options, from }));
    await next;
    assert.deepEqual(newRows(behind), [{ id: 4 }]);
  },

  async "when connections are lost at any time, nothing is lost, and no whole transaction arrives twice"(world) {
    await world.table("id int4 primary key");
    const most = 200;
    const working = started(
      world.streaming().then(async () => {
        for (let id = 1; id <= most; id++) {
          await world.insert(id);
          if (id % 30 === 0) await world.cut();
        }
      }),
    );
    const whole: number[] = [];
    let begun: number[] = [];
    for await (const change of world.changes(world.pool, world.options)) {
      if (change.kind === "begin") begun = [];
      if (change.kind === "insert") begun.push(change.new["id"] as number);
      if (change.kind !== "commit") continue;
      whole.push(...begun);
      // Most of what was yielded has not been acknowledged when the connection is lost.
      if (whole.length % 7 === 0) await change.acknowledge();
      if (whole.length === most) break;
    }
    await working;
    assert.deepEqual(
      whole,
      Array.from({ length: most }, (_, at) => at + 1),
    );
  },

  async "a consumer that stops reading is not dropped"(world) {
    await world.table("id int4 primary key");
    const working = started(world.streaming().then(() => world.insert(1)));
    let pid: unknown;
    const reader = async () => {
      const asked = world.pgz.sql`select active_pid from pg_replication_slots where slot_name = ${world.name}`;
      return (await world.pool.query(asked)).rows[0]!["active_pid"];
    };
    for await (const change of world.changes(world.pool, { ...world.options, statusInterval: 100 })) {
      if (change.kind !== "commit") continue;
      await working;
      if (pid === undefined) {
        pid = await reader();
        // This is longer than the server waits for a status.
        await world.pool.query("select pg_sleep(3)");
        await world.insert(2);
        continue;
      }
      assert.equal(await reader(), pid, "the connection is the same");
      break;
    }
  },

  async "changes outside the publication let the server discard its log"(world) {
    const { pool, name } = world;
    const { sql } = world.pgz;
    await world.table("id int4 primary key");
    const other = `${name}_types.elsewhere`;
    await pool.simple(`create schema ${name}_types; create table ${other} (n int4)`);
    const working = started(
      world.streaming().then(async () => {
        await world.insert(1);
        await pool.exec(`insert into ${other} select generate_series(1, 1000)`);
        const { rows } = await pool.query("select pg_current_wal_lsn()::text as at");
        const at = rows[0]!["at"] as string;
        await until(async () => {
          const asked = sql`select confirmed_flush_lsn >= ${at}::pg_lsn as passed from pg_replication_slots
            where slot_name = ${name}`;
          return (await pool.query(asked)).rows[0]!["passed"] === true;
        }, "the slot has gone on");
        await world.insert(2);
      }),
    );
    let commits = 0;
    const options = { ...world.options, acknowledge: "commit", statusInterval: 100 } as const;
    for await (const change of world.changes(pool, options)) if (change.kind === "commit" && ++commits === 2) break;
    await working;
  },

  async "transactions arrive whole, and one that is too long is an error"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key");
    const working = started(
      world.streaming().then(async () => {
        await pool.simple(`begin; insert into ${name} values (1), (2); delete from ${name} where id = 1; commit`);
        await pool.query("select pg_logical_emit_message(false, 'app', 'now')");
        await world.insert(3);
        await pool.exec(`insert into ${name} select generate_series(10, 2000)`);
      }),
    );
    const given = { ...world.options, messages: true, acknowledge: "commit" } as const;
    const seen: ofChanges.ChangesOfTransaction[] = [];
    const read = async () => {
      for await (const whole of world.changes(pool, given).transactions({ maxBytes: 10_000 })) seen.push(whole);
    };
    await assert.rejects(read(), { code: "RESPONSE_TOO_LARGE", limit: "bytes", value: 10_000 });
    await working;
    assert.deepEqual(
      seen.map(({ changes, xid }) => [typeof xid, ...changes.map(({ kind }) => kind)]),
      [
        ["number", "schema", "insert", "insert", "delete"],
        ["undefined", "message"],
        ["number", "insert"],
      ],
    );
    // The whole transactions were acknowledged, and this one was not.
    await world.free();
    for await (const { changes } of world.changes(pool, given).transactions()) {
      assert.equal(changes.filter(({ kind }) => kind === "insert").length, 1_991);
      break;
    }
    await assert.code(world.changes(pool, given).transactions({ maxBytes: 0 }).next(), "INVALID_OPTION");
  },

  async "a reader of a few lines can build a replica from the NDJSON"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, name text, amount int8");
    const working = started(
      world.streaming().then(async () => {
        await pool.exec(`insert into ${name} select i, 'user ' || i, i * 1000000000000 from generate_series(1, 500) i`);
        await pool.exec(`update ${name} set name = null, id = id + 1000 where id % 3 = 0`);
        await pool.exec(`delete from ${name} where id % 5 = 0`);
        await pool.exec(`insert into ${name} values (0, 'last', null)`);
      }),
    );
    const replica = new Map<number, { id: number }>();
    const response = world.changes(pool, { ...world.options, acknowledge: "commit" }).respond();
    assert.equal(response.headers.get("content-type"), "application/x-ndjson; charset=utf-8");
    const reader = response.body!.getReader() as ReadableStreamDefaultReader<Uint8Array>;
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
    assert.deepEqual(
      [...replica.values()].sort((one, other) => one.id - other.id),
      rows,
    );
  },

  async "the lag is known to stats() and the observer"(world) {
    const { name } = world;
    const events: driver.ChangesEvent[] = [];
    const observer = { onChanges: (event: driver.ChangesEvent) => void events.push(event) };
    await world.table("id int4 primary key");
    await using db = world.pgz.createPool(world.url, { observer, max: 1 });
    const feed = world.changes(db, { ...world.options, statusInterval: 50 });
    assert.equal(feed.stats().state, "idle");
    const working = started(
      world.streaming().then(async () => {
        await world.insert(1);
        await world.insert(2);
      }),
    );
    let commits = 0;
    let left = feed.stats();
    for await (const change of feed) {
      if (change.kind !== "commit") continue;
      if (++commits === 1) continue;
      left = feed.stats();
      if (commits === 3) break;
      await working;
      const asked = world.pgz.sql`select pg_current_wal_lsn() - confirmed_flush_lsn as bytes
        from pg_replication_slots where slot_name = ${name}`;
      await until(async () => events.length > 3 && events.at(-1)!.lagSeconds > 0.2, "the observer hears of it");
      const before = feed.stats();
      const [held] = (await world.pool.query(asked)).rows;
      assert(before.lagBytes > 0 && before.lagBytes <= Number(held!["bytes"]), `${before.lagBytes} ${held!["bytes"]}`);
      assert(before.lagSeconds >= 0.2 && before.lagSeconds < 60, `${before.lagSeconds}`);
      assert.deepEqual([before.state, before.connections], ["streaming", 1]);
      const [event] = events;
      assert.deepEqual(Object.keys(event!).sort(), ["slot", ...Object.keys(before)].sort());
      await change.acknowledge();
      const after = feed.stats();
      assert.deepEqual([after.lagSeconds, after.acknowledged], [0, change.position]);
      await world.insert(3);
    }
    // The last commit is not acknowledged, so the end of the log is not what was acknowledged last.
    const over = feed.stats();
    assert.deepEqual(over, { ...left, state: "over", lagSeconds: over.lagSeconds });
  },

  async "a stream that cannot have all changes after its position is refused"(world) {
    const { changes, name, options, pool } = world;
    await world.table("id int4 primary key");
    const lost = async (from: string, why: RegExp) => {
      const error = await assert.code(first(changes(pool, { ...options, from })), "CHANGES_LOST");
      assert.match(error.message, why);
    };
    // A new slot would have only later changes.
    await lost("0/1", /does not exist/);
    assert.equal(await world.slots(), 0);
    await pool.query(`select from pg_create_logical_replication_slot('${name}', 'pgoutput')`);
    await world.insert(1);
    await lost("FFFF/0", /log ends at/);
    await lost("1-1-1", /system 1 was read/);
    const feed = changes(pool, options);
    const full = feed.fullPosition((await upTo("commit", feed)).at(-1)!.position);
    await world.free();
    await lost(full.replace(/-.*-/, "-zz-"), /timeline 1295 was read/);
    await world.insert(2);
    assert.deepEqual(newRows(await upTo("commit", changes(pool, { ...options, from: full }))), [{ id: 2 }]);
  },

  async "a slot that is dropped while a stream reads it ends the stream"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key");
    const { sql } = world.pgz;
    const drop = sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${name}`;
    const seen: AnyChange[] = [];
    const reading = started(
      (async () => {
        for await (const change of world.changes(pool, world.options)) seen.push(change);
      })(),
    );
    await world.streaming();
    await world.insert(1);
    await until(() => seen.some(({ kind }) => kind === "commit"), "a commit has come");
    // The stream connects again at once, so the slot is dropped between the two connections.
    await until(async () => {
      await world.cut();
      return (await pool.query(drop).catch(() => ({ rows: [] }))).rows.length === 1;
    }, "the slot is gone");
    const lost = await assert.code(reading, "CHANGES_LOST");
    assert.match(lost.message, /does not exist any more/);
  },

  async "a publication that does not exist is refused before a slot is made"(world) {
    const { changes, name, options, pool } = world;
    await world.table("id int4 primary key");
    const feed = changes(pool, { ...options, publication: [name, `${name}_serach`] });
    const missing = await assert.code(first(feed), "42704");
    assert.match(missing.message, new RegExp(`"${name}_serach"`));
    assert.match(String((missing as unknown as driver.PgzError).advice), /create publication/);
    assert.equal(await world.slots(), 0);
  },

  /** Changes are decoded with the catalog of their time. From PostgreSQL 18 on the server only warns. */
  async "a publication that is newer than the changes ends the stream before they are lost"(world) {
    const { changes, name, options, pgz, url } = world;
    await world.pool.exec(`create table ${name} (id int4 primary key)`);
    await world.pool.query(`select from pg_create_logical_replication_slot('${name}', 'pgoutput')`);
    await world.insert(1);
    const before = await world.flushed();
    await world.pool.exec(`create publication ${name} for table ${name}`);
    const notices: (string | undefined)[] = [];
    const observer = { onNotice: ({ routine }: driver.Notice) => void notices.push(routine) };
    await using pool = pgz.createPool(url, { observer });
    const late = await assert.code(first(changes(pool, options)), "42704");
    assert.match(late.message, new RegExp(`"${name}"`));
    assert.match(String((late as unknown as driver.PgzError).advice), /position of the slot/);
    await world.free();
    assert.equal(await world.flushed(), before);
    const [{ newer }] = (
      await world.pool.query("select current_setting('server_version_num')::int4 >= 180000 as newer")
    ).rows as [{ newer: boolean }];
    assert.deepEqual(notices, newer ? ["LoadPublications"] : []);
  },

  async "invalid options and missing objects are refused at once"(world) {
    const { changes, name, pool } = world;
    await world.table("id int4 primary key");
    const options = { slot: name, publication: name };
    const missing = await assert.code(first(changes(pool, options)), "42704");
    assert.match(missing.message, new RegExp(name));
    const advised = missing as unknown as driver.PgzError;
    assert.match(String(advised.advice), /createSlot/);
    assert.match(String(advised.stack), /ADVICE: Make it first/);
    const hyperdrive = world.pgz.createClient("postgres://a:b@x.hyperdrive.local/c");
    const wrong: [options: object, source?: unknown][] = [
      [{ slot: "No Slot" }],
      [{ publication: [] }],
      [{ from: "12" }],
      [{ snapshot: true }],
      [{ trustTables: true }],
      [{ failover: true }],
      [{ snapshot: true, createSlot: "permanent", from: "0/1" }],
      [{}, "postgres://x"],
      [{}, hyperdrive],
    ];
    const refused = async (more: object, source: unknown) => void changes(source as never, { ...options, ...more });
    for (const [more, source = pool] of wrong) await assert.code(refused(more, source), "INVALID_OPTION");
    await assert.code(refused({ slots: "x" }, pool), "UNKNOWN_OPTION");
  },

  async "changes can be read only once, and a temporary slot ends with its connection"(world) {
    await world.table("id int4 primary key");
    const twice = world.changes(world.pool, { ...world.options, createSlot: "temporary" });
    const next = started(first(twice));
    await assert.code((async () => twice.stream())(), "STREAM_OPEN");
    await world.streaming();
    await world.cut();
    await assert.code(next, "57P01");
  },

  async "a signal ends the stream while its slot waits for an open transaction"(world) {
    const { pool, name } = world;
    const { sql } = world.pgz;
    await world.table("id int4 primary key");
    await pool.transaction(async (tx) => {
      await tx.exec(sql`insert into ${sql.identifier(name)} values (1)`);
      const controller = new AbortController();
      const options = { ...world.options, signal: controller.signal };
      const next = started(first(world.changes(pool, options)));
      const waiting = sql`select from pg_stat_activity join pg_replication_slots on pid = active_pid
        where slot_name = ${name} and wait_event_type = 'Lock'`;
      await until(async () => (await pool.query(waiting)).rows.length === 1, "the slot is being made");
      controller.abort(new Error("enough"));
      await assert.code(next, "ABORTED");
    });
    const aborted = world.changes(pool, { ...world.options, signal: AbortSignal.abort() });
    await assert.code(first(aborted), "ABORTED");
  },

  async "a signal, or leaving the loop, ends the stream within a second"(world) {
    await world.table("id int4 primary key");
    const controller = new AbortController();
    const next = started(first(world.changes(world.pool, { ...world.options, signal: controller.signal })));
    await world.streaming();
    controller.abort(new Error("enough"));
    await assert.code(next, "ABORTED");
    await world.free();
    const stream = world.changes(world.pool, world.options).stream();
    const reader = stream.getReader();
    const read = started(reader.read());
    await world.streaming();
    await reader.cancel();
    assert.deepEqual(await read, { done: true, value: undefined });
    await world.free();
  },
};
