// A snapshot of all rows before their changes: each row once, only those of the publication, and no slot left over.
import type * as driver from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { newRows, started, upTo, type AnyChange, type Case } from "./changes-world.ts";

export const snapshotCases: Record<string, Case> = {
  async "a snapshot has each row as of the slot's beginning, and its changes follow"(world) {
    const { name, pool } = world;
    const { sql } = world.pgz;
    const types = `${name}_types`;
    await pool.simple(`create schema ${types}; create type ${types}.temper as enum ('calm', 'glad')`);
    await world.table(`id int4 primary key, how ${types}.temper, amount numeric, raw bytea, note text`);
    await pool.exec(`insert into ${name} select i, 'calm', i / 4.0, '\\x00ff', nullif('"' || i, '"7')
      from generate_series(1, 3000) i`);
    let isOver = false;
    // Rows change from before the slot is created until after the end of its snapshot.
    const writer = async () => {
      const table = sql.identifier(name);
      for (let id = 3_001; !isOver; id++) {
        await pool.exec(sql`insert into ${table} values (${id}, 'glad', 0.5, null, 'new')`);
        await pool.exec(sql`update ${table} set amount = amount + 1, how = 'glad' where id = ${id - 1_500}`);
        await pool.exec(sql`delete from ${table} where id = ${id - 2_990}`);
      }
      await pool.exec(sql`insert into ${table} values (0, null, null, null, 'last')`);
    };
    const working = started(writer());
    const replica = new Map<unknown, unknown>();
    let rows = 0;
    let behind = 0;
    const feed = world.changes(pool, { ...world.options, snapshot: true });
    for await (const change of feed) {
      if (rows === 0 && change.kind === "insert") {
        assert.equal(feed.stats().state, "snapshot");
        assert.equal(feed.stats().lagBytes, 0);
        // A later run from there would be without the rest of the rows.
        const asked = (async () => feed.fullPosition(change.position))();
        await assert.code(asked, "INVALID_OPTION");
      }
      if (change.kind === "insert") {
        if (change.xid === undefined) rows++;
        assert(!replica.has(change.new["id"]), "no row comes twice");
        replica.set(change.new["id"], change.new);
        if (change.new["note"] === "last") break;
      }
      if (change.kind === "update") replica.set(change.new["id"], change.new);
      if (change.kind === "delete") assert(replica.delete(change.old["id"]), "what is deleted was there");
      if (change.kind === "snapshot") assert.equal(rows, replica.size);
      if (change.kind === "commit" && ++behind === 30) isOver = true;
    }
    await working;
    const { rows: stored } = await pool.query(`select * from ${name} order by id`);
    const copied = [...replica.entries()].sort(([one], [other]) => Number(one) - Number(other));
    assert.deepEqual(
      copied.map(([, row]) => row),
      stored,
    );
    assert.equal(await world.slots(), 1);
  },

  async "a loop that is left at the end of a snapshot leaves its slot to the next run"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key");
    await pool.exec(`insert into ${name} values (1)`);
    const all = await upTo("snapshot", world.changes(pool, { ...world.options, snapshot: true }));
    assert.deepEqual(newRows(all), [{ id: 1 }]);
    await world.insert(2);
    assert.deepEqual(newRows(await upTo("commit", world.changes(pool, world.options))), [{ id: 2 }]);
  },

  async "a slot that is moved before the stream after a snapshot has begun ends it"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key");
    const reading = (async () => {
      for await (const change of world.changes(pool, { ...world.options, snapshot: true })) {
        if (change.kind !== "snapshot") continue;
        // A slot is advanced only over what has reached the disk.
        await pool.simple(`begin; set local synchronous_commit = on; insert into ${name} values (1); commit`);
        await pool.query(`select from pg_replication_slot_advance('${name}', pg_current_wal_lsn())`);
      }
    })();
    await assert.code(reading, "CHANGES_LOST");
  },

  async "a snapshot refuses a table whose policies would hide rows from its role"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, owner text");
    await pool.simple(`create role ${name} login replication password 'secret'; grant select on ${name} to ${name};
      insert into ${name} values (1, 'other'); alter table ${name} enable row level security;
      create policy own on ${name} using (owner = current_user)`);
    world.after(`drop policy own on ${name}; revoke all on ${name} from ${name}; drop role ${name}`);
    const url = new URL(world.url);
    [url.username, url.password] = [name, "secret"];
    await using db = world.pgz.createClient(url.href);
    const feed = world.changes(db, { ...world.options, snapshot: true });
    const refused = await assert.code(upTo("snapshot", feed), "42501");
    assert.match(String(refused["advice"]), /BYPASSRLS/);
    assert.equal(await world.slots(), 0);
  },

  async "a snapshot has the rows and columns of the publication, of partitions too"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await world.table("id int4 primary key, parent int4");
    await pool.simple(`alter table ${name} alter parent type text; insert into ${name} values (1, 'x');
      create schema ${types};
      create table ${types}.listed (id int4 primary key, secret text, twice int4 generated always as (id * 2) stored);
      insert into ${types}.listed values (1, 'x'), (2, 'y'), (3, 'z');
      create table ${types}.parted (id int4 primary key, "Odd ""name" text) partition by range (id);
      create table ${types}.part_one partition of ${types}.parted for values from (0) to (10);
      create table ${types}.part_two partition of ${types}.parted for values from (10) to (20);
      insert into ${types}.parted values (1, 'a'), (11, 'b');
      create table ${types}.heir () inherits (${name}); insert into ${types}.heir values (9, 'heir');
      create table ${types}.bare (); insert into ${types}.bare default values;
      alter publication ${name} set table only ${name}, ${types}.listed (id) where (id > 1), ${types}.parted,
        ${types}.bare; alter publication ${name} set (publish_via_partition_root)`);
    const seen: AnyChange[] = [];
    const options = { ...world.options, createSlot: "temporary", snapshot: true, trustTables: true } as const;
    for await (const { changes } of world.changes(pool, options).transactions()) {
      seen.push(...changes);
      if (changes.at(-1)!.kind === "snapshot") break;
    }
    const found = seen.flatMap((change) => (change.kind === "insert" ? [[change.table, change.new]] : []));
    assert.deepEqual(
      found.sort(([one], [other]) => String(one).localeCompare(String(other))),
      [
        ["bare", {}],
        [name, { id: 1, parent: "x" }],
        ["listed", { id: 2 }],
        ["listed", { id: 3 }],
        ["parted", { id: 1, 'Odd "name': "a" }],
        ["parted", { id: 11, 'Odd "name': "b" }],
      ],
    );
    await until(async () => (await world.slots()) === 0, "the temporary slot has ended");
  },

  async "a snapshot runs no code of those who own the tables"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await pool.simple(`create role ${name}; create schema ${types} authorization ${name}`);
    world.after(`drop publication if exists ${name}; drop schema ${types} cascade; drop role ${name}`);
    await pool.simple(`${trapOf(name)}; ${trappedTable(name, "a", "id int4, name text")};
      ${trappedTable(name, "parted", "id int4, name text", "partition by range (id)")};
      ${trappedTable(name, "part", `partition of ${types}.parted for values from (0) to (9)`)};
      insert into ${types}.a values (1, 'x'), (2, e'\\\\N\t\n'); insert into ${types}.part values (3, ''); reset role;
      create publication ${name} for tables in schema ${types} with (publish_via_partition_root)`);
    const feed = world.changes(pool, { ...world.options, createSlot: "temporary", snapshot: true });
    assert.deepEqual(newRows(await upTo("snapshot", feed)), [
      { id: 1, name: "x" },
      { id: 2, name: "\\N\t\n" },
      { id: 3, name: "" },
    ]);
    // The schema's owner can put a view in the place of a table that is still to be read.
    await pool.simple(`set role ${name}; insert into ${types}.a select i, repeat('x', 1000)
      from generate_series(10, 60000) i; reset role`);
    const swapped = (async () => {
      for await (const change of world.changes(pool, { ...world.options, snapshot: true }))
        if (change.kind === "insert" && change.new["id"] === 1)
          await pool.simple(`set role ${name}; drop table ${types}.parted;
            create view ${types}.parted as select ${types}.trap() as id; create view ${types}.part as
            select ${types}.trap() as id, '' as name; reset role`);
    })();
    const broken = (await assert.code(swapped, "SNAPSHOT_BROKEN_OFF")) as unknown as driver.PgzError;
    assert.equal((broken.cause as driver.PgzError).code, "42809");
    assert.match(String(broken.advice), /reads tables only/);
  },

  /** A rewritten table is empty for a snapshot that is older, and the rewritten rows are no changes. */
  async "a snapshot ends if a table has become another before it was read"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await pool.simple(`create schema ${types}; create table ${types}.first (id int4, body text);
      create table ${types}.later (id int4); insert into ${types}.later values (1), (2);
      create table ${types}.other (id int4);
      insert into ${types}.first select i, repeat('x', 1000) from generate_series(1, 60000) i;
      create publication ${name} for table ${types}.first, ${types}.later`);
    const reading = async (meanwhile: string, more: object = {}) => {
      for await (const change of world.changes(pool, { ...world.options, snapshot: true, ...more }))
        if (change.kind === "insert" && change.new["id"] === 1 && change.table === "first")
          await pool.simple(meanwhile);
        else if (change.kind === "snapshot") break;
    };
    const endsAt = async (meanwhile: string, more: object = {}) => {
      const broken = await assert.code(reading(meanwhile, more), "SNAPSHOT_BROKEN_OFF");
      assert.match(broken.message, new RegExp(`"${types}"."later" was rewritten`));
      assert.equal(await world.slots(), 0);
    };
    await endsAt(`alter table ${types}.later alter id type int8`);
    await endsAt(`alter table ${types}.later rename to gone; alter table ${types}.other rename to later`);
    await pool.simple(`alter table ${types}.later rename to other; alter table ${types}.gone rename to later;
      alter publication ${name} set table ${types}.first, ${types}.later where (id > 0)`);
    // Before a SELECT, because a view in the place of the table would run.
    await endsAt(
      `alter table ${types}.later rename to gone; create view ${types}.later as select 1 / (select 0) as id`,
      { trustTables: true },
    );
  },

  /**
   * The names of schemas are not locked with their tables, so at the end both name and file may be right again. The two
   * tables have even changed places if both are published.
   */
  async "a snapshot ends if a table's schema was another one while it was read"(world) {
    const { name, pool } = world;
    const [first, later, other] = [`${name}_types`, `${name}_x`, `${name}_y`];
    const swap = `alter schema ${later} rename to ${name}_z; alter schema ${other} rename to ${later};
      alter schema ${name}_z rename to ${other}`;
    await pool.simple(`create schema ${first}; create table ${first}.t (id int4, body text);
      insert into ${first}.t select i, repeat('x', 1000) from generate_series(1, 60000) i`);
    for (const isPublished of [false, true]) {
      await pool.simple(`create schema ${later}; create schema ${other}; create table ${later}.t (id int4);
        create table ${other}.t (id int4); insert into ${later}.t values (-1); insert into ${other}.t values (-2);
        create publication ${name} for table ${first}.t, ${later}.t${isPublished ? `, ${other}.t` : ""}`);
      const swapAt = [1, isPublished ? -1 : -2];
      const reading = (async () => {
        for await (const change of world.changes(pool, { ...world.options, snapshot: true }))
          if (change.kind === "insert" && swapAt.includes(change.new["id"] as number)) await pool.simple(swap);
          else if (change.kind === "snapshot") break;
      })();
      try {
        await assert.code(reading, "SNAPSHOT_BROKEN_OFF");
      } finally {
        await pool.simple(`drop publication ${name}; drop schema ${later} cascade; drop schema ${other} cascade`);
      }
    }
  },

  async "rows of a partition that two publications list come once"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await pool.simple(`create schema ${types}; create table ${types}.root (id int4) partition by range (id);
      create table ${types}.middle partition of ${types}.root for values from (0) to (9) partition by range (id);
      create table ${types}.leaf partition of ${types}.middle for values from (0) to (5);
      insert into ${types}.root values (1); create publication ${name} for table ${types}.leaf;
      create publication ${name}_middle for table ${types}.middle with (publish_via_partition_root);
      create publication ${name}_root for table ${types}.root with (publish_via_partition_root)`);
    const publication = [name, `${name}_middle`, `${name}_root`];
    const options = { ...world.options, publication, createSlot: "temporary", snapshot: true } as const;
    const tables: unknown[] = [];
    world.after(`drop publication ${name}_middle; drop publication ${name}_root`);
    for await (const change of world.changes(pool, options)) {
      if (change.kind === "insert") tables.push(change.table);
      if (change.kind === "snapshot") await pool.exec(`insert into ${types}.root values (2)`);
      if (change.kind === "commit") break;
    }
    assert.deepEqual(tables, ["root", "root"]);
  },

  async "a table of which two publications list different columns is refused before its rows come"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    await pool.simple(`insert into ${name} values (1); create publication ${name}_ids for table ${name} (id)`);
    const options = { ...world.options, publication: [name, `${name}_ids`], snapshot: true };
    world.after(`drop publication ${name}_ids`);
    await assert.code(upTo("snapshot", world.changes(pool, options)), "INVALID_OPTION");
    assert.equal(await world.slots(), 0);
  },

  async "a snapshot that needs a SELECT is refused unless the tables are trusted"(world) {
    const { name, pool } = world;
    const types = `${name}_types`;
    await pool.simple(`create schema ${types};
      create table ${types}.t (id int4 primary key, twice int4 generated always as (id * 2) stored);
      insert into ${types}.t values (1), (2); create publication ${name} for table ${types}.t where (id > 1)`);
    const options = { ...world.options, createSlot: "temporary", snapshot: true } as const;
    const read = async (more: object = {}) =>
      newRows(await upTo("snapshot", world.changes(pool, { ...options, ...more })));
    const refused = await assert.code(read(), "INVALID_OPTION");
    assert.match(refused.message, /row filter.*trustTables: true/);
    assert.deepEqual(await read({ trustTables: true }), [{ id: 2 }]);
    const { rows } = await pool.query("select current_setting('server_version_num')::int4 >= 180000 as is_new");
    if (rows[0]!["is_new"] !== true) return;
    await pool.simple(`alter publication ${name} set table ${types}.t;
      alter publication ${name} set (publish_generated_columns = stored)`);
    assert.match((await assert.code(read(), "INVALID_OPTION")).message, /generated columns/);
    assert.deepEqual(await read({ trustTables: true }), [
      { id: 1, twice: 2 },
      { id: 2, twice: 4 },
    ]);
    // Without filter and generated columns no SELECT is needed.
    await pool.exec(`alter publication ${name} set table ${types}.t (id)`);
    assert.deepEqual(await read(), [{ id: 1 }, { id: 2 }]);
  },

  async "a snapshot that breaks off leaves no slot, and an existing slot is refused"(world) {
    const { name, pool } = world;
    await world.table("id int4 primary key, body text");
    // More rows than are in flight when the consumer does not read.
    await pool.exec(`insert into ${name} select i, repeat('x', 1000) from generate_series(1, 60000) i`);
    const options = { ...world.options, snapshot: true };
    const read = async (work: () => Promise<unknown>, more: object = {}) => {
      for await (const change of world.changes(pool, { ...options, ...more }))
        if (change.kind === "insert" && change.new["id"] === 1) await work();
    };
    const cut = await assert.code(
      read(() => world.cutCopy()),
      "SNAPSHOT_BROKEN_OFF",
    );
    assert.match(cut.message, /was dropped/);
    assert.equal(await world.slots(), 0);
    const controller = new AbortController();
    const aborted = read(async () => controller.abort(), { signal: controller.signal });
    await assert.code(aborted, "ABORTED");
    assert.equal(await world.slots(), 0);
    await assert.code(
      read(() => Promise.reject(new world.pgz.PgzError("LEFT", "left"))),
      "LEFT",
    );
    assert.equal(await world.slots(), 0);
    await pool.query(`select from pg_create_logical_replication_slot('${name}', 'pgoutput')`);
    const there = await assert.code(
      read(() => Promise.resolve()),
      "INVALID_OPTION",
    );
    assert.match(there.message, /exists/);
    assert.equal(await world.slots(), 1);
  },
};

/** A function of role `name`, which becomes the current role. It fails for everybody else. */
const trapOf = (name: string) => `set role ${name};
  create function ${name}_types.trap() returns int4 language plpgsql immutable as
    $$ begin if current_user <> '${name}' then raise exception 'ran as %', current_user; end if; return 1; end $$`;

/** A table with the trap wherever planning would run it. */
function trappedTable(name: string, table: string, columns: string, more = ""): string {
  const [of, types] = columns.startsWith("partition") ? [columns, `${name}_types`] : [`(${columns})`, `${name}_types`];
  return `create table ${types}.${table} ${of} ${more}; create index on ${types}.${table} ((${types}.trap()));
    create index on ${types}.${table} (id) where ${types}.trap() = 1;
    create statistics ${types}.${table}_of on (${types}.trap() + id), id from ${types}.${table}`;
}
