// The scripts for walsenders, real and modelled. Each script begins with only the tables of conform.mjs, and the slots
// that it leaves are dropped afterwards.
//
// Knows commands and statements. Must not know how messages are compared.
import type { Line, Talk } from "./replication-conformance.ts";
import { Message } from "./server/messages.ts";

export interface Script {
  readonly name: string;
  readonly run: (talk: Talk) => Promise<void>;
}

const create = (slot: string, more = "(SNAPSHOT 'nothing')"): string =>
  `CREATE_REPLICATION_SLOT "${slot}" LOGICAL pgoutput ${more}`;
const start = (slot: string, { from = "0/0", publication = "simulated", more = "" } = {}): string =>
  `START_REPLICATION SLOT "${slot}" LOGICAL ${from} (proto_version '1', publication_names '"${publication}"'${more})`;
/** The server may have slots of other databases. */
const OWN = "from pg_catalog.pg_replication_slots where database = current_database()";
const CONFIRMED = `select slot_name, plugin, slot_type, temporary, active ${OWN}`;

const script = (name: string, run: Script["run"]): Script => ({ name, run });

/** Returns a connection on which a slot was created. */
async function reading(talk: Talk, slot: string): Promise<Line> {
  const line = await talk.connect();
  await line.ask(create(slot));
  return line;
}

