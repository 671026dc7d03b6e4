// Decides whether a statement that has not been described may run at once, with values and rows as text, and builds the
// check that goes in front of it.
//
// The text of dates, intervals and floats depends on settings that any user may change (behind a pooler other clients
// too), and the server does not report all of them. What a parameter's text means depends on the parameter's type,
// which is not known yet. So the server itself looks, in the same flight and before anything runs: if a setting or a
// type is not as it must be, the check fails, and the server skips the rest. The statement is described by then, and
// runs with what its description says.
//
// The check looks at the types of the columns too. It fails for an anonymous record, whose text does not say which
// types it holds, and for a type whose text can only be read with the catalog's help. Before PostgreSQL 16 SQL cannot
// ask for the types of columns. There a statement whose rows are read is described first: what has run must not be
// refused, nor run again.
//
// The check sets nothing, because settings change what a statement means: `now()::text`, `'1 day'::text`. Knows
// settings, types and SQL. Must not know how a statement runs.
import type { KnownScope, KnownServer } from "../server/known-server.ts";
import { newShapeId } from "../server/shapes.ts";
import type { PgzError } from "../util/errors.ts";
import { LONGEST_KNOWN_TYPES } from "../util/limits.ts";
import { readings, type SqlReader } from "../util/sql-reader.ts";
import { isPipelinable } from "../util/statement-words.ts";
import { TextCache } from "../util/text-cache.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../values/oid.ts";
import { firstParameters, type TypeRule } from "../values/first-parameters.ts";

/** With these a statement changes, while it runs, settings that the text of its own rows depends on. */
const SETTERS = new Set(["set_config", "pg_settings"]);

/**
 * The settings that the text of values depends on: `extra_float_digits`, DateStyle and IntervalStyle. Of IntervalStyle
 * `iso_8601` and `postgres` can be read, but not `sql_standard` or `postgres_verbose`. Timestamps with any zone can be
 * read, and bytea in either form.
 */
const SETTINGS = ["extra_float_digits", "DateStyle", "IntervalStyle"];
const GOOD_SETTINGS = "[1-3]ISO.*[s1]$";

/**
 * Before version 12 the text of floats had fewer digits than they need. The check asks for the version if no session
 * has been told it yet.
 */
const VERSION = "server_version_num";
const GOOD_VERSION = "(1[2-9]|[2-9][0-9])[0-9]{4}";
const OLDEST = 12;
/** From this version on `pg_prepared_statements` has the types of columns. */
const FIRST_WITH_RESULT_TYPES = 16;
const UNDEFINED_COLUMN = "42703";

/**
 * The reason in the message of a check that failed for types of the statement: it may pass for another statement. A
 * failed check's reason is the name of no setting, which is an error (42704), and the server's log has it. A cast to a
 * number will not do: someone may have made a cast that accepts any text.
 */
const TYPES = "types";

/** Maximum number of parameters whose types are checked. The check grows with their number. */
const MOST_RULES = 200;

export interface Check {
  /** Unique in the isolate, like a shape's id. By this id a connection recognises the check and prepares it. */
  readonly id: number;
  /** Returns no rows. Fails if the statement must be described first. */
  readonly sql: string;
}

/** What the check must know of the statement's columns. */
export interface ReadColumns {
  /** Types of the database whose text can be read. */
  readonly known: Iterable<number>;
  /**
   * Whether types of a fixed size are checked too. These are enums and the like, whose text is their value, so only a
   * parser that must be found makes it necessary.
   */
  readonly anySize: boolean;
}

interface CheckedColumns extends ReadColumns {
  readonly known: readonly number[];
}

/** A statement as it is sent the first time. */
export interface FirstRun {
  readonly text: string;
  readonly parameters: Uint8Array;
  readonly hasValues: boolean;
  readonly check: Check;
  /** The types of the database that the check takes for known. */
  readonly known: readonly number[];
}

/**
 * Returns the statement's first run; `undefined`: it must be described first. `columns` is left out if no row is read.
 * `version`: what the server has reported, if it has.
 */
export function firstRunOf(
  { server, failedChecks }: KnownScope,
  text: string,
  values: readonly unknown[],
  columns?: ReadColumns,
  version?: string,
): FirstRun | undefined {
  if (failedChecks >= ENOUGH) return undefined;
  const release = releaseOf(version) ?? server.release;
  if (release !== undefined && release < (columns ? FIRST_WITH_RESULT_TYPES : OLDEST)) return undefined;
  if (columns && server.lacksResultTypes) return undefined;
  if (!isPipelinable(text) || readings(text).some(namesSetter)) return undefined;
  const first = firstParameters(values);
  if (!first || first.rules.length > MOST_RULES) return undefined;
  const { parameters, rules } = first;
  const known = fitting(columns?.known ?? []);
  const check = checkOf(release === undefined, rules, columns && { ...columns, known });
  return { text, parameters, hasValues: values.length > 0, check, known };
}

/**
 * The number in front of the first point; 0 if there is none. Versions older than any maintained one come mostly from
 * servers that only speak the protocol.
 */
function releaseOf(version: string | undefined): number | undefined {
  return version === undefined ? undefined : parseInt(version) || 0;
}

