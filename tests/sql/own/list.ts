// Every statement that the driver, its adapters and its command line send of their own, with the file that owns it.
//
// `names`: the statement looks up functions, operators, types or relations, so a stranger's schema on search_path could
// put other ones in their place. lint.ts reads these texts; server.test.ts runs them among such strangers on each
// server. `words`: the statement is made of key words and of names that search_path does not look up (savepoints,
// channels, slots, publications), or of names that the caller gave.
//
// A text in js/ that is not part of a statement here fails lint.test.ts.
import * as cacheFacts from "../../../js/cache/facts.ts";
import { ANCESTORS, BEAT, NEW_XID } from "../../../js/cache/run.ts";
import { BEGINNING, ENDING } from "../../../js/cache/learn.ts";
import { STAMP } from "../../../js/cache/moment.ts";
import * as cluster from "../../../js/cluster/questions.ts";
import type { Position } from "../../../js/cluster/position.ts";
import { logQuestion, STANDBY_QUESTION, workQuestion } from "../../../js/changes/log-question.ts";
import { createSlotCommand, startCommand } from "../../../js/changes/options.ts";
import * as snapshot from "../../../js/changes/snapshot.ts";
import { VALUES_OF } from "../../../js/testing/calls.ts";
import { FACTS } from "../../../js/testing/driver.ts";
import { SETTLE } from "../../../js/testing/settle.ts";
import { ROWS_ABOUT } from "../../../js/cli/copy-out.ts";
import { KINDS } from "../../../js/cli/csv-arrays.ts";
import { CACHE_PUBLICATION, CACHE_SETUP } from "../../../js/cli/doctor/cache.ts";
import { deallocation, MARKED, NAMED, PROCESS } from "../../../js/cli/doctor/pooler.ts";
import * as doctor from "../../../js/cli/doctor/server.ts";
import { CATALOG_PATH, DESCRIBE_TABLE, LIST_TABLES, TABLE_OID } from "../../../js/cli/mcp/catalog.ts";
import { TYPE_NAMES } from "../../../js/cli/mcp/guard.ts";
import { ROLE } from "../../../js/cli/mcp/role.ts";
import { SETTINGS } from "../../../js/cli/types/describe.ts";
import { FUNCTIONS, NOT_NULL, REFUSING } from "../../../js/cli/types/facts.ts";
import { DIMENSIONS, TYPES } from "../../../js/cli/types/row-types.ts";
import { IS_IN_RECOVERY } from "../../../js/login/session-attrs.ts";
import { RESET } from "../../../js/pool/cleaning.ts";
import { namesSql, typesSql } from "../../../js/server/catalog.ts";
import { KnownServer } from "../../../js/server/known-server.ts";
import { firstRunOf } from "../../../js/session/first-run.ts";
import { scopeSettings } from "../../../js/session/scope-settings.ts";
import { unnest } from "../../../js/statement/unnest.ts";

export interface OwnStatement {
  /** The file that has the text. */
  readonly owner: string;
  readonly text: string;
  readonly kind: "names" | "words";
  /** The parameters of the extended protocol. Without them the simple protocol sends the text. */
  readonly values?: readonly (string | null)[];
  /** The SQLSTATE with which the statement fails where it is meant to fail. */
  readonly fails?: string;
  /** The oldest major that has what the statement names. */
  readonly since?: number;
}

const names = (owner: string, text: string, more: Partial<OwnStatement> = {}): OwnStatement => ({
  owner: `js/${owner}`,
  text,
  kind: "names",
  ...more,
});
const words = (owner: string, ...texts: string[]): OwnStatement[] =>
  texts.map((text) => ({ owner: `js/${owner}`, text, kind: "words" }));

// -- the driver -------------------------------------------------------------------------------------------------------

/** Each part of the check of a first run: the version, columns with their exceptions, both kinds of rules. */
function checks(): OwnStatement[] {
  const columns = { known: [16_999], anySize: false };
  const check = (values: readonly unknown[], of?: typeof columns, version?: string) =>
    firstRunOf(new KnownServer().unscoped, "select 1", values, of, version)!.check.sql;
  // No statement was prepared in front, so the part that looks for it fails the check.
  const looking = { values: [], fails: "42704" };
  return [
    names("session/first-run.ts", check([]), { values: [] }),
    // Before PostgreSQL 16 there are no types of columns, and the check is meant to fail.
    names("session/first-run.ts", check([], columns, "18.0"), { ...looking, since: 16 }),
    names("session/first-run.ts", check([], { ...columns, known: [], anySize: true }), { ...looking, since: 16 }),
    names("session/first-run.ts", check([7, new Date(0)]), looking),
    names("session/first-run.ts", check([7, new Date(0)], columns), { ...looking, since: 16 }),
  ];
}

const scope = scopeSettings({ settings: { search_path: "traps", "app.tenant": 7 }, role: "pg_monitor" });

