// Finds out which server answers, and reads those of its settings that matter to an application.
//
// Many servers only speak the protocol and may refuse questions about their catalogs. So only PostgreSQL and servers
// made from it are asked for settings. docs/servers.md says what works where.
import type { Client } from "../../index.ts";
import { bytesText } from "../progress.ts";
import { change, good, note, unknown, type Finding } from "./findings.ts";
import type { Login, Patient } from "./patient.ts";

export interface Server {
  readonly name: string;
  readonly version: string;
  /** PostgreSQL itself, or a server that is made from it and has its catalogs. */
  readonly isPostgres: boolean;
}

/** Servers by the text of `version()`. The first match counts. */
const NAMES: readonly [pattern: RegExp, name: string, isPostgres: boolean][] = [
  [/\bQuestDB\b/i, "QuestDB", false],
  [/\bH2\b/, "H2", false],
  [/CockroachDB/i, "CockroachDB", false],
  [/Redshift/i, "Redshift", false],
  [/Materialize/i, "Materialize", false],
  [/CrateDB/i, "CrateDB", false],
  [/RisingWave/i, "RisingWave", false],
  [/DuckDB/i, "DuckDB", false],
  [/emcc|emscripten|wasm/i, "PGlite", true],
  [/-YB-/i, "YugabyteDB", true],
  [/Greenplum/i, "Greenplum", true],
  [/EnterpriseDB/i, "EDB Postgres Advanced Server", true],
  [/^PostgreSQL \d/, "PostgreSQL", true],
];

export const VERSION = "select pg_catalog.version() as version";

export async function identify(patient: Patient, client: Client, login: Login): Promise<Server> {
  const row = await patient.ask<{ version: string }>(client, VERSION);
  const text = String(row?.version ?? "");
  const reported = login.parameters.get("server_version") ?? "";
  const [, name = "a server that does not say its name", isPostgres = false] =
    NAMES.find(([pattern]) => pattern.test(text)) ?? NAMES.find(([pattern]) => pattern.test(reported)) ?? [];
  const own = new RegExp(String.raw`${name}\D{0,10}(\d[\w.]*)`, "i").exec(text)?.[1];
  return { name, version: isPostgres ? reported : (own ?? reported), isPostgres };
}

/** Which server it is, and whether its values arrive in binary. */
export async function identity(client: Client, { name, version, isPostgres }: Server): Promise<Finding[]> {
  const facts = { name, version, isPostgres };
  const what = `${name} ${version}`.trim();
  const server =
    name === "PostgreSQL"
      ? good("server", "Server", what, facts)
      : note(
          "server",
          "Server",
          what,
          facts,
          "It is not PostgreSQL itself: docs/servers.md says what to know of some.",
        );
  return [server, await binary(client)];
}

export const VALUES = "select 7::int as number, '2026-01-01'::timestamp as moment";

async function binary(client: Client): Promise<Finding> {
  try {
    let codes: readonly number[] = [];
    // The first run of a statement may return text.
    for (let run = 0; run < 3; run++) {
      const { fields } = await client.query(VALUES);
      codes = fields.map(({ formatCode }) => formatCode);
    }
    const [number, moment] = codes;
    const facts = { numbers: number === 1, others: moment === 1 };
    if (number === 1 && moment === 1) return good("binary", "Values", "come in binary", facts);
    const text = number === 1 ? "numbers come in binary, all else as text" : "come as text";
    return note("binary", "Values", `${text}: the server's binary forms cannot be trusted`, facts);
  } catch {
    return unknown("binary", "Values", "whether they come in binary could not be found out");
  }
}

interface Settings {
  readonly version_number: string;
  readonly conforming: string;
  readonly time_zone: string;
  readonly statement_timeout: string;
  readonly idle_timeout: string;
  readonly max_connections: string;
  readonly reserved: string;
  readonly used: string | null;
  readonly is_superuser: string;
  readonly in_recovery: boolean;
  readonly read_only: string;
  readonly user_name: string;
}

export const SETTINGS = `select
  pg_catalog.current_setting('server_version_num') as version_number,
  pg_catalog.current_setting('standard_conforming_strings') as conforming,
  pg_catalog.current_setting('TimeZone') as time_zone,
  pg_catalog.current_setting('statement_timeout') as statement_timeout,
  pg_catalog.current_setting('idle_in_transaction_session_timeout') as idle_timeout,
  pg_catalog.current_setting('max_connections') as max_connections,
  pg_catalog.current_setting('superuser_reserved_connections') as reserved,
  (select pg_catalog.sum(numbackends)::pg_catalog.text from pg_catalog.pg_stat_database) as used,
  pg_catalog.current_setting('is_superuser') as is_superuser,
  pg_catalog.pg_is_in_recovery() as in_recovery,
  pg_catalog.current_setting('transaction_read_only') as read_only,
  current_user::pg_catalog.text as user_name`;

