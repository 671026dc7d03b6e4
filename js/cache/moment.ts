// When, where and as whom a statement runs: one row that is asked in front of it.
//
// Knows the server's functions for it. Must not know how it is sent (stamped.ts), or what is concluded from it.
import { NE } from "../util/operators.ts";

export interface Moment {
  /** pg_current_snapshot() as text. It is not newer than that of a statement that follows. */
  readonly snapshot: string;
  readonly isStandby: boolean;
  /** What else decides what a statement means, and how its values are written: the role, schemas, settings. */
  readonly fingerprint: string;
  /**
   * Which database of which server, and on which timeline of it: there each transaction has one id. After a failover
   * the old primary has another timeline.
   */
  readonly timeline: string;
  /** The session sees what no other does: changes of its open transaction, or temporary tables. */
  readonly seesOwn: boolean;
}

/** The settings that go into the fingerprint. The path is among the schemas. */
const SETTINGS = (
  "DateStyle IntervalStyle TimeZone timezone_abbreviations bytea_output extra_float_digits " +
  "lc_monetary lc_numeric lc_time default_text_search_config xmlbinary xmloption " +
  "row_security array_nulls transform_null_equals standard_conforming_strings quote_all_identifiers " +
  "client_encoding gin_fuzzy_search_limit"
).split(" ");

/**
 * What an ordinary role may see of a standby's timeline is one that it has reached, or will reach by what it has
 * received. It may be the one before: then what it answers is not stored (cluster/questions.ts).
 */
export const TIMELINE = `pg_catalog.concat(
      (select c.system_identifier from pg_catalog.pg_control_system() as c), '/', case when pg_catalog.pg_is_in_recovery()
        then pg_catalog.lpad(pg_catalog.upper(pg_catalog.to_hex(greatest(
          (select c.timeline_id from pg_catalog.pg_control_checkpoint() as c),
          (select c.min_recovery_end_timeline from pg_catalog.pg_control_recovery() as c),
          (select r.received_tli from pg_catalog.pg_stat_wal_receiver as r)))), 8, '0')
        else pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)
      end, '/', pg_catalog.current_database())`;

/** The columns of a {@link Moment}. */
export const MOMENT = `pg_catalog.pg_current_snapshot()::pg_catalog.text as snapshot,
    pg_catalog.pg_is_in_recovery() as "isStandby",
    pg_catalog.hashtextextended(array[current_user::pg_catalog.text,
      session_user::pg_catalog.text, pg_catalog.current_schemas(true)::pg_catalog.text,
      ${SETTINGS.map((name) => `pg_catalog.current_setting('${name}')`).join(", ")}
    ]::pg_catalog.text, 0)::pg_catalog.text as fingerprint,
    ${TIMELINE} as timeline,
    pg_catalog.pg_current_xact_id_if_assigned() is not null or pg_catalog.pg_my_temp_schema() ${NE} 0 as "seesOwn"`;

export const STAMP = `select ${MOMENT}`;