const session: OwnStatement[] = [
  ...checks(),
  names("server/catalog.ts", typesSql([16_384, 1009], true)),
  names("server/catalog.ts", namesSql(["text", "traps.mood"])),
  names("session/scope-settings.ts", scope.statement, { values: [] }),
  names("session/scope-settings.ts", scope.citusStatement),
  names("login/session-attrs.ts", IS_IN_RECOVERY),
  names("pool/cleaning.ts", RESET),
  names("statement/unnest.ts", unnest([{ a: 1, b: "x" }], { a: "pg_catalog.int4", b: "pg_catalog.text" }).text, {
    values: ["{1}", "{x}"],
  }),
  names("api/queries.ts", "select pg_catalog.pg_notify($1, $2)", { values: ["c", "p"] }),
];

const plain: OwnStatement[] = [
  ...words("login/session-attrs.ts", "SHOW transaction_read_only"),
  ...words(
    "api/transaction.ts",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE",
    "BEGIN DEFERRABLE",
    "BEGIN READ WRITE",
    "SAVEPOINT pgz_1",
    "RELEASE SAVEPOINT pgz_1",
    "ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1",
  ),
  ...words("api/listen.ts", 'LISTEN "c"'),
  // The caller names the table and its columns.
  ...words(
    "api/calls.ts",
    'select "a" from "t"',
    'copy "t" ("a") from stdin',
    'copy "t" ("a") from stdin (format binary)',
  ),
  ...words("statement/copy.ts", "copy (select 1\n) to stdout (format binary)"),
];

// -- adapters ---------------------------------------------------------------------------------------------------------

const position = { system: -5n, timeline: 3, lsn: 0x1_0000_0000n } as Position;
const guard = { values: [], fails: "22P02" };

const clusters: OwnStatement[] = [
  names("cluster/questions.ts", cluster.statusQuestion(true), { values: [] }),
  names("cluster/questions.ts", cluster.statusQuestion(false), { values: [] }),
  names("cluster/questions.ts", cluster.REPLAY_POSITION, { values: [] }),
  names("cluster/questions.ts", cluster.positionQuestion(true), { values: [] }),
  names("cluster/questions.ts", cluster.positionQuestion(false), { values: [] }),
  // These servers are primaries of another cluster than the position's.
  names("cluster/questions.ts", cluster.standbyGuardWithStatement(position), guard),
  names("cluster/questions.ts", cluster.standbyGuardAlone(position), guard),
  names("cluster/questions.ts", cluster.primaryGuard(position), { values: [] }),
  ...words("cluster/questions.ts", cluster.waitFor(position, 5)),
];

const ownTable = (filter: string | null) => ({ columns: [["a", 23, -1, true, false] as const], filter });

const changes: OwnStatement[] = [
  names("changes/snapshot.ts", snapshot.SETTINGS),
  names("changes/snapshot.ts", snapshot.question(["p", "q"], 15)),
  names("changes/snapshot.ts", snapshot.question(["p", "q"], 18)),
  names("changes/snapshot.ts", snapshot.changedQuestion({ oid: 1259, file: 1, schema: "traps", name: "orders" })),
  names("changes/log-question.ts", workQuestion(1)),
  ...words("changes/snapshot.ts", 'lock table only "s"."t" in access share mode'),
  names("changes/log-question.ts", logQuestion("s", ["p", "q"])),
  names("changes/log-question.ts", STANDBY_QUESTION),
  ...words("changes/log-question.ts", "IDENTIFY_SYSTEM", "TIMELINE_HISTORY 2"),
  names("changes/own-publication.ts", "select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('p', 0))"),
  ...words(
    "changes/snapshot.ts",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
    snapshot.copyCommand(ownTable(null), { schema: "s", name: "t" }),
    snapshot.copyCommand(ownTable("(f)"), { schema: "s", name: "t" }),
  ),
  ...words("changes/own-publication.ts", 'DROP PUBLICATION IF EXISTS "p"', 'CREATE PUBLICATION "p" FOR TABLE "t"'),
  ...words(
    "changes/options.ts",
    createSlotCommand({ slot: "s", createSlot: "temporary", twoPhase: true, failover: true } as never, 18),
    createSlotCommand({ slot: "s", snapshot: true } as never, 14),
    startCommand({ slot: "s", messages: true, origin: "none", streaming: true, twoPhase: true } as never, ["p"], "0/0"),
  ),
  ...words("changes/own-objects.ts", 'DROP_REPLICATION_SLOT "s" WAIT'),
];

