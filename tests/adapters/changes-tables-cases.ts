// Option `tables`: a publication for one stream, which does not outlive the stream.
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { first, newRows, started, upTo, type Case, type World } from "./changes-world.ts";

/** Returns how many publications of this stream exist: none or one. */
const left = async ({ name, pool, pgz }: World) =>
  (await pool.query(pgz.sql`select from pg_publication where pubname = ${`pgz_edge_${name}`}`)).rows.length;

const make = ({ name, pool }: World) =>
  pool.simple(`create table ${name} (id int4 primary key); create schema ${name}_types;
    create table ${name}_types."Other" (id int4 primary key)`);

const optionsOf = ({ name, pgz }: World) => ({
  slot: name,
  createSlot: "temporary" as const,
  tables: [name, pgz.sql.identifier(`${name}_types`, "Other")],
});

export const tablesCases: Record<string, Case> = {
  async "with tables, a publication is created, and dropped when the loop is left"(world) {
    const { name, pool } = world;
    await make(world);
    const seen: unknown[] = [];
    const working = started(
      world
        .streaming()
        .then(() => pool.simple(`insert into ${name} values (1); insert into ${name}_types."Other" values (2)`)),
    );
    for await (const change of world.changes(pool, optionsOf(world))) {
      seen.push(...newRows([change]));
      if (seen.length === 2) break;
    }
    await working;
    assert.deepEqual(seen, [{ id: 1 }, { id: 2 }]);
    assert.deepEqual([await left(world), await world.slots()], [0, 0]);
  },

  async "tables work with a snapshot, and what a crash has left is replaced"(world) {
    const { name, pool } = world;
    await make(world);
    // The left-over publication has other tables, so that reusing it would show.
    await pool.simple(
      `insert into ${name} values (1); create publication pgz_edge_${name} for table ${name}_types."Other"`,
    );
    const feed = world.changes(pool, { ...optionsOf(world), tables: [name], snapshot: true });
    const kinds = (await upTo("snapshot", feed)).map(({ kind }) => kind);
    assert.deepEqual(kinds, ["schema", "insert", "snapshot"]);
    assert.equal(await left(world), 0);
  },

  async "with tables, the publication ends with an aborted stream, and with one that the server ends"(world) {
    const { pool } = world;
    await make(world);
    for (const end of ["abort", "cut"]) {
      const abort = new AbortController();
      const reading = started(first(world.changes(pool, { ...optionsOf(world), signal: abort.signal })));
      await world.streaming();
      assert.equal(await left(world), 1);
      // A second stream of the slot is refused, and drops nothing.
      const refused = await assert.code(first(world.changes(pool, optionsOf(world))), "INVALID_OPTION");
      assert.match(refused.message, /^Another stream has publication/);
      assert.equal(await left(world), 1);
      if (end === "abort") abort.abort();
      else await world.cut();
      await assert.rejects(reading);
      await until(async () => (await left(world)) === 0, "the publication is gone");
    }
  },

  async "tables that are no list, that have a permanent slot, or that come with a publication are refused"(world) {
    const { name, pool } = world;
    for (const wrong of [
      { tables: [] },
      { tables: name },
      { tables: [7] },
      { tables: [name], createSlot: "permanent" },
      { tables: [name], createSlot: undefined },
      { tables: [name], publication: name },
    ]) {
      const options = { slot: name, createSlot: "temporary", ...wrong } as never;
      const asking = Promise.resolve().then(() => world.changes(pool, options));
      await assert.code(asking, "INVALID_OPTION");
    }
  },

  async "a name with a dot is the name of one table, and the error says so"(world) {
    const tables = [`public.${world.name}`];
    const refused = await assert.code(first(world.changes(world.pool, { ...optionsOf(world), tables })), "42P01");
    assert.match(String(refused.stack), /for a table of a schema give sql\.identifier\("schema", "table"\)/);
  },

  async "a closed client or pool opens no stream"(world) {
    const { url, pgz, options } = world;
    const closed = [pgz.createClient(url), pgz.createPool(url)];
    for (const db of closed) await db.close();
    const codes = closed.map((db) => () => Promise.resolve().then(() => world.changes(db, options)));
    await assert.code(codes[0]!(), "CLIENT_CLOSED");
    await assert.code(codes[1]!(), "POOL_CLOSED");
  },

  async "a row longer than maxMessageBytes ends the stream"(world) {
    const { name, url, pgz } = world;
    await world.table("id int4 primary key, body text");
    await using db = pgz.createPool(url, { maxMessageBytes: 100_000 });
    const working = started(
      world.streaming().then(() => world.pool.exec(`insert into ${name} values (1, repeat('x', 200000))`)),
    );
    const reading = async () => {
      for await (const change of world.changes(db, world.options)) assert(change.kind !== "insert", "it was refused");
    };
    await assert.code(reading(), "MESSAGE_TOO_LARGE");
    await working;
  },
};
