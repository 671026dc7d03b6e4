// PostgreSQL's own functions that may leave something on a session. Each is either known to js/pool/session-changes.ts,
// or was reviewed and leaves nothing. A new major of PostgreSQL fails here until its new functions have been reviewed.
//
// A function that changes the session is declared volatile, and unsafe for a parallel worker, which could not pass the
// change to its leader.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../js/index.ts";
import { changeOf } from "../../js/pool/session-changes.ts";
import { runtime, testServers } from "../integration/servers.ts";

const { connect } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");

/** Functions whose change belongs to the database or the cluster, or ends with the transaction. */
const LEAVES_NOTHING = [
  // The functions of a binary upgrade run only in a server started for it; triggers and handlers cannot be called.
  /^(binary_upgrade|RI_FKey|dsnowball)_|(handler|_trigger|_trigger_column|validator)$|^(amvalidate|unique_key_recheck)$/,
  // Large objects. The descriptors of lo_open end with the transaction, as the test below shows.
  /^(lo_\w+|loread|lowrite)$/,
  // DISCARD SEQUENCES is part of each reset, but nextval does not cause a reset: docs/pool.md.
  /^(nextval|setval|currval|lastval|pg_nextoid|pg_get_sequence_data|pg_sequence_last_value)$/,
  // Functions that only read.
  /^pg_(stat_get|ls|read|get|control|show|last|current|available|blocking|wal_summary|table|tablespace|indexes)_/,
  /^pg_\w*(size|version|mappings|rules|status|file|usage|ancestors|tree|blocked|prepared_xact|in_recovery|_paused)$/,
  /^pg_(xact_\w+|isolation_test_\w+|safe_snapshot_\w+|jit_available|stat_have_stats|stat_get_io|hba_file_rules)$/,
  /^(array_sample|array_shuffle|bernoulli|system|clock_timestamp|timeofday|current_query|gen_random_uuid|uuidv[47])$/,
  /^(random|random_normal|txid_status|currtid2?|cursor_to_xml|cursor_to_xmlschema|inet_(client|server)_(addr|port))$/,
  // Functions that wait, notify others, or change state that all sessions share.
  /^pg_(sleep\w*|notify|cancel_backend|terminate_backend|reload_conf|rotate_\w+|promote|log_\w+|switch_wal|logical_\w+)$/,
  /^pg_(stat_(reset|clear|force)\w*|wal_replay_\w+|create_restore_point|import_system_collations|extension_config_dump)$/,
  /^pg_(clear|restore)_(attribute|relation|extended)_stats$|^pg_(sync|drop)_replication_slots?$|^pg_replication_slot_advance$/,
  /^(brin_\w+|gin_\w+|pg_stop_making_pinned_objects)$/,
  // Functions of the transaction, or functions that release what another function has acquired.
  /^pg_(try_)?advisory_xact_lock(_shared)?$|^pg_advisory_unlock(_all|_shared)?$|^pg_(backup_stop|stop_backup|export_snapshot)$/,
  /^pg_replication_origin_(xact_\w+|advance|create|drop|progress|session_(reset|progress|is_setup))$/,
];

const { servers } = testServers();

describe.each(servers.filter(({ own }) => own))("$name", ({ host, port, database, user, password }) => {
  let client: Client;
  beforeAll(async () => void (client = await connect({ host, port, database, user, password, sslmode: "disable" })));
  afterAll(() => client.close());

  test("every function that could change a session is known or was reviewed", async () => {
    const { rows } = await client.query<{ name: string }>(
      `select distinct proname::text as name from pg_proc
       where pronamespace = 'pg_catalog'::regnamespace and provolatile = 'v' and proparallel <> 's' order by 1`,
    );
    expect(rows.length).toBeGreaterThan(100);
    const lasting = rows.filter(({ name }) => changeOf(`select ${name}()`) !== "none").map(({ name }) => name);
    expect(lasting.length).toBeGreaterThan(10);
    const unknown = rows.filter(
      ({ name }) => !lasting.includes(name) && !LEAVES_NOTHING.some((pattern) => pattern.test(name)),
    );
    expect(unknown.map(({ name }) => name)).toEqual([]);
    expect(lasting.filter((name) => LEAVES_NOTHING.some((pattern) => pattern.test(name)))).toEqual([]);
  });

  test("a large object's descriptor ends with its transaction", async () => {
    const { rows } = await client.query<{ fd: number; id: number }>(
      "select lo_open(id, 393216) as fd, id::int8 as id from (select lo_create(0) as id) as made",
    );
    const [{ fd, id }] = rows as [{ fd: number; id: number }];
    await expect(client.query(`select loread(${fd}, 1)`)).rejects.toMatchObject({ code: "42704" });
    await client.exec(`select lo_unlink(${id})`);
  });
});