const others: OwnStatement[] = [
  names("cache/run.ts", NEW_XID, { values: [] }),
  names("cache/run.ts", BEAT, { values: ["name 1 0"] }),
  names("cache/run.ts", ANCESTORS, { values: ["1259"] }),
  names("cache/moment.ts", STAMP, { values: [] }),
  names("cache/learn.ts", BEGINNING, { values: [] }),
  names("cache/learn.ts", ENDING, { values: [] }),
  names("cache/facts.ts", cacheFacts.RELATIONS, { values: ["{1247,1255}", "{1247}", "p"] }),
  names("cache/facts.ts", cacheFacts.PUBLICATION, { values: ["p"] }),
  names("cache/facts.ts", cacheFacts.ROUTINES, { values: ["{1299,2100}", "{96,2987}", "{23,1009}"] }),
  names("cache/facts.ts", cacheFacts.TYPES, { values: ["{23,1009,12400}", "{3960}"] }),
  names("testing/calls.ts", VALUES_OF, { values: ["{search_path,role}"] }),
  names("testing/calls.ts", "select pg_catalog.set_config($1, $2, true)", { values: ["app.tenant", "7"] }),
  names("testing/driver.ts", FACTS, { values: ["{search_path,none.none}"] }),
  names("testing/settle.ts", SETTLE),
  ...words("testing/calls.ts", "set local transaction_read_only = on"),
  ...words(
    "testing/facade.ts",
    "begin isolation level serializable",
    "set local transaction_read_only = on",
    "savepoint pgz_edge_test",
    "rollback to savepoint pgz_edge_test; release savepoint pgz_edge_test",
    "select 1; select 2",
  ),
  ...words("adapters/kysely.ts", "start transaction isolation level serializable read only"),
  ...words("adapters/kysely.ts", 'savepoint "s"', 'rollback to "s"', 'release "s"'),
  ...words("adapters/prisma.ts", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"),
  ...words("adapters/drizzle/runner.ts", "release savepoint"),
  ...words("adapters/drizzle/v1-session.ts", "set transaction snapshot 's'"),
];

// -- the command line -------------------------------------------------------------------------------------------------

const nulls = (count: number) => ({ values: Array<null>(count).fill(null) });

const commandLine: OwnStatement[] = [
  names("cli/copy-out.ts", ROWS_ABOUT, { values: ["pg_catalog.pg_class"] }),
  names("cli/csv-arrays.ts", KINDS, { values: ["{1009,199}"] }),
  names("cli/doctor/cache.ts", CACHE_SETUP, { values: [] }),
  names("cli/doctor/cache.ts", CACHE_PUBLICATION, { values: ["p"] }),
  names("cli/doctor/pooler.ts", PROCESS, { values: [] }),
  names("cli/doctor/pooler.ts", NAMED, { values: [] }),
  names("cli/doctor/server.ts", doctor.VERSION, { values: [] }),
  names("cli/doctor/server.ts", doctor.VALUES, { values: [] }),
  names("cli/doctor/server.ts", doctor.SETTINGS, { values: [] }),
  names("cli/doctor/server.ts", doctor.SLOTS, { values: [] }),
  names("cli/mcp/catalog.ts", LIST_TABLES, nulls(3)),
  names("cli/mcp/catalog.ts", LIST_TABLES, { values: ["traps", "{traps}", "a"] }),
  names("cli/mcp/catalog.ts", TABLE_OID, { values: ["traps.orders"] }),
  names("cli/mcp/catalog.ts", CATALOG_PATH, { values: [] }),
  names("cli/mcp/catalog.ts", DESCRIBE_TABLE, { values: ["1259", "{pg_catalog}"] }),
  names("cli/mcp/guard.ts", TYPE_NAMES, { values: ["{23,25}", "{-1,-1}"] }),
  names("cli/mcp/role.ts", ROLE, { values: ["{pg_monitor}"] }),
  names("cli/types/facts.ts", NOT_NULL, { values: ["{1247,1255}"] }),
  names("cli/types/facts.ts", FUNCTIONS, { values: ["{1299,2100}"] }),
  names("cli/types/facts.ts", REFUSING, { values: ["{23}"] }),
  names("cli/types/row-types.ts", DIMENSIONS, { values: ["{1247}"] }),
  names("cli/types/row-types.ts", TYPES, { values: ["{1009,1247}"] }),
  names("cli/types/describe.ts", SETTINGS, { values: [] }),
  ...words("cli/doctor/latency.ts", "select 1 as one"),
  ...words("cli/doctor/pooler.ts", MARKED, "select 1", "show pool_version", deallocation('s"; drop table t; --')),
  ...words("cli/ping.ts", "select 1"),
  ...words("cli/copy-in.ts", 'copy "t" ("a") from stdin (format csv)'),
  ...words("cli/copy-text.ts", 'copy "t" ("a") to stdout (format csv)', "copy (select 1\n) to stdout (format csv)"),
  ...words("cli/mcp/tools.ts", "explain (format text)\nselect 1"),
  ...words(
    "cli/types/describe.ts",
    "savepoint unset",
    "savepoint described",
    "rollback to savepoint described",
    "rollback to savepoint unset",
  ),
];

export const ownStatements: readonly OwnStatement[] = [
  ...session,
  ...plain,
  ...clusters,
  ...changes,
  ...others,
  ...commandLine,
];

/** The statements that look up names, on a server of this major. */
export const lookingUp = (major: number): readonly OwnStatement[] =>
  ownStatements.filter(({ kind, since = 0 }) => kind === "names" && since <= major);
