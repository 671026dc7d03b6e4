// Whether a statement that nobody has described may run at once, with values and rows as text, and the check that goes
// in front of it.
//
// The text of dates, intervals and floats depends on settings that anybody may change, behind a pooler strangers too,
// and the server does not report all of them. What a text means as a parameter depends on the parameter's type, which
// nobody knows yet. So the server itself looks, in the same flight and before anything runs: where one of them is not
// as it must be, the check fails, the server skips the rest, and the statement is described first.
//
// It looks at the types of the columns too. Where the catalog has to be asked for one of them, its failure names them:
// they are asked for in front of a second flight, so that its rows can be read as they come.
//
// Nothing is set, since settings change what a statement means: `now()::text`, `'1 day'::text`. Knows settings, types
// and SQL. Must not know how a statement runs.
import { LONGEST_KNOWN_TYPES, MOST_SERVERS } from "../util/limits.ts";
import { firstWord, SqlReader } from "../util/sql-reader.ts";
import { TextCache } from "../util/text-cache.ts";
import { FIRST_OF_A_DATABASE } from "../values/oid.ts";
import { firstParameters, type TypeRule } from "../values/first-parameters.ts";
import { newShapeId } from "./shapes.ts";

/** Statements that can neither begin nor end a transaction, and that run as well behind a snapshot. */
const PLAIN = new Set(["select", "insert", "update", "delete", "merge", "with", "values", "table"]);
/** A parenthesis behind one of these holds several values, which are a record, or a query. */
const BEFORE_VALUES = new Set(["select", "returning"]);
const QUERIES = new Set(["select", "with", "values", "table"]);

/** With these a statement changes, while it runs, what its own text depends on. */
const SETTERS = new Set(["set_config", "pg_settings"]);

/**
 * What the text of values depends on: `extra_float_digits`, DateStyle and IntervalStyle, of which `iso_8601` and
 * `postgres` can be read, but not `sql_standard` or `postgres_verbose`. Timestamps with any zone can be read, and bytea
 * in either form.
 */
const SETTINGS = ["extra_float_digits", "DateStyle", "IntervalStyle"];
const GOOD_SETTINGS = "[1-3]ISO.*[s1]$";

/**
 * Before version 12 floats had fewer digits than they need. A server that has reported its version, or has passed, is
 * not asked.
 */
const VERSION = "server_version_num";
const GOOD_VERSION = "(1[2-9]|[2-9].)....";

/** What the message of a check that failed says of its reason. For a type of a statement another one may pass. */
const TYPES = "types";
const COLUMNS = "columns";

/** Parameters whose types are looked at. The check grows with their number. */
const MOST_RULES = 200;
/** Characters of a statement that travels twice, so that its parameters' types are found. */
const LONGEST_LOOKED_UP = 16 << 10;

export interface Check {
  /** Unique in the isolate, as a shape's: by it a connection knows the check again and prepares it. */
  readonly id: number;
  /** Returns no rows. Fails where the statement has to be described first. */
  readonly sql: string;
  /** It looks at parameters, of the statement whose text is its own parameter. */
  readonly looksAtTypes: boolean;
}

/** What the check has to know of the statement's columns. */
export interface ReadColumns {
  /** Types of the database whose text can be read. */
  readonly known: Iterable<number>;
  /** Types that have just been asked for. */
  readonly asked: readonly number[];
  /** Of a fixed size are enums and the like, whose text is their value, unless a parser has to be found for it. */
  readonly anySize: boolean;
}

/** A statement as it leaves the first time. */
export interface FirstRun {
  readonly text: string;
  readonly parameters: Uint8Array;
  readonly hasValues: boolean;
  readonly check: Check;
}

/** Whether other calls may be on the wire together with this statement: what it does to them does not depend on it. */
export function isPipelinable(text: string): boolean {
  return PLAIN.has(firstWord(text));
}

/**
 * Whether a server that reports this version is too old for first runs. Older than any that is still maintained are
 * mostly servers that only speak the protocol, and some of them run on behind an error, over the check too.
 */
export function isOld(version: string | undefined): boolean {
  return version !== undefined && !(parseInt(version) >= 12);
}

/**
 * `undefined`: the statement is to be described first. The check looks at columns only where `columns` is given, and at
 * the server's version only where nobody knows it yet.
 */
export function firstRunOf(
  server: string,
  text: string,
  values: readonly unknown[],
  columns?: ReadColumns,
  isVersionKnown = false,
): FirstRun | undefined {
  if ((failures.get(server) ?? 0) >= ENOUGH || records.get(keyOf(server, text))) return undefined;
  if (!isPipelinable(text) || hidesTypes(text)) return undefined;
  const first = firstParameters(values);
  if (first?.rules.length && (first.rules.length > MOST_RULES || text.length > LONGEST_LOOKED_UP)) return undefined;
  const hasValues = values.length > 0;
  if (!first) return undefined;
  const isNew = !isVersionKnown && !passed.has(server);
  return { text, parameters: first.parameters, hasValues, check: checkOf(isNew, first.rules, columns) };
}

/**
 * Whether the text of its rows may not be enough: the SQL shows an anonymous record, whose text does not say of which
 * types it is (`row(…)`, `record`, or a parenthesis around several values behind SELECT or RETURNING), or it changes
 * settings.
 */