export const scripts: readonly Script[] = [
  script("which system it is", async (talk) => {
    const line = await talk.connect();
    await line.ask("IDENTIFY_SYSTEM");
  }),
  script("a slot is made in each form, and asked for", async (talk) => {
    const line = await talk.connect();
    await line.ask(create("one"));
    await line.ask(create("two", "NOEXPORT_SNAPSHOT"));
    await line.ask(create("three", ""));
    await line.ask(`CREATE_REPLICATION_SLOT "four" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
    await line.ask(`${CONFIRMED} order by slot_name`);
    await line.ask("select confirmed_flush_lsn from pg_catalog.pg_replication_slots where slot_name = 'none'");
    await line.ask('DROP_REPLICATION_SLOT "one"');
    await line.ask('DROP_REPLICATION_SLOT "two" WAIT');
  }),
  script("the changes of tables, by transactions", async (talk) => {
    const line = await reading(talk, "changes");
    await talk.sql("insert into ledger values (1), (null)");
    await talk.sql(
      "begin; insert into ledger values (2); savepoint a; insert into ledger values (3); rollback to a; " +
        "insert into ledger values (4); commit",
    );
    await talk.sql("begin; insert into ledger values (5); rollback");
    await talk.sql("update ledger set n = n + 10 where n > 1");
    await talk.sql("delete from ledger where n = 1");
    await talk.sql("insert into shape values (2, 'unpublished')");
    await talk.sql("truncate ledger");
    await talk.sql("insert into ledger values (6)");
    await line.ask(start("changes"));
    await line.commits(6);
    await line.done();
    await line.ask("select 1 as n");
  }),
  script("the stream goes on behind what was confirmed, or what was asked for", async (talk) => {
    const line = await reading(talk, "goes");
    for (const n of [1, 2, 3, 4]) await talk.sql(`insert into ledger values (${n})`);
    await line.ask(start("goes"));
    await line.commits(2);
    const { last } = line;
    await line.commits(2);
    await line.confirm(last);
    await line.done();
    // A second START_REPLICATION on the same connection ends at once.
    await line.ask(start("goes"));
    await line.until("Z");
    const second = await talk.connect();
    await second.ask(start("goes"));
    await second.commits(1);
    const third = second.last;
    await second.commits(1);
    await second.close();
    const other = await talk.connect();
    await other.ask(start("goes", { from: third }));
    await other.commits(1);
    await other.close();
    const before = await talk.connect();
    await before.ask(start("goes", { from: "0/1" }));
    await before.commits(2);
  }),
  script("several tables, and one that changes between its changes", async (talk) => {
    await talk.sql(`create table wide (a int4, b text, m mood); alter table wide replica identity full;
        create publication of_two for table wide, ledger`);
    const line = await reading(talk, "two");
    await talk.sql(
      "begin; insert into wide values (1, 'x ü', 'glad'); insert into ledger values (1); " +
        "insert into wide values (2, null, null); commit",
    );
    await talk.sql("insert into ledger values (2)");
    await talk.sql("alter table wide add column c numeric");
    await talk.sql("insert into wide values (3, 'y', 'calm', 1.50)");
    await talk.sql("update wide set b = 'z' where a = 1");
    await talk.sql("truncate wide, ledger");
    await line.ask(start("two", { publication: "of_two" }));
    await line.commits(5);
    await line.close();
    const other = await talk.connect();
    await other.ask(start("two", { publication: "of_two" }));
    await other.commits(5);
  }),
  script("a table without a replica identity", async (talk) => {
    await talk.sql("create table bare (a int4); create publication of_bare for table bare");
    const line = await reading(talk, "bare");
    await talk.sql("insert into bare values (1)");
    await talk.sql("update bare set a = 2");
    await talk.sql("delete from bare");
    await line.ask(start("bare", { publication: "of_bare" }));
    await line.commits(1);
  }),
  script("a slot that is there, is missing, or is in use", async (talk) => {
    const line = await reading(talk, "used");
    const other = await talk.connect();
    await other.ask(create("used"));
    await other.ask(start("missing"));
    await other.ask('DROP_REPLICATION_SLOT "missing"');
    await line.ask(start("used"));
    await other.ask(start("used"));
    await other.ask('DROP_REPLICATION_SLOT "used"');
    await talk.sql("select pg_drop_replication_slot('used')");
    await other.send(new Message("Q").string('DROP_REPLICATION_SLOT "used" WAIT').done());
    await line.done();
    await other.until("Z");
    await talk.sql("select pg_drop_replication_slot('used')");
    await line.ask(CONFIRMED);
  }),
  script("what is written wrong", async (talk) => {
    const line = await reading(talk, "wrong");
    for (const text of [
      "CREATE_REPLICATION_SLOT",
      "START_REPLICATION SLOT wrong LOGICAL (proto_version '1')",
      "START_REPLICATION SLOT wrong LOGICAL 0/0 (proto_version '1'",
      "DROP_REPLICATION_SLOT wrong WAIT WAIT",
      "START_REPLICATION SLOT wrong LOGICAL 0/0 (proto_version '1')",
      "START_REPLICATION SLOT wrong LOGICAL 0/0 (publication_names 'simulated')",
      "START_REPLICATION SLOT wrong LOGICAL 0/0 (proto_version '9', publication_names 'simulated')",
      "START_REPLICATION SLOT wrong LOGICAL 0/0 (proto_version '1', publication_names 'simulated', other 'x')",
      "CREATE_REPLICATION_SLOT more LOGICAL pgoutput (SNAPSHOT 'other')",
      "CREATE_REPLICATION_SLOT more LOGICAL pgoutput (OTHER true)",
    ])
      await line.ask(text);
    await line.ask("begin");
    await line.ask(start("wrong"));
    await line.ask(start("wrong"));
    await line.ask("rollback");
    await line.send(
      Buffer.concat([new Message("P").string("").string("select 1").int16(0).done(), new Message("S").done()]),
    );
    await line.until("Z");
  }),
  script("a temporary slot ends with its session, and with an error", async (talk) => {
    const line = await talk.connect();
    await line.ask(`CREATE_REPLICATION_SLOT brief TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
    await line.ask(CONFIRMED);
    await line.ask("select 1 / 0");
    await line.ask(CONFIRMED);
    await line.ask(`CREATE_REPLICATION_SLOT brief TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')`);
    await talk.sql("insert into ledger values (1)");
    await line.ask(start("brief"));
    await line.commits(1);
    await line.close();
    await (await talk.connect()).ask(CONFIRMED);
  }),
  script("a publication that does not exist", async (talk) => {
    const line = await reading(talk, "lost");
    await talk.sql("insert into ledger values (1)");
    await talk.sql("insert into ledger values (2)");
    await line.ask(start("lost", { publication: "nobody" }));
    await line.until("Z", "N");
  }),
  script("a snapshot of where the slot begins", async (talk) => {
    const line = await talk.connect();
    await line.ask(create("seen", "(SNAPSHOT 'use')"));
    await line.ask("begin");
    await line.ask(create("seen", "(SNAPSHOT 'use')"));
    await line.ask("rollback");
    await talk.sql("insert into ledger values (1)");
    await line.ask("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ");
    await line.ask(create("seen", "(SNAPSHOT 'use')"));
    await talk.sql("insert into ledger values (2)");
    await line.ask("select n from only ledger");
    await line.ask("COMMIT");
    await line.ask(start("seen"));
    await line.commits(1);
  }),
  script("a walsender that is canceled, and one that is ended", async (talk) => {
    const line = await reading(talk, "ended");
    await line.ask(start("ended"));
    await talk.sql(`select pg_cancel_backend(active_pid) ${OWN} and active`);
    await line.until("Z");
    await line.ask(start("ended"));
    await talk.sql("insert into ledger values (1)");
    await line.commits(1);
    await talk.sql(`select pg_terminate_backend(active_pid) ${OWN} and active`);
    await line.until("Z");
  }),
  script("a client that says nothing is left", async (talk) => {
    const line = await talk.connect("-c wal_sender_timeout=1s");
    await line.ask(create("silent"));
    await line.ask(start("silent"));
    await line.until("d k");
    await line.until();
  }),
];