export async function settings(patient: Patient, client: Client): Promise<Finding[]> {
  const row = await patient.ask<Settings>(client, SETTINGS);
  if (!row) return [unknown("settings", "Settings", "the server does not show them")];
  return [connections(row), writes(row), role(row), timeouts(row), conventions(row), await slots(patient, client)];
}

interface Slots {
  readonly slots: readonly { readonly name: string; readonly active: boolean; readonly retained: number }[];
  readonly limit: string;
}

export const SLOTS = `select
  coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
    'name', slot_name, 'active', active, 'retained', coalesce(pg_catalog.pg_wal_lsn_diff(
      case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
        else pg_catalog.pg_current_wal_lsn() end,
      restart_lsn), 0)::pg_catalog.float8) order by slot_name), '[]') as slots,
  pg_catalog.current_setting('max_slot_wal_keep_size') as limit
  from pg_catalog.pg_replication_slots`;

/** What the server has to keep for its replication slots. */
async function slots(patient: Patient, client: Client): Promise<Finding> {
  const title = "Slots";
  const row = await patient.ask<Slots>(client, SLOTS);
  if (!row) return unknown("slots", title, "the server does not show its replication slots");
  const facts = { slots: row.slots, maxSlotWalKeepSize: row.limit };
  if (row.slots.length === 0) return good("slots", title, "no replication slots", facts);
  const kept = row.slots.map(
    ({ name, active, retained }) => `${name} (${active ? "read" : "not read"}) keeps ${bytesText(retained)}`,
  );
  const text = kept.join(", ");
  if (row.slots.every(({ active }) => active)) return good("slots", title, text, facts);
  return change(
    "slots",
    title,
    text,
    facts,
    "The server keeps its log for a slot until the slot is read: drop those that are not needed " +
      "(select pg_catalog.pg_drop_replication_slot('…')).",
    ...(row.limit === "-1" ? ["Set max_slot_wal_keep_size: a forgotten slot then cannot fill the disk."] : []),
  );
}

function connections({ max_connections, reserved, used }: Settings): Finding {
  const most = Number(max_connections) - Number(reserved);
  const now = Number(used ?? 0);
  const facts = { used: now, max: Number(max_connections), superuserReserved: Number(reserved) };
  const text = `${now} of ${most} are used`;
  if (now < 0.8 * most) return good("connections", "Connections", text, facts);
  return change(
    "connections",
    "Connections",
    text,
    facts,
    "Few are left: make pools smaller (max), or put a pooler in front of the server (docs/poolers.md).",
  );
}

function writes({ in_recovery, read_only }: Settings): Finding {
  const facts = { inRecovery: in_recovery, readOnly: read_only === "on" };
  if (!in_recovery && read_only !== "on") return good("writes", "Writes", "are taken", facts);
  return change(
    "writes",
    "Writes",
    in_recovery ? "are refused: it is a standby" : "are refused: transactions are read-only by default",
    facts,
    "If you mean to write, name the other hosts too and set target_session_attrs=read-write.",
  );
}

function role({ is_superuser, user_name }: Settings): Finding {
  const facts = { user: user_name, superuser: is_superuser === "on" };
  if (is_superuser !== "on") return good("role", "Role", `${user_name}, which is not a superuser`, facts);
  return change(
    "role",
    "Role",
    `${user_name} is a superuser`,
    facts,
    "Give the application a role of its own: one that may only do what the application does.",
  );
}

function timeouts({ statement_timeout, idle_timeout }: Settings): Finding {
  const facts = { statementTimeout: statement_timeout, idleInTransactionSessionTimeout: idle_timeout };
  const text = `statement_timeout ${limit(statement_timeout)}, idle_in_transaction_session_timeout ${limit(idle_timeout)}`;
  const advice = [
    ...(statement_timeout === "0"
      ? ["alter role … set statement_timeout = '30s': the server then ends what the driver cannot reach any more."]
      : []),
    ...(idle_timeout === "0"
      ? ["alter role … set idle_in_transaction_session_timeout = '60s': a lost client then holds no locks."]
      : []),
  ];
  return advice.length
    ? note("timeouts", "Timeouts", text, facts, ...advice)
    : good("timeouts", "Timeouts", text, facts);
}

const limit = (value: string) => (value === "0" ? "off" : value);

function conventions({ version_number, conforming, time_zone }: Settings): Finding {
  const facts = {
    serverVersionNum: Number(version_number),
    standardConformingStrings: conforming === "on",
    timeZone: time_zone,
  };
  const text = `server_version_num ${version_number}, TimeZone ${time_zone}, standard_conforming_strings ${conforming}`;
  if (conforming === "on") return good("settings", "Settings", text, facts);
  return change(
    "settings",
    "Settings",
    text,
    facts,
    "Set standard_conforming_strings = on: a backslash is a character.",
  );
}
