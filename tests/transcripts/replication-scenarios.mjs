// What record-replication.mjs records: replication connections, from CREATE_REPLICATION_SLOT to the end of a stream.
//
// Each has a schema `recorded` of its own, which `sql` works in, and may make the slot and the publication of that
// name. Knows statements and commands. Must not know bytes.

const CREATE = `CREATE_REPLICATION_SLOT "recorded" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`;
const START = (options) => `START_REPLICATION SLOT "recorded" LOGICAL 0/0 (${options}, publication_names '"recorded"')`;
const KEYED = "create table t (id int4 primary key, body text); create publication recorded for table t";

/** Of the server's developers: each change of a transaction is a part of its own. */
const EACH_CHANGE = "-c debug_logical_replication_streaming=immediate";

/** `0/16B3748` is 0x16b3748. */
const position = (text) => text.split("/").reduce((sum, half) => (sum << 32n) | BigInt(`0x${half}`), 0n);

/** A stream from here on. */
async function stream(session, options, tables = KEYED) {
  await session.sql(tables);
  const { rows } = await session.command(CREATE);
  await session.command(START(options));
  return position(rows[0][1]);
}

export const scenarios = [
  {
    file: "slot-and-commands",
    title: "Commands and their answers",
    prose: "A slot is made, one of its name is refused, and the same connection goes on.",
    async run(session) {
      await session.command("IDENTIFY_SYSTEM");
      await session.command(CREATE);
      await session.command(CREATE);
      await session.command("select confirmed_flush_lsn from pg_replication_slots where slot_name = 'recorded'");
      await session.command('DROP_REPLICATION_SLOT "recorded" WAIT');
      await session.terminate();
    },
  },
  {
    file: "no-such-slot",
    title: "START_REPLICATION that is refused",
    prose: "The slot does not exist: an error, and the connection takes the next command.",
    async run(session) {
      await session.command(START("proto_version '1'"));
      await session.command("IDENTIFY_SYSTEM");
    },
  },
  ...[18, 15].map((major) => ({
    file: `version-1-${major}`,
    title: "Version 1: a transaction of each kind of change",
    prose:
      "Insert, update with and without a change of the key, an unchanged TOASTed value, delete, truncate, and a table " +
      "with another replica identity.",
    major,
    async run(session) {
      const at = await stream(session, "proto_version '1'");
      await session.sql(`begin; alter table t alter body set storage external;
        insert into t values (1, 'one'), (2, null), (3, repeat('x', 2100)); update t set body = 'uno' where id = 1;
        update t set id = 4 where id = 2; update t set id = 5 where id = 3; delete from t where id = 1; commit`);
      await session.lineOf('"commit"');
      await session.updateStatus(at);
      await session.sql(`begin; alter table t replica identity full; alter table t add more int8;
        update t set more = 7 where id = 4; delete from t where id = 4; truncate t restart identity cascade; commit`);
      await session.lineOf('"commit"', 2);
    },
  })),
  {
    file: "version-1-types",
    title: "Version 1: a table with types of the database's own",
    prose: "A message names each of them, and reading waits until they are described. Here nobody knows them.",
    async run(session) {
      await stream(
        session,
        "proto_version '1'",
        `create type temper as enum ('calm', 'glad'); create domain age as int4;
        create table t (id int8 primary key, how temper, years age, amount numeric, raw bytea, list int4[]);
        create publication recorded for table t`,
      );
      await session.sql(`insert into t values (1, 'glad', 5, 1.50, '\\x00ff', '{1,null}')`);
      await session.lineOf('"commit"');
    },
  },
  {
    file: "version-1-messages-and-origin",
    title: "Version 1: messages, and a transaction with an origin",
    prose: "A message of its own, one within a transaction, and a transaction that came from another server.",
    async run(session) {
      await stream(session, "proto_version '1', messages 'true'");
      await session.sql("select pg_logical_emit_message(false, 'app', 'now'), pg_switch_wal()");
      await session.sql("begin; select pg_logical_emit_message(true, 'app', 'hi'); insert into t values (1); commit");
      await session.sql("select pg_replication_origin_create('recorded')");
      try {
        await session.sql("select pg_replication_origin_session_setup('recorded')");
        await session.sql(`begin; select pg_replication_origin_xact_setup('0/16B3748', '2026-11-27T00:00:00Z');
          insert into t values (2); commit`);
        await session.sql("select pg_replication_origin_session_reset()");
        await session.lineOf('"commit"', 2);
      } finally {
        await session.sql("select pg_replication_origin_drop('recorded')");
      }
    },
  },
  {
    file: "keepalive-and-status",
    title: "Keepalives and status updates",
    prose: "The server is asked for a sign of life twice, with a status that acknowledges more the second time.",
    async run(session) {
      const at = await stream(session, "proto_version '1'");
      await session.updateStatus(at, true);
      await session.keepalive();
      await session.sql("insert into t values (1)");
      await session.lineOf('"commit"');
      await session.updateStatus(at + 1n, true);
      await session.keepalive();
    },
  },
  {
    file: "version-2-streaming",
    options: EACH_CHANGE,
    title: "Version 2: transactions in parts",
    prose:
      "Parts of two transactions in turns, with a subtransaction that is rolled back. One commits and one rolls back.",
    async run(session) {
      await stream(session, "proto_version '2', streaming 'on', messages 'true'");
      await inParts(session);
    },
  },
  {
    file: "version-4-streaming",
    options: EACH_CHANGE,
    title: "Version 4: transactions in parts, for appliers side by side",
    prose: "As of version 2. What is rolled back has a position and a time too.",
    async run(session) {
      await stream(session, "proto_version '4', streaming 'parallel', messages 'true'");
      await inParts(session);
    },
  },
  {
    file: "version-3-two-phase",
    title: "Version 3: transactions that are prepared",
    prose: "One is prepared and committed, and one is prepared and rolled back.",
    run: (session) => prepared(session, "proto_version '3', two_phase 'on'"),
  },
  {
    file: "version-3-in-parts",
    options: EACH_CHANGE,
    title: "Version 3: transactions that come in parts, and are prepared",
    prose: "One is prepared and committed, and one is prepared and rolled back.",
    run: (session) => prepared(session, "proto_version '3', streaming 'on', two_phase 'on'"),
  },
  {
    file: "snapshot",
    title: "Rows of a table in front of its changes",
    prose: "In the transaction whose snapshot the slot was made with, then the changes.",
    async run(session) {
      await session.sql(`${KEYED}; insert into t values (1, e'one\\t'), (2, null)`);
      const [{ oid }] = await session.sql("select 't'::regclass::oid::int8::int4 as oid");
      await session.command("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
      const { rows } = await session.command(CREATE.replace("nothing", "use"));
      const at = position(rows[0][1]);
      await session.snapshotTable(oid, 100, "recorded\0t\0id\0body\0", [1, 23, 0xffff_ffff, 0, 25, 0xffff_ffff], at);
      await session.copy("copy recorded.t (id, body) to stdout", oid);
      await session.command("COMMIT");
      await session.snapshotOver(at);
      await session.sql("insert into t values (3, 'three')");
      await session.command(START("proto_version '1'"));
      await session.lineOf('"commit"');
    },
  },
  {
    file: "an-error-in-the-midst",
    title: "An error within a stream",
    prose: "The publication was dropped. The stream is over, and the connection takes another command.",
    major: 15,
    async run(session) {
      await stream(session, "proto_version '1'");
      await session.sql("insert into t values (1)");
      await session.lineOf('"commit"');
      await session.sql("drop publication recorded; insert into t values (2)");
      await session.answered();
      await session.command("IDENTIFY_SYSTEM");
    },
  },
  {
    file: "terminated-in-the-midst",
    title: "A stream that an administrator ends",
    prose: "FATAL, and nothing follows.",
    async run(session) {
      await stream(session, "proto_version '1'");
      await session.sql("insert into t values (1)");
      await session.lineOf('"commit"');
      await session.sql(
        "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = 'recorded'",
      );
      await session.answered();
    },
  },
];

/** Two transactions that come in parts, and a small one. */
async function inParts(session) {
  await session.sql(`begin; insert into t values (1, 'one'); savepoint one; insert into t values (2, 'two');
    rollback to one; select pg_logical_emit_message(true, 'app', 'hi'); insert into t values (3, 'three'); commit`);
  await session.sql("begin; insert into t values (4, 'four'); truncate t; rollback");
  await session.sql("insert into t values (5, 'five')");
  await session.lineOf('"commit"', 2);
}

async function prepared(session, options) {
  await session.sql(KEYED);
  await session.command(CREATE.replace("'nothing'", "'nothing', TWO_PHASE true"));
  await session.command(START(options));
  await session.sql("begin; insert into t values (1, 'one'); prepare transaction 'recorded one'");
  await session.sql("commit prepared 'recorded one'");
  await session.sql("begin; insert into t values (2, 'two'); prepare transaction 'recorded two'");
  await session.sql("rollback prepared 'recorded two'");
  await session.lineOf('"rollbackPrepared"');
}