function namesSetter(reader: SqlReader): boolean {
  for (let kind = reader.next(); kind !== "end"; kind = reader.next())
    if ((kind === "word" || kind === "name") && SETTERS.has(reader.name)) return true;
  return false;
}

/**
 * Notes what a check that ran has shown of the server. `version`: what the server reports, which it has not done yet
 * when an early query is sent. `code`: the SQLSTATE of a check that has failed.
 */
export function noteCheck(server: KnownServer, version: string | undefined, code?: string): void {
  server.release = releaseOf(version) ?? server.release;
  if (code === UNDEFINED_COLUMN) server.lacksResultTypes = true;
}

/** Whether a check has failed by its statement's types, and so says nothing about other statements. */
export function failedByTypes({ code, message }: Pick<PgzError, "code" | "message">): boolean {
  return code === UNDEFINED_COLUMN || message.includes(`pgz-edge: ${TYPES}`);
}

/**
 * The number of sessions whose check fails after which no further session tries. One session may have settings of its
 * own. After two, the cause is the server or affects all its users.
 */
const ENOUGH = 2;

/**
 * Builds the check. Each row that is left has a reason why the statement cannot run like this. `isNew`: the check looks
 * at the server's version too.
 */
function checkOf(isNew: boolean, rules: readonly TypeRule[], columns: CheckedColumns | undefined): Check {
  const settings = (isNew ? [VERSION, ...SETTINGS] : SETTINGS).map((name) => `pg_catalog.current_setting('${name}')`);
  const good = ` ${isNew ? GOOD_VERSION : ""}${GOOD_SETTINGS}`;
  const reasons = [`select pg_catalog.concat('settings ',${settings.join()}) why`];
  if (rules.length || columns) reasons.push(badTypes(rules, columns));
  const bad = `(${reasons.join(" union all ")})b where why operator(pg_catalog.!~)'${good}'`;
  const sql = `select pg_catalog.current_setting(pg_catalog.concat('pgz-edge: ',why))from${bad}`;
  return { id: idOf(sql), sql };
}

/** Returns the same id for the same text, as long as the text is remembered. */
function idOf(sql: string): number {
  return ids.get(sql) ?? ids.put(sql, newShapeId());
}

const ids = new TextCache<number>(100, 64 << 10);

/**
 * Has a row if the statement has types that its text does not suit, or if it cannot be found. It is found as what this
 * transaction has prepared, because a pooler may change its name and its text. The check itself may be found with it: a
 * statement without parameters, whose column is a number.
 */
function badTypes(rules: readonly TypeRule[], columns: CheckedColumns | undefined): string {
  const bad = alike(rules).map(breaks);
  if (columns) bad.push(mustBeAskedFor(columns));
  return (
    `select '${TYPES}'from(select parameter_types p${columns ? ",result_types r" : ""} ` +
    "from pg_catalog.pg_prepared_statements where prepare_time operator(pg_catalog.>=)current_timestamp)s " +
    `having pg_catalog.bool_or(${bad.join(" or ")})is not false`
  );
}

/** Whether one of the columns has a type that must be asked for. A domain's column has the type below the domain. */
function mustBeAskedFor({ known, anySize }: CheckedColumns): string {
  return (
    "exists(select from(select typlen,case when typtype operator(pg_catalog.=)'d'then typbasetype else oid end b " +
    "from pg_catalog.pg_type where oid operator(pg_catalog.=)any(r))t " +
    `where(b operator(pg_catalog.>=)${FIRST_OF_A_DATABASE} or ` +
    `b operator(pg_catalog.=)any('{${RECORD},${RECORD_ARRAY}}'))` +
    (anySize ? "" : "and typlen operator(pg_catalog.<)0") +
    (known.length ? ` and b operator(pg_catalog.<>)all('{${known.join()}}')` : "") +
    ")"
  );
}

/** The first of these types, as many as fit into the check. */
function fitting(known: Iterable<number>): number[] {
  const list: number[] = [];
  for (const oid of known) {
    if ([...list, oid].join().length > LONGEST_KNOWN_TYPES) break;
    list.push(oid);
  }
  return list;
}

/** Groups equal rules: in most statements all parameters have the same rule. */
function alike(rules: readonly TypeRule[]): TypeRule[][] {
  const groups = new Map<string, TypeRule[]>();
  for (const rule of rules) {
    const key = `${rule.isOneOf} ${rule.types.join()}`;
    const group = groups.get(key);
    if (group) group.push(rule);
    else groups.set(key, [rule]);
  }
  return [...groups.values()];
}

/** Whether one of these parameters breaks its rule. The check itself, which has no parameter, breaks none. */
function breaks(group: readonly TypeRule[]): string {
  const [{ isOneOf, types }] = group as [TypeRule];
  const found = `array[${group.map(({ parameter }) => `p[${parameter}]`).join()}]`;
  const list = `'{${types.join()}}'`;
  if (!isOneOf) return `${found}operator(pg_catalog.&&)${list}`;
  return `p[1]is not null and not ${found}operator(pg_catalog.<@)${list}`;
}