function hidesTypes(text: string): boolean {
  const reader = new SqlReader(text);
  let before = "";
  /** Within such a parenthesis: how deep. */
  let depth = 0;
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
    const name = kind === "word" || kind === "symbol" ? reader.name : "";
    if (SETTERS.has(kind === "name" ? reader.name : name)) return true;
    if (name === "record" || (name === "(" && before === "row")) return true;
    if (name === "(" && (depth || BEFORE_VALUES.has(before))) depth++;
    else if (name === ")" && depth) depth--;
    else if (depth === 1 && before === "(" && QUERIES.has(name)) depth = 0;
    else if (depth === 1 && name === ",") return true;
    before = name;
  }
  return false;
}

/** Whether a check failed for types of the statement, which says nothing of others. */
export function isOfTypes(message: string): boolean {
  return message.includes(`pgz-edge: ${TYPES}`) || columnTypes(message) !== undefined;
}

/** Types of the database that are to be asked for in front of the statement, where its check failed for them. */
export function columnTypes(message: string): number[] | undefined {
  const [, list] = COLUMN_TYPES.exec(message) ?? [];
  return list
    ?.split(",")
    .map(Number)
    .filter((oid) => oid >= FIRST_OF_A_DATABASE);
}

const COLUMN_TYPES = new RegExp(`pgz-edge: ${COLUMNS} \\{([0-9,]+)\\}`);

/** The settings of one more session are not as they must be, or the server does not know what the check asks. */
export function checkFailed(server: string): void {
  if (failures.size >= MOST_SERVERS) failures.clear();
  failures.set(server, (failures.get(server) ?? 0) + 1);
}

/** A check has passed. */
export function checkPassed(server: string): void {
  failures.delete(server);
  if (passed.size >= MOST_SERVERS) passed.clear();
  passed.add(server);
}

/** What this statement returns cannot be read as text. */
export function describeFirst(server: string, text: string): void {
  records.put(keyOf(server, text), true);
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
/** Servers that a check has passed, so that their version is known to do. */
const passed = new Set<string>();
/** Statements that return anonymous records, or more rows than were held. */
const records = new TextCache<true>(1_000, 1 << 20);

/**
 * Each row that is left has a reason why the statement cannot run as it is. It is no number, so the cast fails, and the
 * server's log has the reason. `isNew`: it looks at the server's version too.
 */
function checkOf(isNew: boolean, rules: readonly TypeRule[], columns?: ReadColumns): Check {
  const settings = (isNew ? [VERSION, ...SETTINGS] : SETTINGS).map((name) => `pg_catalog.current_setting('${name}')`);
  const good = ` ${isNew ? GOOD_VERSION : ""}${GOOD_SETTINGS}`;
  const reasons = [`select 'settings '||${settings.join("||")} why`];
  if (columns) reasons.push(columnsToAskFor(columns, isNew ? 0 : LONGEST_KNOWN_TYPES));
  if (rules.length) reasons.push(otherTypes(rules));
  const bad = `(${reasons.join(" union all ")})bad where why!~'${good}'`;
  const sql = `select ('pgz-edge: '||why)::int from ${bad}`;
  return { id: idOf(sql), sql, looksAtTypes: rules.length > 0 };
}

/** The same for the same text, as long as that is remembered. */
function idOf(sql: string): number {
  return ids.get(sql) ?? ids.put(sql, newShapeId());
}

const ids = new TextCache<number>(100, 64 << 10);

/**
 * Whether the check may ask a server of this version for the types of columns, which PostgreSQL tells from 16 on.
 * Planning the question for them is most of what a check costs.
 */
export function tellsColumns(version: string | undefined): boolean {
  return version === undefined || parseInt(version) >= 16;
}

/**
 * A server before PostgreSQL 16 does not tell the types of columns: the name `result_types` then means the null around
 * it, and there is nothing to ask for. The statement is the one that this transaction has prepared, since a pooler may
 * change its name. A domain's column is of the type below.
 */
function columnsToAskFor({ known, asked, anySize }: ReadColumns, longest: number): string {
  const list = listed(known, asked, longest);
  return (
    `select '${COLUMNS} '||t::oid[]::text from (select null::oid[] result_types)o,` +
    "lateral(select result_types from pg_catalog.pg_prepared_statements where prepare_time>=current_timestamp)s(t)," +
    `pg_catalog.pg_type where oid=any(t)${anySize ? "" : " and typlen<0"} and ` +
    `least(oid,nullif(typbasetype,0))>=${FIRST_OF_A_DATABASE}${list && ` and oid not in (${list})`}`
  );
}

/** All that were asked for, and of the others as many as fit. */
function listed(known: Iterable<number>, asked: readonly number[], longest: number): string {
  let list = asked.join();
  for (const oid of known) {
    const longer = list ? `${list},${oid}` : `${oid}`;
    if (longer.length > longest) break;
    list = longer;
  }
  return list;
}

/** The statement is found by its text and not by its name, which a pooler may change. */
function otherTypes(rules: readonly TypeRule[]): string {
  const all = alike(rules).map(hold).join(" and ");
  return `select '${TYPES}' where not coalesce((select pg_catalog.bool_and(${all})
 from pg_catalog.pg_prepared_statements where statement = $1), false)`;
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
