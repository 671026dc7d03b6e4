// Whether a statement that nobody has described may run at once, with values and rows as text, and the check that goes
// in front of it.
//
// The text of dates, intervals and floats depends on settings that anybody may change, behind a pooler strangers too,
// and the server does not report all of them. What a text means as a parameter depends on the parameter's type, which
// nobody knows yet. So the server itself looks, in the same flight and before anything runs: where one of them is not
// as it must be, the check fails, the server skips the rest, and the statement is described first.
//
// Nothing is set, since settings change what a statement means: `now()::text`, `'1 day'::text`. Knows settings, types
// and SQL. Must not know how a statement runs.
import { MOST_SERVERS } from "../util/limits.ts";
import { firstWord, SqlReader } from "../util/sql-reader.ts";
import { firstParameters, type TypeRule } from "../values/first-parameters.ts";

/** Statements that can neither begin nor end a transaction, and that run as well behind a snapshot. */
const PLAIN = new Set(["select", "insert", "update", "delete", "merge", "with", "values", "table"]);
/** A parenthesis behind one of these holds several values, which are a record, or a query. */
const BEFORE_VALUES = new Set(["select", "returning"]);
const QUERIES = new Set(["select", "with", "values", "table"]);

/**
 * What the text of values depends on, as it must not be. Timestamps with any zone can be read, and bytea in either
 * form. Before version 12 floats had fewer digits than they need.
 */
const BAD_SETTINGS = `pg_catalog.current_setting('extra_float_digits')::pg_catalog.int4 < 1
 or pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 120000
 or pg_catalog.current_setting('DateStyle') not like 'ISO%'
 or pg_catalog.current_setting('IntervalStyle') not in ('postgres', 'iso_8601')`;

/**
 * No number, so the cast fails, and the server's log says why. With a constant alone it would fail when it is planned,
 * rows or none.
 */
const FAIL = "(why || ', server ' || pg_catalog.current_setting('server_version'))::pg_catalog.int4";

/** In the message of a check that failed for a type of a parameter: another statement may pass. */
const TYPES = "pgz-edge: types";

/** Parameters whose types are looked at. The check grows with their number. */
const MOST_RULES = 200;
/** Characters of a statement that travels twice, so that its parameters' types are found. */
const LONGEST_LOOKED_UP = 16 << 10;

export interface Check {
  /** Returns no rows. Fails where the statement has to be described first. */
  readonly sql: string;
  /** It looks at parameters, of the statement whose text is its own parameter. */
  readonly looksAtTypes: boolean;
}

/** A statement as it leaves the first time. */
export interface FirstRun {
  readonly text: string;
  readonly parameters: Uint8Array;
  readonly hasValues: boolean;
  readonly check: Check;
}

/** Whether other calls may be on the wire together with this statement: what it does to them does not depend on it. */
export function isPlain(text: string): boolean {
  return PLAIN.has(firstWord(text));
}

/**
 * Whether the check would fail for the version that the server reports. Older than any that is still maintained are
 * mostly servers that only speak the protocol, and some of them run on behind an error, over the check too.
 */
export function isOld(version: string | undefined): boolean {
  return version !== undefined && !(parseInt(version) >= 12);
}

/** `undefined`: the statement is to be described first. */
export function firstRunOf(server: string, text: string, values: readonly unknown[]): FirstRun | undefined {
  if (failures.get(server) === ENOUGH || records.has(keyOf(server, text))) return undefined;
  if (!isPlain(text) || showsRecord(text)) return undefined;
  const first = firstParameters(values);
  if (first?.rules.length && (first.rules.length > MOST_RULES || text.length > LONGEST_LOOKED_UP)) return undefined;
  return first && { text, parameters: first.parameters, hasValues: values.length > 0, check: checkOf(first.rules) };
}

/**
 * Whether the SQL shows an anonymous record, whose text does not say of which types it is: `row(…)`, `record`, or a
 * parenthesis around several values behind SELECT or RETURNING.
 */
function showsRecord(text: string): boolean {
  const reader = new SqlReader(text);
  let before = "";
  /** Within such a parenthesis: how deep. */
  let depth = 0;
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
    const name = kind === "word" || kind === "symbol" ? reader.name : "";
    if (name === "record" || (name === "(" && before === "row")) return true;
    if (name === "(" && (depth || BEFORE_VALUES.has(before))) depth++;
    else if (name === ")" && depth) depth--;
    else if (depth === 1 && before === "(" && QUERIES.has(name)) depth = 0;
    else if (depth === 1 && name === ",") return true;
    before = name;
  }
  return false;
}

/** Whether a check failed for a parameter's type, which says nothing of other statements. */
export function isOfTypes(message: string): boolean {
  return message.includes(TYPES);
}

/** The settings of one more session are not as they must be, or the server does not know what the check asks. */
export function checkFailed(server: string): void {
  if (failures.size >= MOST_SERVERS) failures.clear();
  failures.set(server, (failures.get(server) ?? 0) + 1);
}

/** A check has passed. */
export function checkPassed(server: string): void {
  failures.delete(server);
}

/** What this statement returns cannot be read as text. */
export function describeFirst(server: string, text: string): void {
  if (records.size >= MOST_SERVERS) records.clear();
  records.add(keyOf(server, text));
}

function keyOf(server: string, text: string): string {
  return `${server}\0${text}`;
}

/**
 * Sessions whose check failed since the last one that passed. One may have settings of its own; after two it is the
 * server, or all who use it, and no further session tries.
 */
const failures = new Map<string, number>();
const ENOUGH = 2;
/** Statements that return anonymous records. */
const records = new Set<string>();

/** The statement is found by its text and not by its name, which a pooler may change. */
function checkOf(rules: readonly TypeRule[]): Check {
  const settings = `select 'pgz-edge: settings' as why where ${BAD_SETTINGS}`;
  if (!rules.length) return { sql: `select ${FAIL} from (${settings}) as bad`, looksAtTypes: false };
  const all = alike(rules).map(hold).join(" and ");
  const types = `select '${TYPES}' where not coalesce((select pg_catalog.bool_and(${all})
 from pg_catalog.pg_prepared_statements where statement = $1), false)`;
  return { sql: `select ${FAIL} from (${settings} union all ${types}) as bad`, looksAtTypes: true };
}

/** Of most statements all parameters have one rule. */
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

function hold(group: readonly TypeRule[]): string {
  const [{ isOneOf, types }] = group as [TypeRule];
  const numbers = group.map(({ parameter }) => parameter).join();
  const type = "parameter_types[p]::pg_catalog.oid";
  const each = `pg_catalog.bool_and(${type} ${isOneOf ? "" : "not "}in (${types.join()}))`;
  return `(select ${each} from pg_catalog.unnest(array[${numbers}]) as p)`;
}
